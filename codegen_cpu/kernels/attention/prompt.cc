// Queries (rows x heads of the group, in order) go in strips of 32, two tiles high; keys in groups of 32, two tiles or
// vectors wide, whose pairs lie in a block as the products want them (codegen_cpu/kv_layout.h). Positions are cut into
// ranges of 256 at absolute multiples. For each range and strip: scores of the groups that some query of the strip sees, the largest one,
// weights exp(s - m) rounded to bf16, then weights times values, 32 dimensions at a time, which are joined with the sums
// of the ranges before:
//   m' = max(m, of the range), a = exp(m - m'), l' = fma(l, a, sum of weights), o' = fma(o, a, product)
// A range and not a block of 64 is what a sum is as long as: taking o up to date costs as much as 64 more keys.
//
// The last strip may have fewer queries: products and weights are made for whole steps of them (prompt_query_step()), so that
// the few rows of a short prompt behind a long context don't pay for 32; section/attention.cc gives each worker one share of
// them. On Zen 4, two threads, 16 rows behind 4000 positions take 1.09 times what they take alone for Gemma 3 270M (was 1.39)
// and 2.6 times for SmolLM2 (was 3.1), whose attention there has more products than its matrices.
//
// What a query doesn't see has the weight 0 and is neutral to the bit, as are groups and ranges that it doesn't see at
// all: the sums of products begin at +0 and flush what is below the normal range. So a row has the same bits in any company.
// Values that nobody wrote yet, which may be no numbers, are replaced by 0 in a copy; other keys and values must be
// finite.
//
// Ranges are the outer loop: the keys and values of one, 256 KB with heads of 256, are read by all strips from the
// second-level cache, and a strip's queries, scores and weights stay in the first.
//
// Beside f32 FMA in the same run, one thread of a busy machine: 5 times as fast with heads of 64, 6 to 7 times with 256,
// where the products are 70 % of the time; the exponentials are most of it with heads of 64.
#include "codegen_cpu/kernels/attention/prompt.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numbers>

#include "codegen_cpu/kernels/attention/elements.h"
#include "codegen_cpu/kernels/attention/prompt_products.h"
#include "codegen_cpu/kv_layout.h"
#include "codegen_cpu/vec/math.h"
#include "compiler/base/error.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace gc::cpu {

using llvm::Value;
using Values = Emitter::Values;

namespace {

constexpr std::int64_t kQueries = 512;  // at once, at most
constexpr std::int64_t kGroups = kAttnRun / kKeys;
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

std::int64_t padded_queries(const Isa& isa, const AttnSpec& spec) {
  return (attn_prompt_most(isa, spec) * spec.group() + kStrip - 1) / kStrip * kStrip;
}

// A worker's scratch. Of all queries: q bf16 [k_dim], o f32 [v_dim], m, l, and the first and the last position that they
// see, i32. Of a strip: scores f32, weights bf16, a product of 32 x 32 f32. `raw`: a row's queries in f32. `values`:
// those of the last group, where positions that nobody wrote are 0.
struct Layout {
  std::int64_t q, o, m, l, lo, pos, scores, weights, product, raw, values, bytes;
  Layout(const Isa& isa, const AttnSpec& spec) {
    const std::int64_t n = padded_queries(isa, spec);
    bytes = 0;
    auto take = [&](std::int64_t size) {
      const std::int64_t at = bytes;
      bytes += (size + 63) / 64 * 64;
      return at;
    };
    q = take(n * spec.k_dim * 2);
    o = take(n * spec.v_dim * 4);
    m = take(n * 4), l = take(n * 4), lo = take(n * 4), pos = take(n * 4);
    scores = take(kStrip * kScoreStride);
    weights = take(kStrip * kWeightStride);
    product = take(kProductBytes);
    raw = take(spec.group() * spec.k_dim * 4);
    values = take(kKeys * spec.v_dim * 2);
  }
};

// 2^t to 1e-4, a twentieth of what the rounding to bf16 does: 2^(t - floor t) by a polynomial that is 1 at 0. 0 below the
// normal range, as math.h has it.
Value* rough_exp2(Vec& v, Value* t) {
  llvm::IRBuilder<>& b = v.e().b();
  constexpr std::int64_t kFloor = 0x9;  // no bits of the fraction kept; towards minus infinity
  Value* all = llvm::Constant::getAllOnesValue(b.getInt16Ty());
  Value* normal = b.CreateBitCast(b.CreateFCmpUGE(t, v.splat(-126.0)), b.getInt16Ty());
  Value* f = b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_reduce_ps_512, {},
                               {t, b.getInt32(kFloor), v.zero(), all, b.getInt32(4)});
  Value* y = v.fma(v.splat(0.0770672), f, v.splat(0.22764482));
  y = v.fma(y, f, v.splat(0.69511682));
  y = v.fma(y, f, v.splat(1.0));
  return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
                           {y, t, v.zero(), normal, b.getInt32(4)});
}

