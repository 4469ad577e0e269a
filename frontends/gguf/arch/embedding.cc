#include "frontends/gguf/arch/embedding.h"

#include <utility>

#include "compiler/base/error.h"
#include "compiler/blocks/ffn.h"
#include "compiler/ir/verify.h"

namespace gc::gguf {

PoolingKey pooling_key(const Keys& keys) {
  switch (keys.file().get_u32(keys.full("pooling_type"), 0)) {
    case 0:
    case 0xffffffff:  // "unspecified", as saved models have it
      return PoolingKey::None;
    case 1:
      return PoolingKey::Mean;
    case 2:
      return PoolingKey::First;
    case 3:
      return PoolingKey::Last;
    case 4:
      return PoolingKey::Ranks;
    default:
      keys.unsupported("pooling_type", "supported are 0 to 4: none, mean, cls, last, rank");
  }
}

Classifier classifier_of(Tensors& tensors, std::int64_t n_embd) {
  Classifier c;
  std::int64_t n = n_embd;
  const bool dense = tensors.has("cls.weight"), out = tensors.has("cls.output.weight");
  if (dense || !out) c.dense = tensors.linear("cls", n = tensors.rows_of("cls.weight"), n_embd);
  if (out) c.out = tensors.linear("cls.output", tensors.rows_of("cls.output.weight"), n);
  return c;
}

void end_in_embedding(ir::Builder& b, ir::ValueId x, const Classifier* classifier) {
  x = b.select(x, classifier ? "asked" : "embedding");
  if (classifier && classifier->dense.weight.valid())
    x = b.act(linear(b, x, classifier->dense, "cls"), ir::Fn::tanh, "cls_tanh");
  if (classifier && classifier->out.weight.valid()) x = linear(b, x, classifier->out, "scores");
  b.embedding(x);
}

void tell_pooling(PoolingKey key, ModelInfo& info) {
  using Pooling = ModelInfo::Pooling;
  info.scores = key == PoolingKey::Ranks;
  switch (key) {
    case PoolingKey::None:
      info.pooling = Pooling::None;
      return;
    case PoolingKey::Mean:
      info.pooling = Pooling::Mean;
      return;
    case PoolingKey::First:
    case PoolingKey::Ranks:
      info.pooling = Pooling::First;
      return;
    case PoolingKey::Last:
      info.pooling = Pooling::Last;
      return;
  }
}

void end_before_head(const Keys& keys, LoadedModel& model) {
  const PoolingKey key = pooling_key(keys);
  if (key == PoolingKey::Ranks)
    keys.unsupported("pooling_type",
                     cat("rerankers of architecture ", keys.architecture(), " are not supported"));
  ir::Graph& g = model.graph;
  // The head is the last matrix, with factors and caps behind it.
  std::size_t head = g.ops.size();
  while (head > 0 && g.ops[head - 1].kind != ir::OpKind::matmul) --head;
  GC_CHECK(head > 0, "a decoder without a head");
  --head;
  const ir::ValueId x = g.ops[head].inputs[0];
  const auto first = static_cast<std::size_t>(g.ops[head].results[0].index);
  GC_CHECK(
      head >= static_cast<std::size_t>(g.layer_begin.back()) && static_cast<std::size_t>(x.index) < first,
      "the head's matrix is not behind the layers");
  g.ops.resize(head);
  g.values.resize(first);
  g.values[static_cast<std::size_t>(x.index)].name = "embedding";
  g.outputs = {x};
  g.encoder = true;
  ir::verify(g);
  model.info.tied_head = false;
  tell_pooling(key, model.info);
}

}  // namespace gc::gguf
