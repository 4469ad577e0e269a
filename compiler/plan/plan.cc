#include "compiler/plan/plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "compiler/base/error.h"
#include "compiler/plan/lifetime.h"

namespace gc::plan {
namespace {

using ir::Dim;
using ir::Elem;
using ir::Op;
using ir::OpKind;
using ir::ValueId;

constexpr int64_t kAlign = 64;  // bytes: a cache line, and the widest vector
constexpr int64_t kPanelRows = 16;

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

Split split_of(OpKind kind) {
  switch (kind) {
    case OpKind::slice:
    case OpKind::heads:
    case OpKind::merge_heads:
      return Split::View;
    case OpKind::matmul:
    case OpKind::matmul_glu:
    case OpKind::matmul_heads:
    case OpKind::experts_out:
      return Split::Panels;
    case OpKind::experts_in:
      return Split::Experts;
    case OpKind::attention:
    case OpKind::attention_again:
    case OpKind::attention_sums:
    case OpKind::attention_chosen:
    case OpKind::choose_positions:
    case OpKind::attn_block:
      return Split::Units;
    case OpKind::conv:
    case OpKind::compress:
    case OpKind::ngram_embed:
    case OpKind::ssm_scan:
    case OpKind::delta_rule:
    case OpKind::decay_attention:
    case OpKind::token_shift:
    case OpKind::wkv:
    case OpKind::wkv7:
      return Split::Channels;
    case OpKind::embed:
    case OpKind::embed_position:
    case OpKind::weigh:
    case OpKind::shift:
    case OpKind::clamp:
    case OpKind::temper:
    case OpKind::mul_heads:
    case OpKind::dot_heads:
    case OpKind::mix:
    case OpKind::rescale:
    case OpKind::add_heads:
    case OpKind::sinkhorn:
    case OpKind::sparsify:
    case OpKind::rms_norm:
    case OpKind::layer_norm:
    case OpKind::rope:
    case OpKind::scale:
    case OpKind::add:
    case OpKind::mul:
    case OpKind::act:
    case OpKind::softcap:
    case OpKind::concat:
    case OpKind::slice_heads:
    case OpKind::concat_heads:
    case OpKind::select:
    case OpKind::quantize:
    case OpKind::glu:
    case OpKind::residual_norm:
    case OpKind::route:
    case OpKind::route_by_token:
      return Split::Rows;
  }
  throw_internal("an op without a split");
}

bool over_outputs(const ir::Type& type) {
  return !type.dims.empty() && type.dims[0].kind == Dim::Kind::Outputs;
}

int64_t columns(const ir::Type& type) {
  int64_t n = 1;
  for (size_t i = 1; i < type.dims.size(); ++i) n *= type.dims[i].size;
  return n;
}

// Elements that a row takes in memory: a joined matrix gives whole panels, its last one padded.
int64_t stored_columns(const Op& op, const ir::Type& type) {
  const int64_t n = columns(type);
  return split_of(op.kind) == Split::Panels && type.elem == Elem::F32 ? round_up(n, kPanelRows) : n;
}

class Planner {
 public:
  Planner(ir::Graph graph, const Backend& backend) : backend_(backend) { plan_.graph = std::move(graph); }

  Plan run() {
    check_supported();
    lay_out_states();
    make_steps();
    place_meets();
    place_values();
    place_weights();
    return std::move(plan_);
  }

 private:
  ir::Graph& graph() { return plan_.graph; }

  void check_supported() {
    for (const Op& op : graph().ops) {
      const std::string missing = backend_.can(graph(), op);
      if (missing.empty()) continue;
      const std::string value = op.results.empty() ? "" : graph().value(op.results[0]).name;
      throw_unsupported(ir::info(op.kind).name, " of '", value, "' on ", backend_.name(), ": ", missing);
    }
    for (const ir::State& state : graph().states)
      if (state.kind == ir::State::Kind::Encoder)
        throw_unsupported("state '", state.name, "' of kind ", ir::name(state.kind), " has no kernels");
  }

  static uint32_t group_kind(ir::State::Kind kind) {
    switch (kind) {
      case ir::State::Kind::KvFull:
        return GC_STATE_KV_FULL;
      case ir::State::Kind::KvRing:
        return GC_STATE_KV_RING;
      case ir::State::Kind::KvLatent:
        return GC_STATE_KV_LATENT;
      case ir::State::Kind::Conv:
        return GC_STATE_CONV;
      case ir::State::Kind::Ssm:
        return GC_STATE_SSM;
      case ir::State::Kind::Encoder:
        return GC_STATE_ENCODER;
    }
    throw_internal("a state without a group");
  }

