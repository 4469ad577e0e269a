#include "compiler/blocks/ngram.h"

#include <cmath>

#include "compiler/base/strings.h"
#include "compiler/blocks/hyper.h"

namespace gc::blocks {

using ir::ValueId;

ValueId ngram_memory(ir::Builder& b, ValueId x, const NgramMemory& m, std::int64_t layer,
                     const std::string& prefix) {
  const auto name = [&](const char* part) { return cat(prefix, "ngram_", part); };
  const std::int64_t n = b.type(x).dims.back().size / m.streams;
  const auto streams = [&](ValueId value, const char* part) {
    return b.heads(value, m.streams, name(part) + "_streams");
  };
  const ir::StateId tokens = b.state({.name = cat("tokens", layer),
                                      .kind = ir::State::Kind::Conv,
                                      .window = static_cast<std::int64_t>(m.rows.multipliers.size()) - 1,
                                      .heads = 1,
                                      .k_dim = 1,
                                      .v_dim = 1});
  const ValueId rows = b.ngram_embed(m.rows, tokens, name("rows"));
  const ValueId key =
      norm_streams(b, linear(b, rows, m.key, name("key_raw")), m.key_norm, m.streams, m.eps, name("key"));
  const ValueId query = norm_streams(b, x, m.query_norm, m.streams, m.eps, name("query"));
  ValueId dot = b.dot_heads(streams(key, "key"), streams(query, "query"), name("dot_raw"));
  dot = b.scale(dot, 1 / std::sqrt(static_cast<double>(n)), name("dot"));
  const ValueId gate = b.act(b.act(dot, ir::Fn::signed_root, name("root")), ir::Fn::sigmoid, name("gate"));
  const ValueId value = b.heads(linear(b, rows, m.value, name("value")), 1, name("value_one"));
  const ValueId taken = b.merge_heads(b.mix(value, gate, 0, name("taken_streams")), name("taken"));
  const ValueId normed = norm_streams(b, taken, m.conv_norm, m.streams, m.eps, name("conv_in"));
  const ValueId convolved = convolve(b, normed, m.conv, ir::Fn::silu, layer, "n", name("conv"));
  return b.add(x, b.add(taken, convolved, name("added")), name("out"));
}

}  // namespace gc::blocks
