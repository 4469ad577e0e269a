#include "codegen_cpu/kernels/route/route.h"

#include <cstddef>
#include <functional>
#include <string>

#include "codegen_cpu/kernels/row_out/row_out.h"
#include "codegen_cpu/vec/math.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/base/error.h"
#include "runtime/abi/program.h"

namespace gc::cpu {

using llvm::Value;

namespace {

constexpr double kInfinity = __builtin_inf();

// Emits one row's routing. Buffers hold whole vectors; the lanes behind the last expert never win.
class Router {
 public:
  Router(Emitter& e, const RouteSpec& spec)
      : e_(e), b_(e.b()), v_(e), spec_(spec), padded_((spec.experts + 15) / 16 * 16) {
    p_ = e_.stack(4 * padded_);
    score_ = e_.stack(4 * padded_);
    if (spec_.groups > 1) {
      best_ = e_.stack(4 * spec_.groups);
      open_ = e_.stack(4 * spec_.groups);
    }
  }

  void row(Value* x, Value* bias, Value* y) {
    probabilities(x);
    copy_padded(score_, [&](Value* i, int count) {
      Value* p = v_.load(at(p_, i), count);
      return spec_.bias ? v_.add(p, v_.load(at(bias, i), count)) : p;
    });
    if (spec_.groups > 1) close_groups();
    clear(y);
    e_.for_range(0, spec_.used, 1, [&](Value*) {
      Value* best = take_best(score_, spec_.experts);
      e_.store(load(p_, best), at(y, best), 4);
    });
    scale(y);
  }

  // `chosen`: f32[used] numbers of experts.
  void row_of(Value* x, Value* chosen, Value* y) {
    probabilities(x);
    clear(y);
    Value* last = e_.f32(static_cast<double>(spec_.experts - 1));
    e_.for_range(0, spec_.used, 1, [&](Value* i) {
      Value* number = load(chosen, i);
      number = b_.CreateSelect(b_.CreateFCmpOLT(number, last), number, last);
      number = b_.CreateSelect(b_.CreateFCmpOGT(number, e_.f32(0)), number, e_.f32(0));
      Value* expert = b_.CreateFPToSI(number, b_.getInt64Ty());
      e_.store(load(p_, expert), at(y, expert), 4);
    });
    scale(y);
  }

 private:
  void probabilities(Value* x) {
    copy_padded(p_, [&](Value* i, int count) { return v_.load(at(x, i), count); });
    if (!spec_.fn) return softmax();
    v_.over(padded_,
            [&](Value* i, int) { v_.store(activation(v_, *spec_.fn, v_.load(at(p_, i))), at(p_, i)); });
  }
  void clear(Value* y) {
    v_.over(spec_.experts, [&](Value* i, int count) { v_.store(v_.zero(), at(y, i), count); });
  }

  Value* at(Value* base, Value* i) { return e_.at(base, i, std::int64_t{4}); }
  Value* load(Value* base, Value* i) { return e_.load(e_.f32(), at(base, i), 4); }

  void copy_padded(Value* to, const std::function<Value*(Value*, int)>& from) {
    v_.store(v_.splat(-kInfinity), e_.at(to, 4 * (padded_ - 16)));
    v_.over(spec_.experts, [&](Value* i, int count) { v_.store(from(i, count), at(to, i), count); });
  }

  Value* sum_of(Value* base, std::int64_t n) {
    Value* lanes = v_.running(
        n, v_.zero(),
        [&](Value* i, int count, Value* acc) { return v_.add(acc, v_.load(at(base, i), count)); },
        [&](Value* a, Value* c) { return v_.add(a, c); });
    return v_.reduce_add(lanes);
  }

  void softmax() {
    Value* lanes = v_.running(
        padded_, v_.splat(-kInfinity),
        [&](Value* i, int, Value* acc) { return v_.max(v_.load(at(p_, i)), acc); },
        [&](Value* a, Value* c) { return v_.max(a, c); });
    Value* top = v_.splat(v_.reduce_max(lanes));
    v_.over(padded_, [&](Value* i, int) { v_.store(exp(v_, v_.sub(v_.load(at(p_, i)), top)), at(p_, i)); });
    Value* sum = v_.splat(sum_of(p_, padded_));
    v_.over(padded_, [&](Value* i, int) { v_.store(v_.div(v_.load(at(p_, i)), sum), at(p_, i)); });
  }

  // Index of the first of the greatest of n values, which becomes -inf. In [0, n) whatever the values are.
  Value* take_best(Value* values, std::int64_t n) {
    const auto best = e_.for_range(e_.i64(0), e_.i64(n), 1, {e_.f32(-kInfinity), e_.i64(0)},
                                   [&](Value* i, const Emitter::Values& so_far) {
                                     Value* x = load(values, i);
                                     Value* better = b_.CreateFCmpOGT(x, so_far[0]);
                                     return Emitter::Values{b_.CreateSelect(better, x, so_far[0]),
                                                            b_.CreateSelect(better, i, so_far[1])};
                                   });
    e_.store(e_.f32(-kInfinity), at(values, best[1]), 4);
    return best[1];
  }