  // States of one kind and window share block tables, or slots of sequences: a block or slot holds all their layers.
  void lay_out_states() {
    std::map<std::pair<uint32_t, int64_t>, int32_t> group_of;
    for (const ir::State& state : graph().states) {
      const uint32_t kind = group_kind(state.kind);
      const bool by_window = kind == GC_STATE_KV_RING || kind == GC_STATE_KV_LATENT;
      const int64_t window = by_window ? state.window : 0;
      auto [it, fresh] = group_of.try_emplace({kind, window}, static_cast<int32_t>(plan_.groups.size()));
      if (fresh) plan_.groups.push_back({kind, window, {}});
      if (plan_.groups.size() > GC_MAX_GROUPS)
        throw_unsupported("more than ", GC_MAX_GROUPS, " kinds of KV cache in one model");
      GroupPlan& group = plan_.groups[it->second];
      StatePlan at;
      at.group = it->second;
      if (state.is_recurrent()) {
        std::fill(std::begin(at.offset), std::end(at.offset), group.seq_bytes);
        group.seq_bytes += round_up(4 * state.recurrent_size(), kAlign);
        plan_.states.push_back(at);
        continue;
      }
      for (int type = 0; type < static_cast<int>(GC_KV_TYPES); ++type) {
        at.offset[type] = group.block_bytes[type];
        group.block_bytes[type] += round_up(backend_.kv_block_bytes(state, type), kAlign);
      }
      plan_.states.push_back(at);
    }
  }

  void make_steps() {
    const int n_layer = plan_.n_layer();
    plan_.section.assign(n_layer + 3, 0);
    int part = 0;  // 0: embedding, 1 + i: layer i, 1 + n: head
    for (int32_t i = 0; i < static_cast<int32_t>(graph().ops.size()); ++i) {
      while (part <= n_layer && i >= graph().layer_begin[part]) plan_.section[++part] = plan_.steps.size();
      const Op& op = graph().ops[i];
      if (op.state.valid() && op.kind != OpKind::attention_again && part >= 1 && part <= n_layer)
        plan_.states[op.state.index].layer = part - 1;
      Step step{i, split_of(op.kind), over_outputs(graph().value(op.results[0]).type), Meet::None};
      if (step.split == Split::View) continue;
      if (op.kind == OpKind::softcap && writer_split(op.inputs[0]) == Split::Panels &&
          readers(op.inputs[0]) == 1)
        step.split = Split::Columns;  // in place of its operand
      plan_.steps.push_back(step);
    }
    while (part < n_layer + 2) plan_.section[++part] = plan_.steps.size();
  }

  int readers(ValueId id) const {
    int n = 0;
    for (const Op& op : plan_.graph.ops)
      n += static_cast<int>(std::count(op.inputs.begin(), op.inputs.end(), id));
    return n;
  }

  // The op that stores a value, through views.
  int32_t writer(ValueId id) const {
    int32_t op = plan_.graph.value(id).def;
    while (split_of(plan_.graph.ops[op].kind) == Split::View)
      op = plan_.graph.value(plan_.graph.ops[op].inputs[0]).def;
    return op;
  }
  Split writer_split(ValueId id) const { return split_of(plan_.graph.ops[writer(id)].kind); }

  static Meet needed(const Step& write, const Step& read) {
    switch (write.split) {
      case Split::View:
        return Meet::None;
      case Split::Rows:
        if (read.split == Split::Rows && read.outputs == write.outputs) return Meet::None;
        return write.outputs ? Meet::IfOutputsShared : Meet::IfShared;
      case Split::Panels:
      case Split::Columns:
        return read.split == Split::Columns ? Meet::None : Meet::Always;
      case Split::Units:
      case Split::Channels:
      case Split::Experts:
        return Meet::Always;
    }
    throw_internal("a split without a rule");
  }

