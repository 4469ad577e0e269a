#include "runtime/apps/server/http/connection.h"

#include <boost/asio/dispatch.hpp>
#include <ctime>
#include <limits>

#include "runtime/apps/server/http/server.h"

namespace gcrt::serve {
namespace http = boost::beast::http;
namespace {

constexpr std::size_t kReadBytes = 16 << 10;
constexpr auto kNever = Connection::Clock::time_point::max();

Connection::Clock::time_point in_seconds(int n) { return Connection::Clock::now() + std::chrono::seconds(n); }

std::string lower(std::string_view s) {
  std::string out(s);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::string now_as_http_date() {
  char text[40];
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return {text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc)};
}

}  // namespace

std::string_view Request::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return {};
}

Connection::Connection(HttpServer& server, std::unique_ptr<Stream> stream, bool tls)
    : server_(server), stream_(std::move(stream)), tls_(tls) {}

void Connection::start() {
  read_by_ = in_seconds(server_.limits().header_seconds);
  write_by_ = kNever;
  stream_->start([self = shared_from_this()](const error_code& e) {
    if (e) return self->close();
    self->read_by_ = in_seconds(self->server_.limits().idle_seconds);
    self->read();
  });
}

// ---- Reading ----

void Connection::read() {
  if (reading_ || state_ == State::kClosed) return;
  if (state_ == State::kAnswering && in_.size() >= 4 * kReadBytes) return;
  reading_ = true;
  chunk_.resize(kReadBytes);
  stream_->read_some(asio::buffer(chunk_), [self = shared_from_this()](const error_code& e, std::size_t n) {
    self->reading_ = false;
    if (e) return self->close();
    self->received(n);
  });
}

void Connection::received(std::size_t n) {
  if (state_ == State::kClosing) return read();
  in_.append(chunk_, 0, n);
  if (state_ != State::kAnswering) parse();
  read();
}

void Connection::parse() {
  while (!in_.empty() && (state_ == State::kIdle || state_ == State::kReading)) {
    if (state_ == State::kIdle) {
      // Clients may send an empty line after a body (RFC 9112 2.2).
      const std::size_t begin = in_.find_first_not_of("\r\n");
      in_.erase(0, begin == in_.npos ? in_.size() : begin);
      if (in_.empty()) break;
      state_ = State::kReading;
      headers_done_ = false;
      header_bytes_ = 0;
      parser_.emplace();
      parser_->header_limit(static_cast<std::uint32_t>(server_.limits().header_bytes));
      parser_->body_limit(server_.limits().body_bytes);
      read_by_ = in_seconds(server_.limits().header_seconds);
    }
    const bool in_headers = !parser_->is_header_done();
    error_code e;
    const std::size_t used = parser_->put(asio::buffer(in_), e);
    in_.erase(0, used);
    // The parser's own limit is of what it is given at once: headers that come in pieces could be several times as large.
    // Lines of chunks and trailers are parsed whole: their part is what waits.
    if (in_headers) header_bytes_ += used;
    const bool more = e == http::error::need_more;
    if ((!e || more) &&
        (in_headers ? header_bytes_ : 0) + (more ? in_.size() : 0) > server_.limits().header_bytes)
      e = http::error::header_limit;
    else if (more)
      break;
    if (e) {
      const int status = e == http::error::header_limit ? 431 : e == http::error::body_limit ? 413 : 400;
      return refuse(status, status == 431   ? "the headers are too large"
                            : status == 413 ? "the body is too large"
                                            : "this is no HTTP request: " + e.message());
    }
    if (!headers_done_ && parser_->is_header_done() && !headers_read()) return;
    if (parser_->is_done()) handle();
  }
}

