// A block of rows walks the union of its rows' positions, a block of 64 keys at a time: scores of all queries over a few
// dimensions of the keys after the other, each row's mask, softmax, then the values likewise. What a row doesn't see is
// masked, and masked blocks and ranges are neutral to the bit (tiles.h), so rows at both sides of the end of a range, or
// of a window, need no cut. Keys and values must be finite: a masked value counts as 0 x value.
//
// 24 queries: four tiles of 6 share what is widened to f32, which costs then about 8 % of the products (in registers it
// would cost a third), and two records stay within a second-level cache of 256 KB for heads of 256.
#include "codegen_cpu/kernels/attention/rows.h"

#include <algorithm>
#include <limits>

#include "codegen_cpu/kernels/attention/elements.h"
#include "codegen_cpu/kernels/attention/tiles.h"
#include "codegen_cpu/kv_layout.h"

namespace gc::cpu {

using llvm::Value;

namespace {

constexpr std::int64_t kQueries = 24;
constexpr std::int64_t kLeastRows = 4;
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// Scratch: q [queries][k_dim], p [queries][64], two records, a part of a block as f32. Queries are rows x heads
// of the group, and what fills the last tile, which is computed and not used.
struct Layout {
  std::int64_t queries, p, total, part, wide, bytes;
};

Layout layout_of(const AttnSpec& spec, std::int64_t tile) {
  auto round = [](std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; };
  Layout at;
  at.queries = round(attn_rows_most(spec) * spec.group(), tile);
  at.p = round(at.queries * spec.k_dim * 4, 64);
  at.total = at.p + at.queries * GC_KV_BLOCK * 4;
  const std::int64_t record = partial_layout(at.queries, spec.v_dim).bytes;
  at.part = at.total + record;
  at.wide = at.part + record;
  at.bytes = at.wide + Tiles::wide_bytes(spec);
  return at;
}

class RowsEmitter {
 public:
  RowsEmitter(Emitter& e, const AttnSpec& spec, const Args& a)
      : e_(e),
        b_(e.b()),
        v_(e),
        s_(spec),
        a_(a),
        tiles_(v_, s_, /*many=*/true, attn_rows_most(spec) * spec.group()),
        at_(layout_of(s_, tiles_.queries())),
        record_(partial_layout(at_.queries, s_.v_dim)),
        q_(a["scratch"]),
        p_(e.at(a["scratch"], at_.p)),
        wide_(e.at(a["scratch"], at_.wide)),
        alpha_(e.stack(record_.l)),
        tops_(e.stack(record_.l)),
        sums_(e.stack(record_.l)) {}

  void emit() {
    const Angles angles = make_angles(e_, s_.rope);
    queries_ = b_.CreateMul(a_["n"], e_.i64(s_.group()));
    e_.for_range(e_.i64(0), a_["n"], 1, [&](Value* r) {
      emit_queries(v_, s_, a_, unit(r), angles, e_.at(q_, r, s_.group() * s_.k_dim * 4));
    });
    first_ = unit(e_.i64(0));
    last_ = unit(b_.CreateSub(a_["n"], e_.i64(1)));
    const Blocks blocks = emit_blocks(e_, s_, a_, first_);
    Value* total = e_.at(a_["scratch"], at_.total);
    Value* part = e_.at(a_["scratch"], at_.part);
    Value* first_range = b_.CreateLShr(first_.lo, 9);
    Value* past = b_.CreateAdd(b_.CreateLShr(last_.last, 9), e_.i64(1));
    e_.for_range(first_range, past, 1, [&](Value* range) {
      Value* begins = b_.CreateICmpEQ(range, first_range);
      record(blocks, b_.CreateSelect(begins, total, part), range);
      e_.if_then(b_.CreateNot(begins),
                 [&] { b_.CreateCall(attn_join(e_, at_.queries, s_.v_dim), {total, part, queries_}); });
    });
    e_.for_range(e_.i64(0), a_["n"], 1, [&](Value* r) {
      Value* g = b_.CreateMul(r, e_.i64(s_.group()));
      emit_finish(v_, s_, a_, unit(r), f32_at(total, g), f32_at(e_.at(total, record_.l), g),
                  e_.at(e_.at(total, record_.o), g, s_.v_dim * 4));
    });
  }