  // last[m]: the step before which the workers last met under a condition that holds whenever m's does.
  void place_meets() {
    std::vector<int32_t> step_of(graph().ops.size(), -1);
    for (size_t i = 0; i < plan_.steps.size(); ++i) step_of[plan_.steps[i].op] = static_cast<int32_t>(i);
    int32_t last[4] = {-1, -1, -1, -1};
    for (int32_t i = 0; i < static_cast<int32_t>(plan_.steps.size()); ++i) {
      Step& step = plan_.steps[i];
      for (ValueId input : graph().ops[step.op].inputs) {
        const int32_t at = step_of[writer(input)];
        const Meet meet = needed(plan_.steps[at], step);
        if (meet != Meet::None && last[static_cast<int>(meet)] <= at)
          step.before = std::max(step.before, meet);
      }
      // A meet of all counts for every condition; one for shared rows also for shared outputs (R <= T).
      if (step.before == Meet::Always) last[1] = last[2] = last[3] = i;
      if (step.before == Meet::IfShared) last[1] = last[2] = i;
      if (step.before == Meet::IfOutputsShared) last[2] = i;
    }
  }

  Buffer::Place place_of(const Step& step, ValueId value) const {
    const auto& outputs = plan_.graph.outputs;
    const bool rows_wise = step.split == Split::Rows;
    if (std::find(outputs.begin(), outputs.end(), value) != outputs.end()) return Buffer::Place::Sink;
    if (step.outputs) return rows_wise ? Buffer::Place::OutPrep : Buffer::Place::Outputs;
    return rows_wise ? Buffer::Place::Prep : Buffer::Place::Rows;
  }

  void place_values() {
    const Lifetimes lifetimes = find_lifetimes(plan_);
    plan_.buffers.assign(graph().values.size(), {});
    PhaseAllocator parts[5];
    for (const Step& step : plan_.steps) {
      const Op& op = graph().ops[step.op];
      for (ValueId result : op.results) {
        Buffer& buffer = plan_.buffers[result.index];
        if (step.split == Split::Columns) {  // in place; the logits themselves when it is the last
          buffer = plan_.buffers[op.inputs[0].index];
          continue;
        }
        const ir::Type& type = graph().value(result).type;
        buffer.place = feeds_sink(result) ? Buffer::Place::Sink : place_of(step, result);
        if (buffer.place == Buffer::Place::Sink) continue;  // address and stride are the caller's
        buffer.stride = row_stride(step, op, type);
        const auto& life = lifetimes.of(result);
        if (const ValueId from = in_place_input(step, op, result, lifetimes); from.valid()) {
          buffer = plan_.buffers[from.index];
          parts[static_cast<int>(buffer.place)].extend(buffer.offset, life.last);
          continue;
        }
        buffer.offset = parts[static_cast<int>(buffer.place)].take(buffer.stride, life.first, life.last);
      }
      place_views(step);
      note_scratch(op);
    }
    finish_arena(parts);
  }

  // The results of experts, and quantized heads, are rows of their own within the token's.
  int64_t row_stride(const Step& step, const Op& op, const ir::Type& type) const {
    const bool apart = type.dims.size() == 3 && (step.split == Split::Experts || type.elem == Elem::Q16);
    if (apart) return type.dims[1].size * backend_.row_bytes(type.elem, type.dims[2].size);
    return backend_.row_bytes(type.elem, stored_columns(op, type));
  }

  // A value that only a chain of in-place Columns ops leads from to the sink.
  bool feeds_sink(ValueId value) const {
    const auto& outputs = plan_.graph.outputs;
    for (;;) {
      if (std::find(outputs.begin(), outputs.end(), value) != outputs.end()) return true;
      ValueId next;
      for (const Step& step : plan_.steps)
        if (step.split == Split::Columns && plan_.graph.ops[step.op].inputs[0] == value)
          next = plan_.graph.ops[step.op].results[0];
      if (!next.valid()) return false;
      value = next;
    }
  }

  // The residual stream keeps its place: y0 of residual_norm takes x0's when x0 isn't read again.
  ValueId in_place_input(const Step& step, const Op& op, ValueId result, const Lifetimes& lifetimes) const {
    const bool can = op.kind == OpKind::residual_norm || op.kind == OpKind::add;
    if (!can || result != op.results[0]) return {};
    const ValueId input = op.inputs[0];
    const Buffer& from = plan_.buffers[input.index];
    const bool same = from.place == place_of(step, result) && from.shift == 0 &&
                      from.stride == backend_.row_bytes(Elem::F32, columns(plan_.graph.value(result).type));
    return same && lifetimes.last_reader(input) == step.op ? input : ValueId{};
  }

