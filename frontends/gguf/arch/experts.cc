#include "frontends/gguf/arch/experts.h"

#include "compiler/base/error.h"

namespace gc::gguf {
namespace {

using Experts = Form::Experts;
using Weights = ir::RouteArgs::Weights;

std::int64_t count(const Keys& keys, const char* suffix) {
  const std::uint32_t n = keys.file().get_u32(keys.full(suffix), 0);
  return n > Keys::kMaxSize ? keys.size(suffix) : n;  // which says what is wrong with it
}

// expert_gating_func: 1 softmax, 2 sigmoid, 3 softmax over the chosen experts, 4 root of softplus.
Weights weights_of(const Keys& keys, const Experts& e) {
  switch (e.weights) {
    case Experts::Weights::Softmax:
      return Weights::Softmax;
    case Experts::Weights::Sigmoid:
      return Weights::Sigmoid;
    case Experts::Weights::SoftmaxOfChosen:
      return Weights::SoftmaxOfChosen;
    case Experts::Weights::ByKey:
      break;
  }
  switch (count(keys, "expert_gating_func")) {
    case 0:
      return e.sigmoid_unless_said ? Weights::Sigmoid : Weights::Softmax;
    case 1:
      return Weights::Softmax;
    case 2:
      return Weights::Sigmoid;
    case 3:
      return Weights::SoftmaxOfChosen;
    case 4:
      return Weights::RootSoftplus;
    default:
      keys.unsupported("expert_gating_func",
                       "supported are softmax (1, 3), sigmoid (2) and the root of softplus (4)");
  }
}

void read_groups(const Keys& keys, ExpertSizes& s) {
  const std::int64_t groups = count(keys, "expert_group_count");
  if (groups <= 1) return;
  s.groups = groups, s.groups_used = keys.size("expert_group_used_count");
  if (s.n % groups != 0 || s.n / groups < 2)
    keys.fail("expert_group_count",
              cat("expected groups of at least two of ", s.n, " experts, found ", groups));
  if (s.groups_used > groups || s.used > s.groups_used * (s.n / groups))
    keys.fail("expert_group_used_count", cat("expected as many of ", groups, " groups as have ", s.used,
                                             " experts, found ", s.groups_used));
}

double expert_limit(const Keys& keys) {
  const char* suffix = "swiglu_clamp_exp";
  const Value* value = keys.file().find(keys.full(suffix));
  double limit = 0;
  for (std::uint64_t i = 0; value != nullptr && i < value->count(); ++i) {
    const double of_layer = value->as_float(i).value_or(-1);
    if (!(of_layer >= 0)) keys.fail(suffix, cat("expected numbers from 0 up, found ", value->describe()));
    if (i > 0 && of_layer != limit)
      keys.unsupported(suffix, "limits that differ between layers are not supported");
    limit = of_layer;
  }
  return limit;
}

// Bounds of each layer, from an array or one number for all; 0: none.
std::vector<double> layer_limits(const Keys& keys, const char* suffix, std::int64_t n_layer) {
  std::vector<double> limits(static_cast<std::size_t>(n_layer), 0);
  const Value* value = keys.file().find(keys.full(suffix));
  if (value == nullptr) return limits;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    limits[i] = Keys::of_layer(*value, i).value_or(-1);
    if (!(limits[i] >= 0))
      keys.fail(suffix, cat("expected a number from 0 up for each layer, found ", value->describe()));
    if (limits[i] <= 1e-6) limits[i] = 0;
  }
  return limits;
}

// A shared expert as a stack of one, for its gate.
void gated_shared(Tensors& tensors, const std::string& prefix, ir::Fn fn, std::int64_t n_embd,
                  blocks::Moe& m) {
  const std::int64_t n = tensors.rows_of(prefix + "ffn_up_shexp.weight");
  m.shared_gate.weight = tensors.matrix(prefix + "ffn_gate_inp_shexp.weight", 1, n_embd);
  m.gated_shared = {.gate = tensors.stack(prefix + "ffn_gate_shexp.weight", 1, n, n_embd),
                    .up = tensors.stack(prefix + "ffn_up_shexp.weight", 1, n, n_embd),
                    .gate_scale = tensors.factors(prefix + "ffn_gate_shexp", 1),
                    .up_scale = tensors.factors(prefix + "ffn_up_shexp", 1),
                    .used = 1,
                    .fn = fn};
  m.gated_shared_scale = tensors.factors(prefix + "ffn_down_shexp", 1);
  m.gated_shared_down = tensors.stack(prefix + "ffn_down_shexp.weight", 1, n_embd, n);
}

void second_mixture(Tensors& tensors, const Experts& e, const ExpertSizes& s, const std::string& prefix,
                    ir::Fn fn, std::int64_t n_embd, blocks::Moe& m) {
  const std::int64_t n = tensors.rows_of(prefix + "ffn_up_chexps.weight");
  m.second = {.gate = tensors.stack(prefix + "ffn_gate_chexps.weight", s.n, n, n_embd),
              .up = tensors.stack(prefix + "ffn_up_chexps.weight", s.n, n, n_embd),
              .used = s.used,
              .fn = fn};
  m.second_down = tensors.stack(prefix + "ffn_down_chexps.weight", s.n, n_embd, n);
  m.second_scale = e.second_scale;
}

// Size of what the experts read and give; the products around them.
std::int64_t latent_of(Tensors& tensors, const std::string& prefix, std::int64_t n_embd, double eps,
                       blocks::Moe& m) {
  for (const char* stem : {"ffn_latent", "ffn_routed"}) {
    const std::string down = cat(prefix, stem, "_down"), norm = cat(prefix, stem, "_norm");
    if (!tensors.has(down + ".weight")) continue;
    const std::int64_t n = tensors.rows_of(down + ".weight");
    m.latent_in = tensors.linear(down, n, n_embd);
    m.latent_out = tensors.linear(cat(prefix, stem, "_up"), n_embd, n);
    if (tensors.has(norm + ".weight")) m.latent_norm = tensors.rms_norm(norm, n, eps);
    return n;
  }
  return n_embd;
}

blocks::Ffn shared_of(Tensors& tensors, const Form& form, const std::string& prefix, std::int64_t n_embd) {
  const std::int64_t n = tensors.rows_of(prefix + "ffn_up_shexp.weight");
  if (form.gate != Form::Gate::None) return tensors.gated_ffn(prefix, n, n_embd, form.fn, "_shexp");
  return {.up = tensors.linear(prefix + "ffn_up_shexp", n, n_embd),
          .down = tensors.linear(prefix + "ffn_down_shexp", n_embd, n),
          .fn = form.fn};
}

}  // namespace

