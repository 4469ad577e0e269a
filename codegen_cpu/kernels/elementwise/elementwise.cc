#include "codegen_cpu/kernels/elementwise/elementwise.h"

#include "codegen_cpu/kernels/row_out/row_out.h"
#include "codegen_cpu/vec/math.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/base/strings.h"

namespace gc::cpu {

using llvm::Value;

namespace {

Value* element(Emitter& e, Value* base, Value* i) { return e.at(base, i, std::int64_t{4}); }

llvm::Function* unary(Emitter& e, const std::string& name, std::int64_t n,
                      const std::function<Value*(Vec&, Value*)>& f) {
  return e.function(name, {ptr("x"), i64("xs"), ptr("y"), i64("ys"), i64("rows")}, [&](const Args& a) {
    Vec v(e);
    e.for_range(e.i64(0), a["rows"], 1, [&](Value* row) {
      Value* x = e.at(a["x"], row, a["xs"]);
      Value* y = e.at(a["y"], row, a["ys"]);
      v.over(n, [&](Value* i, int count) {
        v.store(f(v, v.load(element(e, x, i), count)), element(e, y, i), count);
      });
    });
  });
}

llvm::Function* binary(Emitter& e, const std::string& name, std::int64_t n,
                       const std::function<Value*(Vec&, Value*, Value*)>& f) {
  const std::vector<Arg> args = {ptr("x0"), i64("x0s"), ptr("x1"),  i64("x1s"),
                                 ptr("y"),  i64("ys"),  i64("rows")};
  return e.function(name, args, [&](const Args& a) {
    Vec v(e);
    e.for_range(e.i64(0), a["rows"], 1, [&](Value* row) {
      Value* x0 = e.at(a["x0"], row, a["x0s"]);
      Value* x1 = e.at(a["x1"], row, a["x1s"]);
      Value* y = e.at(a["y"], row, a["ys"]);
      v.over(n, [&](Value* i, int count) {
        Value* r = f(v, v.load(element(e, x0, i), count), v.load(element(e, x1, i), count));
        v.store(r, element(e, y, i), count);
      });
    });
  });
}

}  // namespace

llvm::Function* act(Emitter& e, ir::Fn fn, std::int64_t n) {
  return unary(e, cat("act_", ir::name(fn), "_", n), n,
               [&](Vec& v, Value* x) { return activation(v, fn, x); });
}

llvm::Function* softcap(Emitter& e, float cap, std::int64_t n) {
  return unary(e, cat("softcap_", float_name(cap), "_", n), n,
               [&](Vec& v, Value* x) { return softcap(v, cap, x); });
}

llvm::Function* scale(Emitter& e, float by, std::int64_t n) {
  return unary(e, cat("scale_", float_name(by), "_", n), n,
               [&](Vec& v, Value* x) { return v.mul(v.splat(by), x); });
}

llvm::Function* add(Emitter& e, std::int64_t n) {
  return binary(e, cat("add_", n), n, [](Vec& v, Value* a, Value* b) { return v.add(a, b); });
}

llvm::Function* mul(Emitter& e, std::int64_t n) {
  return binary(e, cat("mul_", n), n, [](Vec& v, Value* a, Value* b) { return v.mul(a, b); });
}

llvm::Function* bias(Emitter& e, std::int64_t n) {
  const std::vector<Arg> args = {ptr("x"), i64("xs"), in("w"), ptr("y"), i64("ys"), i64("rows")};
  return e.function(cat("bias_", n), args, [&](const Args& a) {
    Vec v(e);
    e.for_range(e.i64(0), a["rows"], 1, [&](Value* row) {
      Value* x = e.at(a["x"], row, a["xs"]);
      Value* y = e.at(a["y"], row, a["ys"]);
      v.over(n, [&](Value* i, int count) {
        Value* r = v.add(v.load(element(e, x, i), count), v.load(element(e, a["w"], i), count));
        v.store(r, element(e, y, i), count);
      });
    });
  });
}

llvm::Function* select(Emitter& e, std::int64_t n) {
  const std::vector<Arg> args = {in("x"), i64("xs"), in("outputs"), out("y"), i64("ys"), i64("n_outputs")};
  return e.function(cat("select_", n), args, [&](const Args& a) {
    Vec v(e);
    llvm::IRBuilder<>& b = e.b();
    e.for_range(e.i64(0), a["n_outputs"], 1, [&](Value* r) {
      Value* index = e.load(b.getInt32Ty(), e.at(a["outputs"], r, std::int64_t{4}), 4);
      Value* x = e.at(a["x"], b.CreateZExt(index, b.getInt64Ty()), a["xs"]);
      Value* y = e.at(a["y"], r, a["ys"]);
      v.over(n,
             [&](Value* i, int count) { v.store(v.load(element(e, x, i), count), element(e, y, i), count); });
    });
  });
}

}  // namespace gc::cpu