// False: it was refused.
bool Connection::headers_read() {
  headers_done_ = true;
  read_by_ = in_seconds(server_.limits().body_seconds);
  const auto& message = parser_->get();
  http10_ = message.version() < 11;
  keep_alive_ = message.keep_alive();
  Request request;
  request.method = message.method_string();
  request.tls = tls_;
  const std::string_view target(message.target().data(), message.target().size());
  const std::size_t question = target.find('?');
  request.path = target.substr(0, question);
  if (question != target.npos) request.query = target.substr(question + 1);
  std::size_t hosts = 0;
  for (const auto& field : message) {
    request.headers.emplace_back(lower({field.name_string().data(), field.name_string().size()}),
                                 std::string(field.value().data(), field.value().size()));
    hosts += request.headers.back().first == "host";
  }
  exchange_ = std::make_shared<Exchange>(std::move(request), weak_from_this(), server_.loop());
  const Request& r = exchange_->request();
  if (!http10_ && hosts != 1) return refuse(400, "expected one Host header"), false;
  if (!r.header("transfer-encoding").empty() && !r.header("content-length").empty())
    return refuse(400, "both Transfer-Encoding and Content-Length"), false;
  if (!r.header("content-encoding").empty() && r.header("content-encoding") != "identity")
    return refuse(415, "bodies with a Content-Encoding are not read"), false;
  const Handler::Refusal refusal = server_.handler().refuse(r);
  if (refusal.status != 0) return refuse_with(refusal.status, refusal.body, refusal.headers), false;
  const std::string expect = lower(r.header("expect"));
  if (expect.empty() || http10_) return true;
  if (expect != "100-continue") return refuse(417, "unknown expectation"), false;
  if (!parser_->is_done()) send("HTTP/1.1 100 Continue\r\n\r\n");
  return true;
}

void Connection::handle() {
  state_ = State::kAnswering;
  read_by_ = kNever;
  ended_ = false;
  exchange_->request().body = std::move(parser_->get().body());
  no_body_ = exchange_->request().method == "HEAD";
  parser_.reset();
  server_.handler().handle(exchange_);
}

// What cannot be read to its end ends the connection.
void Connection::refuse(int status, std::string_view message) {
  refuse_with(status, server_.handler().error_body(status, message), {});
}

void Connection::refuse_with(int status, std::string body, const Headers& extra) {
  parser_.reset();
  keep_alive_ = false;
  no_body_ = exchange_ && exchange_->request().method == "HEAD";
  exchange_.reset();
  in_.clear();
  state_ = State::kAnswering;
  ended_ = true;
  read_by_ = kNever;
  std::string bytes = head(status, "application/json", {}, extra, body.size());
  if (!no_body_) bytes += body;
  send(std::move(bytes));
}

// ---- Writing ----

std::string Connection::head(int status, std::string_view content_type, const Headers& common,
                             const Headers& extra, std::optional<std::size_t> length) const {
  const auto reason = http::obsolete_reason(static_cast<http::status>(status));
  std::string s =
      "HTTP/1.1 " + std::to_string(status) + " " + std::string(reason.data(), reason.size()) + "\r\n";
  const auto put = [&s](std::string_view name, std::string_view value) {
    s.append(name).append(": ").append(value).append("\r\n");
  };
  put("Date", now_as_http_date());
  if (!content_type.empty()) put("Content-Type", content_type);
  if (length) put("Content-Length", std::to_string(*length));
  if (!length && chunked_) put("Transfer-Encoding", "chunked");
  put("Connection", keep_alive_ ? "keep-alive" : "close");
  put("X-Content-Type-Options", "nosniff");
  for (const auto& [name, value] : common) put(name, value);
  for (const auto& [name, value] : extra) put(name, value);
  return s + "\r\n";
}

void Connection::respond(Exchange& exchange, int status, std::string_view content_type, std::string body,
                         Headers extra) {
  if (exchange_.get() != &exchange || exchange.status_ != 0) return;
  exchange.status_ = status;
  keep_alive_ = keep_alive_ && !server_.draining();
  chunked_ = false;
  std::string bytes = head(status, content_type, exchange.common_, extra,
                           status == 204 ? std::nullopt : std::optional(body.size()));
  if (!no_body_ && status != 204) bytes += body;
  ended_ = true;
  send(std::move(bytes));
}

void Connection::begin(Exchange& exchange, int status, std::string_view content_type, Headers extra) {
  if (exchange_.get() != &exchange || exchange.status_ != 0) return;
  exchange.status_ = status;
  chunked_ = !http10_;
  keep_alive_ = keep_alive_ && chunked_ && !server_.draining();
  send(head(status, content_type, exchange.common_, extra, std::nullopt));
}