class PromptEmitter {
 public:
  PromptEmitter(Emitter& e, const AttnSpec& spec, const Args& a)
      : e_(e),
        b_(e.b()),
        v_(e),
        s_(spec),
        a_(a),
        at_(e.isa(), spec),
        value_at_(e.stack(8 * (kGroups + 1))),
        tops_(e.stack(kStrip * 4)),
        sums_(e.stack(kStrip * 4)),
        alpha_(e.stack(kStrip * 4)) {}

  void emit() {
    first_ = unit(e_.i64(0));
    last_ = unit(b_.CreateSub(a_["n"], e_.i64(1)));
    blocks_ = emit_blocks(e_, s_, a_, first_);
    queries_ = b_.CreateMul(a_["n"], e_.i64(s_.group()));
    padded_ = b_.CreateAnd(b_.CreateAdd(queries_, e_.i64(kStrip - 1)), e_.i64(-kStrip));
    make_queries();
    clear();
    copy_last_values();
    Value* past = b_.CreateAdd(range_of(last_.pos), e_.i64(1));
    e_.for_range(range_of(first_.lo), past, 1, [&](Value* range) {
      Value* origin = b_.CreateMul(range, e_.i64(kAttnRun));
      e_.for_range(e_.i64(0), padded_, kStrip, [&](Value* strip) { this->strip(origin, strip); });
    });
    e_.for_range(e_.i64(0), a_["n"], 1, [&](Value* r) {
      Value* g = b_.CreateMul(r, e_.i64(s_.group()));
      emit_finish(v_, s_, a_, unit(r), of(at_.m, g), of(at_.l, g), e_.at(scratch(at_.o), g, s_.v_dim * 4));
    });
  }

 private:
  Value* maximum(Value* a, Value* b) { return b_.CreateSelect(b_.CreateICmpSGT(a, b), a, b); }
  Value* minimum(Value* a, Value* b) { return b_.CreateSelect(b_.CreateICmpSLT(a, b), a, b); }
  Value* range_of(Value* pos) {
    static_assert(kAttnRun == 256);
    return b_.CreateLShr(pos, 8);
  }
  Value* group_of(Value* pos) {
    static_assert(kKeys == 32);
    return b_.CreateLShr(pos, 5);
  }
  Value* scratch(std::int64_t at) { return e_.at(a_["scratch"], at); }
  // Number i of an array of 4 bytes each.
  Value* of(std::int64_t array, Value* i) { return e_.at(scratch(array), i, std::int64_t{4}); }
  Value* in_stack(Value* array, Value* i) { return e_.at(array, i, std::int64_t{4}); }
  Value* position(std::int64_t array, Value* query) {
    return b_.CreateZExt(e_.member_i32(of(array, query), 0), b_.getInt64Ty());
  }
  Unit unit(Value* r) {
    Value* rows = b_.CreateMul(b_.CreateAdd(a_["row"], r), e_.i64(s_.kv_heads));
    return emit_unit(e_, s_, a_["step"], b_.CreateAdd(rows, a_["kv_head"]));
  }

  // ---- Once ----

