// The literals of kernels/attention/attention.cuh.
#include <algorithm>

#include "codegen_cuda/emit.h"
#include "compiler/base/error.h"

namespace gc::cuda {
namespace {

using ir::AttrName;
using ir::OpKind;

constexpr std::int64_t kWarps = 4;
constexpr std::int64_t kMostHeads = 8;  // of a group that a block takes at once
constexpr std::int64_t kMostValues =
    2560;                                 // heads x v_dim of them: shared memory holds kWarps of each, 40 KiB
constexpr std::int64_t kMostSlots = 128;  // of them: registers of a lane that hold queries and sums
static_assert(kWarps * 4 * (kMostValues + 2 * kMostHeads) < 48 * 1024);

// Of attn_block and rope alone: attention by itself has what these name done before it.
std::optional<ir::WeightUse> in_front(const ir::Op& op, std::string_view slot) {
  return op.kind == OpKind::attn_block || op.kind == OpKind::rope ? op.one(slot) : std::nullopt;
}

// [pos % fine] and [pos / fine] of the tables.
void add_rope(const Emit& e, const ir::Op& op, Fields& spec, Launch& launch) {
  const auto fine = in_front(op, "rope_fine"), coarse = in_front(op, "rope_coarse");
  spec.number("kRopeDims", fine ? op.i64(AttrName::rope_dims) : 0);
  if (!fine) return;
  spec.flag("kNeox", op.i64(AttrName::rope_neox) != 0);
  spec.number("kFine", e.graph().weight(fine->weight).table_rows());
  spec.number("kCoarse", e.graph().weight(coarse->weight).table_rows());
  launch.weights.insert(launch.weights.end(), {e.weight(*fine), e.weight(*coarse)});
}

// Where q, k and v of a row begin.
void add_operands(const Emit& e, const ir::Op& op, const ir::State& state, std::int64_t heads, Fields& spec,
                  Launch& launch) {
  const bool joined = op.kind == OpKind::attn_block, again = op.kind == OpKind::attention_again;
  std::int64_t shift = 0;
  for (int i = 0; i < 3; ++i) {
    const ir::ValueId from = op.inputs[joined || again ? 0 : static_cast<size_t>(i)];
    Place place = e.place(from);
    if (joined) place.shift += shift;
    shift += 4 * (i == 0 ? heads : state.heads) * state.k_dim;
    launch.values.push_back(place);
    spec.number(cat("k", "QKV"[i], "Stride"), e.stride(from));
  }
}

}  // namespace

std::vector<Launch> emit_attention(Emit& e, std::int32_t at) {
  const ir::Op& op = e.graph().ops[static_cast<size_t>(at)];
  const ir::State& state = e.graph().state(op.state);
  const ir::ValueId y = op.results[0];
  const std::int64_t heads =
      op.kind == OpKind::attn_block ? op.i64(AttrName::heads) : e.type(op.inputs[0]).dims[1].size;
  const std::int64_t group = heads / state.heads, window = op.i64(AttrName::window);
  const std::int64_t slots = (state.k_dim + 31) / 32 + (state.v_dim + 31) / 32;
  const std::int64_t at_once =
      std::max<std::int64_t>(1, std::min({group, kMostHeads, kMostValues / state.v_dim, kMostSlots / slots}));
  Launch prepare = launch_of(e, at);
  prepare.state = op.state.index;
  const auto q_norm = in_front(op, "q_norm"), k_norm = in_front(op, "k_norm"), sinks = op.one("sinks");
  constexpr const char* kElements[] = {"Kv::F32", "Kv::F16", "Kv::BF16"};
  // Of attention_again keys and values are there.
  const std::int64_t items = heads + (op.kind == OpKind::attention_again ? 0 : 2 * state.heads);
  Fields spec;
  spec.number("kItems", items)
      .number("kHeads", heads)
      .number("kKvHeads", state.heads)
      .number("kKDim", state.k_dim);
  spec.number("kVDim", state.v_dim).number("kWindow", window).number("kAtOnce", at_once);
  spec.real("kScale", op.f32(AttrName::scale)).real("kCap", op.f32_or(AttrName::cap, 0));
  spec.real("kEps", op.f32_or(AttrName::eps, 0))
      .flag("kQNorm", q_norm.has_value())
      .flag("kKNorm", k_norm.has_value());
  const double alibi = op.f32_or(AttrName::alibi, 0);
  spec.flag("kAlibi", alibi != 0);
  if (alibi != 0) spec.line(slopes(alibi, heads));
  spec.flag("kRing", state.kind == ir::State::Kind::KvRing).named("Kv", "kKv", kElements[e.kv_type]);
  add_operands(e, op, state, heads, spec, prepare);
  prepare.values.push_back(e.place(y));
  if (q_norm) prepare.weights.push_back(e.weight(*q_norm));
  if (k_norm) prepare.weights.push_back(e.weight(*k_norm));
  add_rope(e, op, spec, prepare);
  spec.flag("kSinks", sinks.has_value())
      .number("kSinksAt", static_cast<std::int64_t>(prepare.weights.size()));
  if (sinks) prepare.weights.push_back(e.weight(*sinks));
  spec.number("kOutStride", e.stride(y)).flag("kQuantizeOut", e.is_q16(y));

  const std::string shape =
      cat(heads, "x", state.heads, "x", state.k_dim, window > 0 ? cat("_window_", window) : "");
  Launch ranges = prepare, merge = prepare;
  prepare.blocks = (items + kWarps - 1) / kWarps;
  prepare.kernel =
      e.source.kernel(cat("attention_prepare_", shape), spec,
                      cat("  __shared__ float buffer[kWarps * ", std::max(state.k_dim, state.v_dim),
                          "];\n  attention_prepare<@>(s, a, buffer);\n"));
  ranges.ranges = true;
  ranges.blocks = state.heads * ((group + at_once - 1) / at_once);
  ranges.most_ranges = window > 0 ? (window - 1 + kAttnRange - 1) / kAttnRange + 1 : 0;
  ranges.kernel = e.source.kernel(cat("attention_ranges_", shape), spec,
                                  "  __shared__ Partial<@> part[kWarps * @::kAtOnce];\n"
                                  "  attention_ranges<@>(s, a, part);\n");
  merge.blocks = (heads + kWarps - 1) / kWarps;
  merge.kernel = e.source.kernel(cat("attention_merge_", shape), spec, "  attention_merge<@>(s, a);\n");
  return {prepare, ranges, merge};
}

Launch emit_rope(Emit& e, std::int32_t at) {
  const ir::Op& op = e.graph().ops[static_cast<size_t>(at)];
  const auto& dims = e.type(op.results[0]).dims;
  Launch launch = launch_of(e, at);
  Fields spec;
  add_rope(e, op, spec, launch);
  launch.values = {e.place(op.inputs[0]), e.place(op.results[0])};
  spec.number("kHeads", dims[1].size).number("kDim", dims[2].size);
  spec.number("kStride0", e.stride(op.inputs[0])).number("kOutStride", e.stride(op.results[0]));
  launch.blocks = (dims[1].size + kWarps - 1) / kWarps;
  launch.kernel = e.source.kernel(cat("rope_", dims[1].size, "x", dims[2].size), spec,
                                  "  __shared__ float buffer[kWarps * @::kDim];\n  rope<@>(s, a, buffer);\n");
  return launch;
}

}  // namespace gc::cuda
