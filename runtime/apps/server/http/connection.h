#pragma once
// A client's connection: reads requests, one at a time, and writes responses. Everything happens on the event loop.
//
// The bytes are read by one loop of its own, which never stops while the connection lives: that is how it is noticed at
// once that a client has gone while its answer is being made. Beast parses; what arrives early (pipelining) waits, and past a
// limit is not read.
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "runtime/apps/server/http/exchange.h"
#include "runtime/apps/server/http/stream.h"

namespace gcrt::serve {

class HttpServer;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;

  Connection(HttpServer& server, std::unique_ptr<Stream> stream, bool tls);

  void start();
  // Closes it if a deadline has passed. Called every second.
  void check_deadlines(Clock::time_point now);
  // No further request is read; idle connections end.
  void drain();
  void close();

  // Of the exchange that is being answered.
  void respond(Exchange& exchange, int status, std::string_view content_type, std::string body,
               Headers extra);
  void begin(Exchange& exchange, int status, std::string_view content_type, Headers extra);
  void write(Exchange& exchange, std::string piece);
  void end(Exchange& exchange);

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class State {
    kIdle,     // no byte of a request yet
    kReading,  // a request
    kAnswering,
    kClosing,  // the response is the last, what still comes is thrown away
    kClosed,
  };

  void read();
  void received(std::size_t n);
  void parse();
  bool headers_read();
  void handle();
  void refuse(int status, std::string_view message);
  void refuse_with(int status, std::string body, const Headers& extra);
  std::string head(int status, std::string_view content_type, const Headers& common, const Headers& extra,
                   std::optional<std::size_t> length) const;
  void send(std::string bytes);
  void write_next();
  void response_done();
  void end_connection();

  HttpServer& server_;
  std::unique_ptr<Stream> stream_;
  bool tls_;
  State state_ = State::kIdle;
  std::string in_;                // received and not parsed
  std::size_t header_bytes_ = 0;  // parsed of the request's headers
  std::string chunk_;
  bool reading_ = false, writing_ = false, headers_done_ = false;
  std::optional<Parser> parser_;
  std::shared_ptr<Exchange> exchange_;
  bool keep_alive_ = true, chunked_ = false, no_body_ = false, http10_ = false, ended_ = false;
  std::deque<std::string> out_;
  std::size_t out_bytes_ = 0;
  Clock::time_point read_by_, write_by_;
};

}  // namespace gcrt::serve