void Connection::write(Exchange& exchange, std::string piece) {
  if (exchange_.get() != &exchange || state_ != State::kAnswering || ended_ || piece.empty() || no_body_)
    return;
  if (!chunked_) return send(std::move(piece));
  char size[20];
  const int n = std::snprintf(size, sizeof size, "%zx\r\n", piece.size());
  piece.insert(0, size, static_cast<std::size_t>(n));
  send(std::move(piece.append("\r\n")));
}

void Connection::end(Exchange& exchange) {
  if (exchange_.get() != &exchange || state_ != State::kAnswering || ended_) return;
  ended_ = true;
  if (chunked_ && !no_body_) return send("0\r\n\r\n");
  if (!writing_) response_done();
}

void Connection::send(std::string bytes) {
  if (state_ == State::kClosed) return;
  out_bytes_ += bytes.size();
  out_.push_back(std::move(bytes));
  if (out_bytes_ > server_.limits().pending_bytes && out_.size() > 1) return close();
  if (!writing_) write_next();
}

void Connection::write_next() {
  // Small pieces go together.
  while (out_.size() > 1 && out_[0].size() + out_[1].size() <= kReadBytes) {
    out_[0] += out_[1];
    out_.erase(out_.begin() + 1);
  }
  writing_ = true;
  write_by_ = in_seconds(server_.limits().write_seconds);
  stream_->write(asio::buffer(out_.front()), [self = shared_from_this()](const error_code& e, std::size_t n) {
    self->writing_ = false;
    self->write_by_ = kNever;
    if (e) return self->close();
    if (self->state_ == State::kClosed) return;
    self->out_bytes_ -= n;
    self->out_.pop_front();
    if (!self->out_.empty()) return self->write_next();
    if (self->ended_ && self->state_ == State::kAnswering) self->response_done();
  });
}

void Connection::response_done() {
  exchange_.reset();
  ended_ = false;
  if (!keep_alive_ || server_.draining()) return end_connection();
  state_ = State::kIdle;
  read_by_ = in_seconds(server_.limits().idle_seconds);
  parse();
  read();
}

// ---- The end ----

// A socket that is closed with bytes unread in it takes the response back with it (RST): they are read away for a while.
void Connection::end_connection() {
  state_ = State::kClosing;
  read_by_ = in_seconds(server_.limits().close_seconds);
  stream_->end_writing([self = shared_from_this()] { self->read(); });
}

void Connection::check_deadlines(Clock::time_point now) {
  if (now >= write_by_) return close();
  if (now < read_by_) return;
  if (state_ == State::kReading && !writing_) return refuse(408, "the request took too long");
  close();
}

void Connection::drain() {
  if (state_ == State::kIdle) end_connection();
}

void Connection::close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  stream_->close();
  const std::shared_ptr<Exchange> exchange = std::move(exchange_);
  if (exchange) exchange->client_gone();
  server_.closed(shared_from_this());
}

// ---- Exchange ----

void Exchange::respond(int status, std::string_view content_type, std::string body, Headers extra) {
  asio::dispatch(loop_, [self = shared_from_this(), status, type = std::string(content_type),
                         body = std::move(body), extra = std::move(extra)]() mutable {
    if (const auto connection = self->connection_.lock())
      connection->respond(*self, status, type, std::move(body), std::move(extra));
  });
}

void Exchange::begin(int status, std::string_view content_type, Headers extra) {
  asio::dispatch(loop_, [self = shared_from_this(), status, type = std::string(content_type),
                         extra = std::move(extra)]() mutable {
    if (const auto connection = self->connection_.lock())
      connection->begin(*self, status, type, std::move(extra));
  });
}

void Exchange::write(std::string piece) {
  asio::dispatch(loop_, [self = shared_from_this(), piece = std::move(piece)]() mutable {
    if (const auto connection = self->connection_.lock()) connection->write(*self, std::move(piece));
  });
}

void Exchange::end() {
  asio::dispatch(loop_, [self = shared_from_this()] {
    if (const auto connection = self->connection_.lock()) connection->end(*self);
  });
}

void Exchange::on_gone(std::function<void()> f) {
  asio::dispatch(loop_, [self = shared_from_this(), f = std::move(f)]() mutable {
    if (self->gone()) return f();
    self->on_gone_ = std::move(f);
  });
}

void Exchange::client_gone() {
  gone_ = true;
  if (const auto f = std::move(on_gone_)) f();
}

}  // namespace gcrt::serve
