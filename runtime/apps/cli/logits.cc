// `OUT logits --tokens 1,2,3 -o F`: the model's output at every position, raw. All tokens run as one prompt in
// chunks, or with --decode as generated ones. Chunks are what bounds memory: one of 512 tokens has half a gigabyte of
// logits at a vocabulary of 262,144, so by default it is cut to kChunkBytes of them. The bits don't depend on it.
#include "runtime/apps/cli/app.h"
#include "runtime/apps/cli/whole_file.h"

namespace gcrt {
namespace {

constexpr uint64_t kChunkBytes = 64 << 20;

// Runs ids in steps of at most `chunk`, and writes their logits.
bool run_all(App& app, Session& session, Span<const int32_t> ids, bool decode, uint32_t chunk,
             WholeFile* file) {
  const uint64_t stride = session.logits_stride(), n_vocab = session.model().program->n_vocab;
  const uint64_t bytes = stride * chunk * sizeof(float);
  float* logits = static_cast<float*>(app.memory.get(bytes, 64));
  Vec<Token> tokens(app.memory);
  bool ok = logits != nullptr && tokens.reserve(chunk);
  if (!ok) app.fail("not enough memory: ", bytes, " bytes for the logits of ", chunk, " tokens");
  for (size_t at = 0; ok && at < ids.size(); at += chunk) {
    tokens.clear();
    for (int32_t id : ids.sub(at, chunk))
      ok =
          ok && tokens.push({id, 0, static_cast<uint8_t>(decode ? GC_ROLE_GENERATED : GC_ROLE_PROMPT), true});
    gc_sink sink = {};
    sink.kind = GC_SINK_LOGITS;
    sink.logits = logits;
    sink.stride = stride;
    const Status s = session.step(tokens, &sink);
    if (s != kOk) app.fail_status(s);
    ok = ok && s == kOk;
    for (size_t i = 0; ok && i < tokens.size(); ++i)
      ok = file->write_all(logits + i * stride, n_vocab * sizeof(float));
  }
  if (logits) app.memory.put(logits, bytes, 64);
  return ok;
}

}  // namespace

int gc_command_logits(App& app, const Options& options) {
  if (options.words.n != 0) return app.fail("unexpected argument '", options.words.values[0], "'");
  if (options.output == nullptr) return app.fail("no output: -o FILE");
  Model model;
  Vec<int32_t> ids(app.memory);
  if (!read_tokens(app, options, &ids) || !open_model(app, options, &model)) return kExitError;
  if (ids.empty()) return app.fail("there are no tokens");
  const uint32_t n_vocab = model.program->n_vocab;
  for (int32_t id : ids)
    if (static_cast<uint32_t>(id) >= n_vocab)
      return app.fail("token ", id, ": the model has ", n_vocab, " tokens");

  SessionOptions s = session_options(options);
  const uint64_t row_bytes = Session::logits_stride_of(*model.program) * sizeof(float);
  const uint64_t fit = max_of<uint64_t>(kChunkBytes / row_bytes, 1);
  if (options.n_ubatch == 0) s.n_ubatch = static_cast<uint32_t>(min_of<uint64_t>(512, fit));
  if (whole_texts(*model.program)) {
    if (options.decode) return app.fail("this model's tokens attend to later ones: it does not generate");
    if (options.n_ubatch == 0) s.n_ubatch = static_cast<uint32_t>(ids.size());
    if (s.n_ubatch < ids.size())
      return app.fail("this model's tokens attend to later ones: all ", ids.size(),
                      " go in one step, which -ub ", s.n_ubatch, " is too short for");
  }
  if (options.decode) s.n_ubatch = 1;
  s.n_outputs = s.n_ubatch;
  Session session;
  if (!start_session(app, model, s, &session)) return kExitError;
  s = session.options();
  if (ids.size() > s.n_ctx)
    return app.fail("there are ", ids.size(), " tokens, and the context has ", s.n_ctx, " (-c)");
  WholeFile file(app, options.output);
  if (!file.open_for_writing() || !run_all(app, session, ids, options.decode, s.n_ubatch, &file) ||
      !file.commit())
    return kExitError;
  return kExitOk;
}

}  // namespace gcrt