  void make_queries() {
    const Angles angles = make_angles(e_, s_.rope);
    e_.for_range(e_.i64(0), a_["n"], 1, [&](Value* r) {
      const Unit u = unit(r);
      emit_queries(v_, s_, a_, u, angles, scratch(at_.raw));
      Value* first = b_.CreateMul(r, e_.i64(s_.group()));
      e_.for_range(0, s_.group(), 1, [&](Value* g) {
        Value* query = b_.CreateAdd(first, g);
        sees(query, u);
        e_.for_range(0, s_.k_dim, 32, [&](Value* d) {
          Value* from = e_.at(e_.at(scratch(at_.raw), g, s_.k_dim * 4), d, std::int64_t{4});
          e_.store(v_.bf16_joined(v_.load(from), v_.load(e_.at(from, 64))),
                   e_.at(e_.at(scratch(at_.q), query, s_.k_dim * 2), d, std::int64_t{2}), 64);
        });
      });
    });
    // What fills the last strip is 0 and sees what the last query does.
    e_.for_range(queries_, padded_, 1, [&](Value* query) {
      sees(query, last_);
      Value* q = e_.at(scratch(at_.q), query, s_.k_dim * 2);
      e_.for_range(0, s_.k_dim * 2, 64, [&](Value* i) { v_.store(v_.zero(), e_.at(q, i)); });
    });
  }
  void sees(Value* query, const Unit& u) {
    auto store = [&](Value* pos, std::int64_t array) {
      e_.store(b_.CreateTrunc(pos, b_.getInt32Ty()), of(array, query), 4);
    };
    store(u.lo, at_.lo);
    store(u.pos, at_.pos);
  }

  void clear() {
    e_.for_range(e_.i64(0), padded_, Vec::kLanes, [&](Value* i) {
      v_.store(v_.splat(kMinusInfinity), of(at_.m, i));
      v_.store(v_.zero(), of(at_.l, i));
    });
    e_.for_range(e_.i64(0), b_.CreateMul(padded_, e_.i64(s_.v_dim)), Vec::kLanes,
                 [&](Value* i) { v_.store(v_.zero(), of(at_.o, i)); });
  }

  // Whether the last group's values need the copy: unless a later row of the step, which has them appended too, is at
  // the group's last position.
  void copy_last_values() {
    last_group_ = group_of(last_.pos);
    Value* ahead = b_.CreateSub(e_.i64(kKeys - 1), b_.CreateAnd(last_.pos, e_.i64(kKeys - 1)));
    Value* r = b_.CreateAdd(b_.CreateSub(a_["n"], e_.i64(1)), ahead);
    Value* rows = b_.CreateZExt(e_.member_i32(a_["step"], offsetof(gc_step, n_rows)), b_.getInt64Ty());
    Value* inside = b_.CreateICmpSLT(b_.CreateAdd(a_["row"], r), rows);
    const Unit u = unit(b_.CreateSelect(inside, r, e_.i64(0)));
    Value* written = b_.CreateAnd(b_.CreateICmpEQ(u.seq, last_.seq),
                                  b_.CreateICmpEQ(u.pos, b_.CreateAdd(last_.pos, ahead)));
    copied_ = b_.CreateNot(b_.CreateAnd(inside, written));
    e_.if_then(copied_, [&] {
      Value* from = values_of(last_group_);
      Value* used = b_.CreateAdd(b_.CreateAnd(last_.pos, e_.i64(kKeys - 1)), e_.i64(1));
      llvm::Type* words = v_.type(b_.getInt32Ty());
      e_.for_range(0, kKeys, 2, [&](Value* slot) {
        Value* left = b_.CreateSub(used, slot);
        Value* some = b_.CreateSelect(b_.CreateICmpSGT(left, e_.i64(1)), e_.i32(-1), e_.i32(0xffff));
        Value* keep = b_.CreateVectorSplat(
            Vec::kLanes, b_.CreateSelect(b_.CreateICmpSGT(left, e_.i64(0)), some, e_.i32(0)));
        e_.for_range(0, s_.v_dim, Vec::kLanes, [&](Value* i) {
          auto at = [&](Value* base) { return e_.at(e_.at(base, slot, s_.v_dim * 2), i, std::int64_t{4}); };
          e_.store(b_.CreateAnd(e_.load(words, at(from), 4), keep), at(scratch(at_.values)), 4);
        });
      });
    });
  }

  // Of a group of positions, counted from 0.
  Value* keys_of(Value* group) {
    Value* block = emit_block(e_, s_, blocks_, b_.CreateLShr(group, 1));
    return e_.at(block, b_.CreateAnd(group, e_.i64(1)), kKeys * 4);
  }
  Value* values_of(Value* group) {
    Value* block = emit_block(e_, s_, blocks_, b_.CreateLShr(group, 1));
    return e_.at(block, b_.CreateAnd(group, e_.i64(1)), kKeys * s_.v_dim * 2,
                 kv_part_bytes(s_.k_dim, s_.kv_type));
  }

  // ---- A strip in a range ----