  // Views of what the step stored, and views of those.
  void place_views(const Step& step) {
    for (int32_t i = step.op + 1; i < static_cast<int32_t>(graph().ops.size()); ++i) {
      const Op& op = graph().ops[i];
      if (split_of(op.kind) != Split::View) continue;
      if (writer(op.inputs[0]) != step.op) continue;
      Buffer buffer = plan_.buffers[op.inputs[0].index];
      if (op.kind == OpKind::slice) buffer.shift += op.i64(ir::AttrName::begin) * 4;
      plan_.buffers[op.results[0].index] = buffer;
    }
  }

  void note_scratch(const Op& op) {
    gc_arena& arena = plan_.arena;
    arena.per_worker =
        std::max<uint64_t>(arena.per_worker, round_up(backend_.worker_scratch(graph(), op), kAlign));
    arena.per_worker_row =
        std::max<uint64_t>(arena.per_worker_row, round_up(backend_.worker_row_scratch(graph(), op), kAlign));
    arena.per_split =
        std::max<uint64_t>(arena.per_split, round_up(backend_.split_bytes(graph(), op), kAlign));
  }

  // Shared Prep values lie behind the Rows values; a worker's own part begins with Prep and OutPrep values.
  void finish_arena(const PhaseAllocator* parts) {
    auto size = [&](Buffer::Place place) { return parts[static_cast<int>(place)].size(); };
    const int64_t rows = size(Buffer::Place::Rows), outputs = size(Buffer::Place::Outputs);
    plan_.prep_bytes = size(Buffer::Place::Prep);
    plan_.out_prep_bytes = size(Buffer::Place::OutPrep);
    plan_.arena.fixed = kAlign;  // two words of the abort flag
    plan_.arena.per_row = rows + plan_.prep_bytes;
    plan_.arena.per_output = outputs + plan_.out_prep_bytes;
    plan_.arena.pad_rows = backend_.pad_rows();
    plan_.scratch_at = plan_.prep_bytes * plan_.own_rows() + plan_.out_prep_bytes * GC_REDUNDANT_ROWS;
    plan_.arena.per_worker += plan_.scratch_at;
  }

  // In order of execution, so that a token reads one stream. An embedding table that is also the head lies at the
  // head, which reads it whole.
  void place_weights() {
    split_head_ = find_split_head();
    for (const bool tables : {false, true})
      for (const Op& op : graph().ops)
        if (ir::looks_up(op.kind) == tables)
          for (const ir::WeightUse& use : op.weights) place_weight(op, use);
    for (const ir::Weight& weight : graph().weights)
      if (weight.source == ir::Weight::Source::RopeCoarse) {
        limit_positions(weight.table_rows() * weight.rope.fine);
        const int64_t most = weight.rope.short_context;
        GC_CHECK(most == 0 || plan_.short_context == 0 || most == plan_.short_context,
                 "two lengths of short contexts: ", most, " and ", plan_.short_context);
        if (most > 0) plan_.short_context = most;
      }
    for (const Op& op : graph().ops)
      if (op.has(ir::AttrName::reach)) limit_positions(op.i64(ir::AttrName::reach));
    for (const Op& op : graph().ops)
      if (op.kind == OpKind::embed_position)
        limit_positions(graph().weight(op.one("table")->weight).shape[0]);
    if (plan_.max_position == 0) plan_.max_position = std::numeric_limits<int32_t>::max();
  }

  void limit_positions(int64_t reach) {
    plan_.max_position = plan_.max_position == 0 ? reach : std::min(plan_.max_position, reach);
  }

  // The head, if it alone makes the outputs, of one whole matrix that nothing but embeddings reads beside it, and the
  // backend wants it so.
  ir::WeightId find_split_head() const {
    const ir::Graph& g = plan_.graph;
    if (g.encoder) return {};
    const Op& head = g.ops[g.value(g.outputs[0]).def];
    const auto rows = head.kind == OpKind::matmul ? head.slot("rows") : std::vector<ir::WeightUse>();
    if (rows.size() != 1 || rows[0].row_begin != 0 || rows[0].row_end >= 0) return {};
    for (const ir::WeightUse& bias : head.slot("bias"))
      if (bias.weight.valid()) return {};
    for (const Op& op : g.ops)
      for (const ir::WeightUse& use : op.weights)
        if (use.weight == rows[0].weight && &op != &head && op.kind != OpKind::embed) return {};
    const ir::Weight& w = g.weight(rows[0].weight);
    return backend_.splits_head(w.format, w.shape[0], w.shape[1]) ? rows[0].weight : ir::WeightId{};
  }