ExpertSizes expert_sizes(const Keys& keys, const Form& form, std::int64_t n_layer) {
  const Experts& e = form.experts;
  ExpertSizes s;
  s.n = e.in == Experts::In::IfCounted ? count(keys, "expert_count") : keys.size("expert_count");
  if (s.n == 0) return s;
  s.used = keys.size("expert_used_count");
  if (e.dense_lead) s.first = count(keys, "leading_dense_block_count");
  if (e.step) s.step = keys.size("interleave_moe_layer_step");
  read_groups(keys, s);
  s.shared = count(keys, "expert_shared_count") > 0;
  s.weights = weights_of(keys, e);
  s.norm = e.norm == Experts::Norm::Always ||
           (e.norm == Experts::Norm::ByKey && keys.file().get_bool(keys.full("expert_weights_norm"), false));
  if (const double scale = keys.factor("expert_weights_scale"); scale != 0) s.scale = scale;
  if (e.limits_of_layers) {
    s.limits = layer_limits(keys, "swiglu_clamp_exp", n_layer);
    const bool same = e.shared_limits_default && !keys.has("swiglu_clamp_shexp");
    s.shared_limits = same ? s.limits : layer_limits(keys, "swiglu_clamp_shexp", n_layer);
    return s;
  }
  s.limit = e.limit_key ? expert_limit(keys) : e.limit;
  if (!e.limit_key) keys.refuse_unless_zero("swiglu_clamp_exp", "a bound of gate and up");
  keys.refuse_unless_zero("swiglu_clamp_shexp", "a bound of gate and up of shared experts");
  return s;
}

