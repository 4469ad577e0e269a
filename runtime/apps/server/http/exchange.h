#pragma once
// A request and its response. Handlers keep an Exchange for as long as the answer takes, and may answer from any thread:
// what they give is passed to the event loop, in their order.
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gcrt::serve {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method;
  std::string path;   // of the target, without its query; not decoded: no route has escapes
  std::string query;  // behind the '?'
  Headers headers;    // names in lower case
  std::string body;
  bool tls = false;

  // Empty when there is none.
  std::string_view header(std::string_view name) const;
};

// What a server does not exceed, whatever clients send.
struct HttpLimits {
  std::size_t header_bytes = 32 << 10;
  std::size_t body_bytes = 32 << 20;
  std::size_t pending_bytes = 4 << 20;  // that a client has not read; then it is taken for gone
  std::size_t connections = 1024;
  int header_seconds = 20;  // from a request's first byte to the end of its headers
  int body_seconds = 120;   // for the whole body
  int idle_seconds = 75;    // between requests
  int write_seconds = 30;   // without any byte being taken
  int close_seconds = 2;
};

class Connection;

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(Request request, std::weak_ptr<Connection> connection, boost::asio::io_context& loop)
      : request_(std::move(request)), connection_(std::move(connection)), loop_(loop) {}

  const Request& request() const { return request_; }
  Request& request() { return request_; }

  // A whole response. One of respond() and begin() ... end(), once.
  void respond(int status, std::string_view content_type, std::string body, Headers extra = {});
  // A response in pieces, each sent as it comes.
  void begin(int status, std::string_view content_type, Headers extra = {});
  void write(std::string piece);
  void end();

  // Called once on the event loop when the client has gone before the end; at once if it already has.
  void on_gone(std::function<void()> f);
  bool gone() const { return gone_.load(std::memory_order_relaxed); }

  // Added to whatever response comes (CORS).
  Headers& common_headers() { return common_; }
  // The status that was answered; 0 before.
  int status() const { return status_; }

 private:
  friend class Connection;
  void client_gone();

  Request request_;
  std::weak_ptr<Connection> connection_;
  boost::asio::io_context& loop_;
  Headers common_;
  std::function<void()> on_gone_;
  std::atomic<bool> gone_{false};
  std::atomic<int> status_{0};
};

// Who answers.
class Handler {
 public:
  struct Refusal {
    int status = 0;  // 0: go on
    std::string body;
    Headers headers;
  };

  virtual ~Handler() = default;
  // Looks at a request whose body has not been read: what is refused here costs no more than its headers. JSON.
  virtual Refusal refuse(const Request& request) = 0;
  virtual void handle(std::shared_ptr<Exchange> exchange) = 0;
  // The body of a response to what is no HTTP, too large or too slow.
  virtual std::string error_body(int status, std::string_view message) = 0;
};

}  // namespace gcrt::serve
