// slice + heads + head norms + RoPE + attention + merge_heads over one product [q | k | v] become attn_block, so that
// the values between never reach memory: a kernel norms and turns q and k in registers.
//
//   qkv -> slice q -> heads -> [rms_norm] -> [rope] -> attention -> merge_heads
//       -> slice k -> heads -> [rms_norm] -> [rope] ---^
//       -> slice v -> heads -----------------------^
//
// q and k turn alike (same tables) or not at all; norms have weights and one eps. Anything else (norms over the whole
// of q, values that something else reads, other orders) stays as plain ops, which are complete as well.
#include <optional>

#include "compiler/passes/edit.h"
#include "compiler/passes/pass.h"

namespace gc::passes {

using namespace ir;

namespace {

// The chain that makes one operand of attention, from the end; op indexes or -1.
struct Chain {
  int32_t rope = -1, norm = -1, heads = -1, slice = -1;
};

std::optional<Chain> chain_of(const Edit& e, ValueId v, bool value_operand) {
  Chain c;
  if (!value_operand) {
    if (c.rope = e.sole(v, OpKind::rope); c.rope >= 0) v = e.op(c.rope).inputs[0];
    if (c.norm = e.sole(v, OpKind::rms_norm); c.norm >= 0) v = e.op(c.norm).inputs[0];
  }
  if (c.heads = e.sole(v, OpKind::heads); c.heads < 0) return {};
  if (c.slice = e.sole(e.op(c.heads).inputs[0], OpKind::slice); c.slice < 0) return {};
  return c;
}

class Match {
 public:
  Match(const Edit& e, int32_t attention) : e_(e), attention_(attention) {}

  // The fused op and its place, or nothing.
  std::optional<Op> fused() {
    const Op& op = e_.op(attention_);
    if (e_.use_count(op.results[0]) != 1 || e_.is_output(op.results[0])) return {};
    merge_ = e_.users(op.results[0])[0];
    if (e_.op(merge_).kind != OpKind::merge_heads) return {};
    Chain* chains[] = {&q_, &k_, &v_};
    for (int i = 0; i < 3; i++) {
      auto chain = chain_of(e_, op.inputs[i], /*value_operand=*/i == 2);
      if (!chain) return {};
      *chains[i] = *chain;
    }
    if (!is_whole_product() || !same_rope() || !fit_norms()) return {};
    return make();
  }

  void apply(Edit& e, Op fused) const {
    for (const Chain& c : {q_, k_, v_}) e.erase({c.rope, c.norm, c.heads, c.slice});
    e.erase(attention_);
    e.replace(merge_, {std::move(fused)});
  }

 private:
  const Type& type(int operand) const { return e_.graph().value(e_.op(attention_).inputs[operand]).type; }

  // The slices are q, k and v of one value, without gaps.
  bool is_whole_product() const {
    ValueId x = e_.op(q_.slice).inputs[0];
    int64_t at = 0;
    for (const Chain& c : {q_, k_, v_}) {
      const Op& slice = e_.op(c.slice);
      if (slice.inputs[0] != x || slice.i64(AttrName::begin) != at) return false;
      at += slice.i64(AttrName::size);
    }
    const auto& dims = e_.graph().value(x).type.dims;
    return dims.size() == 2 && dims[0] == Dim::tokens() && dims[1] == Dim::of(at);
  }

  bool same_rope() const {
    if ((q_.rope < 0) != (k_.rope < 0)) return false;
    if (q_.rope < 0) return true;
    const Op &q = e_.op(q_.rope), &k = e_.op(k_.rope);
    return q.one("rope_fine").has_value() && q.weights == k.weights && q.attrs == k.attrs;
  }

  bool fit_norms() const {
    for (int32_t norm : {q_.norm, k_.norm})
      if (norm >= 0 && (!e_.op(norm).one("weight") || e_.op(norm).has(AttrName::out))) return false;
    return q_.norm < 0 || k_.norm < 0 || eps(q_.norm) == eps(k_.norm);
  }

  double eps(int32_t norm) const { return e_.op(norm).f32(AttrName::eps); }

  Op make() const {
    const Op& op = e_.op(attention_);
    Op fused{OpKind::attn_block, e_.op(q_.slice).inputs};
    auto use = [&](const char* slot, std::optional<WeightUse> weight) {
      if (weight) fused.weights.push_back({slot_index(OpKind::attn_block, slot), weight->weight});
    };
    if (q_.norm >= 0) use("q_norm", e_.op(q_.norm).one("weight"));
    if (k_.norm >= 0) use("k_norm", e_.op(k_.norm).one("weight"));
    if (q_.rope >= 0) {
      const Op& rope = e_.op(q_.rope);
      use("rope_fine", rope.one("rope_fine"));
      use("rope_coarse", rope.one("rope_coarse"));
      fused.set_i64(AttrName::rope_dims, rope.i64(AttrName::rope_dims));
      fused.set_i64(AttrName::rope_neox, rope.i64(AttrName::rope_neox));
    }
    use("sinks", op.one("sinks"));
    use("bias", op.one("bias"));
    if (op.has(AttrName::buckets)) fused.set_i64(AttrName::buckets, op.i64(AttrName::buckets));
    fused.state = op.state;
    if (q_.norm >= 0 || k_.norm >= 0) fused.set_f32(AttrName::eps, eps(q_.norm >= 0 ? q_.norm : k_.norm));
    fused.set_i64(AttrName::heads, type(0).dims[1].size);
    fused.set_i64(AttrName::kv_heads, type(1).dims[1].size);
    fused.set_i64(AttrName::head_dim, type(0).dims[2].size);
    fused.set_i64(AttrName::v_dim, type(2).dims[2].size);
    fused.set_i64(AttrName::window, op.i64(AttrName::window));
    fused.set_f32(AttrName::scale, op.f32(AttrName::scale));
    if (op.has(AttrName::cap)) fused.set_f32(AttrName::cap, op.f32(AttrName::cap));
    if (op.has(AttrName::ahead)) fused.set_i64(AttrName::ahead, op.i64(AttrName::ahead));
    if (op.has(AttrName::reach)) fused.set_i64(AttrName::reach, op.i64(AttrName::reach));
    if (op.has(AttrName::alibi)) fused.set_f32(AttrName::alibi, op.f32(AttrName::alibi));
    fused.results = e_.op(merge_).results;
    return fused;
  }

  const Edit& e_;
  int32_t attention_, merge_ = -1;
  Chain q_, k_, v_;
};

}  // namespace

Graph fuse_attention(Graph g) {
  Edit e(std::move(g));
  for (int32_t i = 0; i < e.op_count(); i++) {
    if (e.op(i).kind != OpKind::attention) continue;
    Match match(e, i);
    if (auto fused = match.fused()) match.apply(e, std::move(*fused));
  }
  return e.take();
}

}  // namespace gc::passes