 private:
  Value* maximum(Value* a, Value* b) { return b_.CreateSelect(b_.CreateICmpSGT(a, b), a, b); }
  Value* minimum(Value* a, Value* b) { return b_.CreateSelect(b_.CreateICmpSLT(a, b), a, b); }
  Value* f32_at(Value* base, Value* i) { return e_.at(base, i, std::int64_t{4}); }

  Unit unit(Value* r) {
    Value* rows = b_.CreateMul(b_.CreateAdd(a_["row"], r), e_.i64(s_.kv_heads));
    return emit_unit(e_, s_, a_["step"], b_.CreateAdd(rows, a_["kv_head"]));
  }

  // body(first query) for all tiles that have one of the rows'.
  void over_tiles(const std::function<void(Value*)>& body) {
    e_.for_range(e_.i64(0), queries_, tiles_.queries(), body);
  }

  // The record of the rows' positions in one range.
  void record(const Blocks& blocks, Value* record, Value* range) {
    const Tiles::Softmax softmax = {p_, record, e_.at(record, record_.l), alpha_, tops_, sums_};
    Value* o = e_.at(record, record_.o);
    v_.over(at_.queries, [&](Value* i, int count) {
      v_.store(v_.splat(kMinusInfinity), f32_at(softmax.m, i), count);
      v_.store(v_.zero(), f32_at(softmax.l, i), count);
    });
    e_.for_range(e_.i64(0), b_.CreateMul(queries_, e_.i64(s_.v_dim)), Vec::kLanes,
                 [&](Value* i) { v_.store(v_.zero(), f32_at(o, i)); });
    Value* origin = b_.CreateMul(range, e_.i64(kAttnRange));
    Value* lo = maximum(origin, first_.lo);
    Value* hi = minimum(b_.CreateAdd(origin, e_.i64(kAttnRange)), b_.CreateAdd(last_.last, e_.i64(1)));
    Value* past = b_.CreateAdd(b_.CreateLShr(b_.CreateSub(hi, e_.i64(1)), 6), e_.i64(1));
    e_.for_range(b_.CreateLShr(lo, 6), past, 1,
                 [&](Value* index) { block(blocks, softmax, o, index, lo, hi); });
  }

  void block(const Blocks& blocks, const Tiles::Softmax& softmax, Value* o, Value* index, Value* lo,
             Value* hi) {
    Value* keys = emit_block(e_, s_, blocks, index);
    Value* values = e_.at(keys, kv_part_bytes(s_.k_dim, s_.kv_type));
    Value* origin = b_.CreateShl(index, 6);
    Value* begin = maximum(b_.CreateSub(lo, origin), e_.i64(0));
    Value* end = minimum(b_.CreateSub(hi, origin), e_.i64(GC_KV_BLOCK));
    const int tile = static_cast<int>(tiles_.queries());
    tiles_.over_keys(keys, wide_, [&](Value* k, Value* from, Value* to, bool fresh) {
      over_tiles([&](Value* g) {
        tiles_.scores(e_.at(q_, g, s_.k_dim * 4), k, e_.at(p_, g, std::int64_t{GC_KV_BLOCK * 4}), tile, from,
                      to, fresh, {});
      });
    });
    if (s_.cap != 0) tiles_.cap(p_, queries_);
    if (s_.alibi != 0) {
      e_.for_range(e_.i64(0), a_["n"], 1, [&](Value* r) {
        Value* row = e_.at(p_, b_.CreateMul(r, e_.i64(s_.group())), std::int64_t{GC_KV_BLOCK * 4});
        tiles_.alibi(row, a_["kv_head"], b_.CreateSub(origin, unit(r).pos));
      });
    }
    if (s_.buckets > 0) {
      e_.for_range(e_.i64(0), a_["n"], 1, [&](Value* r) {
        Value* row = e_.at(p_, b_.CreateMul(r, e_.i64(s_.group())), std::int64_t{GC_KV_BLOCK * 4});
        tiles_.bias(row, a_["bias"], b_.CreateSub(origin, unit(r).pos));
      });
    }
    // At the ends, rows differ in what they see; memory past the last row's position was never written.
    Value* whole = b_.CreateAnd(
        b_.CreateICmpSGE(origin, last_.lo),
        b_.CreateICmpSLE(b_.CreateAdd(origin, e_.i64(GC_KV_BLOCK)), b_.CreateAdd(first_.last, e_.i64(1))));
    e_.if_then(b_.CreateNot(whole), [&] { mask(origin); });
    tiles_.softmax(softmax, queries_);
    tiles_.over_values(values, wide_, begin, end, [&](const Tiles::Columns& columns) {
      over_tiles([&](Value* g) {
        const Tiles::Weigh w = {e_.at(o, g, s_.v_dim * 4), e_.at(p_, g, std::int64_t{GC_KV_BLOCK * 4}),
                                f32_at(alpha_, g)};
        tiles_.weigh(columns, w, begin, end, tile, {});
      });
    });
  }

