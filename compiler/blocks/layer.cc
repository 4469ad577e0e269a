#include "compiler/blocks/layer.h"

#include "compiler/base/error.h"

namespace gc::blocks {
namespace {

ir::ValueId scaled(ir::Builder& b, ir::ValueId x, double by, const std::string& name) {
  return by == 1 ? x : b.scale(x, by, name);
}

// Attention of x, which is normed, or what is in its place.
ir::ValueId attention_branch(ir::Builder& b, ir::ValueId x, const Layer& l, int64_t layer, Kept& kept) {
  ir::ValueId h;
  if (l.latent.out) {
    h = latent_attention(b, x, l.latent, layer, l.prefix, kept.chosen);
  } else if (l.attn.qkv) {
    h = self_attention(b, x, l.attn, kv_state(b, layer, l.attn.shape, l.attn.kept_window()), l.prefix);
  } else if (l.attn.out) {
    h = linear(b, x, l.attn.out, l.prefix + "attn_proj");
  }
  if (l.mixer) {
    const ir::ValueId mixed = l.mixer(b, x, layer, l.prefix);
    h = h.valid() ? b.add(h, mixed, l.prefix + "mixers") : mixed;
  }
  h = norm(b, h, l.post_attn_norm, l.prefix + "attn_post_norm");
  return scaled(b, h, l.branch_scale, l.prefix + "attn_scaled");
}

// Feed-forward network or experts of x, which is normed; `input` is the layer's.
ir::ValueId ffn_branch(ir::Builder& b, ir::ValueId x, ir::ValueId input, const Layer& l) {
  const bool experts = l.moe && !l.moe_norm;
  ir::ValueId h =
      experts ? moe(b, x, l.early_router ? input : x, l.moe, l.prefix) : ffn(b, x, l.ffn, l.prefix);
  h = norm(b, h, l.post_ffn_norm, l.prefix + "ffn_post_norm");
  return scaled(b, h, l.branch_scale, l.prefix + "ffn_scaled");
}

ir::ValueId layer_of_streams(ir::Builder& b, ir::ValueId x, const Layer& l, int64_t layer, Kept& kept) {
  const std::string attn = l.prefix + "hc_attn_", ffn = l.prefix + "hc_ffn_";
  HyperRead in = hyper_read(b, x, l.attn_hyper, attn);
  ir::ValueId h = norm(b, in.x, l.attn_norm, l.prefix + "attn_norm");
  h = attention_branch(b, h, l, layer, kept);
  x = hyper_write(b, x, h, in, l.attn_hyper, attn, l.prefix + "attn_residual");
  in = hyper_read(b, x, l.ffn_hyper, ffn);
  h = ffn_branch(b, norm(b, in.x, l.ffn_norm, l.prefix + "ffn_norm"), in.x, l);
  return hyper_write(b, x, h, in, l.ffn_hyper, ffn, l.prefix + "l_out");
}

ir::ValueId layer_over_depth(ir::Builder& b, ir::ValueId x, const Layer& l, int64_t layer, Kept& all) {
  KeptResiduals& kept = all.residuals;
  const std::string attn = l.prefix + "attn_res_", ffn = l.prefix + "ffn_res_";
  ir::ValueId h = read_residuals(b, x, kept, l.residuals, l.attn_score, attn);
  const bool keeps = layer % l.residuals.every == 0;
  if (keeps) keep_residual(b, x, kept, l.residuals, attn);
  h = attention_branch(b, norm(b, h, l.attn_norm, l.prefix + "attn_norm"), l, layer, all);
  x = keeps ? h : b.add(x, h, l.prefix + "attn_residual");
  h = read_residuals(b, x, kept, l.residuals, l.ffn_score, ffn);
  h = ffn_branch(b, norm(b, h, l.ffn_norm, l.prefix + "ffn_norm"), h, l);
  return b.add(x, h, l.prefix + "l_out");
}

}  // namespace

ir::ValueId layer(ir::Builder& b, ir::ValueId x, const Layer& l, int64_t layer, Kept* left) {
  GC_CHECK(left != nullptr || (!l.residuals && !l.latent.sparse));
  Kept none;
  Kept& kept = left != nullptr ? *left : none;
  if (l.attn_hyper) return layer_of_streams(b, x, l, layer, kept);
  if (l.residuals) return layer_over_depth(b, x, l, layer, kept);
  if (l.parallel) {
    const ir::ValueId normed = norm(b, x, l.attn_norm, l.prefix + "attn_norm");
    const ir::ValueId attn = attention_branch(b, normed, l, layer, kept);
    const ir::ValueId ffn_in = l.ffn_norm ? norm(b, x, l.ffn_norm, l.prefix + "ffn_norm") : normed;
    const ir::ValueId both = b.add(attn, ffn_branch(b, ffn_in, x, l), l.prefix + "branches");
    return b.add(x, both, l.prefix + "l_out");
  }
  const ir::ValueId input = x;
  const bool feeds = l.ffn || l.moe;
  if (l.attn.out || l.latent.out || l.mixer) {
    const ir::ValueId h = norm(b, x, l.attn_norm, l.prefix + "attn_norm");
    x = b.add(x, attention_branch(b, h, l, layer, kept), l.prefix + (feeds ? "attn_residual" : "l_out"));
  }
  if (feeds) {
    const ir::ValueId h = norm(b, x, l.ffn_norm, l.prefix + "ffn_norm");
    x = b.add(x, ffn_branch(b, h, input, l), l.prefix + (l.moe_norm ? "ffn_residual" : "l_out"));
  }
  if (l.moe_norm) {
    const ir::ValueId h = norm(b, input, l.moe_norm, l.prefix + "ffn_norm_exps");
    x = b.add(x, moe(b, h, h, l.moe, l.prefix), l.prefix + "l_out");
  }
  return x;
}

}  // namespace gc::blocks
