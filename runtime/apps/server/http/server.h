#pragma once
// Listens and keeps connections. One event loop, one thread: what takes long happens elsewhere (Handler).
//
// Boost.Asio and Beast's parser: header only, maintained, in Debian, without DNS or anything of NSS that a static program
// cannot have (addresses are given by number). libmicrohttpd's static library in Debian needs GnuTLS, which has no static
// library there.
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>

#include "runtime/apps/server/http/exchange.h"
#include "runtime/apps/server/http/stream.h"

namespace gcrt::serve {

class Listener;

class HttpServer {
 public:
  HttpServer(asio::io_context& loop, Handler& handler, const HttpLimits& limits);
  ~HttpServer();

  // Then everything is TLS.
  void set_streams(std::unique_ptr<StreamFactory> factory) { factory_ = std::move(factory); }
  // `host`: an address by number (IPv4 or IPv6) or "localhost", or a path with a '/' or ending in ".sock": a UNIX socket.
  // False: `error` says why in one line. Port 0: any; see port().
  bool listen(const std::string& host, std::uint16_t port, std::string* error);
  std::uint16_t port() const { return port_; }

  // No new connection; those that are answering go on, then `done`.
  void drain(std::function<void()> done);
  // Whatever is under way ends.
  void close_all();

  asio::io_context& loop() { return loop_; }
  Handler& handler() { return handler_; }
  const HttpLimits& limits() const { return limits_; }
  bool draining() const { return draining_; }
  std::size_t connections() const { return connections_.size(); }

 private:
  friend class Connection;
  friend class Listener;
  void accepted(Socket socket);
  void closed(const std::shared_ptr<Connection>& connection);
  void tick();

  asio::io_context& loop_;
  Handler& handler_;
  HttpLimits limits_;
  std::unique_ptr<StreamFactory> factory_;
  std::shared_ptr<Listener> listener_;
  std::unordered_set<std::shared_ptr<Connection>> connections_;
  asio::steady_timer timer_;
  std::function<void()> drained_;
  std::uint16_t port_ = 0;
  bool draining_ = false;
};

}  // namespace gcrt::serve
