#include "codegen_cpu/kernels/streams/streams.h"

#include <limits>

#include "codegen_cpu/kernels/row_out/row_out.h"
#include "codegen_cpu/vec/math.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/base/strings.h"

namespace gc::cpu {

using llvm::Value;

namespace {

Value* element(Emitter& e, Value* base, Value* i) { return e.at(base, i, std::int64_t{4}); }

// body(x0, x1, y) for each row.
llvm::Function* two_in(Emitter& e, const std::string& name,
                       const std::function<void(Vec&, Value*, Value*, Value*)>& body) {
  const std::vector<Arg> args = {ptr("x0"), i64("x0s"), ptr("x1"),  i64("x1s"),
                                 ptr("y"),  i64("ys"),  i64("rows")};
  return e.function(name, args, [&](const Args& a) {
    Vec v(e);
    e.for_range(e.i64(0), a["rows"], 1, [&](Value* row) {
      body(v, e.at(a["x0"], row, a["x0s"]), e.at(a["x1"], row, a["x1s"]), e.at(a["y"], row, a["ys"]));
    });
  });
}

// sum over the row of term(i, count, acc) as Vec::running has it, an f32.
Value* sum(Vec& v, std::int64_t n, const std::function<Value*(Value*, int, Value*)>& term) {
  return v.reduce_add(v.running(n, v.zero(), term, [&](Value* a, Value* b) { return v.add(a, b); }));
}

Value* length(Vec& v, Value* x, std::int64_t n) {
  Emitter& e = v.e();
  Value* squares = sum(v, n, [&](Value* i, int count, Value* acc) {
    Value* a = v.load(element(e, x, i), count);
    return v.fma(a, a, acc);
  });
  return e.b().CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, squares);
}

}  // namespace

llvm::Function* mix(Emitter& e, const MixSpec& s) {
  const std::string name = cat("mix_", s.from, "_to_", s.to, "_", s.n, "_plus", float_name(s.plus));
  return two_in(e, name, [&](Vec& v, Value* x, Value* factors, Value* y) {
    e.for_range(0, s.to, 1, [&](Value* j) {
      Value* row = e.at(factors, j, 4 * s.from);
      std::vector<Value*> by;
      for (std::int64_t i = 0; i < s.from; ++i)
        by.push_back(v.add(v.load_splat(e.at(row, 4 * i)), v.splat(s.plus)));
      Value* to = e.at(y, j, 4 * s.n);
      v.over(s.n, [&](Value* k, int count) {
        auto stream = [&](std::int64_t i) { return v.load(element(e, e.at(x, 4 * i * s.n), k), count); };
        Value* total = v.mul(by[0], stream(0));
        for (std::int64_t i = 1; i < s.from; ++i) total = v.fma(by[static_cast<size_t>(i)], stream(i), total);
        v.store(total, element(e, to, k), count);
      });
    });
  });
}

llvm::Function* rescale(Emitter& e, std::int64_t heads, std::int64_t n) {
  return two_in(e, cat("rescale_", heads, "x", n), [&](Vec& v, Value* like, Value* x, Value* y) {
    Value* wanted = length(v, like, n);
    e.for_range(0, heads, 1, [&](Value* h) {
      Value* from = e.at(x, h, 4 * n);
      Value* to = e.at(y, h, 4 * n);
      Value* by = v.splat(e.b().CreateFDiv(wanted, length(v, from, n)));
      v.over(n, [&](Value* i, int count) {
        v.store(v.mul(v.load(element(e, from, i), count), by), element(e, to, i), count);
      });
    });
  });
}

llvm::Function* add_heads(Emitter& e, std::int64_t heads, std::int64_t n, std::int64_t begin) {
  return two_in(e, cat("add_heads_", heads, "x", n, "_from", begin),
                [&](Vec& v, Value* x, Value* z, Value* y) {
                  auto copy = [&](std::int64_t lo, std::int64_t hi, bool adds) {
                    e.for_range(lo, hi, 1, [&](Value* h) {
                      v.over(n, [&](Value* i, int count) {
                        Value* a = v.load(element(e, e.at(x, h, 4 * n), i), count);
                        if (adds) a = v.add(a, v.load(element(e, z, i), count));
                        v.store(a, element(e, e.at(y, h, 4 * n), i), count);
                      });
                    });
                  };
                  copy(0, begin, false);
                  copy(begin, heads, true);
                });
}

