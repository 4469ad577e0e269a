#include "runtime/apps/server/http/server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <vector>

#include "runtime/apps/server/http/connection.h"

namespace gcrt::serve {

// Accepts while there is room; the kernel keeps who has to wait.
class Listener : public std::enable_shared_from_this<Listener> {
 public:
  using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;

  Listener(HttpServer& server, Acceptor acceptor, std::string path)
      : server_(server), acceptor_(std::move(acceptor)), retry_(server.loop()), path_(std::move(path)) {}
  ~Listener() { remove_path(); }

  void accept() {
    if (accepting_ || !acceptor_.is_open() || server_.connections() >= server_.limits().connections) return;
    accepting_ = true;
    acceptor_.async_accept([self = shared_from_this()](const error_code& e, Socket socket) {
      self->accepting_ = false;
      if (!self->acceptor_.is_open()) return;
      if (!e) {
        self->server_.accepted(std::move(socket));
        return self->accept();
      }
      // Out of file descriptors, say: those that are there go on.
      self->retry_.expires_after(std::chrono::milliseconds(100));
      self->retry_.async_wait([self](const error_code& cancelled) {
        if (!cancelled) self->accept();
      });
    });
  }
  void stop() {
    error_code ignored;
    acceptor_.close(ignored);
    retry_.cancel();
    remove_path();
  }

 private:
  void remove_path() {
    if (!path_.empty()) ::unlink(path_.c_str());
    path_.clear();
  }

  HttpServer& server_;
  Acceptor acceptor_;
  asio::steady_timer retry_;
  std::string path_;  // of a UNIX socket
  bool accepting_ = false;
};

HttpServer::HttpServer(asio::io_context& loop, Handler& handler, const HttpLimits& limits)
    : loop_(loop), handler_(handler), limits_(limits), timer_(loop) {}
HttpServer::~HttpServer() = default;

namespace {

// A socket that another server has left behind is no obstacle; one that is answered on, or any other file, is.
error_code free_path(asio::io_context& loop, const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return {};
  if (!S_ISSOCK(info.st_mode)) return asio::error::address_in_use;
  asio::local::stream_protocol::socket probe(loop);
  error_code e;
  probe.connect(path, e);
  if (e != asio::error::connection_refused) return asio::error::address_in_use;
  ::unlink(path.c_str());
  return {};
}

}  // namespace

bool HttpServer::listen(const std::string& host, std::uint16_t port, std::string* error) {
  const bool local = host.find('/') != host.npos || host.ends_with(".sock");
  error_code e;
  asio::generic::stream_protocol::endpoint endpoint;
  if (local) {
    if (host.size() >= sizeof(sockaddr_un::sun_path)) {
      *error = "--host '" + host + "': the path of a UNIX socket has at most 107 bytes";
      return false;
    }
    e = free_path(loop_, host);
    endpoint = asio::local::stream_protocol::endpoint(host);
  } else {
    const asio::ip::address address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, e);
    if (e) {
      *error = "--host '" + host +
               "': expected an address by number (127.0.0.1, 0.0.0.0, ::1) or a UNIX socket's path";
      return false;
    }
    endpoint = asio::ip::tcp::endpoint(address, port);
  }
  Listener::Acceptor acceptor(loop_);
  if (!e) acceptor.open(endpoint.protocol(), e);
  if (!e && !local) acceptor.set_option(asio::socket_base::reuse_address(true), e);
  if (!e) acceptor.bind(endpoint, e);
  if (!e) acceptor.listen(asio::socket_base::max_listen_connections, e);
  if (!e && !local) {
    asio::ip::tcp::endpoint bound;
    const auto raw = acceptor.local_endpoint(e);
    bound.resize(raw.size());
    std::memcpy(bound.data(), raw.data(), raw.size());
    port_ = bound.port();
  }
  if (e) {
    *error = "cannot listen on " + host + (local ? "" : " port " + std::to_string(port)) + ": " + e.message();
    return false;
  }
  listener_ = std::make_shared<Listener>(*this, std::move(acceptor), local ? host : "");
  listener_->accept();
  tick();
  return true;
}

void HttpServer::accepted(Socket socket) {
  error_code ignored;
  if (port_ != 0) socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  auto stream = factory_ ? factory_->make(std::move(socket)) : plain_stream(std::move(socket));
  auto connection = std::make_shared<Connection>(*this, std::move(stream), factory_ != nullptr);
  connections_.insert(connection);
  connection->start();
}

void HttpServer::closed(const std::shared_ptr<Connection>& connection) {
  connections_.erase(connection);
  if (draining_ && connections_.empty() && drained_) asio::post(loop_, std::move(drained_));
  if (!draining_ && listener_) listener_->accept();
}

void HttpServer::tick() {
  timer_.expires_after(std::chrono::seconds(1));
  timer_.async_wait([this](const error_code& e) {
    if (e) return;
    const auto now = Connection::Clock::now();
    const std::vector<std::shared_ptr<Connection>> all(connections_.begin(), connections_.end());
    for (const auto& connection : all) connection->check_deadlines(now);
    tick();
  });
}

void HttpServer::drain(std::function<void()> done) {
  draining_ = true;
  drained_ = std::move(done);
  if (listener_) listener_->stop();
  const std::vector<std::shared_ptr<Connection>> all(connections_.begin(), connections_.end());
  for (const auto& connection : all) connection->drain();
  if (connections_.empty() && drained_) asio::post(loop_, std::move(drained_));
}

void HttpServer::close_all() {
  const std::vector<std::shared_ptr<Connection>> all(connections_.begin(), connections_.end());
  for (const auto& connection : all) connection->close();
  timer_.cancel();
}

}  // namespace gcrt::serve
