// The inner kernel of attention of one row: (m, l, o) of one range of at most 512 positions for the heads of a group.
#include <algorithm>
#include <limits>

#include "codegen_cpu/kernels/attention/elements.h"
#include "codegen_cpu/kernels/attention/int_products.h"
#include "codegen_cpu/kernels/attention/tiles.h"
#include "codegen_cpu/kernels/attention/unit.h"
#include "codegen_cpu/kv_layout.h"

namespace gc::cpu {

using llvm::Value;

namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

class RangeEmitter {
 public:
  RangeEmitter(Emitter& e, const AttnSpec& spec, const Args& a)
      : e_(e),
        b_(e.b()),
        v_(e),
        s_(spec),
        a_(a),
        tiles_(v_, s_, /*many=*/false, spec.group()),
        blocks_{a["table"], a["n"], a["base"], a["block_bytes"]} {
    const PartialLayout at = partial_layout(s_.group(), s_.v_dim);
    if (spec.ints) ints_ = std::make_unique<IntProducts>(v_, s_, a["wide"]);
    const std::int64_t padded = at.l;  // bytes of a number for each head
    o_ = e_.at(a["partial"], at.o);
    softmax_ = {a["p"],          a["partial"],    e_.at(a["partial"], at.l),
                e.stack(padded), e.stack(padded), e.stack(padded)};
  }

  void emit() {
    clear();
    Value* first = b_.CreateLShr(a_["lo"], 6);
    Value* last = b_.CreateLShr(b_.CreateSub(a_["hi"], e_.i64(1)), 6);
    Value* heads = e_.i64(s_.group());
    e_.for_range(first, b_.CreateAdd(last, e_.i64(1)), 1, [&](Value* block) {
      Value* keys = s_.chosen > 0 ? gathered(block) : emit_block(e_, s_, blocks_, block);
      Value* values = e_.at(keys, kv_part_bytes(s_.k_dim, s_.kv_type));
      const Tiles::Ahead values_ahead = {values, kv_part_bytes(s_.v_dim, s_.kv_type)};
      Tiles::Ahead keys_ahead;
      if (s_.chosen == 0) keys_ahead = {next_keys(block), kv_part_bytes(s_.k_dim, s_.kv_type)};
      Value* origin = b_.CreateShl(block, 6);
      Value* begin = maximum(b_.CreateSub(a_["lo"], origin), e_.i64(0));
      Value* end = minimum(b_.CreateSub(a_["hi"], origin), e_.i64(GC_KV_BLOCK));
      if (ints_)
        ints_->scores(keys, a_["p"], values_ahead);
      else
        scores(keys, values_ahead);
      if (s_.cap != 0) tiles_.cap(a_["p"], heads);
      if (s_.alibi != 0) tiles_.alibi(a_["p"], a_["kv_head"], b_.CreateSub(origin, a_["pos"]));
      if (s_.buckets > 0) tiles_.bias(a_["p"], a_["bias"], b_.CreateSub(origin, a_["pos"]));
      mask(begin, end);
      tiles_.softmax(softmax_, heads);
      if (ints_)
        ints_->weigh(values, begin, end, o_, a_["p"], softmax_.alpha, keys_ahead);
      else
        weigh(values, begin, end, keys_ahead);
    });
  }

 private:
  void scores(Value* keys, const Tiles::Ahead& ahead) {
    tiles_.over_keys(keys, a_["wide"], [&](Value* k, Value* from, Value* to, bool fresh) {
      in_parts([&](std::int64_t g, int n) {
        tiles_.scores(e_.at(a_["q"], g * s_.k_dim * 4), k, e_.at(a_["p"], g * GC_KV_BLOCK * 4), n, from, to,
                      fresh, g == 0 ? ahead : Tiles::Ahead{});
      });
    });
  }

  void weigh(Value* values, Value* begin, Value* end, const Tiles::Ahead& ahead) {
    tiles_.over_values(values, a_["wide"], begin, end, [&](const Tiles::Columns& columns) {
      in_parts([&](std::int64_t g, int n) {
        const Tiles::Weigh w = {e_.at(o_, g * s_.v_dim * 4), e_.at(a_["p"], g * GC_KV_BLOCK * 4),
                                e_.at(softmax_.alpha, g * 4)};
        tiles_.weigh(columns, w, begin, end, n, g == 0 ? ahead : Tiles::Ahead{});
      });
    });
  }