llvm::Function* dot_heads(Emitter& e, std::int64_t heads, std::int64_t n) {
  return two_in(e, cat("dot_heads_", heads, "x", n), [&](Vec& v, Value* x, Value* z, Value* y) {
    e.for_range(0, heads, 1, [&](Value* h) {
      Value* a = e.at(x, h, 4 * n);
      Value* b = e.at(z, h, 4 * n);
      Value* total = sum(v, n, [&](Value* i, int count, Value* acc) {
        return v.fma(v.load(element(e, a, i), count), v.load(element(e, b, i), count), acc);
      });
      e.store(total, element(e, y, h), 4);
    });
  });
}

llvm::Function* sinkhorn(Emitter& e, std::int64_t n, float eps, std::int64_t rounds) {
  const std::string name = cat("sinkhorn_", n, "_eps", float_name(eps), "_", rounds);
  return e.function(name, {ptr("x"), i64("xs"), ptr("y"), i64("ys"), i64("rows")}, [&](const Args& a) {
    Vec v(e);
    auto& b = e.b();
    const int count = static_cast<int>(n);
    e.for_range(e.i64(0), a["rows"], 1, [&](Value* row) {
      Value* x = e.at(a["x"], row, a["xs"]);
      Value* y = e.at(a["y"], row, a["ys"]);
      // A vector is a row of the matrix; its lanes from n on stay 0.
      std::vector<Value*> m;
      const auto over_its_sum = [&](Value* r, double more) {
        return v.div(r, v.splat(b.CreateFAdd(v.reduce_add(r), e.f32(more))));
      };
      for (std::int64_t s = 0; s < n; ++s) {
        Value* logits = v.load(e.at(x, 4 * n * s), count);
        Value* lowest = v.splat(-std::numeric_limits<float>::infinity());
        std::vector<int> lanes;
        for (int i = 0; i < Vec::kLanes; ++i) lanes.push_back(i < count ? i : Vec::kLanes + i);
        Value* most = v.reduce_max(b.CreateShuffleVector(logits, lowest, lanes));
        Value* r = over_its_sum(v.first(exp(v, v.sub(logits, v.splat(most))), count), 0);
        m.push_back(v.first(v.add(r, v.splat(eps)), count));
      }
      for (std::int64_t i = 0; i < rounds; ++i) {
        if (i > 0)
          for (Value*& r : m) r = over_its_sum(r, eps);
        Value* sums = v.splat(eps);
        for (Value* r : m) sums = v.add(sums, r);
        for (Value*& r : m) r = v.first(v.div(r, sums), count);
      }
      for (std::int64_t s = 0; s < n; ++s)
        for (std::int64_t d = 0; d < n; ++d)
          e.store(b.CreateExtractElement(m[static_cast<std::size_t>(s)], static_cast<std::uint64_t>(d)),
                  e.at(y, 4 * (d * n + s)), 4);
    });
  });
}

llvm::Function* sparsify(Emitter& e, std::int64_t n, float by) {
  const std::string name = cat("sparsify_", n, "_by", float_name(by));
  return e.function(name, {ptr("x"), i64("xs"), ptr("y"), i64("ys"), i64("rows")}, [&](const Args& a) {
    Vec v(e);
    auto& b = e.b();
    e.for_range(e.i64(0), a["rows"], 1, [&](Value* row) {
      Value* x = e.at(a["x"], row, a["xs"]);
      Value* y = e.at(a["y"], row, a["ys"]);
      Value* total = sum(
          v, n, [&](Value* i, int count, Value* acc) { return v.add(acc, v.load(element(e, x, i), count)); });
      Value* mean = b.CreateFDiv(total, e.f32(static_cast<double>(n)));
      Value* means = v.splat(mean);
      // A tail's absent lanes must not count as (0 - mean)^2.
      Value* squares = sum(v, n, [&](Value* i, int count, Value* acc) {
        Value* d = v.sub(v.load(element(e, x, i), count), means);
        return v.fma(v.first(d, count), d, acc);
      });
      Value* deviation = b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt,
                                                b.CreateFDiv(squares, e.f32(static_cast<double>(n - 1))));
      Value* cut = v.splat(b.CreateFAdd(mean, b.CreateFMul(e.f32(by), deviation)));
      v.over(n, [&](Value* i, int count) {
        Value* over = v.sub(v.load(element(e, x, i), count), cut);
        v.store(v.max(over, v.zero()), element(e, y, i), count);
      });
    });
  });
}

}  // namespace gc::cpu
