// Rows are kept as they come; where a block of them ends, its values are weighed by a softmax of their scores, of each
// column by itself: two walks over the block's rows, one for the largest score, one for the sums. That is once in `every`
// rows, so a row costs its store and two steps of a walk.
#include <limits>

#include "codegen_cpu/kernels/recurrent/recurrent.h"
#include "codegen_cpu/kernels/recurrent/slots.h"
#include "codegen_cpu/vec/math.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/base/strings.h"

namespace gc::cpu {

using llvm::Value;

namespace {

// `count` columns of the result from byte `at` on.
class Columns {
 public:
  Columns(Emitter& e, const CompressSpec& spec, const Args& a, Value* at, int count)
      : e_(e), b_(e.b()), v_(e), s_(spec), a_(a), at_(at), count_(count) {}

  void emit(const Slots& slots) {
    e_.for_range(e_.i64(0), slots.n_rows(), 1, [&](Value* t) {
      const Slots::Row row = slots.of(t);
      keep(row, t);
      Value* y = e_.at(e_.at(a_["y"], t, a_["ys"]), at_);
      Value* past = b_.CreateAdd(row.pos, e_.i64(1));
      Value* ends = b_.CreateICmpEQ(b_.CreateURem(past, e_.i64(s_.every)), e_.i64(0));
      v_.store(e_.if_else(
                   ends, [&] { return Emitter::Values{pooled(row, past)}; },
                   [&] { return Emitter::Values{v_.zero()}; })[0],
               y, count_);
    });
  }

 private:
  std::int64_t part_bytes(int half) const { return 4 * half * s_.out_columns(); }
  Value* kept_row(Value* state, Value* pos) {
    return e_.at(state, b_.CreateURem(pos, e_.i64(s_.kept())), std::int64_t{2 * 4 * s_.columns});
  }

  void keep(const Slots::Row& row, Value* t) {
    Value* to = e_.at(kept_row(row.state, row.pos), at_);
    Value* x = e_.at(e_.at(a_["x"], t, a_["xs"]), at_);
    Value* scores = e_.at(e_.at(a_["scores"], t, a_["ss"]), at_);
    Value* ape = e_.at(e_.at(a_["ape"], b_.CreateURem(row.pos, e_.i64(s_.every)), 4 * s_.columns), at_);
    for (int half = 0; half < s_.halves; ++half) {
      const std::int64_t part = part_bytes(half);
      v_.store(v_.load(e_.at(x, part), count_), e_.at(to, part), count_);
      Value* score = v_.add(v_.load(e_.at(scores, part), count_), v_.load(e_.at(ape, part), count_));
      v_.store(score, e_.at(to, 4 * s_.columns + part), count_);
    }
  }

  // body(where the columns' values are, values so far) over the rows of the block, and with two halves of that before it.
  Emitter::Values over_block(const Slots::Row& row, Value* past, Emitter::Values init,
                             const std::function<Emitter::Values(Value*, const Emitter::Values&)>& body) {
    Value* begin = b_.CreateSub(past, e_.i64(s_.every));
    if (s_.halves == 2) {
      Value* before = b_.CreateSub(begin, e_.i64(s_.every));
      before = b_.CreateSelect(b_.CreateICmpSGT(before, e_.i64(0)), before, e_.i64(0));
      init = e_.for_range(before, begin, 1, init, [&](Value* p, const Emitter::Values& in) {
        return body(e_.at(kept_row(row.state, p), at_), in);
      });
    }
    const std::int64_t part = part_bytes(s_.halves - 1);
    return e_.for_range(begin, past, 1, init, [&](Value* p, const Emitter::Values& in) {
      return body(e_.at(e_.at(kept_row(row.state, p), at_), part), in);
    });
  }

  Value* pooled(const Slots::Row& row, Value* past) {
    const std::int64_t to_scores = 4 * s_.columns;
    Value* none = v_.splat(-std::numeric_limits<double>::infinity());
    Value* top = over_block(row, past, {none}, [&](Value* at, const Emitter::Values& in) {
      return Emitter::Values{v_.max(v_.load(e_.at(at, to_scores), count_), in[0])};
    })[0];
    const auto sums =
        over_block(row, past, {v_.zero(), v_.zero()}, [&](Value* at, const Emitter::Values& in) {
          Value* w = exp(v_, v_.sub(v_.load(e_.at(at, to_scores), count_), top));
          return Emitter::Values{v_.add(in[0], w), v_.fma(w, v_.load(at, count_), in[1])};
        });
    return v_.div(sums[1], sums[0]);
  }

  Emitter& e_;
  llvm::IRBuilder<>& b_;
  Vec v_;
  const CompressSpec& s_;
  const Args& a_;
  Value* at_;
  const int count_;
};

}  // namespace

llvm::Function* compress(Emitter& e, const CompressSpec& spec) {
  const std::string name =
      cat("compress_", spec.columns, "_every", spec.every, spec.halves == 2 ? "_overlap" : "");
  const std::vector<Arg> args = {ptr("step"), i64("group"), i64("slot_bytes"), i64("offset"), in("x"),
                                 i64("xs"),   in("scores"), i64("ss"),         in("ape"),     out("y"),
                                 i64("ys"),   i64("lo"),    i64("hi")};
  return e.function(name, args, [&, spec](const Args& a) {
    const Slots slots(e, a);
    for_units(e, a, spec.out_columns(),
              [&](Value* at, int count) { Columns(e, spec, a, at, count).emit(slots); });
  });
}

}  // namespace gc::cpu