ExpertSizes of_layer(const ExpertSizes& sizes, std::int64_t layer) {
  ExpertSizes s = sizes;
  if (!s.limits.empty()) s.limit = s.limits[static_cast<std::size_t>(layer)];
  return s;
}

blocks::Moe experts_of(Tensors& tensors, const Form& form, const ExpertSizes& s, const std::string& prefix,
                       std::int64_t n_embd, double eps) {
  const Experts& e = form.experts;
  const auto name = [&](const char* part, const char* suffix) { return prefix + "ffn_" + part + suffix; };
  const bool joined = tensors.has(name("gate_up", "_exps.weight"));
  const std::int64_t up_rows = tensors.rows_of(name(joined ? "gate_up" : "up", "_exps.weight"));
  const std::int64_t n_ff = joined ? up_rows / 2 : up_rows;
  blocks::Moe m;
  m.router = tensors.linear(prefix + "ffn_gate_inp", s.n, n_embd);
  m.route = {.used = s.used,
             .weights = s.weights,
             .bias = tensors.find_vector(
                 prefix + (tensors.has(prefix + "exp_probs_b") ? "exp_probs_b" : "exp_probs_b.bias"), s.n),
             .norm = s.norm,
             .scale = s.scale,
             .groups = s.groups,
             .groups_used = s.groups_used};
  const std::int64_t n_in = latent_of(tensors, prefix, n_embd, eps, m);
  m.experts = {.up = tensors.stack(name(joined ? "gate_up" : "up", "_exps.weight"), s.n, up_rows, n_in),
               .up_bias = tensors.find_vectors(name(joined ? "gate_up" : "up", "_exps.bias"), s.n, up_rows),
               .joined = joined,
               .used = s.used,
               .fn = form.fn,
               .weigh = e.weigh_input,
               .limit = s.limit,
               .up_add = e.up_add,
               .limit_out = e.limits_of_layers && !e.limits_before_fn};
  if (!joined && form.gate != Form::Gate::None) {
    m.experts.gate = tensors.stack(name("gate", "_exps.weight"), s.n, n_ff, n_in);
    m.experts.gate_bias = tensors.find_vectors(name("gate", "_exps.bias"), s.n, n_ff);
    m.experts.gate_scale = tensors.factors(name("gate", "_exps"), s.n);
  }
  if (!joined) m.experts.up_scale = tensors.factors(name("up", "_exps"), s.n);
  m.down = tensors.stack(name("down", "_exps.weight"), s.n, n_in, n_ff);
  m.down_bias = tensors.find_vectors(name("down", "_exps.bias"), s.n, n_in);
  // By way of the routing weights.
  if (!e.weigh_input && !m.down_bias.valid()) m.out_scale = tensors.factors(name("down", "_exps"), s.n);
  if (e.second_scale > 0) second_mixture(tensors, e, s, prefix, form.fn, n_embd, m);
  if (e.dense == Experts::Dense::Added && tensors.has(prefix + "ffn_up.weight")) {
    m.shared = tensors.gated_ffn(prefix, tensors.rows_of(prefix + "ffn_up.weight"), n_embd, form.fn);
  } else if (tensors.has(prefix + "ffn_gate_inp_shexp.weight")) {
    gated_shared(tensors, prefix, form.fn, n_embd, m);
  } else if (s.shared || tensors.has(prefix + "ffn_up_shexp.weight")) {
    m.shared = shared_of(tensors, form, prefix, n_embd);
  }
  m.shared.limit = form.ffn_limit, m.shared.up_one = form.ffn_up_one;
  if (m.shared || m.shared_gate) m.sum_scale = e.sum_scale;
  return m;
}

std::int64_t dense_size(const Tensors& tensors, const Form& form, const std::string& prefix,
                        std::int64_t n_ff) {
  return form.experts.dense == Experts::Dense::Before ? tensors.rows_of(prefix + "ffn_up.weight") : n_ff;
}

}  // namespace gc::gguf
