// TLS 1.2 and 1.3 by OpenSSL. A part of its own (--with serve,tls): it is twice the rest of the server.
#include <boost/asio/ssl.hpp>
#include <utility>

#include "runtime/apps/server/http/stream.h"

namespace gcrt::serve {
namespace {

class TlsStream : public Stream {
 public:
  TlsStream(Socket socket, asio::ssl::context& context) : stream_(std::move(socket), context) {}

  void start(std::function<void(const error_code&)> done) override {
    stream_.async_handshake(asio::ssl::stream_base::server, std::move(done));
  }
  void read_some(asio::mutable_buffer buffer, Done done) override {
    stream_.async_read_some(buffer, std::move(done));
  }
  void write(asio::const_buffer buffer, Done done) override {
    asio::async_write(stream_, buffer, std::move(done));
  }
  // The client's own farewell is not waited for: the connection's deadline ends that.
  void end_writing(std::function<void()> done) override {
    stream_.async_shutdown([done = std::move(done)](const error_code&) { done(); });
  }
  void close() override {
    error_code ignored;
    stream_.next_layer().close(ignored);
  }

 private:
  asio::ssl::stream<Socket> stream_;
};

class TlsFactory : public StreamFactory {
 public:
  explicit TlsFactory(asio::ssl::context context) : context_(std::move(context)) {}
  std::unique_ptr<Stream> make(Socket socket) override {
    return std::make_unique<TlsStream>(std::move(socket), context_);
  }

 private:
  asio::ssl::context context_;
};

StreamFactory* make_factory(const std::string& certificate, const std::string& key, std::string* error) {
  using Context = asio::ssl::context;
  Context context(Context::tls_server);
  error_code e;
  context.set_options(Context::default_workarounds | Context::no_sslv2 | Context::no_sslv3 |
                          Context::no_tlsv1 | Context::no_tlsv1_1 | Context::no_compression,
                      e);
  if (!e) context.use_certificate_chain_file(certificate, e);
  if (e) {
    *error = "--ssl-cert-file '" + certificate + "': " + e.message();
    return nullptr;
  }
  context.use_private_key_file(key, Context::pem, e);
  if (!e && SSL_CTX_check_private_key(context.native_handle()) != 1)
    e = error_code(EINVAL, boost::system::generic_category());
  if (e) {
    *error = "--ssl-key-file '" + key + "': " + e.message() + "; expected the PEM key of the certificate";
    return nullptr;
  }
  return new TlsFactory(std::move(context));
}

}  // namespace

}  // namespace gcrt::serve

extern "C" gcrt::serve::StreamFactory* gc_part_tls(const char* certificate, const char* key,
                                                   std::string* error) {
  return gcrt::serve::make_factory(certificate, key, error);
}
