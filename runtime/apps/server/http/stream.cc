#include "runtime/apps/server/http/stream.h"

#include <boost/asio/write.hpp>
#include <utility>

namespace gcrt::serve {
namespace {

class PlainStream : public Stream {
 public:
  explicit PlainStream(Socket socket) : socket_(std::move(socket)) {}

  void start(std::function<void(const error_code&)> done) override { done({}); }
  void read_some(asio::mutable_buffer buffer, Done done) override {
    socket_.async_read_some(buffer, std::move(done));
  }
  void write(asio::const_buffer buffer, Done done) override {
    asio::async_write(socket_, buffer, std::move(done));
  }
  void end_writing(std::function<void()> done) override {
    error_code ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
    done();
  }
  void close() override {
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  Socket socket_;
};

}  // namespace

std::unique_ptr<Stream> plain_stream(Socket socket) {
  return std::make_unique<PlainStream>(std::move(socket));
}

}  // namespace gcrt::serve