  // Scores of positions outside each row's own [lo, pos] become -inf, whatever memory held.
  void mask(Value* origin) {
    auto splat = [&](Value* x) { return v_.splat(b_.CreateTrunc(x, b_.getInt32Ty())); };
    e_.for_range(e_.i64(0), a_["n"], 1, [&](Value* r) {
      const Unit u = unit(r);
      Value* begin = splat(b_.CreateSub(u.lo, origin));
      Value* last = splat(b_.CreateSub(u.last, origin));
      Value* row = e_.at(p_, b_.CreateMul(r, e_.i64(s_.group())), std::int64_t{GC_KV_BLOCK * 4});
      e_.for_range(0, s_.group(), 1, [&](Value* g) {
        for (int c = 0; c < int{GC_KV_BLOCK} / Vec::kLanes; ++c) {
          std::vector<llvm::Constant*> lanes;
          for (int i = 0; i < Vec::kLanes; ++i)
            lanes.push_back(llvm::ConstantInt::get(b_.getInt32Ty(), c * Vec::kLanes + i));
          Value* key = llvm::ConstantVector::get(lanes);
          Value* seen = b_.CreateAnd(b_.CreateICmpSGE(key, begin), b_.CreateICmpSLE(key, last));
          Value* at = e_.at(row, g, std::int64_t{GC_KV_BLOCK * 4}, std::int64_t{c} * Vec::kLanes * 4);
          v_.store(b_.CreateSelect(seen, v_.load(at), v_.splat(kMinusInfinity)), at);
        }
      });
    });
  }

  Emitter& e_;
  llvm::IRBuilder<>& b_;
  Vec v_;
  const AttnSpec& s_;
  const Args& a_;
  Tiles tiles_;
  const Layout at_;
  const PartialLayout record_;
  Value *q_, *p_, *wide_, *alpha_, *tops_, *sums_;
  Value* queries_ = nullptr;
  Unit first_, last_;
};

}  // namespace

std::int64_t attn_rows_most(const AttnSpec& spec) {
  return std::max<std::int64_t>(2, kQueries / spec.group());
}
std::int64_t attn_rows_least(const AttnSpec& spec) { return std::min(kLeastRows, attn_rows_most(spec)); }

std::int64_t attn_rows_scratch_bytes(const AttnSpec& spec) {
  // The tile's size depends on the number of queries alone.
  return layout_of(spec, Tiles::queries_of(attn_rows_most(spec) * spec.group())).bytes;
}

llvm::Function* attn_rows(Emitter& e, const AttnSpec& spec) {
  const std::vector<Arg> args = {
      ptr("step"),    i64("group"),    i64("block_bytes"), i64("state_offset"), in("q"),   i64("qs"),
      in("q_norm_w"), in("rope_fine"), in("rope_coarse"),  in("sinks"),         out("y"),  i64("ys"),
      i64("row"),     i64("n"),        i64("kv_head"),     out("scratch"),      in("bias")};
  return e.function(attn_name("attn_rows", spec), args,
                    [&, spec](const Args& a) { RowsEmitter(e, spec, a).emit(); });
}

}  // namespace gc::cpu
