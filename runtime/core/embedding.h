#pragma once
// A text's embedding from those of its tokens, as encoders give them: their mean, the first or the last, then of length 1.
// Of models that rank, a classifier's scores of one token in its place, as they are.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/core/session.h"

namespace gcrt {

// Whether the model is an encoder.
inline bool gives_embeddings(const gc_program& program) {
  return (program.sinks >> GC_SINK_EMBEDDING & 1) != 0;
}

// Outputs that a session needs for a text of n tokens.
inline uint32_t embedding_outputs(uint32_t pooling, uint32_t n_tokens) {
  return pooling == GC_POOLING_MEAN || pooling == GC_POOLING_NONE ? n_tokens : 1;
}
// Embeddings that a text of n tokens gets: one, or with GC_POOLING_NONE one for each.
inline uint32_t embeddings_of(uint32_t pooling, uint32_t n_tokens) {
  return pooling == GC_POOLING_NONE ? n_tokens : 1;
}

// Whether the token at `at` of n is one of those outputs.
inline bool embedding_output(uint32_t pooling, uint32_t at, uint32_t n_tokens) {
  if (embedding_outputs(pooling, n_tokens) == n_tokens) return true;
  return at == (pooling == GC_POOLING_FIRST ? 0 : n_tokens - 1);
}
// From a text's outputs, rows of `stride` floats, to its embeddings, f32[embeddings, n]. Sums go in the order of tokens,
// in double.
void pool_embeddings(const float* rows, uint64_t stride, uint32_t n_tokens, uint32_t n, uint32_t pooling,
                     bool normalize, float* out);

// The text is all of sequence 0, which is empty afterwards. `rows` is room for f32[outputs, logits_stride()], 64-byte
// aligned; `out` gets f32[embeddings, n_output].
Status embed(Session& session, Span<const int32_t> tokens, uint32_t pooling, bool normalize, float* rows,
             float* out);

}  // namespace gcrt