  void strip(Value* origin, Value* strip) {
    Value* end_query = b_.CreateAdd(strip, e_.i64(kStrip - 1));
    Value* lo = maximum(position(at_.lo, strip), origin);
    Value* last = minimum(position(at_.pos, end_query), b_.CreateAdd(origin, e_.i64(kAttnRun - 1)));
    e_.if_then(b_.CreateICmpSLE(lo, last), [&] {
      Value* begin = group_of(b_.CreateSub(lo, origin));
      Value* end = b_.CreateAdd(group_of(b_.CreateSub(last, origin)), e_.i64(1));
      const std::int64_t step = prompt_query_step(e_.isa());
      Value* left =
          b_.CreateAnd(b_.CreateAdd(b_.CreateSub(queries_, strip), e_.i64(step - 1)), e_.i64(-step));
      filled_ = minimum(left, e_.i64(kStrip));
      scores(origin, strip, begin, end);
      if (s_.cap != 0) cap(begin, end);
      if (s_.alibi != 0) alibi(origin, strip, begin, end);
      mask(origin, strip, begin, end);
      softmax(strip, begin, end);
      weigh(strip, begin, end);
    });
  }

  Value* score_at(Value* query, Value* group) {
    return e_.at(e_.at(scratch(at_.scores), query, kScoreStride), group, kKeys * 4);
  }
  // body(where the 16 scores are, query of the strip, key of the range) for all scores of the groups.
  void over_scores(Value* begin, Value* end, const std::function<void(Value*, Value*, Value*)>& body) {
    e_.for_range(e_.i64(0), filled_, 1, [&](Value* query) {
      Value* row = e_.at(scratch(at_.scores), query, kScoreStride);
      e_.for_range(b_.CreateMul(begin, e_.i64(kKeys)), b_.CreateMul(end, e_.i64(kKeys)), Vec::kLanes,
                   [&](Value* key) { body(e_.at(row, key, std::int64_t{4}), query, key); });
    });
  }

  // The next range is brought into the second-level cache meanwhile, a piece with each group of each strip: 2 n pieces of
  // a block for n strips. From memory it takes as long as the products of 256 queries.
  struct Ahead {
    Value* piece;
    Value* stride;
  };
  Ahead ahead_of(Value* origin, Value* strip, Value* j) {
    Value* pieces = b_.CreateLShr(padded_, 4);
    Value* index = b_.CreateAdd(b_.CreateLShr(strip, 2), j);
    Value* block =
        b_.CreateAdd(b_.CreateLShr(b_.CreateAdd(origin, e_.i64(kAttnRun)), 6), b_.CreateUDiv(index, pieces));
    block = minimum(block, b_.CreateLShr(last_.pos, 6));
    const std::int64_t bytes = kv_head_bytes(s_.k_dim, s_.v_dim, s_.kv_type);
    Value* piece = b_.CreateUDiv(e_.i64(bytes), pieces);
    return {e_.at(emit_block(e_, s_, blocks_, block), b_.CreateURem(index, pieces), piece),
            b_.CreateUDiv(piece, e_.i64(s_.k_dim / 32 * kLinesAhead))};
  }

  void scores(Value* origin, Value* strip, Value* begin, Value* end) {
    Value* q = e_.at(scratch(at_.q), strip, s_.k_dim * 2);
    Value* first = group_of(origin);
    e_.for_range(begin, end, 1, [&](Value* j) {
      Value* group = b_.CreateAdd(first, j);
      const Ahead ahead = ahead_of(origin, strip, j);
      b_.CreateCall(prompt_scores(e_, s_.k_dim),
                    {q, keys_of(group), score_at(e_.i64(0), j), filled_, ahead.piece, ahead.stride});
      Value* copied = b_.CreateAnd(copied_, b_.CreateICmpEQ(group, last_group_));
      Value* values = b_.CreateSelect(copied, scratch(at_.values), values_of(group));
      e_.store(values, e_.at(value_at_, j, std::int64_t{8}), 8);
      e_.store(values, e_.at(value_at_, j, std::int64_t{8}, 8), 8);  // loaded ahead after the last
    });
  }

  void cap(Value* begin, Value* end) {
    over_scores(begin, end,
                [&](Value* at, Value*, Value*) { v_.store(softcap(v_, s_.cap, v_.load(at)), at); });
  }

