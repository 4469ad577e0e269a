// `OUT embed -p TEXT`: the text's embedding, as a JSON array on a line (with --pooling none one for each token), or raw
// little-endian f32 with -o. Models that rank give scores in its place: of a document (-p) for a --query.
#include "runtime/apps/cli/app.h"
#include "runtime/apps/cli/whole_file.h"
#include "runtime/core/embedding.h"
#include "runtime/text/pair.h"

namespace gcrt {
namespace {

constexpr Str kPoolings[GC_POOLINGS] = {"none", "mean", "cls", "last"};

bool pooling_of(App& app, const Options& options, uint32_t* pooling) {
  *pooling = gc_the_model.pooling;
  if (options.pooling == nullptr) return true;
  if (gc_the_model.scores != 0) {
    app.fail("--pooling: the model gives scores, of the token that it was made for");
    return false;
  }
  for (uint32_t i = 0; i < GC_POOLINGS; ++i) {
    if (kPoolings[i] != options.pooling) continue;
    *pooling = i;
    return true;
  }
  app.fail("--pooling: expected none, mean, cls or last, found '", options.pooling, "'");
  return false;
}

// The ids of --tokens, or those of the text with the tokens that begin and end one.
bool read_ids(App& app, const Options& options, Vec<int32_t>* ids) {
  if (options.query != nullptr && gc_the_model.scores == 0) {
    app.fail("--query: this model gives embeddings, not scores");
    return false;
  }
  if (options.tokens != nullptr || options.tokens_file != nullptr) return read_tokens(app, options, ids);
  if ((options.prompt != nullptr) == (options.file != nullptr)) {
    app.fail("no text: -p TEXT or -f FILE");
    return false;
  }
  Tokenizer tokenizer;
  if (!open_tokenizer(app, &tokenizer)) return false;
  if (!tokenizer.available()) {
    app.fail("this file has no tokenizer");
    return false;
  }
  Vec<char> text(app.memory);
  if (options.file != nullptr && !read_input(app, options.file, &text)) return false;
  if (options.prompt != nullptr && !append(text, options.prompt)) {
    app.fail("not enough memory for the text");
    return false;
  }
  const Status s =
      options.query != nullptr
          ? encode_pair(tokenizer, options.query, str(text), *ids)
          : tokenizer.encode(str(text), {.add_special = true, .parse_special = false, .literal = {}}, *ids);
  if (s != kOk) app.fail_status(s);
  return s == kOk;
}

void print_arrays(App& app, const float* x, uint32_t count, uint32_t n) {
  for (uint32_t r = 0; r < count; ++r) {
    for (uint32_t i = 0; i < n; ++i)
      app.out.print(i == 0 ? "[" : ",", Fixed{static_cast<double>(x[uint64_t{r} * n + i]), 9});
    app.out.print("]\n");
  }
}

}  // namespace

int gc_command_embed(App& app, const Options& options) {
  if (options.words.n != 0) return app.fail("unexpected argument '", options.words.values[0], "': -p TEXT");
  if (options.normalize != -1 && options.normalize != 2)
    return app.fail("--embd-normalize: expected 2 (to length 1) or -1 (not at all)");
  Model model;
  uint32_t pooling = 0;
  Vec<int32_t> ids(app.memory);
  if (!pooling_of(app, options, &pooling) || !open_model(app, options, &model)) return kExitError;
  if (!gives_embeddings(*model.program))
    return app.fail("this model is no encoder: it has no embeddings of texts");
  if (!read_ids(app, options, &ids)) return kExitError;
  if (ids.empty()) return app.fail("the text has no tokens");
  const auto n_tokens = static_cast<uint32_t>(ids.size());

  SessionOptions s = session_options(options);
  s.n_ubatch = n_tokens;
  s.n_outputs = embedding_outputs(pooling, n_tokens);
  Session session;
  if (!start_session(app, model, s, &session)) return kExitError;
  if (n_tokens > session.options().n_ctx)
    return app.fail("the text has ", n_tokens, " tokens, and the context ", session.options().n_ctx);
  const uint32_t n = model.program->n_output, count = embeddings_of(pooling, n_tokens);
  const uint64_t bytes = uint64_t{s.n_outputs} * session.logits_stride() * sizeof(float);
  float* rows = static_cast<float*>(app.memory.get(bytes, 64));
  Vec<float> out(app.memory);
  Status status = rows != nullptr && out.resize(uint64_t{count} * n) ? kOk : kErrMemory;
  const bool normalize = options.normalize == 2 && gc_the_model.scores == 0;
  if (status == kOk) status = embed(session, ids, pooling, normalize, rows, out.data());
  if (rows != nullptr) app.memory.put(rows, bytes, 64);
  if (status != kOk) return app.fail_status(status);
  if (options.output == nullptr) {
    print_arrays(app, out.data(), count, n);
    return app.done();
  }
  WholeFile file(app, options.output);
  const bool written =
      file.open_for_writing() && file.write_all(out.data(), out.size() * sizeof(float)) && file.commit();
  return written ? kExitOk : kExitError;
}

}  // namespace gcrt
