// Gemma 3n (E2B, E4B), text. Gemma 3's norms, windows and scaled embedding, and around them
//   - the residual is four streams, of which a layer computes one (compiler/blocks/altup.h);
//   - a low-rank product of the normed input (Laurel) is added beside attention, both over sqrt(2);
//   - each token has an embedding of its own for each layer, gated in at its end (compiler/blocks/per_layer.h), which
//     reaches all streams but the first;
//   - the last layers have no keys and values: they see those of the last layer before them that has as wide a window;
//   - in the first layers only gates well above their row's mean count (op sparsify).
// Values are normed too, scores not scaled. What files may leave out has the published models' values.
#include <algorithm>
#include <cmath>
#include <utility>

#include "compiler/base/strings.h"
#include "compiler/blocks/altup.h"
#include "compiler/blocks/attention.h"
#include "compiler/blocks/ffn.h"
#include "compiler/blocks/norm.h"
#include "compiler/blocks/per_layer.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/arch/decoder.h"
#include "frontends/gguf/arch/keys.h"
#include "frontends/gguf/arch/shared_kv.h"
#include "frontends/gguf/arch/tensors.h"

namespace gc::gguf {
namespace {

constexpr std::int64_t kStreams = 4, kLayersWithKeys = 20, kSparseLayers = 10, kRowWidth = 256;
constexpr double kSparsity =
    1.6448533535003662;  // deviations above the mean that 5 % of a normal distribution exceed

struct Layer {
  std::string prefix;
  blocks::Norm attn_norm, post_attn_norm, ffn_norm, post_ffn_norm, laurel_norm;
  blocks::Attention attn;
  blocks::Ffn ffn;
  blocks::Linear laurel_in, laurel_out;
  blocks::Altup altup;
  ir::WeightId correct_scale;  // [n_embd]
  blocks::PerLayerGate per_layer;
};

blocks::Altup altup_of(Tensors& tensors, const std::string& prefix, std::int64_t streams, std::int64_t active,
                       const DecoderSizes& s) {
  return {.streams = streams,
          .active = active,
          .router_norm = tensors.rms_norm(prefix + "altup_router_norm", s.n_embd, s.eps),
          .router = tensors.linear(prefix + "altup_router", streams, s.n_embd),
          .predict = tensors.linear(prefix + "altup_predict_coef", streams * streams, streams),
          .correct = tensors.linear(prefix + "altup_correct_coef", streams, streams)};
}

Layer layer_of(Tensors& tensors, const DecoderSizes& s, std::int64_t i, bool own_keys) {
  Layer l{.prefix = layer_prefix(i)};
  const std::string& p = l.prefix;
  const blocks::HeadShape& heads = s.heads[i];
  l.attn_norm = tensors.rms_norm(p + "attn_norm", s.n_embd, s.eps);
  l.attn.shape = heads;
  if (own_keys) {
    l.attn.qkv = tensors.qkv(p, heads, s.n_embd);
    l.attn.k_norm = tensors.rms_norm(p + "attn_k_norm", heads.k_dim, s.eps);
    l.attn.v_norm = {.kind = blocks::Norm::Kind::Rms, .eps = s.eps};
  } else {
    l.attn.qkv.q = tensors.linear(p + "attn_q", heads.q_rows(), s.n_embd);
    for (const char* unused : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"})
      tensors.ignore(p + unused);
  }
  l.attn.q_norm = tensors.rms_norm(p + "attn_q_norm", heads.k_dim, s.eps);
  l.attn.out = tensors.linear(p + "attn_output", s.n_embd, heads.out_cols());
  l.post_attn_norm = tensors.rms_norm(p + "post_attention_norm", s.n_embd, s.eps);
  const std::int64_t rank = tensors.rows_of(p + "laurel_l.weight");
  l.laurel_in = tensors.linear(p + "laurel_l", rank, s.n_embd);
  l.laurel_out = tensors.linear(p + "laurel_r", s.n_embd, rank);
  l.laurel_norm = tensors.rms_norm(p + "laurel_post_norm", s.n_embd, s.eps);
  l.ffn_norm = tensors.rms_norm(p + "ffn_norm", s.n_embd, s.eps);
  l.ffn = tensors.gated_ffn(p, s.n_ff[i], s.n_embd, ir::Fn::gelu_tanh);
  l.post_ffn_norm = tensors.rms_norm(p + "post_ffw_norm", s.n_embd, s.eps);
  l.correct_scale = tensors.vector(p + "altup_correct_scale.weight", s.n_embd);
  return l;
}

// x: the streams [T, streams * n_embd].
ir::ValueId layer(ir::Builder& b, ir::ValueId x, const Layer& l, const SharedKv::Layer& kv,
                  ir::ValueId inputs, std::int64_t index, const blocks::PerLayerInputs& rows) {
  const std::string& p = l.prefix;
  const blocks::Altup& a = l.altup;
  const ir::ValueId predictions = altup_predict(b, x, a, p);
  const ir::ValueId active =
      blocks::altup_stream(b, predictions, a.active, a.streams, p + "active_prediction");
  const ir::ValueId h = norm(b, active, l.attn_norm, p + "attn_norm");
  ir::ValueId laurel = linear(b, linear(b, h, l.laurel_in, p + "laurel_in"), l.laurel_out, p + "laurel_proj");
  laurel = b.add(norm(b, laurel, l.laurel_norm, p + "laurel_norm"), h, p + "laurel_out");
  ir::ValueId attn =
      kv.own ? self_attention(b, h, l.attn, kv.state, p) : shared_attention(b, h, l.attn, kv.state, p);
  attn = b.add(norm(b, attn, l.post_attn_norm, p + "attn_post_norm"), active, p + "attn_gated");
  const ir::ValueId both =
      b.scale(b.add(attn, laurel, p + "attn_and_laurel"), 1 / std::sqrt(2.0), p + "attn_laurel");
  ir::ValueId made = ffn(b, norm(b, both, l.ffn_norm, p + "ffn_norm"), l.ffn, p);
  made = b.add(norm(b, made, l.post_ffn_norm, p + "ffn_post_norm"), both, p + "layer_made");
  const ir::ValueId corrected = altup_correct(b, predictions, made, a, p);
  ir::ValueId first = blocks::altup_stream(b, corrected, a.active, a.streams, p + "corrected_active");
  first = b.weigh(first, l.correct_scale, p + "corrected_scaled");
  const ir::ValueId row = per_layer_gate(b, first, inputs, index, rows, l.per_layer, p);
  const ir::ValueId all =
      b.add_heads(b.heads(corrected, a.streams, p + "corrected_streams"), row, 1, p + "streams_out");
  return b.merge_heads(all, p + "l_out");
}

}  // namespace

LoadedModel load_gemma3n(const File& file) {
  // Keys.
  const Keys keys(file, "gemma3n");
  std::vector<std::string> warnings;
  refuse_unknown_forms(keys);
  const DecoderSizes s = decoder_sizes(keys);
  const std::vector<std::int64_t> windows = layer_windows(keys, s.n_layer, 0, 5);
  const std::int64_t streams = keys.find_size("altup.num_inputs").value_or(kStreams);
  const std::int64_t active = file.get_u32(keys.full("altup.active_idx"), 0);
  if (active != 0)
    keys.unsupported("altup.active_idx", "another active stream than the first is not supported");
  if (streams < 2) keys.fail("altup.num_inputs", cat("expected at least 2, found ", streams));
  const std::int64_t width = keys.find_size("embedding_length_per_layer_input").value_or(kRowWidth);
  const SharedKv kv(keys, windows, std::min(kLayersWithKeys, s.n_layer));
  const double cap = keys.factor("final_logit_softcapping", 30);
  const ir::RopeArgs global_rope = rope_args(keys, s.heads[0].k_dim, /*neox=*/true);
  ir::RopeArgs local_rope = global_rope;
  local_rope.base = keys.positive("rope.freq_base_swa", 10000), local_rope.scale = 1;

  // Tensors.
  ir::Builder b("gemma3n.step");
  Tensors tensors(file, b);
  const ir::WeightId embedding = tensors.matrix("token_embd.weight", s.n_vocab, s.n_embd);
  const blocks::PerLayerInputs rows = per_layer_inputs_of(tensors, s, width);
  const ir::WeightId spread = tensors.tall("altup_proj.weight", streams - 1, s.n_embd, s.n_embd);
  std::vector<Layer> layers;
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    Layer l = layer_of(tensors, s, i, kv.has_own(i));
    l.attn.rope = windows[i] > 0 ? local_rope : global_rope;
    l.attn.window = windows[i];
    if (i < kSparseLayers) l.ffn.sparsity = kSparsity;
    l.altup = altup_of(tensors, l.prefix, streams, active, s);
    l.per_layer = per_layer_gate_of(tensors, l.prefix, s, width);
    layers.push_back(std::move(l));
  }
  const ir::WeightId join = tensors.stack("altup_unembd_proj.weight", streams - 1, s.n_embd, s.n_embd);
  const blocks::Norm output_norm = tensors.rms_norm("output_norm", s.n_embd, s.eps);
  const ir::WeightId own_head = tensors.find_matrix("output.weight", s.n_vocab, s.n_embd);
  tensors.finish(warnings);

  // Graph. x: first the embedding, then the streams [T, streams * n_embd].
  ir::ValueId x = b.embed(embedding, "inp_embd");
  x = b.scale(x, std::sqrt(static_cast<double>(s.n_embd)), "inp_scaled");
  const ir::ValueId inputs = per_layer_inputs(b, x, rows);
  x = blocks::altup_spread(b, x, spread, streams, "inp_");
  std::vector<SharedKv::Layer> states;
  for (std::int64_t i = 0; i < s.n_layer; ++i) {
    b.begin_layer(x);
    states.push_back(kv.layer(b, i, layers[i].attn, states));
    x = layer(b, x, layers[i], states[i], inputs, i, rows);
  }
  b.end_layers(x);
  x = blocks::altup_join(b, b.select(x, "outputs"), join, streams, "result_");
  x = norm(b, x, output_norm, "output_norm");  // [R, n_embd]
  x = b.matmul(x, own_head.valid() ? own_head : embedding, cap > 0 ? "logits_raw" : "logits");
  if (cap > 0) x = b.softcap(x, cap, "logits");
  b.output(x);

  return {.graph = b.take(), .info = model_info(keys, s, windows, tensors), .warnings = std::move(warnings)};
}

}  // namespace gc::gguf
