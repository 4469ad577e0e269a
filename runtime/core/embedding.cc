#include "runtime/core/embedding.h"

#include <math.h>
#include <string.h>

namespace gcrt {
namespace {

void mean_of(const float* rows, uint64_t stride, uint32_t n_rows, uint32_t n, float* out) {
  for (uint32_t i = 0; i < n; ++i) {
    double sum = 0;
    for (uint32_t r = 0; r < n_rows; ++r) sum += static_cast<double>(rows[r * stride + i]);
    out[i] = static_cast<float>(sum / n_rows);
  }
}

void make_unit(float* x, uint32_t n) {
  double squares = 0;
  for (uint32_t i = 0; i < n; ++i) squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  const double by = squares > 0 ? 1 / sqrt(squares) : 0;
  for (uint32_t i = 0; i < n; ++i) x[i] = static_cast<float>(static_cast<double>(x[i]) * by);
}

}  // namespace

void pool_embeddings(const float* rows, uint64_t stride, uint32_t n_tokens, uint32_t n, uint32_t pooling,
                     bool normalize, float* out) {
  const uint32_t count = embeddings_of(pooling, n_tokens);
  if (pooling == GC_POOLING_MEAN) {
    mean_of(rows, stride, n_tokens, n, out);
  } else {
    for (uint32_t r = 0; r < count; ++r)
      memcpy(out + uint64_t{r} * n, rows + uint64_t{r} * stride, n * sizeof(float));
  }
  for (uint32_t r = 0; normalize && r < count; ++r) make_unit(out + uint64_t{r} * n, n);
}

Status embed(Session& session, Span<const int32_t> tokens, uint32_t pooling, bool normalize, float* rows,
             float* out) {
  const gc_program& program = *session.model().program;
  if (!gives_embeddings(program)) return kErrUnsupported;
  if (tokens.empty() || pooling >= GC_POOLINGS || tokens.size() > session.options().n_ubatch)
    return kErrArgument;
  const auto n_tokens = static_cast<uint32_t>(tokens.size());
  Vec<Token>& step = session.step_tokens();
  for (uint32_t i = 0; i < n_tokens; ++i)
    step[i] = {tokens[i], 0, GC_ROLE_PROMPT, embedding_output(pooling, i, n_tokens)};
  const uint32_t stride = session.logits_stride();
  gc_sink sink = {};
  sink.kind = GC_SINK_EMBEDDING;
  sink.logits = rows;
  sink.stride = stride;
  session.kv().truncate(0, 0);
  const Status s = session.step(step.span().sub(0, n_tokens), &sink);
  session.kv().truncate(0, 0);
  if (s != kOk) return s;
  pool_embeddings(rows, stride, n_tokens, program.n_output, pooling, normalize, out);
  return kOk;
}

}  // namespace gcrt
