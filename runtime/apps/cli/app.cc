#include "runtime/apps/cli/app.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

namespace gcrt {

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

int App::fail_text(Str text, bool cut) {
  out.flush();  // what was said before comes before
  err.print(Line{name}, ": error: ", Line{text}, cut ? "...\n" : "\n");
  err.flush();
  return kExitError;
}

int App::fail_status(Status status) {
  if (message[0] != 0) return fail(Str(message));
  switch (status) {
    case kErrMemory:
      return fail("out of memory: ", failure.bytes, " bytes could not be had");
    case kErrAborted:
      return fail("interrupted");
    case kErrNan:
      return fail("the model's output is not a number");
    case kErrUnsupported:
      return fail("this file has no code for that");
    case kErrImage:
      return fail("this file is damaged");
    case kErrSystem: {
      if (device == nullptr) return fail("the operating system failed");
      Writer w(message, sizeof message);
      device->say_failure(w);
      return fail(w.text());
    }
    default:
      return fail("status ", status);
  }
}

int App::done(int code) {
  out.flush();
  if (out.ok()) return code;
  // Nobody is reading any more: no error of ours, and nobody to tell.
  if (out.error() == EPIPE) return kExitError;
  return fail("cannot write: ", strerrordesc_np(out.error()));
}

BuildId::BuildId() {
  if (&gc_build == nullptr) return;
  Writer w(hex, sizeof hex);
  for (const unsigned char byte : gc_build.id) w.put_hex(byte, 2);
  n = w.text().size();
}

// ---- Input ----

bool read_input(App& app, const char* path, Vec<char>* out) {
  const bool standard = Str(path) == "-";
  const int fd = standard ? 0 : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    app.fail("cannot open '", path, "': ", strerrordesc_np(errno));
    return false;
  }
  bool ok = true;
  for (bool end = false; ok && !end;) {
    constexpr size_t kChunk = 64 << 10;
    const size_t used = out->size();
    if (out->capacity() - used < kChunk && !out->reserve(max_of(2 * out->capacity(), used + kChunk))) {
      app.fail("'", path, "': not enough memory to read it");
      ok = false;
      break;
    }
    // Past size(): read() fills raw bytes, append() then takes them over in place.
    char* room = out->data() + used;
    const ssize_t n = read(fd, room, kChunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      app.fail("cannot read '", path, "': ", strerrordesc_np(errno));
      ok = false;
    }
    end = n == 0;
    if (n > 0) ok = out->append(Span<const char>(room, static_cast<size_t>(n)));
  }
  if (!standard) close(fd);
  return ok;
}

bool parse_ids(App& app, Str text, Vec<int32_t>* out) {
  auto separates = [](char c) { return c == ',' || isspace(static_cast<unsigned char>(c)); };
  for (size_t at = 0; at < text.size();) {
    if (separates(text[at])) {
      ++at;
      continue;
    }
    size_t end = at;
    int64_t id = 0;
    while (end < text.size() && isdigit(static_cast<unsigned char>(text[end])) && id <= INT32_MAX)
      id = 10 * id + (text[end++] - '0');
    if (end == at || id > INT32_MAX || (end < text.size() && !separates(text[end]))) {
      while (end < text.size() && end - at < 20 && !separates(text[end])) ++end;
      app.fail("'", text.sub(at, end - at), "' is not a token id");
      return false;
    }
    if (!out->push(static_cast<int32_t>(id))) {
      app.fail("not enough memory for the token ids");
      return false;
    }
    at = end;
  }
  return true;
}