  // Kernels of recurrences have channels in their lanes.
  static bool transposed(const Op& op, const ir::Weight& weight) {
    return (op.kind == OpKind::conv || op.kind == OpKind::ssm_scan) && weight.shape.size() == 2;
  }

  void place_weight(const Op& op, const ir::WeightUse& use) {
    if (!use.weight.valid()) return;
    const ir::Weight& weight = graph().weight(use.weight);
    const bool experts =
        op.kind == OpKind::experts_in || op.kind == OpKind::experts_out || op.kind == OpKind::matmul_heads;
    const bool matrix =
        ir::looks_up(op.kind) || op.kind == OpKind::matmul || op.kind == OpKind::matmul_glu || experts;
    Packed packed;
    packed.weight = use.weight;
    packed.name = weight.name;
    packed.cols = weight.shape.back();
    packed.row_begin = use.row_begin;
    packed.rows =
        weight.shape.size() > 1 ? (use.row_end < 0 ? weight.shape[0] : use.row_end) - use.row_begin : 1;
    // Experts' and heads' matrices have whole panels of rows: packed one after the other they are one matrix.
    if (experts && weight.shape.size() == 3) packed.rows = weight.shape[0] * weight.shape[1];
    if (weight.source != ir::Weight::Source::Tensor) {
      packed.kind = Packed::Kind::Table;
      packed.bytes = 4;
      for (int64_t n : weight.shape) packed.bytes *= n;
    } else if (matrix && (weight.shape.size() == 2 + experts)) {
      packed.kind = Packed::Kind::Panels;
      packed.two_streams = split_head_.valid() && use.weight == split_head_;
      packed.bytes =
          backend_.panel_bytes(weight.format, packed.cols) * (round_up(packed.rows, kPanelRows) / kPanelRows);
      if (!experts && (packed.row_begin != 0 || packed.rows != weight.shape[0]))
        packed.name = cat(weight.name, "[", packed.row_begin, ":", packed.row_begin + packed.rows, "]");
    } else {
      packed.kind = transposed(op, weight) ? Packed::Kind::Transposed : Packed::Kind::Vector;
      packed.bytes = 4 * packed.rows * packed.cols;
    }
    for (const Packed& other : plan_.packed)
      if (other.name == packed.name && other.kind == packed.kind) return;
    packed.offset = round_up(plan_.weights_bytes, kAlign);
    plan_.weights_bytes = packed.offset + packed.bytes;
    plan_.packed.push_back(std::move(packed));
  }

  const Backend& backend_;
  ir::WeightId split_head_;
  Plan plan_;
};

}  // namespace

const Packed& Plan::packed_of(const ir::WeightUse& use) const {
  const ir::Weight& weight = graph.weight(use.weight);
  const int64_t end = use.row_end < 0 ? weight.shape[0] : use.row_end;
  for (const Packed& p : packed) {
    if (p.weight != use.weight) continue;
    if (p.kind != Packed::Kind::Panels || weight.shape.size() == 3 ||
        (p.row_begin == use.row_begin && p.row_begin + p.rows == end))
      return p;
  }
  throw_internal("weight '", weight.name, "' isn't in the image");
}

Plan make_plan(ir::Graph graph, const Backend& backend) { return Planner(std::move(graph), backend).run(); }

int64_t kv_bytes(const Plan& plan, int kv_type, int64_t positions, int64_t chunk) {
  int64_t bytes = 0;
  for (const GroupPlan& group : plan.groups) {
    const int64_t span = GC_KV_BLOCK * (group.kind == GC_STATE_KV_LATENT ? group.window : 1);
    int64_t blocks = round_up(positions, span) / span;
    if (group.kind == GC_STATE_KV_RING)
      blocks = std::min<int64_t>(
          blocks, gc_ring_blocks(static_cast<uint32_t>(group.window), static_cast<uint32_t>(chunk)));
    bytes += blocks * group.block_bytes[kv_type];
  }
  return bytes;
}

int64_t recurrent_bytes(const Plan& plan) {
  int64_t bytes = 0;
  for (const GroupPlan& group : plan.groups) bytes += 2 * group.seq_bytes;
  return bytes;
}

}  // namespace gc::plan
