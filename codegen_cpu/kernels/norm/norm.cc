#include "codegen_cpu/kernels/norm/norm.h"

#include "codegen_cpu/kernels/row_out/row_out.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/base/strings.h"

namespace gc::cpu {

using llvm::Value;

namespace {

Value* element(Emitter& e, Value* base, Value* i) { return e.at(base, i, std::int64_t{4}); }

// sum over the row of term(i, count, acc) as Vec::running has it, an f32.
Value* sum(Vec& v, std::int64_t n, const std::function<Value*(Value*, int, Value*)>& term) {
  return v.reduce_add(v.running(n, v.zero(), term, [&](Value* a, Value* b) { return v.add(a, b); }));
}

// 1 / sqrt(sum / n + eps)
Value* inverse_root(Emitter& e, Value* sum, std::int64_t n, float eps) {
  Value* mean = e.b().CreateFDiv(sum, e.f32(static_cast<double>(n)));
  Value* root = e.b().CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, e.b().CreateFAdd(mean, e.f32(eps)));
  return e.b().CreateFDiv(e.f32(1.0), root);
}

}  // namespace

Value* emit_rms(Emitter& e, Value* x, std::int64_t n, float eps) {
  Vec v(e);
  Value* squares = sum(v, n, [&](Value* i, int count, Value* acc) {
    Value* a = v.load(element(e, x, i), count);
    return v.fma(a, a, acc);
  });
  return inverse_root(e, squares, n, eps);
}

llvm::Function* rms_norm(Emitter& e, const NormSpec& spec) {
  const std::string name = cat("rms_norm_", spec.n, spec.weight ? "" : "_plain", "_eps", float_name(spec.eps),
                               elem_suffix(spec.out));
  return e.function(name, {in("x"), i64("xs"), in("w"), out("y"), i64("ys"), i64("rows")},
                    [&, spec](const Args& a) {
                      Vec v(e);
                      e.for_range(e.i64(0), a["rows"], 1, [&](Value* row) {
                        Value* x = e.at(a["x"], row, a["xs"]);
                        Value* r = v.splat(emit_rms(e, x, spec.n, spec.eps));
                        emit_row(v, spec.out, e.at(a["y"], row, a["ys"]), spec.n, [&](Value* i, int count) {
                          Value* y = v.mul(v.load(element(e, x, i), count), r);
                          return spec.weight ? v.mul(y, v.load(element(e, a["w"], i), count)) : y;
                        });
                      });
                    });
}

llvm::Function* layer_norm(Emitter& e, const LayerNormSpec& spec) {
  const std::string name = cat("layer_norm_", spec.n, spec.weight ? "" : "_plain", spec.bias ? "_bias" : "",
                               "_eps", float_name(spec.eps), elem_suffix(spec.out));
  return e.function(name, {in("x"), i64("xs"), in("w"), in("b"), out("y"), i64("ys"), i64("rows")},
                    [&, spec](const Args& a) {
                      Vec v(e);
                      e.for_range(e.i64(0), a["rows"], 1, [&](Value* row) {
                        Value* x = e.at(a["x"], row, a["xs"]);
                        Value* total = sum(v, spec.n, [&](Value* i, int count, Value* acc) {
                          return v.add(acc, v.load(element(e, x, i), count));
                        });
                        Value* mean = v.splat(e.b().CreateFDiv(total, e.f32(static_cast<double>(spec.n))));
                        // A tail's absent lanes must not count as (0 - mean)^2.
                        Value* squares = sum(v, spec.n, [&](Value* i, int count, Value* acc) {
                          Value* d = v.sub(v.load(element(e, x, i), count), mean);
                          return v.fma(v.first(d, count), d, acc);
                        });
                        Value* r = v.splat(inverse_root(e, squares, spec.n, spec.eps));
                        emit_row(v, spec.out, e.at(a["y"], row, a["ys"]), spec.n, [&](Value* i, int count) {
                          Value* y = v.mul(v.sub(v.load(element(e, x, i), count), mean), r);
                          if (spec.weight) y = v.mul(y, v.load(element(e, a["w"], i), count));
                          return spec.bias ? v.add(y, v.load(element(e, a["b"], i), count)) : y;
                        });
                      });
                    });
}

llvm::Function* residual_norm(Emitter& e, const ResidualNormSpec& spec) {
  const std::string name = cat("residual_norm_", spec.n, spec.post ? "_post" : "", spec.pre ? "_pre" : "",
                               "_eps", float_name(spec.eps), elem_suffix(spec.out));
  const std::vector<Arg> args = {ptr("x0"), i64("x0s"), in("x1"),  i64("x1s"), in("post"), in("pre"),
                                 ptr("y0"), i64("y0s"), out("y1"), i64("y1s"), i64("rows")};
  return e.function(name, args, [&, spec](const Args& a) {
    Vec v(e);
    e.for_range(e.i64(0), a["rows"], 1, [&](Value* row) {
      Value* x0 = e.at(a["x0"], row, a["x0s"]);
      Value* x1 = e.at(a["x1"], row, a["x1s"]);
      Value* y0 = e.at(a["y0"], row, a["y0s"]);
      Value* r1 = spec.post ? v.splat(emit_rms(e, x1, spec.n, spec.eps)) : nullptr;
      Value* squares = sum(v, spec.n, [&](Value* i, int count, Value* acc) {
        Value* delta = v.load(element(e, x1, i), count);
        if (spec.post) delta = v.mul(v.mul(delta, r1), v.load(element(e, a["post"], i), count));
        Value* y = v.add(v.load(element(e, x0, i), count), delta);
        v.store(y, element(e, y0, i), count);
        return v.fma(y, y, acc);
      });
      Value* r0 = v.splat(inverse_root(e, squares, spec.n, spec.eps));
      emit_row(v, spec.out, e.at(a["y1"], row, a["y1s"]), spec.n, [&](Value* i, int count) {
        Value* y = v.mul(v.load(element(e, y0, i), count), r0);
        return spec.pre ? v.mul(y, v.load(element(e, a["pre"], i), count)) : y;
      });
    });
  });
}

}  // namespace gc::cpu
