// What encoders end in: rows of embeddings, which the runtime pools as the file says, or a classifier's scores.
#pragma once

#include <cstdint>

#include "compiler/base/model_info.h"
#include "compiler/blocks/linear.h"
#include "compiler/blocks/norm.h"
#include "compiler/ir/builder.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/arch/keys.h"
#include "frontends/gguf/arch/tensors.h"

namespace gc::gguf {

// Of the key pooling_type. Ranks: a classifier's scores of a text (or of a query and a document) by one token.
enum class PoolingKey { None, Mean, First, Last, Ranks };
PoolingKey pooling_key(const Keys& keys);
// The file is of a model of embeddings, whatever its architecture: only these may see later tokens by a key.
inline bool embeds(const Keys& keys) { return pooling_key(keys) != PoolingKey::None; }

// The classifier behind the layers of a file that ranks: tanh(dense) where it has one, then a row for each score.
struct Classifier {
  blocks::Linear dense, out;
};
Classifier classifier_of(Tensors& tensors, std::int64_t n_embd);

// Ends the graph in embeddings of the rows asked for, or in their scores. x: [T, n_embd].
void end_in_embedding(ir::Builder& b, ir::ValueId x, const Classifier* classifier);
// What the runtime is told of it.
void tell_pooling(PoolingKey key, ModelInfo& info);

// A decoder whose file says how its texts are pooled (Qwen3-Embedding, e5-mistral, ...) is an encoder: it ends in what
// its head would read.
void end_before_head(const Keys& keys, LoadedModel& model);

}  // namespace gc::gguf
