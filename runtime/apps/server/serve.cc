// `OUT serve`: the model over HTTP.
//
// Three kinds of threads: the event loop (this one) has all connections and waits for nothing else; a small pool reads
// requests, since templates, tokens and grammars take milliseconds; the engine's thread runs the model for all of
// them at once. They pass on what they made and never wait for one another.
#include <sys/stat.h>

#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <thread>

#include "runtime/apps/cli/app.h"
#include "runtime/apps/cli/sampling.h"
#include "runtime/apps/server/batch_engine.h"
#include "runtime/apps/server/hosts.h"
#include "runtime/apps/server/http/server.h"
#include "runtime/apps/server/routes.h"
#include "runtime/apps/server/service.h"
#include "runtime/core/embedding.h"

// In programs that were made with it (--with serve,tls).
extern "C" [[gnu::weak]] gcrt::serve::StreamFactory* gc_part_tls(const char* certificate, const char* key,
                                                                 std::string* error);

namespace gcrt::serve {
namespace {

constexpr std::int64_t kGraceNs = 10'000'000'000;  // for answers that run when the server is told to end
constexpr unsigned kReaders = 4;

bool is_folder(App& app, const char* path) {
  struct stat found;
  const int error = ::stat(path, &found) != 0 ? errno : S_ISDIR(found.st_mode) ? 0 : ENOTDIR;
  if (error != 0) app.fail("--slot-save-path '", path, "': ", strerrordesc_np(error));
  return error == 0;
}

class Server {
 public:
  Server(App& app, const Options& options) : app_(app), options_(options) {}
  int run();

 private:
  bool open();
  bool read_keys();
  bool start_engine();
  bool listen();
  void say_ready();
  void wait_for_signals();
  void end();

