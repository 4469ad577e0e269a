// HRM Text: two stacks of layers, low and high, run in turns over two states, both as wide as the residual stream. The
// high state begins as the embedding, the low one as a vector of the file. Each of h_cycles rounds runs the low stack
// l_cycles times and the high stack once, always on the sum of both states:
//
//   repeat h_cycles: { repeat l_cycles: low = low_stack(high + low) }  high = high_stack(high + low)
//
// A stack ends with a norm. Norms have no weights; attention turns by halves and has a sigmoid gate on its output. The
// file's first layers_per_stack blocks are the low stack, the next ones the high stack; every run through a layer keeps
// keys and values of its own, so block_count counts runs.
#include <cmath>
#include <utility>

#include "compiler/base/error.h"
#include "compiler/blocks/layer.h"
#include "compiler/ir/builder.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/arch/decoder.h"
#include "frontends/gguf/arch/keys.h"
#include "frontends/gguf/arch/tensors.h"

namespace gc::gguf {
namespace {

struct Cycles {
  std::int64_t stack, high, low;  // layers of a stack; rounds; runs of the low stack in a round
};

Cycles read_cycles(const Keys& keys, std::int64_t n_layer) {
  constexpr std::uint32_t kMost = 1024;
  const Cycles c{keys.size("hrm.layers_per_stack", kMost), keys.size("hrm.h_cycles", kMost),
                 keys.size("hrm.l_cycles", kMost)};
  const std::int64_t runs = c.stack * c.high * (c.low + 1);
  if (runs != n_layer)
    keys.fail("block_count", cat("expected ", runs, " runs through a layer, found ", n_layer));
  return c;
}

}  // namespace

LoadedModel load_hrm_text(const File& file) {
  // Keys.
  const Keys keys(file, "hrm_text");
  std::vector<std::string> warnings;
  refuse_unknown_forms(keys);
  keys.refuse_unless_zero("hrm.prefix_lm", "a prefix that sees all of itself");
  const DecoderSizes s = decoder_sizes(keys);
  const Cycles c = read_cycles(keys, s.n_layer);
  const ir::RopeArgs rope = rope_args(keys, s.heads[0].k_dim, /*neox=*/true);
  const double embedding_scale = keys.factor("embedding_scale");

  // Tensors.
  ir::Builder b("hrm_text.step");
  Tensors tensors(file, b);
  const blocks::Norm plain{.kind = blocks::Norm::Kind::Rms, .eps = s.eps};
  const ir::WeightId embedding = tensors.matrix("token_embd.weight", s.n_vocab, s.n_embd);
  const ir::WeightId low_begin = tensors.vector("hrm.z_l_init", s.n_embd);
  std::vector<blocks::Layer> blocks;  // [2 * stack], low ones first
  for (std::int64_t i = 0; i < 2 * c.stack; ++i) {
    const std::string prefix = layer_prefix(i);
    const blocks::HeadShape& heads = s.heads[i];
    blocks::Layer l{.attn_norm = plain, .ffn_norm = plain};
    l.attn.shape = heads;
    l.attn.qkv = tensors.qkv(prefix, heads, s.n_embd);
    l.attn.rope = rope;
    l.attn.scale = 1 / std::sqrt(static_cast<double>(heads.k_dim));
    l.attn.gate = tensors.linear(prefix + "attn_gate", heads.out_cols(), s.n_embd);
    l.attn.out = tensors.linear(prefix + "attn_output", s.n_embd, heads.out_cols());
    l.ffn = tensors.gated_ffn(prefix, s.n_ff[i], s.n_embd, ir::Fn::silu);
    blocks.push_back(std::move(l));
  }
  const ir::WeightId own_head = tensors.find_matrix("output.weight", s.n_vocab, s.n_embd);
  tensors.finish(warnings);

  // Graph. low, high: the states [T, n_embd].
  std::int64_t run = 0;
  const auto stack = [&](ir::ValueId x, std::int64_t first) {
    for (std::int64_t i = 0; i < c.stack; ++i, ++run) {
      blocks::Layer l = blocks[first + i];
      l.prefix = layer_prefix(run);
      b.begin_layer(x);
      x = layer(b, x, l, run);
    }
    return norm(b, x, plain, cat("stack_", run, "_norm"));
  };
  ir::ValueId high = b.embed(embedding, "inp_embd"), low;
  if (embedding_scale > 0) high = b.scale(high, embedding_scale, "inp_scaled");
  for (std::int64_t h = 0; h < c.high; ++h) {
    for (std::int64_t l = 0; l < c.low; ++l) {
      const std::string name = cat("low_", h, "_", l, "_in");
      low = stack(low.valid() ? b.add(high, low, name) : b.shift(high, low_begin, name), 0);
    }
    high = stack(b.add(high, low, cat("high_", h, "_in")), c.stack);
  }
  b.end_layers(high);
  const ir::ValueId x = b.select(high, "outputs");  // [R, n_embd]
  b.output(b.matmul(x, own_head.valid() ? own_head : embedding, "logits"));

  return {.graph = b.take(),
          .info = model_info(keys, s, /*windows=*/{}, tensors),
          .warnings = std::move(warnings)};
}

}  // namespace gc::gguf