bool unescape(Str text, Vec<char>* out) {
  auto hex = [&](size_t i) {
    const int c = i < text.size() ? tolower(static_cast<unsigned char>(text[i])) : 0;
    return isdigit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  constexpr Str kFrom = "ntr\\\"'", kTo = "\n\t\r\\\"'";
  for (size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if (c == '\\' && at + 1 < text.size()) {
      const char next = text[at + 1];
      if (next == 'x' && hex(at + 2) >= 0 && hex(at + 3) >= 0) {
        c = static_cast<char>(16 * hex(at + 2) + hex(at + 3));
        at += 3;
      }
      for (size_t i = 0; i < kFrom.size(); ++i)
        if (next == kFrom[i]) {
          c = kTo[i];
          ++at;
          break;
        }
    }
    if (!out->push(c)) return false;
  }
  return true;
}

// ---- The model ----

bool open_tokenizer(App& app, Tokenizer* tokenizer) {
  if (gc_the_model.tokenizer == nullptr) return true;
  const Span<const uint8_t> blob(gc_the_model.tokenizer, gc_the_model.tokenizer_bytes);
  if (tokenizer->open(blob, app.memory) == kOk) return true;
  app.fail("the tokenizer in this file is damaged");
  return false;
}

namespace {

enum class Runs { kCpu, kDevice, kAny, kWrong };

// Of --device, --isa and what the file has code for.
Runs choose_device(App& app, const Options& options) {
  const Str want = options.device;
  const bool has_device = &gc_open_device != nullptr, has_cpu = !is_for_device(*gc_programs[0]);
  const bool wants_device = want == kDeviceName || options.gpu >= 0;
  if (!want.empty() && want != "cpu" && want != kDeviceName)
    app.fail("--device '", want, "': expected cpu or ", kDeviceName);
  else if (want == "cpu" && !has_cpu)
    app.fail("this file has no code for the CPU: it was compiled with --device ", kDeviceName);
  else if (wants_device && !has_device)
    app.fail("this file has no code for ", kDeviceName, ": gguf-compile --device cpu,", kDeviceName,
             " makes one that has");
  else if (wants_device && (want == "cpu" || *options.isa))
    app.fail("--", want == "cpu" ? "gpu" : "isa", want == "cpu" ? " is not for the CPU" : " is for the CPU");
  else
    return want == "cpu" || *options.isa || !has_device ? Runs::kCpu
           : wants_device || !has_cpu                   ? Runs::kDevice
                                                        : Runs::kAny;
  return Runs::kWrong;
}

}  // namespace

bool open_model(App& app, const Options& options, Model* model) {
  const Runs device = choose_device(app, options);
  if (device == Runs::kWrong) return false;
  Status s = open_model(Str(options.isa), Str(), model, app.note());
  if (s == kOk && device != Runs::kCpu) {
    s = gc_open_device(options.gpu < 0 ? 0 : static_cast<uint32_t>(options.gpu), app.memory, model,
                       app.note());
    if (s != kOk && device == Runs::kAny) {
      app.err.print(Line{app.name}, ": running on the CPU: ", Line{Str(app.message)}, "\n");
      app.err.flush();
      app.message[0] = 0;
      return true;
    }
    app.device = model->device;
  }
  if (s != kOk) app.fail_status(s);
  return s == kOk;
}

SessionOptions session_options(const Options& options) {
  SessionOptions s;
  s.n_ctx = static_cast<uint32_t>(options.n_ctx);
  const int64_t ubatch = options.n_ubatch != 0 ? options.n_ubatch : s.n_ubatch;
  s.n_ubatch = static_cast<uint32_t>(min_of(ubatch, options.n_batch));
  s.kv_type = options.cache_k;
  s.workers = options.threads > 0 ? static_cast<uint32_t>(options.threads) : 0;
  return s;
}

bool must_generate(App& app, const Model& model) {
  if (!whole_texts(*model.program)) return true;
  app.fail(
      "this model's tokens attend to later ones: it gives logits and values of whole texts (logits, dump), "
      "and does "
      "not generate");
  return false;
}

bool start_session(App& app, const Model& model, const SessionOptions& options, Session* session) {
  const Status s = session->init(model, options, app.memory, app.note());
  if (s == kErrUnsupported) {
    Writer w(app.message);
    format(w, "this file has no code for a KV cache of ", kv_type_name(with_defaults(model, options).kv_type),
           "; it has");
    const char* comma = " ";
    for (uint32_t t = 0; t < GC_KV_TYPES; ++t) {
      if (!has_kv_type(*model.program, t)) continue;
      format(w, comma, kv_type_name(t));
      comma = ", ";
    }
  }
  if (s != kOk) app.fail_status(s);
  return s == kOk;
}

bool read_tokens(App& app, const Options& options, Vec<int32_t>* ids) {
  if (!options.tokens == !options.tokens_file) {
    app.fail("the tokens: one of --tokens 1,2,3 and --tokens-file FILE");
    return false;
  }
  Vec<char> text(app.memory);
  if (options.tokens_file && !read_input(app, options.tokens_file, &text)) return false;
  return parse_ids(app, options.tokens ? Str(options.tokens) : str(text), ids);
}

}  // namespace gcrt