  llvm::Constant* ascending(llvm::Type* element) {
    std::vector<llvm::Constant*> lanes;
    for (int i = 0; i < Vec::kLanes; ++i)
      lanes.push_back(element->isFloatTy() ? llvm::ConstantFP::get(element, i)
                                           : llvm::ConstantInt::get(element, static_cast<std::uint64_t>(i)));
    return llvm::ConstantVector::get(lanes);
  }

  void alibi(Value* origin, Value* strip, Value* begin, Value* end) {
    std::vector<float> slopes;
    for (std::int64_t h = 0; h < s_.heads; ++h)
      slopes.push_back(static_cast<float>(ir::alibi_slope(s_.alibi, h, s_.heads)));
    Value* of_group = e_.at(e_.floats(slopes), a_["kv_head"], s_.group() * 4);
    over_scores(begin, end, [&](Value* at, Value* i, Value* key) {
      Value* query = b_.CreateAdd(strip, i);
      Value* slope = v_.load_splat(in_stack(of_group, b_.CreateURem(query, e_.i64(s_.group()))));
      Value* first = b_.CreateSub(b_.CreateAdd(origin, key), position(at_.pos, query));
      Value* distance = v_.add(v_.splat(b_.CreateSIToFP(first, e_.f32())), ascending(e_.f32()));
      if (s_.ahead) distance = v_.neg(v_.abs(distance));
      v_.store(v_.fma(slope, distance, v_.load(at)), at);
    });
  }

  // Scores of what a query doesn't see become -inf, whatever memory held; only groups at the ends have such.
  void mask(Value* origin, Value* strip, Value* begin, Value* end) {
    Value* end_query = b_.CreateAdd(strip, e_.i64(kStrip - 1));
    Value* all_from = position(at_.lo, end_query);  // all queries see [all_from, all_to]
    Value* all_to = position(at_.pos, strip);
    llvm::Type* i32 = b_.getInt32Ty();
    e_.for_range(begin, end, 1, [&](Value* j) {
      Value* first = b_.CreateAdd(origin, b_.CreateMul(j, e_.i64(kKeys)));
      Value* whole = b_.CreateAnd(b_.CreateICmpSGE(first, all_from),
                                  b_.CreateICmpSLE(b_.CreateAdd(first, e_.i64(kKeys - 1)), all_to));
      e_.if_then(b_.CreateNot(whole), [&] {
        e_.for_range(e_.i64(0), filled_, 1, [&](Value* i) {
          Value* query = b_.CreateAdd(strip, i);
          Value* lo = v_.splat(e_.member_i32(of(at_.lo, query), 0));
          Value* pos = v_.splat(e_.member_i32(of(at_.pos, query), 0));
          for (int half = 0; half < 2; ++half) {
            Value* key = b_.CreateAdd(first, e_.i64(half * Vec::kLanes));
            key = b_.CreateAdd(v_.splat(b_.CreateTrunc(key, i32)), ascending(i32));
            Value* seen = b_.CreateAnd(b_.CreateICmpSGE(key, lo), b_.CreateICmpSLE(key, pos));
            Value* at = e_.at(score_at(i, j), half * 64);
            v_.store(b_.CreateSelect(seen, v_.load(at), v_.splat(kMinusInfinity)), at);
          }
        });
      });
    });
  }

  // A query that has seen nothing yet has m = -inf, and -inf - -inf is no number.
  Value* base(Value* m) {
    Value* infinite = b_.CreateFCmpOEQ(m, v_.splat(kMinusInfinity));
    return b_.CreateSelect(infinite, v_.zero(), m);
  }