  App& app_;
  const Options& options_;
  asio::io_context loop_{1};
  asio::thread_pool pool_{kReaders};
  Model model_;
  Service service_{gc_the_model, loop_, pool_};
  Batcher batcher_{app_.memory};
  BatchEngine engine_{batcher_};
  Router router_{service_};
  HttpServer http_{loop_, router_, HttpLimits()};
  asio::signal_set signals_{loop_};
  std::thread stopper_;
  bool ending_ = false;
};

int Server::run() {
  if (options_.words.n != 0) return app_.fail("unexpected argument '", options_.words.values[0], "'");
  if (!open() || !read_keys() || !start_engine() || !listen()) return kExitError;
  say_ready();
  wait_for_signals();
  loop_.run();
  if (stopper_.joinable()) stopper_.join();
  batcher_.stop(0);
  pool_.join();
  return app_.done();
}

bool Server::open() {
  if (!open_model(app_, options_, &model_)) return false;
  service_.encoder = gives_embeddings(*model_.program);
  service_.n_output = model_.program->n_output;
  if (!service_.encoder && !must_generate(app_, model_)) return false;
  try {
    service_.open_text();
  } catch (const std::runtime_error& e) {
    app_.fail(e.what());
    return false;
  }
  ServiceOptions& o = service_.options;
  o.model = options_.alias != nullptr   ? options_.alias
            : gc_the_model.name[0] != 0 ? gc_the_model.name
                                        : gc_the_model.architecture;
  for (std::uint32_t i = 0; i < options_.cors_origins.n; ++i)
    o.cors_origins.emplace_back(options_.cors_origins.values[i]);
  if (options_.slot_save_path != nullptr) {
    if (!is_folder(app_, options_.slot_save_path)) return false;
    o.slot_save_path = options_.slot_save_path;
  }
  o.sampling = gcrt::sampler_options(options_, gc_the_model);
  o.samplers = options_.samplers != nullptr ? options_.samplers : gc_the_model.samplers;
  o.n_predict = options_.n_predict;
  service_.started = now_seconds();
  Vec<SamplerStage> chain(app_.memory);
  if (named_chain(o.sampling, str(o.samplers), chain, app_.note()) == kErrInput) {
    app_.fail("--samplers: ", Str(app_.message));
    return false;
  }
  return true;
}

bool Server::read_keys() {
  std::vector<std::string>& keys = service_.options.api_keys;
  for (std::uint32_t i = 0; i < options_.api_keys.n; ++i) keys.emplace_back(options_.api_keys.values[i]);
  if (options_.api_key_file != nullptr) {
    Vec<char> text(app_.memory);
    if (!read_input(app_, options_.api_key_file, &text)) return false;
    std::string line;
    for (const char c : text) {
      if (c != '\n' && c != '\r') {
        line += c;
        continue;
      }
      if (!line.empty()) keys.push_back(line);
      line.clear();
    }
    if (!line.empty()) keys.push_back(line);
    if (keys.empty()) {
      app_.fail("--api-key-file '", options_.api_key_file, "': there is no key in it");
      return false;
    }
  }
  for (const std::string& key : keys) {
    if (key.empty()) {
      app_.fail("--api-key: the key is empty");
      return false;
    }
    // A header's value has none, so nobody could ever show such a key.
    for (const char c : key) {
      if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) continue;
      app_.fail("--api-key: the key has a control character");
      return false;
    }
  }
  return true;
}

bool Server::start_engine() {
  BatchOptions b;
  const SessionOptions s = session_options(options_);
  b.slots = static_cast<std::uint32_t>(options_.parallel);
  b.queue = static_cast<std::uint32_t>(options_.queue);
  b.n_ctx = s.n_ctx;
  b.n_ubatch = s.n_ubatch;
  b.kv_type = s.kv_type;
  b.workers = s.workers;
  app_.message[0] = 0;
  Status status = batcher_.init(model_, &service_.tokenizer, b, app_.note());
  if (status == kOk) status = batcher_.start();
  if (status != kOk) app_.fail_status(status);
  service_.engine = &engine_;
  return status == kOk;
}

bool Server::listen() {
  std::string error;
  if ((options_.ssl_certificate != nullptr) != (options_.ssl_key != nullptr)) {
    app_.fail("--ssl-cert-file and --ssl-key-file come together");
    return false;
  }
  if (options_.ssl_certificate != nullptr) {
    if (gc_part_tls == nullptr) {
      app_.fail("this file was made without TLS: the compiler's --with all,tls adds it");
      return false;
    }
    std::unique_ptr<StreamFactory> factory(gc_part_tls(options_.ssl_certificate, options_.ssl_key, &error));
    if (factory == nullptr) {
      app_.fail(str(error));
      return false;
    }
    http_.set_streams(std::move(factory));
  }
  std::vector<std::string> hosts;
  for (std::uint32_t i = 0; i < options_.allowed_hosts.n; ++i)
    hosts.emplace_back(options_.allowed_hosts.values[i]);
  service_.options.hosts = known_hosts(options_.host, hosts);
  if (http_.listen(options_.host, static_cast<std::uint16_t>(options_.port), &error)) return true;
  app_.fail(str(error));
  return false;
}

void Server::say_ready() {
  const BatchMemory m = batcher_.memory();
  const auto mb = [](std::uint64_t bytes) { return Fixed{static_cast<double>(bytes) * 1e-6, 1}; };
  app_.err.print(app_.name, ": ", batcher_.slots(), " slots of ", batcher_.n_ctx(), " tokens; at most ",
                 mb(m.kv), " MB of KV cache, ", mb(m.arena + m.logits), " MB beside it\n");
  std::string where = options_.host;
  if (http_.port() != 0) {
    if (where.find(':') != where.npos) where = "[" + where + "]";
    where = (options_.ssl_certificate != nullptr ? "https://" : "http://") + where + ":" +
            std::to_string(http_.port());
  }
  app_.err.print(app_.name, ": listening on ", str(where), "\n");
  app_.err.flush();
}

// The first one lets answers end, the second one does not.
void Server::wait_for_signals() {
  error_code ignored;
  if (!ending_) signals_.add(SIGINT, ignored), signals_.add(SIGTERM, ignored);
  signals_.async_wait([this](const error_code& e, int) {
    if (e) return;
    if (ending_) return loop_.stop();
    ending_ = true;
    end();
    wait_for_signals();
  });
}

void Server::end() {
  http_.drain([this] { loop_.stop(); });
  stopper_ = std::thread([this] { batcher_.stop(kGraceNs); });
}

}  // namespace
}  // namespace gcrt::serve

namespace gcrt {

int gc_command_serve(App& app, const Options& options) { return serve::Server(app, options).run(); }

}  // namespace gcrt
