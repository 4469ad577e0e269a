#include "compiler/ir/builder.h"

#include <utility>

#include "compiler/base/error.h"
#include "compiler/ir/infer.h"
#include "compiler/ir/verify.h"

namespace gc::ir {

Builder::Builder(std::string graph_name) { graph_.name = std::move(graph_name); }

WeightId Builder::weight(std::string name, Format format, std::vector<int64_t> shape) {
  auto [at, is_new] = weights_.try_emplace(name, int32_t(graph_.weights.size()));
  if (is_new) {
    graph_.weights.push_back({.name = std::move(name), .format = format, .shape = std::move(shape)});
  } else {
    const Weight& w = graph_.weights[at->second];
    GC_CHECK(w.format == format && w.shape == shape, "weight '", name, "' is ", to_string(w.format, w.shape),
             " and ", to_string(format, shape));
  }
  return {at->second};
}

StateId Builder::state(State state) {
  auto [at, is_new] = states_.try_emplace(state.name, int32_t(graph_.states.size()));
  GC_CHECK(is_new, "state ", state.name, " is made twice");
  graph_.states.push_back(std::move(state));
  return {at->second};
}

std::vector<ValueId> Builder::emit(Op op, std::vector<std::string> names) {
  std::vector<Type> types;
  std::string error = infer(graph_, op, types);
  GC_CHECK(error.empty(), "value %", names.empty() ? "?" : names[0], ": ", error);
  GC_CHECK(types.size() == names.size(), info(op.kind).name, " has ", types.size(), " results, named are ",
           names.size());
  op.results.clear();
  for (size_t i = 0; i < types.size(); i++) {
    ValueId id{int32_t(graph_.values.size())};
    GC_CHECK(names_.try_emplace(names[i], id.index).second, "value name %", names[i], " is used twice");
    graph_.values.push_back({std::move(names[i]), std::move(types[i]), int32_t(graph_.ops.size())});
    op.results.push_back(id);
  }
  graph_.ops.push_back(std::move(op));
  return graph_.ops.back().results;
}

ValueId Builder::emit1(Op op, std::string name) { return emit(std::move(op), {std::move(name)})[0]; }

void Builder::use(Op& op, std::string_view slot, WeightId weight) const {
  if (weight.valid()) op.weights.push_back({slot_index(op.kind, slot), weight});
}

ValueId Builder::embed(WeightId table, std::string name) {
  Op op{OpKind::embed};
  use(op, "table", table);
  return emit1(op, name);
}

ValueId Builder::embed_position(WeightId table, std::string name) {
  Op op{OpKind::embed_position};
  use(op, "table", table);
  return emit1(op, name);
}

ValueId Builder::ngram_embed(const NgramArgs& args, StateId state, std::string name) {
  Op op{OpKind::ngram_embed};
  use(op, "table", args.table);
  op.set_list(AttrName::multipliers, args.multipliers);
  op.set_list(AttrName::sizes, args.sizes);
  op.set_list(AttrName::begins, args.begins);
  op.set_i64(AttrName::end_token, args.end_token);
  op.state = state;
  return emit1(op, name);
}

ValueId Builder::rms_norm(ValueId x, WeightId weight, double eps, std::string name) {
  Op op{OpKind::rms_norm, {x}};
  use(op, "weight", weight);
  op.set_f32(AttrName::eps, eps);
  return emit1(op, name);
}

ValueId Builder::layer_norm(ValueId x, WeightId weight, WeightId bias, double eps, std::string name) {
  Op op{OpKind::layer_norm, {x}};
  use(op, "weight", weight);
  use(op, "bias", bias);
  op.set_f32(AttrName::eps, eps);
  return emit1(op, name);
}

ValueId Builder::matmul(ValueId x, WeightId rows, std::string name) {
  return matmul(x, {WeightUse{0, rows}}, {}, std::move(name));
}

ValueId Builder::matmul(ValueId x, WeightId rows, WeightId bias, std::string name) {
  return matmul(x, {WeightUse{0, rows}}, {bias}, std::move(name));
}

ValueId Builder::matmul(ValueId x, std::vector<WeightUse> rows, std::vector<WeightId> biases,
                        std::string name) {
  Op op{OpKind::matmul, {x}};
  for (WeightUse& use : rows) use.slot = slot_index(op.kind, "rows");
  op.weights = std::move(rows);
  bool any = false;
  for (WeightId bias : biases) any |= bias.valid();
  if (any)
    for (WeightId bias : biases) op.weights.push_back({slot_index(op.kind, "bias"), bias});
  return emit1(op, name);
}

ValueId Builder::route(ValueId logits, const RouteArgs& args, std::string name) {
  const bool by_token = args.of_token.valid();
  GC_CHECK(!by_token || (!args.bias.valid() && args.groups == 1 &&
                         args.weights != RouteArgs::Weights::SoftmaxOfChosen),
           "a choice by token has no scores");
  Op op{by_token ? OpKind::route_by_token : OpKind::route, {logits}};
  use(op, by_token ? "table" : "bias", by_token ? args.of_token : args.bias);
  op.set_i64(AttrName::used, args.used);
  if (args.weights == RouteArgs::Weights::Sigmoid) op.set_i64(AttrName::fn, int64_t(Fn::sigmoid));
  if (args.weights == RouteArgs::Weights::RootSoftplus) op.set_i64(AttrName::fn, int64_t(Fn::root_softplus));
  if (args.weights == RouteArgs::Weights::SoftmaxOfChosen) op.set_i64(AttrName::chosen, 1);
  if (args.norm) op.set_i64(AttrName::norm, 1);
  if (args.scale != 1) op.set_f32(AttrName::by, args.scale);
  if (args.groups > 1) {
    op.set_i64(AttrName::groups, args.groups);
    op.set_i64(AttrName::groups_used, args.groups_used);
  }
  return emit1(op, name);
}

ValueId Builder::experts_in(ValueId x, ValueId routing, const ExpertsArgs& args, std::string name) {
  Op op{OpKind::experts_in, {x, routing}};
  use(op, "gate", args.gate);
  use(op, "up", args.up);
  use(op, "gate_scale", args.gate_scale);
  use(op, "up_scale", args.up_scale);
  use(op, "gate_bias", args.gate_bias);
  use(op, "up_bias", args.up_bias);
  op.set_i64(AttrName::used, args.used);
  op.set_i64(AttrName::fn, int64_t(args.fn));
  if (args.joined) op.set_i64(AttrName::joined, 1);
  if (args.weigh) op.set_i64(AttrName::weigh, 1);
  if (args.limit != 0) op.set_f32(AttrName::limit, args.limit);
  if (args.limit != 0 && args.limit_out) op.set_i64(AttrName::limit_out, 1);
  if (args.up_add != 0) op.set_f32(AttrName::up_add, args.up_add);
  if (args.gate_cap != 0) op.set_f32(AttrName::gate_cap, args.gate_cap);
  if (args.up_cap != 0) op.set_f32(AttrName::up_cap, args.up_cap);
  return emit1(op, name);
}

ValueId Builder::experts_out(ValueId x, ValueId routing, WeightId down, WeightId bias, bool weigh,
                             std::string name) {
  Op op{OpKind::experts_out, {x, routing}};
  use(op, "down", down);
  use(op, "bias", bias);
  if (weigh) op.set_i64(AttrName::weigh, 1);
  return emit1(op, name);
}

ValueId Builder::slice(ValueId x, int64_t begin, int64_t size, std::string name) {
  Op op{OpKind::slice, {x}};
  op.set_i64(AttrName::begin, begin);
  op.set_i64(AttrName::size, size);
  return emit1(op, name);
}

ValueId Builder::heads(ValueId x, int64_t heads, std::string name) {
  Op op{OpKind::heads, {x}};
  op.set_i64(AttrName::heads, heads);
  return emit1(op, name);
}

ValueId Builder::merge_heads(ValueId x, std::string name) { return emit1({OpKind::merge_heads, {x}}, name); }

ValueId Builder::rope(ValueId x, const RopeArgs& args, std::string name) {
  Op op{OpKind::rope, {x}};
  use(op, "factors", args.factors);
  use(op, "long_factors", args.long_factors);
  op.set_f32(AttrName::rope_base, args.base);
  op.set_f32(AttrName::rope_scale, args.scale);
  op.set_i64(AttrName::rope_dims, args.dims);
  op.set_i64(AttrName::rope_neox, args.neox);
  if (args.high >= 0) op.set_f32(AttrName::rope_low, args.low), op.set_f32(AttrName::rope_high, args.high);
  if (args.magnitude != 1) op.set_f32(AttrName::rope_magnitude, args.magnitude);
  if (args.limit > 0) op.set_i64(AttrName::rope_limit, args.limit);
  if (args.long_factors.valid()) op.set_i64(AttrName::rope_short, args.short_context);
  if (args.inverse) op.set_i64(AttrName::inverse, 1);
  if (args.back > 0) op.set_i64(AttrName::back, args.back);
  return emit1(op, name);
}

ValueId Builder::scale(ValueId x, double by, std::string name) {
  Op op{OpKind::scale, {x}};
  op.set_f32(AttrName::by, by);
  return emit1(op, name);
}

ValueId Builder::weigh(ValueId x, WeightId weight, std::string name) {
  Op op{OpKind::weigh, {x}};
  use(op, "weight", weight);
  return emit1(op, name);
}

ValueId Builder::weigh_inverse(ValueId x, WeightId weight, std::string name) {
  Op op{OpKind::weigh, {x}};
  use(op, "weight", weight);
  op.set_i64(AttrName::inverse, 1);
  return emit1(op, name);
}

ValueId Builder::shift(ValueId x, WeightId weight, std::string name) {
  Op op{OpKind::shift, {x}};
  use(op, "weight", weight);
  return emit1(op, name);
}

ValueId Builder::clamp(ValueId x, double limit, std::string name) {
  Op op{OpKind::clamp, {x}};
  op.set_f32(AttrName::limit, limit);
  return emit1(op, name);
}

ValueId Builder::clamp_above(ValueId x, double limit, std::string name) {
  Op op{OpKind::clamp, {x}};
  op.set_f32(AttrName::limit, limit);
  op.set_i64(AttrName::upper, 1);
  return emit1(op, name);
}

ValueId Builder::temper(ValueId x, double by, int64_t period, int64_t offset, std::string name) {
  Op op{OpKind::temper, {x}};
  op.set_f32(AttrName::by, by);
  op.set_i64(AttrName::period, period);
  if (offset != 0) op.set_i64(AttrName::offset, offset);
  return emit1(op, name);
}

ValueId Builder::add(ValueId a, ValueId b, std::string name) { return emit1({OpKind::add, {a, b}}, name); }
ValueId Builder::mul(ValueId a, ValueId b, std::string name) { return emit1({OpKind::mul, {a, b}}, name); }

ValueId Builder::mul_heads(ValueId x, ValueId by, std::string name) {
  return emit1({OpKind::mul_heads, {x, by}}, name);
}

ValueId Builder::dot_heads(ValueId a, ValueId b, std::string name) {
  return emit1({OpKind::dot_heads, {a, b}}, name);
}

ValueId Builder::act(ValueId x, Fn fn, std::string name) {
  Op op{OpKind::act, {x}};
  op.set_i64(AttrName::fn, int64_t(fn));
  return emit1(op, name);
}

ValueId Builder::softcap(ValueId x, double cap, std::string name) {
  Op op{OpKind::softcap, {x}};
  op.set_f32(AttrName::cap, cap);
  return emit1(op, name);
}

ValueId Builder::attention(ValueId q, ValueId k, ValueId v, StateId state, const AttentionArgs& args,
                           std::string name) {
  Op op{OpKind::attention, {q, k, v}};
  op.state = state;
  use(op, "sinks", args.sinks);
  use(op, "bias", args.bias);
  op.set_i64(AttrName::window, args.window);
  op.set_f32(AttrName::scale, args.scale);
  if (args.buckets != 0) op.set_i64(AttrName::buckets, args.buckets);
  if (args.cap != 0) op.set_f32(AttrName::cap, args.cap);
  if (args.alibi != 0) op.set_f32(AttrName::alibi, args.alibi);
  if (args.ahead) op.set_i64(AttrName::ahead, 1);
  if (args.reach > 0) op.set_i64(AttrName::reach, args.reach);
  return emit1(op, name);
}

ValueId Builder::attention_sums(ValueId q, ValueId k, ValueId v, StateId state, const AttentionArgs& args,
                                std::string name) {
  GC_CHECK(args.alibi == 0 && !args.ahead && args.buckets == 0 && args.cap == 0 && args.reach == 0,
           "attention_sums is of plain scores");
  Op op{OpKind::attention_sums, {q, k, v}};
  op.state = state;
  use(op, "sinks", args.sinks);
  op.set_i64(AttrName::window, args.window);
  op.set_f32(AttrName::scale, args.scale);
  return emit1(op, name);
}

ValueId Builder::choose_positions(ValueId q, ValueId k, ValueId weights, StateId state, int64_t used,
                                  std::string name) {
  Op op{OpKind::choose_positions, {q, k, weights}};
  op.state = state;
  op.set_i64(AttrName::used, used);
  return emit1(op, name);
}

ValueId Builder::attention_chosen(ValueId q, ValueId k, ValueId v, ValueId positions, StateId state,
                                  const AttentionArgs& args, bool sums, std::string name) {
  GC_CHECK(args.alibi == 0 && !args.ahead && args.buckets == 0 && args.cap == 0 && args.reach == 0,
           "attention_chosen is of plain scores");
  Op op{OpKind::attention_chosen, {q, k, v, positions}};
  if (sums) op.set_i64(AttrName::sums, 1);
  op.state = state;
  use(op, "sinks", args.sinks);
  op.set_i64(AttrName::window, args.window);
  op.set_f32(AttrName::scale, args.scale);
  return emit1(op, name);
}

ValueId Builder::attention_again(ValueId q, StateId state, const AttentionArgs& args, std::string name) {
  GC_CHECK(args.alibi == 0 && !args.ahead && args.buckets == 0,
           "attention_again has neither biases nor sees ahead");
  Op op{OpKind::attention_again, {q}};
  op.state = state;
  use(op, "sinks", args.sinks);
  op.set_i64(AttrName::window, args.window);
  op.set_f32(AttrName::scale, args.scale);
  if (args.cap != 0) op.set_f32(AttrName::cap, args.cap);
  return emit1(op, name);
}

ValueId Builder::mix(ValueId x, ValueId factors, double plus, std::string name) {
  Op op{OpKind::mix, {x, factors}};
  if (plus != 0) op.set_f32(AttrName::plus, plus);
  return emit1(op, name);
}

ValueId Builder::rescale(ValueId like, ValueId x, std::string name) {
  return emit1({OpKind::rescale, {like, x}}, name);
}

ValueId Builder::add_heads(ValueId x, ValueId y, int64_t begin, std::string name) {
  Op op{OpKind::add_heads, {x, y}};
  op.set_i64(AttrName::begin, begin);
  return emit1(op, name);
}

ValueId Builder::sinkhorn(ValueId x, int64_t heads, double eps, int64_t rounds, std::string name) {
  Op op{OpKind::sinkhorn, {x}};
  op.set_i64(AttrName::heads, heads);
  op.set_f32(AttrName::eps, eps);
  op.set_i64(AttrName::rounds, rounds);
  return emit1(op, name);
}

ValueId Builder::sparsify(ValueId x, double by, std::string name) {
  Op op{OpKind::sparsify, {x}};
  op.set_f32(AttrName::by, by);
  return emit1(op, name);
}

ValueId Builder::conv(ValueId x, WeightId taps, WeightId bias, std::optional<Fn> fn, StateId state,
                      std::string name, int64_t dilation) {
  Op op{OpKind::conv, {x}};
  if (dilation != 1) op.set_i64(AttrName::dilation, dilation);
  use(op, "taps", taps);
  use(op, "bias", bias);
  if (fn) op.set_i64(AttrName::fn, int64_t(*fn));
  op.state = state;
  return emit1(op, name);
}

ValueId Builder::compress(ValueId x, ValueId scores, const CompressArgs& args, StateId state,
                          std::string name) {
  Op op{OpKind::compress, {x, scores}};
  use(op, "ape", args.ape);
  op.set_i64(AttrName::every, args.every);
  if (args.overlap) op.set_i64(AttrName::overlap, 1);
  op.state = state;
  return emit1(op, name);
}

ValueId Builder::ssm_scan(const SsmArgs& args, StateId state, std::string name) {
  Op op{OpKind::ssm_scan, {args.x, args.dt, args.b, args.c}};
  use(op, "a", args.a);
  use(op, "dt_bias", args.dt_bias);
  use(op, "d", args.d);
  op.state = state;
  return emit1(op, name);
}

ValueId Builder::delta_rule(const DeltaArgs& args, StateId state, std::string name) {
  Op op{OpKind::delta_rule, {args.q, args.k, args.v, args.gate, args.beta}};
  op.set_f32(AttrName::scale, args.scale);
  if (args.in_turn) op.set_i64(AttrName::in_turn, 1);
  op.state = state;
  return emit1(op, name);
}

ValueId Builder::decay_attention(ValueId q, ValueId k, ValueId v, const DecayArgs& args, StateId state,
                                 std::string name) {
  Op op{OpKind::decay_attention, {q, k, v}};
  op.set_f32(AttrName::scale, args.scale);
  op.set_f32(AttrName::alibi, args.alibi);
  op.set_f32(AttrName::by, args.by);
  op.state = state;
  return emit1(op, name);
}

ValueId Builder::token_shift(ValueId x, WeightId mix, StateId state, std::string name) {
  Op op{OpKind::token_shift, {x}};
  use(op, "mix", mix);
  op.state = state;
  return emit1(op, name);
}

ValueId Builder::wkv(const WkvArgs& args, StateId state, std::string name) {
  Op op{OpKind::wkv, {args.q, args.k, args.v, args.gate}};
  use(op, "bonus", args.bonus);
  op.set_f32(AttrName::scale, args.scale);
  if (args.leaky) op.set_i64(AttrName::leaky, 1);
  op.state = state;
  return emit1(op, name);
}

ValueId Builder::wkv7(const Wkv7Args& args, StateId state, std::string name) {
  Op op{OpKind::wkv7, {args.q, args.k, args.v, args.gate, args.a, args.b}};
  op.state = state;
  return emit1(op, name);
}

ValueId Builder::concat(ValueId a, ValueId b, std::string name) {
  return emit1({OpKind::concat, {a, b}}, name);
}

ValueId Builder::matmul_heads(ValueId x, WeightId matrices, std::string name) {
  Op op{OpKind::matmul_heads, {x}};
  use(op, "matrices", matrices);
  return emit1(op, name);
}

ValueId Builder::slice_heads(ValueId x, int64_t begin, int64_t size, std::string name) {
  Op op{OpKind::slice_heads, {x}};
  op.set_i64(AttrName::begin, begin);
  op.set_i64(AttrName::size, size);
  return emit1(op, name);
}

ValueId Builder::concat_heads(ValueId a, ValueId b, int64_t heads, std::string name) {
  Op op{OpKind::concat_heads, {a, b}};
  op.set_i64(AttrName::heads, heads);
  return emit1(op, name);
}

ValueId Builder::select(ValueId x, std::string name) { return emit1({OpKind::select, {x}}, name); }

void Builder::begin_layer(ValueId residual) {
  GC_CHECK(!ended_, "a layer after end_layers");
  graph_.layer_begin.push_back(int32_t(graph_.ops.size()));
  graph_.layer_input.push_back(residual);
}

void Builder::end_layers(ValueId residual) {
  begin_layer(residual);
  ended_ = true;
}

void Builder::output(ValueId value) { graph_.outputs.push_back(value); }

void Builder::embedding(ValueId value) {
  output(value);
  graph_.encoder = true;
}

Graph Builder::take() {
  GC_CHECK(ended_ || graph_.layer_begin.empty(), "end_layers is missing");
  verify(graph_);
  Graph g = std::move(graph_);
  *this = Builder("");
  return g;
}

}  // namespace gc::ir