  void softmax(Value* strip, Value* begin, Value* end) {
    auto load = [&](Value* i, Value* j) {
      Value* at = score_at(i, j);
      return std::pair{v_.load(at), v_.load(e_.at(at, 64))};
    };
    e_.for_range(e_.i64(0), filled_, 1, [&](Value* i) {
      Value* none = v_.splat(kMinusInfinity);
      const Values most = e_.for_range(begin, end, 1, {none, none}, [&](Value* j, const Values& in) {
        const auto [x, y] = load(i, j);
        return Values{v_.max(x, in[0]), v_.max(y, in[1])};
      });
      e_.store(v_.reduce_max(v_.max(most[0], most[1])), in_stack(tops_, i), 4);
    });
    e_.for_range(e_.i64(0), filled_, Vec::kLanes, [&](Value* i) {
      Value* query = b_.CreateAdd(strip, i);
      Value* m = v_.load(of(at_.m, query));
      Value* top = v_.max(v_.load(in_stack(tops_, i)), m);
      v_.store(exp(v_, v_.sub(m, base(top))), in_stack(alpha_, i));
      v_.store(top, of(at_.m, query));
      v_.store(v_.mul(base(top), v_.splat(std::numbers::log2e)), in_stack(tops_, i));
    });
    e_.for_range(e_.i64(0), filled_, 1, [&](Value* i) {
      Value* from = v_.load_splat(in_stack(tops_, i));
      const Values sums =
          e_.for_range(begin, end, 1, {v_.zero(), v_.zero()}, [&](Value* j, const Values& in) {
            const auto [x, y] = load(i, j);
            Value* p = weight(x, from);
            Value* q = weight(y, from);
            Value* to = e_.at(e_.at(scratch(at_.weights), i, kWeightStride), j, kKeys * 2);
            e_.store(v_.bf16_joined(p, q), to, 64);
            return Values{v_.add(in[0], p), v_.add(in[1], q)};
          });
      e_.store(v_.reduce_add(v_.add(sums[0], sums[1])), in_stack(sums_, i), 4);
    });
    e_.for_range(e_.i64(0), filled_, Vec::kLanes, [&](Value* i) {
      Value* l = of(at_.l, b_.CreateAdd(strip, i));
      v_.store(v_.fma(v_.load(l), v_.load(in_stack(alpha_, i)), v_.load(in_stack(sums_, i))), l);
    });
  }
  Value* weight(Value* score, Value* from) {
    return rough_exp2(v_, v_.fma(score, v_.splat(std::numbers::log2e), v_.neg(from)));
  }

  void weigh(Value* strip, Value* begin, Value* end) {
    Value* p = e_.at(scratch(at_.weights), begin, kKeys * 2);
    Value* values = e_.at(value_at_, begin, std::int64_t{8});
    Value* n = b_.CreateSub(end, begin);
    e_.for_range(0, s_.v_dim, 32, [&](Value* d) {
      Value* o = e_.at(e_.at(scratch(at_.o), strip, s_.v_dim * 4), d, std::int64_t{4});
      b_.CreateCall(prompt_values(e_, s_.v_dim),
                    {p, values, b_.CreateShl(d, 2), n, filled_, scratch(at_.product), o, alpha_});
    });
  }

  Emitter& e_;
  llvm::IRBuilder<>& b_;
  Vec v_;
  const AttnSpec& s_;
  const Args& a_;
  const Layout at_;
  Value *value_at_, *tops_, *sums_, *alpha_;
  Value *queries_ = nullptr, *padded_ = nullptr;     // of the rows; to whole strips
  Value* filled_ = nullptr;                          // queries of the strip that is computed, in whole steps
  Value *copied_ = nullptr, *last_group_ = nullptr;  // whether the last group's values are in the scratch
  Unit first_, last_;
  Blocks blocks_;
};

}  // namespace

// Their sums and two ranges of keys and values take three quarters of the second-level cache at most.
std::int64_t attn_prompt_most(const Isa& isa, const AttnSpec& spec) {
  const std::int64_t ranges =
      2 * kAttnRun / GC_KV_BLOCK * kv_head_bytes(spec.k_dim, spec.v_dim, spec.kv_type);
  const std::int64_t queries = (isa.l2_bytes / 4 * 3 - ranges) / (spec.k_dim * 2 + spec.v_dim * 4);
  return std::max<std::int64_t>(1, std::clamp(queries, kStrip, kQueries) / spec.group());
}

std::int64_t attn_prompt_scratch_bytes(const Isa& isa, const AttnSpec& spec) {
  return Layout(isa, spec).bytes;
}

llvm::Function* attn_prompt(Emitter& e, const AttnSpec& spec) {
  GC_CHECK(attn_has_bf16(e.isa(), spec));
  const std::vector<Arg> args = {ptr("step"),       i64("group"), i64("block_bytes"), i64("state_offset"),
                                 in("q"),           i64("qs"),    in("q_norm_w"),     in("rope_fine"),
                                 in("rope_coarse"), in("sinks"),  out("y"),           i64("ys"),
                                 i64("row"),        i64("n"),     i64("kv_head"),     out("scratch")};
  return e.function(attn_name("attn_prompt", spec), args,
                    [&, spec](const Args& a) { PromptEmitter(e, spec, a).emit(); });
}

}  // namespace gc::cpu
