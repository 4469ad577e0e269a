#include "codegen_cpu/backend.h"

#include "codegen_cpu/act_layout.h"
#include "codegen_cpu/glu_panels.h"
#include "codegen_cpu/kernels/elementwise/elementwise.h"
#include "codegen_cpu/kernels/head/two_streams.h"
#include "codegen_cpu/kernels/matmul/matmul.h"
#include "codegen_cpu/kv_layout.h"
#include "codegen_cpu/prompt_rows.h"
#include "codegen_cpu/roles.h"
#include "compiler/base/error.h"
#include "compiler/quant/layouts.h"
#include "compiler/quant/two_streams.h"

namespace gc::cpu {
namespace {

using ir::AttrName;
using ir::Elem;
using ir::Graph;
using ir::Op;
using ir::OpKind;

int64_t rows_of(const Graph& graph, const ir::WeightUse& use) {
  const int64_t end = use.row_end < 0 ? graph.weight(use.weight).shape[0] : use.row_end;
  return end - use.row_begin;
}

std::string can_multiply(const Graph& graph, const Op& op, const std::vector<ir::WeightUse>& rows) {
  const Elem input = graph.value(op.inputs[0]).type.elem;
  for (size_t i = 0; i < rows.size(); ++i) {
    const ir::Weight& w = graph.weight(rows[i].weight);
    if (!has_layout(w.format))
      return cat("tensors of type ", name(w.format), " ('", w.name, "') have no kernels yet");
    if (matmul_input(w.format) != input)
      return cat("'", w.name, "' of type ", name(w.format), " needs an input of ",
                 ir::name(matmul_input(w.format)), ", not ", ir::name(input),
                 "; pass quantize_activations makes it");
    if (i + 1 < rows.size() && rows_of(graph, rows[i]) % kPanelRows != 0)
      return cat("'", w.name, "' has ", rows_of(graph, rows[i]), " rows, no multiple of ", kPanelRows,
                 ", in front of another segment");
  }
  return "";
}

std::string can_glu(const Graph& graph, const Op& op) {
  const auto gate = op.slot("gate"), up = op.slot("up");
  if (gate.size() != 1 || up.size() != 1) return "gate or up of several segments";
  for (const auto& part : {gate, up})
    if (std::string missing = can_multiply(graph, op, part); !missing.empty()) return missing;
  const int64_t rows = rows_of(graph, gate[0]), unit = glu_unit(op.out());
  return rows % unit == 0 ? "" : cat(rows, " gate rows, no multiple of ", unit);
}

std::string can_heads(const Graph& graph, const Op& op) {
  if (std::string missing = can_multiply(graph, op, op.slot("matrices")); !missing.empty()) return missing;
  const ir::Weight& w = graph.weight(op.one("matrices")->weight);
  if (w.shape[1] % kPanelRows == 0) return "";
  return cat("'", w.name, "' has ", w.shape[1], " rows for each head, no multiple of ", kPanelRows);
}

// Experts' matrices are multiplied alone: each has whole panels, and its rows the input that its format wants.
std::string can_experts(const Graph& graph, const Op& op) {
  const bool in = op.kind == OpKind::experts_in;
  for (const char* slot : {in ? "gate" : "down", in ? "up" : "down"}) {
    if (!op.one(slot)) continue;
    if (std::string missing = can_multiply(graph, op, {*op.one(slot)}); !missing.empty()) return missing;
    const ir::Weight& w = graph.weight(op.one(slot)->weight);
    const int64_t unit = in ? glu_unit(op.out()) : kPanelRows;
    const int64_t rows = op.i64_or(AttrName::joined, 0) != 0 ? w.shape[1] / 2 : w.shape[1];
    if (rows % unit != 0) return cat("experts of ", rows, " rows ('", w.name, "'), no multiple of ", unit);
  }
  const Op& maker = graph.ops[graph.value(op.inputs[0]).def];
  if (!in && maker.kind != OpKind::experts_in)
    return cat("its input must come from experts_in, not ", ir::info(maker.kind).name,
               "; pass join_quantize sees to that");
  return "";
}

}  // namespace

bool multiplies_coarsely(const Isa& isa) { return prompt_way(isa) == PromptWay::Bytes; }

RouteSpec route_spec(const Graph& graph, const Op& op) {
  const bool chosen = op.i64_or(AttrName::chosen, 0) != 0;
  return {.experts = graph.value(op.inputs[0]).type.dims[1].size,
          .used = op.i64(AttrName::used),
          .bias = op.kind == OpKind::route && op.one("bias").has_value(),
          .fn = op.has(AttrName::fn) ? std::optional(op.fn()) : std::nullopt,
          .normed = chosen || op.i64_or(AttrName::norm, 0) != 0,
          .least = chosen ? 0 : 0x1p-14f,
          .by = static_cast<float>(op.f32_or(AttrName::by, 1)),
          .groups = op.i64_or(AttrName::groups, 1),
          .groups_used = op.i64_or(AttrName::groups_used, 1)};
}

ExpertsInSpec experts_in_spec(const Graph& graph, const Op& op) {
  ExpertsInSpec s{};
  const ir::Weight& up = graph.weight(op.one("up")->weight);
  s.experts = up.shape[0], s.n = up.shape[1], s.k = up.shape[2];
  s.used = op.i64(AttrName::used);
  s.input = graph.value(op.inputs[0]).type.elem;
  s.up = up.format;
  if (const auto gate = op.one("gate")) s.gate = graph.weight(gate->weight).format;
  s.joined = op.i64_or(AttrName::joined, 0) != 0;
  if (s.joined) s.n /= 2;
  s.gate_scale = op.one("gate_scale").has_value();
  s.up_scale = op.one("up_scale").has_value();
  s.gate_bias = s.joined ? op.one("up_bias").has_value() : op.one("gate_bias").has_value();
  s.up_bias = op.one("up_bias").has_value();
  s.weigh = op.i64_or(AttrName::weigh, 0) != 0;
  s.fn = op.fn();
  if (op.has(AttrName::limit)) s.limit = static_cast<float>(op.f32(AttrName::limit));
  s.limit_out = op.i64_or(AttrName::limit_out, 0) != 0;
  s.up_add = static_cast<float>(op.f32_or(AttrName::up_add, 0));
  s.gate_cap = static_cast<float>(op.f32_or(AttrName::gate_cap, 0));
  s.up_cap = static_cast<float>(op.f32_or(AttrName::up_cap, 0));
  s.out = op.out();
  return s;
}

ExpertsOutSpec experts_out_spec(const Graph& graph, const Op& op) {
  ExpertsOutSpec s{};
  const ir::Weight& down = graph.weight(op.one("down")->weight);
  const ir::Type& input = graph.value(op.inputs[0]).type;
  s.experts = down.shape[0], s.n = down.shape[1], s.k = down.shape[2];
  s.used = input.dims[1].size;
  s.input = input.elem;
  s.down = down.format;
  s.bias = op.one("bias").has_value();
  s.weigh = op.i64_or(AttrName::weigh, 0) != 0;
  return s;
}

namespace {
bool attends(OpKind kind) {
  return kind == OpKind::attn_block || kind == OpKind::attention || kind == OpKind::attention_again ||
         kind == OpKind::attention_sums || kind == OpKind::attention_chosen;
}
}  // namespace

AttnSpec attn_spec(const Graph& graph, const Op& op, int kv_type) {
  AttnSpec s;
  if (op.kind == OpKind::attn_block) {
    s.heads = op.i64(AttrName::heads);
    s.kv_heads = op.i64(AttrName::kv_heads);
    s.k_dim = op.i64(AttrName::head_dim);
    s.v_dim = op.i64(AttrName::v_dim);
  } else if (op.kind == OpKind::attention_again) {
    const ir::State& state = graph.state(op.state);
    s.heads = graph.value(op.inputs[0]).type.dims[1].size;
    s.kv_heads = state.heads, s.k_dim = state.k_dim, s.v_dim = state.v_dim;
  } else {  // [T, heads, dim] each
    auto dim = [&](int input, int i) { return graph.value(op.inputs[input]).type.dims[i].size; };
    s.heads = dim(0, 1);
    s.kv_heads = dim(1, 1);
    s.k_dim = dim(1, 2);
    s.v_dim = dim(2, 2);
  }
  s.window = op.i64(AttrName::window);
  s.scale = static_cast<float>(op.f32(AttrName::scale));
  s.cap = static_cast<float>(op.f32_or(AttrName::cap, 0));
  s.alibi = static_cast<float>(op.f32_or(AttrName::alibi, 0));
  s.ahead = op.i64_or(AttrName::ahead, 0) != 0;
  s.buckets = op.i64_or(AttrName::buckets, 0);
  s.sinks = op.one("sinks").has_value();
  if (op.kind == OpKind::attn_block) {
    s.q_norm = op.one("q_norm").has_value();
    s.k_norm = op.one("k_norm").has_value();
    s.eps = static_cast<float>(op.f32_or(AttrName::eps, 0));
    if (const auto fine = op.one("rope_fine"))
      s.rope = {op.i64(AttrName::rope_dims), op.i64(AttrName::rope_neox) != 0,
                graph.weight(fine->weight).table_rows()};
    s.out = op.out();
  }
  s.kv_type = kv_type;
  s.ring = graph.state(op.state).kind == ir::State::Kind::KvRing;
  s.sums = ir::gives_sums(op);
  if (op.kind == OpKind::attention_chosen) s.chosen = graph.value(op.inputs[3]).type.dims[1].size;
  if (graph.state(op.state).kind == ir::State::Kind::KvLatent) s.every = graph.state(op.state).window;
  return s;
}

ChooseSpec choose_spec(const Graph& graph, const Op& op, int kv_type) {
  const auto& dims = graph.value(op.inputs[0]).type.dims;  // [T, heads, dim]
  const ir::State& state = graph.state(op.state);
  return {dims[1].size, dims[2].size, op.i64(AttrName::used), kv_type,
          state.kind == ir::State::Kind::KvLatent ? state.window : 0};
}

ConvSpec conv_spec(const Graph& graph, const Op& op) {
  const ir::State& state = graph.state(op.state);
  ConvSpec s{.channels = state.v_dim, .kept = state.window, .bias = op.one("bias").has_value()};
  if (op.has(AttrName::fn)) s.fn = op.fn();
  s.dilation = op.i64_or(AttrName::dilation, 1);
  return s;
}

ShiftSpec shift_spec(const Graph& graph, const Op& op) {
  const auto mix = op.one("mix");
  return {.columns = graph.state(op.state).v_dim, .mixes = mix ? graph.weight(mix->weight).shape[0] : 0};
}

CompressSpec compress_spec(const Graph& graph, const Op& op) {
  return {.columns = graph.value(op.inputs[0]).type.dims[1].size,
          .every = op.i64(AttrName::every),
          .halves = op.i64_or(AttrName::overlap, 0) != 0 ? 2 : 1};
}

NgramSpec ngram_spec(const Graph& graph, const Op& op) {
  const ir::Weight& table = graph.weight(op.one("table")->weight);
  return {.format = table.format,
          .n = table.shape[1],
          .multipliers = op.list(AttrName::multipliers),
          .sizes = op.list(AttrName::sizes),
          .begins = op.list(AttrName::begins),
          .end_token = op.i64(AttrName::end_token)};
}

ScanSpec scan_spec(const Graph& graph, const Op& op) {
  const ir::State& state = graph.state(op.state);
  auto groups = [&](int input) { return graph.value(op.inputs[input]).type.dims[1].size; };
  ScanSpec s{.heads = state.heads, .keys = state.k_dim, .values = state.v_dim};
  if (op.kind == OpKind::ssm_scan) {
    s.kind = ScanSpec::Kind::Ssm;
    s.groups = groups(2);
    s.dt_bias = op.one("dt_bias").has_value();
    s.d = op.one("d").has_value();
    if (graph.weight(op.one("a")->weight).shape.size() == 1) return s;
    s.kind = ScanSpec::Kind::SsmStates;
    s.values = s.heads, s.heads = 1;
    return s;
  }
  if (op.kind == OpKind::wkv7) {
    s.kind = ScanSpec::Kind::Wkv7;
    s.groups = s.heads;
    return s;
  }
  s.scale = static_cast<float>(op.f32(AttrName::scale));
  if (op.kind == OpKind::wkv) {
    s.kind = ScanSpec::Kind::Wkv;
    s.groups = groups(1);
    s.bonus = op.one("bonus").has_value();
    s.leaky = op.i64_or(AttrName::leaky, 0) != 0;
    return s;
  }
  s.groups = groups(0);
  if (op.kind == OpKind::delta_rule) {
    s.kind = ScanSpec::Kind::Delta;
    s.in_turn = op.i64_or(AttrName::in_turn, 0) != 0;
    s.gate_of_keys = graph.value(op.inputs[3]).type.dims.size() == 3;
    return s;
  }
  s.kind = ScanSpec::Kind::Decay;
  s.alibi = op.f32(AttrName::alibi);
  s.by = op.f32(AttrName::by);
  return s;
}

std::uint32_t usual_kv_type(const Isa& isa, const Graph& graph) {
  for (const Op& op : graph.ops) {
    if (!attends(op.kind)) continue;
    if (attn_has_bf16(isa, attn_spec(graph, op, GC_KV_BF16))) return GC_KV_BF16;
  }
  return GC_KV_F16;
}

RopeKernelSpec rope_kernel_spec(const Graph& graph, const Op& op) {
  const auto& dims = graph.value(op.inputs[0]).type.dims;  // [T, heads, dim]
  return {dims[1].size,
          dims[2].size,
          {op.i64(AttrName::rope_dims), op.i64(AttrName::rope_neox) != 0,
           graph.weight(op.one("rope_fine")->weight).table_rows(), op.i64_or(AttrName::inverse, 0) != 0},
          op.i64_or(AttrName::back, 0)};
}

// An odd number of whole lines, so that lines of neighbouring rows, which products write together, lie in as many sets of the
// cache.
int64_t CpuBackend::stride_of(int64_t bytes) const { return 64 * ((bytes + 63) / 64 | 1); }

// Up to a whole number of kRowsAtOnce between prompt rows and generated ones.
int64_t CpuBackend::pad_rows() const { return isa_.roles_differ() ? kRowsAtOnce : 0; }

std::string CpuBackend::can(const Graph& graph, const Op& op) const {
  switch (op.kind) {
    case OpKind::matmul:
      return can_multiply(graph, op, op.slot("rows"));
    case OpKind::matmul_glu:
      return can_glu(graph, op);
    case OpKind::matmul_heads:
      return can_heads(graph, op);
    case OpKind::experts_in:
    case OpKind::experts_out:
      return can_experts(graph, op);
    case OpKind::route:
    case OpKind::route_by_token:
      return "";
    case OpKind::ngram_embed:
    case OpKind::embed:
    case OpKind::embed_position: {
      const ir::Weight& w = graph.weight(op.one("table")->weight);
      if (has_layout(w.format)) return "";
      return cat("tensors of type ", gc::name(w.format), " ('", w.name, "') have no kernels yet");
    }
    case OpKind::attn_block:
    case OpKind::attention:
    case OpKind::attention_again:
    case OpKind::attention_sums:
    case OpKind::attention_chosen:
      return attn_unsupported(attn_spec(graph, op, GC_KV_F16));
    case OpKind::temper:
      return op.i64(AttrName::period) < kTemperReach / kMaxTempers ? "temperatures of too short periods" : "";
    case OpKind::rope:
      return op.one("rope_fine") ? "" : "has no tables; pass fold_constants makes them";
    case OpKind::choose_positions:
      return choose_spec(graph, op, GC_KV_F16).k_dim % 2 == 0 ? "" : "index keys of an odd size";
    case OpKind::conv:
    case OpKind::compress:
    case OpKind::ssm_scan:
    case OpKind::delta_rule:
    case OpKind::decay_attention:
    case OpKind::token_shift:
    case OpKind::wkv:
    case OpKind::wkv7:
    case OpKind::rms_norm:
    case OpKind::layer_norm:
    case OpKind::concat:
    case OpKind::slice_heads:
    case OpKind::concat_heads:
    case OpKind::slice:
    case OpKind::heads:
    case OpKind::merge_heads:
    case OpKind::scale:
    case OpKind::weigh:
    case OpKind::shift:
    case OpKind::clamp:
    case OpKind::mul_heads:
    case OpKind::dot_heads:
    case OpKind::mix:
    case OpKind::rescale:
    case OpKind::add_heads:
    case OpKind::sinkhorn:
    case OpKind::sparsify:
    case OpKind::add:
    case OpKind::mul:
    case OpKind::act:
    case OpKind::softcap:
    case OpKind::select:
    case OpKind::quantize:
    case OpKind::glu:
    case OpKind::residual_norm:
      return "";
  }
  throw_internal("an op that the backend doesn't know");
}

int64_t CpuBackend::row_bytes(Elem elem, int64_t columns) const {
  switch (elem) {
    case Elem::F32:
    case Elem::I32:
      return stride_of(columns * 4);
    case Elem::F16:
    case Elem::BF16:
      return stride_of(columns * 2);
    case Elem::Q16:
      return stride_of(act_row_bytes(columns));
  }
  throw_internal("an element type that the backend doesn't know");
}

int64_t CpuBackend::panel_bytes(Format format, int64_t columns) const {
  return gc::panel_bytes(format, columns);
}

namespace {
// The head's logits go through scratch when its sink chooses. Products over the rows asked for: the head, and in the last
// layer others, for which it is too much.
bool may_be_head(const Graph& graph, const Op& op) {
  const auto& dims = graph.value(op.results[0]).type.dims;
  return op.kind == OpKind::matmul && !dims.empty() && dims[0].kind == ir::Dim::Kind::Outputs;
}
}  // namespace

bool CpuBackend::splits_head(Format format, int64_t rows, int64_t columns) const {
  switch (streams_) {
    case HeadStreams::Auto:
      return has_two_streams(format) && packed_bytes(format, rows, columns) >= kSplitHeadBytes;
    case HeadStreams::One:
      return false;
    case HeadStreams::Two:
      return has_two_streams(format);
  }
  throw_internal("head streams");
}

int64_t CpuBackend::worker_scratch(const Graph& graph, const Op& op) const {
  if (op.kind == OpKind::embed) {  // a panel put together
    const ir::Weight& w = graph.weight(op.one("table")->weight);
    return splits_head(w.format, w.shape[0], w.shape[1]) ? gc::panel_bytes(w.format, w.shape[1]) : 0;
  }
  if (may_be_head(graph, op)) {
    const ir::Weight& w = graph.weight(op.slot("rows")[0].weight);
    const bool split = splits_head(w.format, w.shape[0], w.shape[1]);
    const int64_t streams = split ? TwoStreamScratch(w.shape[1], panels_of(w.shape[0])).bytes : 0;
    return streams + 64 * kHeadPanelsFewRows * GC_REDUNDANT_ROWS;
  }
  if (op.kind == OpKind::matmul || op.kind == OpKind::matmul_glu) {
    const ir::Type& x = graph.value(op.inputs[0]).type;
    const int64_t joint = op.kind == OpKind::matmul_glu ? 2 * 4 * kGluColumnsFewRows * GC_REDUNDANT_ROWS : 0;
    const int64_t k = x.dims[1].size;
    const int64_t rounded = rounds_for_tiles(isa_, graph, op) ? kRowsAtOnce / kBlockRows * block_bytes(k) : 0;
    return joint + rounded + (prompt_way_of(isa_, graph, op) ? prompt_scratch_bytes(isa_, k) : 0);
  }
  if (op.kind == OpKind::experts_in) return experts_scratch_bytes(experts_in_spec(graph, op));
  if (op.kind == OpKind::experts_out) return experts_scratch_bytes(experts_out_spec(graph, op));
  int64_t bytes = 0;
  if (op.kind == OpKind::choose_positions) {
    for (int kv_type = 0; kv_type < int{GC_KV_TYPES}; ++kv_type)
      bytes = std::max(bytes, choose_scratch_bytes(choose_spec(graph, op, kv_type)));
    return bytes;
  }
  if (!attends(op.kind)) return 0;
  for (int kv_type = 0; kv_type < int{GC_KV_TYPES}; ++kv_type) {
    AttnSpec spec = attn_spec(graph, op, kv_type);
    bytes = std::max(bytes, attn_scratch_bytes(isa_, spec));
    spec.bf16 = attn_has_bf16(isa_, spec);
    if (spec.bf16) bytes = std::max(bytes, attn_scratch_bytes(isa_, spec));
    spec.bf16 = false;
    spec.ints = attn_has_ints(spec);
    if (spec.ints) bytes = std::max(bytes, attn_scratch_bytes(isa_, spec));
  }
  return bytes;
}

int64_t CpuBackend::worker_row_scratch(const Graph& graph, const Op& op) const {
  if (may_be_head(graph, op)) return 64 * kHeadPanelsManyRows;
  if (op.kind == OpKind::experts_in) return experts_row_scratch_bytes(experts_in_spec(graph, op));
  if (op.kind == OpKind::experts_out) return experts_row_scratch_bytes(experts_out_spec(graph, op));
  int64_t bytes = 0;
  if (rounds_for_tiles(isa_, graph, op))
    bytes = block_bytes(graph.value(op.inputs[0]).type.dims[1].size) / kBlockRows;
  if (op.kind != OpKind::matmul_glu) return bytes;
  const auto way = prompt_way_of(isa_, graph, op);
  const bool apart = way && !glu_joins_on_tiles(isa_, graph, op);
  return bytes + 2 * std::max(apart ? glu_stride(*way) : 0, 4 * kGluColumnsManyRows);
}

// A split is one range of one row, all its kv heads.
int64_t CpuBackend::split_bytes(const Graph& graph, const Op& op) const {
  if (!attends(op.kind)) return 0;
  const AttnSpec spec = attn_spec(graph, op, GC_KV_F32);
  return spec.kv_heads * attn_partial_bytes(spec);
}

int64_t CpuBackend::kv_block_bytes(const ir::State& state, int kv_type) const {
  return kv_state_bytes(state.heads, state.k_dim, state.v_dim, kv_type);
}

}  // namespace gc::cpu