  // The scores of experts whose group is left out become -inf.
  void close_groups() {
    const std::int64_t size = spec_.experts / spec_.groups;
    e_.for_range(0, spec_.groups, 1, [&](Value* g) {
      const auto two =
          e_.for_range(e_.i64(0), e_.i64(size), 1, {e_.f32(-kInfinity), e_.f32(-kInfinity)},
                       [&](Value* i, const Emitter::Values& best) {
                         Value* x = load(score_, b_.CreateAdd(b_.CreateMul(g, e_.i64(size)), i));
                         Value* first = b_.CreateFCmpOGT(x, best[0]);
                         Value* second = b_.CreateFCmpOGT(x, best[1]);
                         Value* next = b_.CreateSelect(first, best[0], b_.CreateSelect(second, x, best[1]));
                         return Emitter::Values{b_.CreateSelect(first, x, best[0]), next};
                       });
      e_.store(b_.CreateFAdd(two[0], two[1]), at(best_, g), 4);
      e_.store(e_.i32(0), at(open_, g), 4);
    });
    e_.for_range(0, spec_.groups_used, 1,
                 [&](Value*) { e_.store(e_.i32(1), at(open_, take_best(best_, spec_.groups)), 4); });
    e_.for_range(0, spec_.experts, 1, [&](Value* i) {
      Value* group = b_.CreateUDiv(i, e_.i64(size));
      Value* open = b_.CreateICmpNE(e_.load(b_.getInt32Ty(), at(open_, group), 4), e_.i32(0));
      e_.store(b_.CreateSelect(open, load(score_, i), e_.f32(-kInfinity)), at(score_, i), 4);
    });
  }

  // Weights of the chosen; the others stay 0 even where a weight is no number.
  void scale(Value* y) {
    if (!spec_.normed && spec_.by == 1) return;
    Value* by = e_.f32(spec_.by);
    if (spec_.normed) {
      Value* sum = sum_of(y, spec_.experts);
      Value* least = e_.f32(spec_.least);
      by = b_.CreateFDiv(by, b_.CreateSelect(b_.CreateFCmpOLT(sum, least), least, sum));
    }
    Value* all = v_.splat(by);
    v_.over(spec_.experts, [&](Value* i, int count) {
      Value* w = v_.load(at(y, i), count);
      Value* chosen = b_.CreateFCmpUNE(w, v_.zero());
      v_.store(b_.CreateSelect(chosen, v_.mul(w, all), v_.zero()), at(y, i), count);
    });
  }

  Emitter& e_;
  llvm::IRBuilder<>& b_;
  Vec v_;
  const RouteSpec& spec_;
  const std::int64_t padded_;
  Value *p_, *score_, *best_ = nullptr, *open_ = nullptr;
};

std::string route_name(const RouteSpec& s) {
  std::string name = cat("route_", s.experts, "_", s.used, "_", s.fn ? ir::name(*s.fn) : "softmax");
  if (s.bias) name += "_bias";
  if (s.normed) name += cat("_norm", float_name(s.least));
  if (s.by != 1) name += cat("_by", float_name(s.by));
  if (s.groups > 1) name += cat("_groups_", s.groups_used, "_", s.groups);
  return name;
}

}  // namespace

llvm::Function* route(Emitter& e, const RouteSpec& spec) {
  GC_CHECK(spec.used > 0 && spec.used <= spec.experts && spec.experts % spec.groups == 0, route_name(spec));
  return e.function(route_name(spec), {in("x"), i64("xs"), in("bias"), out("y"), i64("ys"), i64("rows")},
                    [&](const Args& a) {
                      Router router(e, spec);
                      e.for_range(e.i64(0), a["rows"], 1, [&](Value* t) {
                        router.row(e.at(a["x"], t, a["xs"]), a["bias"], e.at(a["y"], t, a["ys"]));
                      });
                    });
}

llvm::Function* route_by_token(Emitter& e, const RouteSpec& spec) {
  GC_CHECK(!spec.bias && spec.groups == 1, route_name(spec));
  return e.function(
      cat(route_name(spec), "_by_token"),
      {in("rows"), in("x"), i64("xs"), in("table"), out("y"), i64("ys"), i64("n_rows")}, [&](const Args& a) {
        Router router(e, spec);
        e.for_range(e.i64(0), a["n_rows"], 1, [&](Value* t) {
          Value* row = e.at(a["rows"], t, std::int64_t{sizeof(gc_row)});
          Value* token = e.b().CreateSExt(e.member_i32(row, offsetof(gc_row, token)), e.b().getInt64Ty());
          router.row_of(e.at(a["x"], t, a["xs"]), e.at(a["table"], token, 4 * spec.used),
                        e.at(a["y"], t, a["ys"]));
        });
      });
}

}  // namespace gc::cpu
