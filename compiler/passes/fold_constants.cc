// What is known when the model is compiled is computed then.
//
//   rope(x) with base, scale, factors  ->  rope(x) with the tables fine[1024], coarse[1024]; one pair of tables for each
//                                          distinct (base, scale, dims, factors), shared by all layers; with factors
//                                          for long contexts each table is two, and a session's context chooses
//   scale(x, 1), softcap(x, 0)         ->  x
//   scale(scale(x, a), b)              ->  scale(x, a * b)
//   scale(embed{s}, a)                 ->  embed{s * a}
//   rope(scale(x, a))                  ->  scale(rope(x), a), turning is linear
//   attention(scale(q, a)){s}          ->  attention(q){s * a}
//
// Tables reach 2^20 positions, more than any published context, in 2 MiB for heads of 256; or as far as the frequencies
// hold, where those are of short contexts only.
#include <optional>
#include <utility>

#include "compiler/base/strings.h"
#include "compiler/passes/edit.h"
#include "compiler/passes/pass.h"

namespace gc::passes {

using namespace ir;

namespace {

constexpr int64_t kFine = 1024, kCoarse = 1024;

double scale_of(const Op& op) { return op.f32(AttrName::by); }

// One round of the rules over scales; false when none applies.
bool fold_scales(Graph& g) {
  Edit e(std::move(g));
  bool changed = false;
  for (int32_t i = 0; i < e.op_count(); i++) {
    const Op& op = e.op(i);
    if (e.touched(i)) continue;
    bool nothing = (op.kind == OpKind::scale && scale_of(op) == 1) ||
                   (op.kind == OpKind::softcap && op.f32(AttrName::cap) == 0);
    if (nothing && !e.is_output(op.results[0])) {
      e.rename(op.results[0], op.inputs[0]);
      e.erase(i);
      changed = true;
    } else if (op.kind == OpKind::scale && e.sole(op.inputs[0], OpKind::scale) >= 0) {
      int32_t inner = e.def(op.inputs[0]);
      Op joined = op;
      joined.inputs = e.op(inner).inputs;
      joined.set_f32(AttrName::by, scale_of(op) * scale_of(e.op(inner)));
      e.erase(inner);
      e.replace(i, {joined});
      changed = true;
    } else if (op.kind == OpKind::scale && e.sole(op.inputs[0], OpKind::embed) >= 0) {
      int32_t embed = e.def(op.inputs[0]);
      Op scaled = e.op(embed);
      scaled.set_f32(AttrName::scale, scaled.f32_or(AttrName::scale, 1) * scale_of(op));
      scaled.results = op.results;
      e.erase(embed);
      e.replace(i, {scaled});
      changed = true;
    } else if (op.kind == OpKind::rope && e.sole(op.inputs[0], OpKind::scale) >= 0) {
      int32_t inner = e.def(op.inputs[0]);
      Op scale = e.op(inner), rope = op;
      rope.inputs = scale.inputs;
      std::swap(rope.results, scale.results);
      scale.inputs = rope.results;
      e.erase(inner);
      e.replace(i, {rope, scale});
      changed = true;
    } else if (op.kind == OpKind::attention && e.sole(op.inputs[0], OpKind::scale) >= 0) {
      int32_t inner = e.def(op.inputs[0]);
      Op folded = op;
      folded.inputs[0] = e.op(inner).inputs[0];
      folded.set_f32(AttrName::scale, op.f32(AttrName::scale) * scale_of(e.op(inner)));
      e.erase(inner);
      e.replace(i, {folded});
      changed = true;
    } else if (op.kind == OpKind::attention && op.has(AttrName::cap) && op.f32(AttrName::cap) == 0) {
      Op plain = op;
      plain.erase(AttrName::cap);
      e.replace(i, {plain});
      changed = true;
    }
  }
  g = e.take();
  return changed;
}

// Positions of the fine table and rows of the coarse one. A limit is where both end, rounded up where it has to be.
std::pair<int64_t, int64_t> table_sizes(int64_t limit) {
  if (limit <= 0 || limit >= kFine * kCoarse) return {kFine, kCoarse};
  int64_t fine = kFine;
  while (fine > 64 && limit % fine != 0) fine /= 2;
  return {fine, (limit + fine - 1) / fine};
}

Graph fold_ropes(Graph g) {
  Edit e(std::move(g));
  std::vector<Weight::Rope> ropes;  // distinct ones, in order of appearance
  for (const Weight& w : e.graph().weights)
    if (w.source == Weight::Source::RopeFine) ropes.push_back(w.rope);
  for (int32_t i = 0; i < e.op_count(); i++) {
    const Op& op = e.op(i);
    if (op.kind != OpKind::rope || op.one("rope_fine")) continue;
    Weight::Rope rope{.base = op.f32(AttrName::rope_base),
                      .scale = op.f32(AttrName::rope_scale),
                      .dims = op.i64(AttrName::rope_dims)};
    rope.low = op.f32_or(AttrName::rope_low, -1);
    rope.high = op.f32_or(AttrName::rope_high, -1);
    rope.magnitude = op.f32_or(AttrName::rope_magnitude, 1);
    const auto [fine, coarse] = table_sizes(op.i64_or(AttrName::rope_limit, 0));
    rope.fine = fine;
    if (auto factors = op.one("factors")) rope.factors = e.graph().weight(factors->weight).name;
    if (auto factors = op.one("long_factors")) {
      rope.long_factors = e.graph().weight(factors->weight).name;
      rope.short_context = op.i64(AttrName::rope_short);
    }
    size_t index = 0;
    while (index < ropes.size() && ropes[index] != rope) index++;
    if (index == ropes.size()) ropes.push_back(rope);
    auto table = [&](const char* level, Weight::Source source, int64_t rows) {
      std::vector<int64_t> shape = {rows, rope.dims / 2, 2};
      if (!rope.long_factors.empty()) shape.insert(shape.begin(), 2);
      return e.new_weight({.name = cat("rope.", index, ".", level),
                           .format = Format::F32,
                           .shape = std::move(shape),
                           .source = source,
                           .rope = rope});
    };
    Op folded = op;
    folded.weights = {
        {slot_index(op.kind, "rope_fine"), table("fine", Weight::Source::RopeFine, fine)},
        {slot_index(op.kind, "rope_coarse"), table("coarse", Weight::Source::RopeCoarse, coarse)}};
    e.replace(i, {folded});
  }
  return e.take();
}

}  // namespace

Graph fold_constants(Graph g) {
  while (fold_scales(g)) {
  }
  return fold_ropes(std::move(g));
}

}  // namespace gc::passes
