#include "codegen_cpu/kernels/rope/rope.h"

#include <algorithm>
#include <cstddef>

#include "compiler/base/error.h"
#include "compiler/base/strings.h"
#include "runtime/abi/program.h"

namespace gc::cpu {

using llvm::Value;

namespace {

using Load = std::function<Value*(Value*, int)>;

Value* element(Emitter& e, Value* base, Value* i) { return e.at(base, i, std::int64_t{4}); }

// body(first, second) counts of the two vectors that hold `count` interleaved pairs.
std::pair<int, int> pair_counts(int count) {
  return {std::min(2 * count, Vec::kLanes), std::max(2 * count - Vec::kLanes, 0)};
}

// Elements 2 i .. of interleaved pairs, as their first and second members.
std::pair<Value*, Value*> load_pairs(Vec& v, const Load& load, Value* i, int count) {
  Emitter& e = v.e();
  const auto [low, high] = pair_counts(count);
  Value* begin = e.b().CreateShl(i, 1);
  Value* a = load(begin, low);
  Value* b = high > 0 ? load(e.b().CreateAdd(begin, e.i64(Vec::kLanes)), high) : v.zero();
  return v.deinterleave(a, b);
}

Load loads_from(Vec& v, Value* base) {
  return [&v, base](Value* i, int count) { return v.load(element(v.e(), base, i), count); };
}

}  // namespace

Angles make_angles(Emitter& e, const RopeSpec& spec) {
  if (spec.dims == 0) return {};
  return {e.stack(spec.dims / 2 * 4), e.stack(spec.dims / 2 * 4)};
}

void emit_angles(Vec& v, const RopeSpec& spec, const Angles& angles, Value* fine, Value* coarse, Value* pos) {
  if (spec.dims == 0) return;
  GC_CHECK(spec.dims % 2 == 0 && spec.fine > 0, "RoPE of ", spec.dims, " dimensions, ", spec.fine,
           " fine positions");
  Emitter& e = v.e();
  llvm::IRBuilder<>& b = e.b();
  Value* f = e.at(fine, b.CreateURem(pos, e.i64(spec.fine)), spec.dims * 4);
  Value* c = e.at(coarse, b.CreateUDiv(pos, e.i64(spec.fine)), spec.dims * 4);
  v.over(spec.dims / 2, [&](Value* i, int count) {
    const auto [cf, sf] = load_pairs(v, loads_from(v, f), i, count);
    const auto [cc, sc] = load_pairs(v, loads_from(v, c), i, count);
    v.store(v.fma(cf, cc, v.neg(v.mul(sf, sc))), element(e, angles.cos, i), count);
    Value* s = v.fma(sf, cc, v.mul(cf, sc));
    v.store(spec.inverse ? v.neg(s) : s, element(e, angles.sin, i), count);
  });
}

void emit_turned(Vec& v, const RopeSpec& spec, const Angles& angles, std::int64_t dim, const Load& load,
                 Value* y, Value* by) {
  Emitter& e = v.e();
  llvm::IRBuilder<>& b = e.b();
  GC_CHECK(spec.dims <= dim, "RoPE of ", spec.dims, " of ", dim, " dimensions");
  auto scaled = [&](Value* x) { return by ? v.mul(x, by) : x; };
  const std::int64_t half = spec.dims / 2;
  v.over(half, [&](Value* i, int count) {
    Value* c = v.load(element(e, angles.cos, i), count);
    Value* s = v.load(element(e, angles.sin, i), count);
    Value* second = b.CreateAdd(i, e.i64(half));
    std::pair<Value*, Value*> x;
    if (spec.neox) {
      x.first = load(i, count);
      x.second = load(second, count);
    } else {
      x = load_pairs(v, load, i, count);
    }
    Value* p = scaled(v.fma(x.first, c, v.neg(v.mul(x.second, s))));
    Value* q = scaled(v.fma(x.second, c, v.mul(x.first, s)));
    if (spec.neox) {
      v.store(p, element(e, y, i), count);
      v.store(q, element(e, y, second), count);
      return;
    }
    const auto [low, high] = v.interleave(p, q);
    const auto [low_count, high_count] = pair_counts(count);
    Value* begin = b.CreateShl(i, 1);
    v.store(low, element(e, y, begin), low_count);
    if (high_count > 0) v.store(high, element(e, y, b.CreateAdd(begin, e.i64(Vec::kLanes))), high_count);
  });
  v.over(dim - spec.dims, [&](Value* i, int count) {
    Value* at = b.CreateAdd(i, e.i64(spec.dims));
    v.store(scaled(load(at, count)), element(e, y, at), count);
  });
}

llvm::Function* rope(Emitter& e, const RopeKernelSpec& spec) {
  const RopeSpec& r = spec.rope;
  const std::string name =
      cat("rope_", spec.heads, "x", spec.dim, "_", r.dims, r.neox ? "_neox" : "_pairs", "_fine", r.fine,
          r.inverse ? "_inverse" : "", spec.back > 0 ? cat("_back", spec.back) : "");
  const std::vector<Arg> args = {in("rows"),   in("x"),  i64("xs"), in("fine"),
                                 in("coarse"), out("y"), i64("ys"), i64("n_rows")};
  return e.function(name, args, [&, spec](const Args& a) {
    Vec v(e);
    llvm::IRBuilder<>& b = e.b();
    const Angles angles = make_angles(e, spec.rope);
    e.for_range(e.i64(0), a["n_rows"], 1, [&](Value* t) {
      Value* row = e.at(a["rows"], t, std::int64_t{sizeof(gc_row)});
      Value* pos = b.CreateZExt(e.member_i32(row, offsetof(gc_row, pos)), b.getInt64Ty());
      if (spec.back > 0) {
        Value* before = b.CreateSub(pos, e.i64(spec.back));
        pos = b.CreateSelect(b.CreateICmpSGT(before, e.i64(0)), before, e.i64(0));
      }
      emit_angles(v, spec.rope, angles, a["fine"], a["coarse"], pos);
      Value* x = e.at(a["x"], t, a["xs"]);
      Value* y = e.at(a["y"], t, a["ys"]);
      e.for_range(0, spec.heads, 1, [&](Value* h) {
        Value* head = e.at(x, h, spec.dim * 4);
        emit_turned(v, spec.rope, angles, spec.dim, loads_from(v, head), e.at(y, h, spec.dim * 4), nullptr);
      });
    });
  });
}

}  // namespace gc::cpu