  Value* maximum(Value* a, Value* b) { return b_.CreateSelect(b_.CreateICmpSGT(a, b), a, b); }
  Value* minimum(Value* a, Value* b) { return b_.CreateSelect(b_.CreateICmpSLT(a, b), a, b); }
  Value* f32_at(Value* base, Value* i) { return e_.at(base, i, std::int64_t{4}); }

  // The listed positions of a block, in scratch.
  Value* gathered(Value* block) {
    Value* origin = b_.CreateShl(block, 6);
    Value* n = minimum(b_.CreateSub(a_["hi"], origin), e_.i64(GC_KV_BLOCK));
    Value* out = e_.at(a_["wide"], Tiles::wide_bytes(s_));
    b_.CreateCall(attn_gather(e_, s_), {blocks_.table, blocks_.base, blocks_.bytes,
                                        e_.at(a_["chosen"], origin, std::int64_t{4}), n, out});
    return out;
  }

  // Of the block after this one, where the table has one.
  Value* next_keys(Value* block) {
    Value* next = b_.CreateAdd(block, e_.i64(1));
    if (!s_.ring) next = minimum(next, b_.CreateSub(blocks_.n, e_.i64(1)));
    return emit_block(e_, s_, blocks_, next);
  }

  // body(first, count) for tiles of the group's heads, unrolled.
  void in_parts(const std::function<void(std::int64_t, int)>& body) {
    const std::int64_t n = s_.group(), part = tiles_.queries();
    for (std::int64_t i = 0; i < n; i += part) body(i, static_cast<int>(std::min(part, n - i)));
  }

  void clear() {
    e_.for_range(0, s_.group(), 1, [&](Value* g) {
      e_.store(e_.f32(kMinusInfinity), f32_at(softmax_.m, g), 4);
      e_.store(e_.f32(0), f32_at(softmax_.l, g), 4);
    });
    v_.over(s_.group() * s_.v_dim, [&](Value* i, int count) { v_.store(v_.zero(), f32_at(o_, i), count); });
  }

  // Scores of positions outside [begin, end) become -inf, whatever the memory held that nobody wrote. Only blocks at an
  // end of the range have any.
  void mask(Value* begin, Value* end) {
    e_.for_range(0, s_.group(), 1, [&](Value* g) {
      Value* row = e_.at(a_["p"], g, GC_KV_BLOCK * 4);
      auto clear_scores = [&](Value* key) { e_.store(e_.f32(kMinusInfinity), f32_at(row, key), 4); };
      e_.for_range(e_.i64(0), begin, 1, clear_scores);
      e_.for_range(end, e_.i64(GC_KV_BLOCK), 1, clear_scores);
    });
  }

  Emitter& e_;
  llvm::IRBuilder<>& b_;
  Vec v_;
  const AttnSpec& s_;
  const Args& a_;
  Tiles tiles_;
  std::unique_ptr<IntProducts> ints_;  // or null
  Blocks blocks_;
  Value* o_;
  Tiles::Softmax softmax_;
};

}  // namespace

std::int64_t attn_wide_bytes(const AttnSpec& spec) {
  if (spec.ints) return IntProducts::scratch_bytes(spec);
  const std::int64_t block = spec.chosen > 0 ? kv_head_bytes(spec.k_dim, spec.v_dim, spec.kv_type) : 0;
  return Tiles::wide_bytes(spec) + (block + 63) / 64 * 64;
}

llvm::Function* attn_range(Emitter& e, const AttnSpec& spec) {
  // Norms, RoPE, sinks, output and scale are the callers' concern.
  AttnSpec inner = spec;
  inner.q_norm = inner.k_norm = inner.sinks = inner.sums = false;
  inner.rope = {};
  inner.out = ir::Elem::F32;
  inner.scale = 1;
  inner.window = inner.every = 0;
  inner.chosen = std::min<std::int64_t>(1, spec.chosen);
  const std::vector<Arg> args = {in("q"),        out("p"),           out("partial"), in("table"), i64("n"),
                                 in("base"),     i64("block_bytes"), i64("lo"),      i64("hi"),   i64("pos"),
                                 i64("kv_head"), out("wide"),        in("bias"),     in("chosen")};
  return e.function(attn_name("attn_range", inner), args,
                    [&](const Args& a) { RangeEmitter(e, inner, a).emit(); });
}

}  // namespace gc::cpu
