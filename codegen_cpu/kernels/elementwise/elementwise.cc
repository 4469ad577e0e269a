#include "codegen_cpu/kernels/elementwise/elementwise.h"

#include <cmath>
#include <cstddef>

#include "codegen_cpu/kernels/row_out/row_out.h"
#include "codegen_cpu/vec/math.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/base/strings.h"
#include "runtime/abi/program.h"

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

// y = x * by, n values.
void weigh_part(Vec& v, Value* x, Value* by, Value* y, std::int64_t n) {
  Emitter& e = v.e();
  v.over(n, [&](Value* i, int count) {
    v.store(v.mul(v.load(element(e, x, i), count), by), element(e, y, i), count);
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

llvm::Function* clamp(Emitter& e, float limit, std::int64_t n) {
  return unary(e, cat("clamp_", float_name(limit), "_", n), n,
               [&](Vec& v, Value* x) { return v.max(v.splat(-limit), v.min(v.splat(limit), x)); });
}

llvm::Function* clamp_above(Emitter& e, float limit, std::int64_t n) {
  return unary(e, cat("clamp_above_", float_name(limit), "_", n), n,
               [&](Vec& v, Value* x) { return v.min(v.splat(limit), x); });
}

llvm::Function* concat_heads(Emitter& e, const ConcatHeadsSpec& s) {
  const std::vector<Arg> args = {ptr("x0"), i64("x0s"), ptr("x1"),  i64("x1s"),
                                 ptr("y"),  i64("ys"),  i64("rows")};
  const std::string name =
      cat("concat_heads_", s.heads, "_", s.of_first, "x", s.a, "_", s.of_second, "x", s.b);
  return e.function(name, args, [&](const Args& in) {
    Vec v(e);
    e.for_range(e.i64(0), in["rows"], 1, [&](Value* row) {
      Value* x0 = e.at(in["x0"], row, in["x0s"]);
      Value* x1 = e.at(in["x1"], row, in["x1s"]);
      Value* y = e.at(in["y"], row, in["ys"]);
      auto copy = [&](Value* from, Value* to, std::int64_t n) {
        v.over(n, [&](Value* i, int count) {
          v.store(v.load(element(e, from, i), count), element(e, to, i), count);
        });
      };
      e.for_range(0, s.heads, 1, [&](Value* h) {
        Value* to = e.at(y, h, 4 * (s.a + s.b));
        copy(s.of_first == 1 ? x0 : e.at(x0, h, 4 * s.a), to, s.a);
        copy(s.of_second == 1 ? x1 : e.at(x1, h, 4 * s.b), e.at(to, 4 * s.a), s.b);
      });
    });
  });
}

llvm::Function* add(Emitter& e, std::int64_t n) {
  return binary(e, cat("add_", n), n, [](Vec& v, Value* a, Value* b) { return v.add(a, b); });
}

llvm::Function* mul(Emitter& e, std::int64_t n) {
  return binary(e, cat("mul_", n), n, [](Vec& v, Value* a, Value* b) { return v.mul(a, b); });
}

llvm::Function* mul_heads(Emitter& e, std::int64_t heads, std::int64_t d) {
  const std::vector<Arg> args = {ptr("x0"), i64("x0s"), ptr("x1"),  i64("x1s"),
                                 ptr("y"),  i64("ys"),  i64("rows")};
  return e.function(cat("mul_heads_", heads, "x", d), args, [&](const Args& a) {
    Vec v(e);
    e.for_range(e.i64(0), a["rows"], 1, [&](Value* row) {
      Value* x = e.at(a["x0"], row, a["x0s"]);
      Value* by = e.at(a["x1"], row, a["x1s"]);
      Value* y = e.at(a["y"], row, a["ys"]);
      e.for_range(0, heads, 1, [&](Value* h) {
        weigh_part(v, e.at(x, h, 4 * d), v.load_splat(element(e, by, h)), e.at(y, h, 4 * d), d);
      });
    });
  });
}

llvm::Function* weigh(Emitter& e, const WeighSpec& spec) {
  const std::string name = cat("weigh_", spec.n, "_by", spec.weights, spec.inverse ? "_inverse" : "");
  const std::vector<Arg> args = {ptr("x"), i64("xs"), in("w"), ptr("y"), i64("ys"), i64("rows")};
  return e.function(name, args, [&, spec](const Args& a) {
    Vec v(e);
    const std::int64_t each = spec.n / spec.weights;
    auto factor = [&](Value* w) { return spec.inverse ? v.div(v.splat(1), w) : w; };
    e.for_range(e.i64(0), a["rows"], 1, [&](Value* row) {
      Value* x = e.at(a["x"], row, a["xs"]);
      Value* y = e.at(a["y"], row, a["ys"]);
      if (each == 1) {
        v.over(spec.n, [&](Value* i, int count) {
          Value* w = v.load(element(e, a["w"], i), count);
          Value* x_i = v.load(element(e, x, i), count);
          v.store(spec.inverse ? v.div(x_i, w) : v.mul(x_i, w), element(e, y, i), count);
        });
        return;
      }
      e.for_range(0, spec.weights, 1, [&](Value* j) {
        Value* w = factor(v.load_splat(element(e, a["w"], j)));
        weigh_part(v, e.at(x, j, 4 * each), w, e.at(y, j, 4 * each), each);
      });
    });
  });
}

llvm::Function* temper(Emitter& e, const TemperSpec& spec) {
  const std::string name =
      cat("temper_", float_name(spec.by), "_", spec.period, "_", spec.offset, "_", spec.n);
  const std::vector<Arg> args = {in("rows"), ptr("x"), i64("xs"), ptr("y"), i64("ys"), i64("n_rows")};
  return e.function(name, args, [&, spec](const Args& a) {
    Vec v(e);
    llvm::IRBuilder<>& b = e.b();
    std::vector<float> factors;
    for (std::int64_t i = 0; i <= (kTemperReach + spec.offset) / spec.period; ++i)
      factors.push_back(static_cast<float>(1 + spec.by * std::log(1 + static_cast<double>(i))));
    Value* table = e.floats(factors);
    e.for_range(e.i64(0), a["n_rows"], 1, [&](Value* t) {
      Value* row = e.at(a["rows"], t, std::int64_t{sizeof(gc_row)});
      Value* pos = b.CreateZExt(e.member_i32(row, offsetof(gc_row, pos)), b.getInt64Ty());
      Value* period = b.CreateUDiv(b.CreateAdd(pos, e.i64(spec.offset)), e.i64(spec.period));
      weigh_part(v, e.at(a["x"], t, a["xs"]), v.load_splat(element(e, table, period)),
                 e.at(a["y"], t, a["ys"]), spec.n);
    });
  });
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
