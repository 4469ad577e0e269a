#pragma once
// A client's bytes: plain (stream.cc) or encrypted (tls.cc). All of it happens on the event loop's thread.
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace gcrt::serve {

namespace asio = boost::asio;
using boost::system::error_code;

// Of TCP or a UNIX socket.
using Socket = asio::generic::stream_protocol::socket;

class Stream {
 public:
  using Done = std::function<void(const error_code&, std::size_t)>;

  virtual ~Stream() = default;
  // Before anything else; what a handshake takes.
  virtual void start(std::function<void(const error_code&)> done) = 0;
  virtual void read_some(asio::mutable_buffer buffer, Done done) = 0;
  // All of it.
  virtual void write(asio::const_buffer buffer, Done done) = 0;
  // Says to the client that nothing follows; it may still be read from.
  virtual void end_writing(std::function<void()> done) = 0;
  // At once; whatever is under way ends with an error.
  virtual void close() = 0;
};

std::unique_ptr<Stream> plain_stream(Socket socket);

// Makes streams of accepted sockets.
class StreamFactory {
 public:
  virtual ~StreamFactory() = default;
  virtual std::unique_ptr<Stream> make(Socket socket) = 0;
};

}  // namespace gcrt::serve

// Certificate chain and private key are PEM files. Null: `error` says in one line what is wrong with them. What it returns is
// the caller's. Only in programs that were made with TLS (tls.cc).
extern "C" gcrt::serve::StreamFactory* gc_part_tls(const char* certificate, const char* key,
                                                   std::string* error);
