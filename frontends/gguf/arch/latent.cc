#include "frontends/gguf/arch/latent.h"

#include <cmath>

#include "compiler/base/error.h"

namespace gc::gguf {
namespace {

std::int64_t count(const Keys& keys, const char* suffix) {
  const std::uint32_t n = keys.file().get_u32(keys.full(suffix), 0);
  return n == 0 ? 0 : keys.size(suffix);
}

// YaRN lets what is turned and the scores grow with the logarithm of the stretch, each by a factor of its own:
// yarn_log_multiplier, a tenth of the scores', by which the growth of what turns is divided again. DeepSeek 2 takes the
// scores' factor for both, if it isn't 1.
double stretched_scale(const Keys& keys, double k_dim, ir::RopeArgs& rope) {
  const double stretch = 1 / rope.scale, of_scores = keys.factor("rope.scaling.yarn_log_multiplier") / 0.1;
  const auto growth = [&](double by) { return stretch <= 1 ? 1 : 1 + 0.1 * by * std::log(stretch); };
  const double given = keys.factor("rope.scaling.attn_factor", 1), plain = given == 0 ? 1 : given;
  double growth_of_both = plain * growth(1);
  if (rope.high >= 0) {
    const bool same = keys.architecture() == "deepseek2" && std::abs(of_scores - 1) > 1e-6;
    const double of_turned = of_scores == 0 ? growth(1) : growth(same ? of_scores : 1) / growth(of_scores);
    rope.magnitude = growth_of_both = plain * of_turned;
  }
  const double by = growth_of_both * growth(of_scores);
  return by * by / std::sqrt(k_dim);
}

}  // namespace

LatentSizes latent_sizes(const Keys& keys, const Form& form, ir::RopeArgs& rope, bool local) {
  const auto key = [&](const char* plain, const char* of_local) { return local ? of_local : plain; };
  LatentSizes s;
  s.q_rank = count(keys, "attention.q_lora_rank");
  s.rank = keys.size(key("attention.kv_lora_rank", "attention.kv_lora_rank_swa"));
  s.turned = rope.dims;
  s.k_dim = count(keys, key("attention.key_length_mla", "attention.key_length_mla_swa"));
  s.v_dim = count(keys, key("attention.value_length_mla", "attention.value_length_mla_swa"));
  s.absorbed = s.k_dim > 0 && s.v_dim > 0;
  const std::int64_t whole = s.rank + s.turned;
  if (!s.absorbed) s.k_dim = keys.size("attention.key_length"), s.v_dim = keys.size("attention.value_length");
  if (s.absorbed && !local && keys.find_size("attention.key_length").value_or(whole) != whole) {
    keys.fail("attention.key_length",
              cat("expected ", whole, ", the latent of ", s.rank, " and ", s.turned,
                  " dimensions that turn, found ", keys.size("attention.key_length")));
  }
  if (s.k_dim < s.turned || (s.absorbed && s.k_dim == s.turned) || (!s.absorbed && s.turned == 0)) {
    keys.fail(s.absorbed ? "attention.key_length_mla" : "attention.key_length",
              cat("expected more than the ", s.turned, " dimensions that turn, found ", s.k_dim));
  }
  s.scale = 1 / std::sqrt(static_cast<double>(s.k_dim));
  if (form.latent.stretched) s.scale = stretched_scale(keys, static_cast<double>(s.k_dim), rope);
  return s;
}

blocks::LatentAttention latent_of(Tensors& tensors, const Form& form, const LatentSizes& s,
                                  const std::string& prefix, std::int64_t n_head, std::int64_t n_embd,
                                  double eps) {
  blocks::LatentAttention a{
      .n_head = n_head, .nope = s.k_dim - s.turned, .turned = s.turned, .v_dim = s.v_dim, .rank = s.rank};
  if (s.q_rank > 0) {
    a.q_a = tensors.linear(prefix + "attn_q_a", s.q_rank, n_embd);
    a.q_a_norm = tensors.rms_norm(prefix + "attn_q_a_norm", s.q_rank, eps);
  }
  a.q = s.q_rank > 0 ? tensors.linear(prefix + "attn_q_b", n_head * s.k_dim, s.q_rank)
                     : tensors.linear(prefix + "attn_q", n_head * s.k_dim, n_embd);
  a.kv_a = tensors.linear(prefix + "attn_kv_a_mqa", s.rank + s.turned, n_embd);
  a.kv_a_norm = tensors.rms_norm(prefix + "attn_kv_a_norm", s.rank, eps);
  if (form.latent.key_norm) a.k_pe_norm = tensors.rms_norm(prefix + "attn_k_norm", s.turned, eps);
  if (s.absorbed) {
    a.k_b = tensors.stack(prefix + "attn_k_b.weight", n_head, s.rank, a.nope);
    a.v_b = tensors.stack(prefix + "attn_v_b.weight", n_head, s.v_dim, s.rank);
  } else {
    a.kv_b = tensors.linear(prefix + "attn_kv_b", n_head * (a.nope + s.v_dim), s.rank);
  }
  a.scale = s.scale;
  a.out = tensors.linear(prefix + "attn_output", n_embd, n_head * s.v_dim);
  return a;
}

blocks::Indexer indexer_of(const Keys& keys, Tensors& tensors, const Form& form, const ir::RopeArgs& rope,
                           const std::string& prefix, std::int64_t q_rank, std::int64_t n_embd, double eps) {
  const std::string stem = prefix + "indexer.";
  const std::int64_t n_head = keys.size("attention.indexer.head_count"),
                     dim = keys.size("attention.indexer.key_length");
  if (dim < rope.dims || dim % 2 != 0)
    keys.fail("attention.indexer.key_length", cat("expected an even number of at least the ", rope.dims,
                                                  " dimensions that turn, found ", dim));
  blocks::Indexer i{.n_head = n_head,
                    .dim = dim,
                    .used = keys.size("attention.indexer.top_k"),
                    .q = tensors.linear(stem + "attn_q_b", n_head * dim, q_rank),
                    .k = tensors.linear(stem + "attn_k", dim, n_embd),
                    .k_norm = tensors.norm(blocks::Norm::Kind::Layer, stem + "k_norm", dim,
                                           form.indexer.eps > 0 ? form.indexer.eps : eps),
                    .weights = tensors.linear(stem + "proj", n_head, n_embd),
                    .rope = rope,
                    .turns_end = form.indexer.turns_end};
  i.rope.neox = form.indexer.turn == Form::Turn::Halves;
  return i;
}

std::vector<bool> indexer_owners(const Keys& keys, const Form& form, std::int64_t n_layer,
                                 std::int64_t n_ctx_train) {
  constexpr const char* kTypes = "attention.indexer.types";
  constexpr std::int64_t kShared = std::int64_t{1} << 20;  // contexts of models whose layers share
  using Owners = Form::Indexer::Owners;
  const Owners owners = form.indexer.owners;
  std::vector<bool> own(static_cast<std::size_t>(n_layer), true);
  if (owners == Owners::ByKey && !keys.has(kTypes))
    keys.fail(kTypes, "missing: which layers have an indexer?");
  if (owners != Owners::All && keys.has(kTypes)) {
    own = keys.flags(kTypes, n_layer, true);
  } else if (owners == Owners::Fourth && n_ctx_train >= kShared) {
    for (std::int64_t i = 2; i < n_layer; ++i) own[static_cast<std::size_t>(i)] = i % 4 == 2;
  }
  return own;
}

}  // namespace gc::gguf
