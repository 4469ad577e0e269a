#include "compiler/blocks/layer.h"

namespace gc::blocks {
namespace {

ir::ValueId scaled(ir::Builder& b, ir::ValueId x, double by, const std::string& name) {
  return by == 1 ? x : b.scale(x, by, name);
}

// Attention of x, which is normed.
ir::ValueId attention_branch(ir::Builder& b, ir::ValueId x, const Layer& l, int64_t layer) {
  ir::ValueId h;
  if (l.attn.qkv) {
    h = self_attention(b, x, l.attn, kv_state(b, layer, l.attn.shape, l.attn.window), l.prefix);
  } else {
    h = linear(b, x, l.attn.out, l.prefix + "attn_proj");
  }
  h = norm(b, h, l.post_attn_norm, l.prefix + "attn_post_norm");
  return scaled(b, h, l.branch_scale, l.prefix + "attn_scaled");
}

ir::ValueId ffn_branch(ir::Builder& b, ir::ValueId x, const Layer& l) {
  ir::ValueId h = ffn(b, x, l.ffn, l.prefix);
  h = norm(b, h, l.post_ffn_norm, l.prefix + "ffn_post_norm");
  return scaled(b, h, l.branch_scale, l.prefix + "ffn_scaled");
}

}  // namespace

ir::ValueId layer(ir::Builder& b, ir::ValueId x, const Layer& l, int64_t layer) {
  if (l.parallel) {
    const ir::ValueId normed = norm(b, x, l.attn_norm, l.prefix + "attn_norm");
    const ir::ValueId attn = attention_branch(b, normed, l, layer);
    const ir::ValueId ffn_in = l.ffn_norm ? norm(b, x, l.ffn_norm, l.prefix + "ffn_norm") : normed;
    const ir::ValueId both = b.add(attn, ffn_branch(b, ffn_in, l), l.prefix + "branches");
    return b.add(x, both, l.prefix + "l_out");
  }
  if (l.attn.out) {
    const ir::ValueId h = norm(b, x, l.attn_norm, l.prefix + "attn_norm");
    x = b.add(x, attention_branch(b, h, l, layer), l.prefix + (l.ffn ? "attn_residual" : "l_out"));
  }
  if (l.ffn) {
    const ir::ValueId h = norm(b, x, l.ffn_norm, l.prefix + "ffn_norm");
    x = b.add(x, ffn_branch(b, h, l), l.prefix + "l_out");
  }
  return x;
}

}  // namespace gc::blocks
