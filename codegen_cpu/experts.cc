#include "codegen_cpu/experts.h"

#include "codegen_cpu/act_layout.h"
#include "codegen_cpu/frame.h"
#include "codegen_cpu/kernels/matmul/matmul.h"
#include "codegen_cpu/kernels/row_out/row_out.h"
#include "codegen_cpu/vec/math.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/base/error.h"
#include "compiler/quant/layouts.h"

namespace gc::cpu {

using llvm::Value;

namespace {

constexpr std::int64_t kColumnsFewRows = 512,
                       kColumnsManyRows = 64;  // of a product that is joined while in cache
constexpr std::int64_t kFewRows = 4;
constexpr std::int64_t kProductBytes =
    4 * (kColumnsFewRows * kFewRows > kColumnsManyRows * kExpertRows ? kColumnsFewRows * kFewRows
                                                                     : kColumnsManyRows * kExpertRows);

std::int64_t round64(std::int64_t n) { return (n + 63) / 64 * 64; }
std::int64_t row_bytes(ir::Elem elem, std::int64_t n) {
  return elem == ir::Elem::Q16 ? act_row_bytes(n) : round64(4 * n);
}

// The parts of a worker's scratch.
struct Parts {
  std::int64_t begin = 0, gathered, gate, up, lists;
  explicit Parts(const ExpertsSpec& s)
      : gathered(round64(4 * (s.experts + 1))),
        gate(gathered + kExpertRows * row_bytes(s.input, s.k)),
        up(gate + kProductBytes),
        lists(up + kProductBytes) {}
};

// void(routing, i64 rs, i64 rows, begin, row, weight): the lists of gc_expert_lists.
llvm::Function* make_lists(Emitter& e, std::int64_t experts) {
  auto& b = e.b();
  const std::vector<Arg> args = {in("routing"), i64("rs"),  i64("rows"),
                                 out("begin"),  out("row"), out("weight")};
  return e.function(cat("expert_lists_", experts), args, [&](const Args& a) {
    using Values = Emitter::Values;
    auto at = [&](const char* base, Value* i) { return e.at(a[base], i, std::int64_t{4}); };
    auto index = [&](Value* i) { return b.CreateTrunc(i, b.getInt32Ty()); };
    const Values all =
        e.for_range(e.i64(0), e.i64(experts), 1, {e.i64(0)}, [&](Value* expert, const Values& n) {
          e.store(index(n[0]), at("begin", expert), 4);
          Value* column = e.at(a["routing"], expert, std::int64_t{4});
          return e.for_range(e.i64(0), a["rows"], 1, n, [&](Value* t, const Values& count) {
            Value* weight = e.load(e.f32(), e.at(column, t, a["rs"]), 4);
            e.store(index(t), at("row", count[0]), 4);  // one past the end at most, where it is overwritten
            e.store(weight, at("weight", count[0]), 4);
            Value* chosen = b.CreateFCmpUNE(weight, e.f32(0));
            return Values{b.CreateAdd(count[0], b.CreateZExt(chosen, b.getInt64Ty()))};
          });
        });
    e.store(index(all[0]), e.at(a["begin"], 4 * experts), 4);
  });
}

// void(x, i64 xs, row, y, i64 n): the rows of the list, of `bytes` each, one after the other.
llvm::Function* gather(Emitter& e, std::int64_t bytes) {
  return e.function(
      cat("gather_", bytes), {in("x"), i64("xs"), in("row"), out("y"), i64("n")}, [&](const Args& a) {
        Vec v(e);
        e.for_range(e.i64(0), a["n"], 1, [&](Value* i) {
          Value* t = e.load(e.b().getInt32Ty(), e.at(a["row"], i, std::int64_t{4}), 4);
          Value* from = e.at(a["x"], e.b().CreateZExt(t, e.b().getInt64Ty()), a["xs"]);
          Value* to = e.at(a["y"], i, bytes);
          v.over(bytes / 4, [&](Value* c, int count) {
            v.store(v.load(e.at(from, c, std::int64_t{4}), count), e.at(to, c, std::int64_t{4}), count);
          });
        });
      });
}

// void(gate, up, i64 stride, gate_scale, up_scale, gate_bias, up_bias, weight, y, i64 begin, i64 columns, i64 rows):
// columns [begin, begin + columns) of y's rows from their products.
llvm::Function* join(Emitter& e, const ExpertsInSpec& s) {
  const std::int64_t unit = s.out == ir::Elem::Q16 ? 32 : 16, bytes = row_bytes(s.out, s.n);
  std::string name =
      cat("experts_join_", ir::name(s.fn), "_", s.n, s.gated() ? "" : "_plain", s.gate_scale ? "_gs" : "",
          s.up_scale ? "_us" : "", s.gate_bias ? "_gb" : "", s.up_bias ? "_ub" : "", s.weigh ? "_w" : "");
  if (s.limit) name += cat(s.limit_out ? "_limit_out" : "_limit", float_name(*s.limit));
  if (s.up_add != 0) name += cat("_add", float_name(s.up_add));
  if (s.gate_cap != 0) name += cat("_gate_cap", float_name(s.gate_cap));
  if (s.up_cap != 0) name += cat("_up_cap", float_name(s.up_cap));
  name += elem_suffix(s.out);
  const std::vector<Arg> args = {in("gate"),     in("up"),        i64("stride"),  in("gate_scale"),
                                 in("up_scale"), in("gate_bias"), in("up_bias"),  in("weight"),
                                 out("y"),       i64("begin"),    i64("columns"), i64("rows")};
  return e.function(name, args, [&](const Args& a) {
    Vec v(e);
    auto& b = e.b();
    Value* gate_scale = s.gate_scale ? v.load_splat(a["gate_scale"]) : nullptr;
    Value* up_scale = s.up_scale ? v.load_splat(a["up_scale"]) : nullptr;
    e.for_range(e.i64(0), a["rows"], 1, [&](Value* t) {
      Value* row = e.at(a["y"], t, bytes);
      Value* weight = s.weigh ? v.load_splat(e.at(a["weight"], t, std::int64_t{4})) : nullptr;
      e.for_range(e.i64(0), a["columns"], unit, [&](Value* c) {
        auto product = [&](const char* name, Value* scale, const char* bias, bool biased, Value* i) {
          Value* at = b.CreateShl(b.CreateAdd(c, i), 2);
          Value* x = v.load(e.at(e.at(a[name], t, a["stride"]), at));
          if (scale != nullptr) x = v.mul(x, scale);
          if (biased) x = v.add(x, v.load(e.at(e.at(a[bias], b.CreateShl(a["begin"], 2)), at)));
          return weight ? v.mul(x, weight) : x;
        };
        emit_row_part(v, s.out, row, s.n, b.CreateAdd(a["begin"], c), unit, [&](Value* i, int) {
          Value* up = product("up", up_scale, "up_bias", s.up_bias, i);
          if (!s.gated()) return activation(v, s.fn, up);
          Value* gate = product("gate", gate_scale, "gate_bias", s.gate_bias, i);
          if (s.limit) {
            if (!s.limit_out) gate = v.min(v.splat(*s.limit), gate);
            up = v.max(v.splat(-*s.limit), v.min(v.splat(*s.limit), up));
          }
          if (s.up_cap != 0) up = softcap(v, s.up_cap, up);
          if (s.up_add != 0) up = v.add(up, v.splat(s.up_add));
          Value* capped = s.gate_cap != 0 ? softcap(v, s.gate_cap, gate) : nullptr;
          gate = activation(v, s.fn, gate);
          if (capped) gate = v.mul(capped, gate);
          if (s.limit && s.limit_out) gate = v.min(v.splat(*s.limit), gate);
          return v.mul(gate, up);
        });
      });
    });
  });
}

// void(x, i64 stride, bias, weight, row, y, i64 ys, i64 columns, i64 rows): y[row[i]] += weight[i] * (x[i] + bias).
llvm::Function* add_to_rows(Emitter& e, bool bias, bool weigh) {
  const std::string name = cat("experts_add", bias ? "_bias" : "", weigh ? "_weigh" : "");
  const std::vector<Arg> args = {in("x"),  i64("stride"), in("bias"),     in("weight"), in("row"),
                                 out("y"), i64("ys"),     i64("columns"), i64("rows")};
  return e.function(name, args, [&](const Args& a) {
    Vec v(e);
    auto& b = e.b();
    e.for_range(e.i64(0), a["rows"], 1, [&](Value* i) {
      Value* t = b.CreateZExt(e.load(b.getInt32Ty(), e.at(a["row"], i, std::int64_t{4}), 4), b.getInt64Ty());
      Value* y = e.at(a["y"], t, a["ys"]);
      Value* x = e.at(a["x"], i, a["stride"]);
      Value* weight = weigh ? v.load_splat(e.at(a["weight"], i, std::int64_t{4})) : nullptr;
      e.for_range(e.i64(0), a["columns"], 16, [&](Value* c) {
        Value* at = b.CreateShl(c, 2);
        Value* part = v.load(e.at(x, at));
        if (bias) part = v.add(part, v.load(e.at(a["bias"], at)));
        Value* sum = v.load(e.at(y, at));
        v.store(weight ? v.fma(weight, part, sum) : v.add(sum, part), e.at(y, at));
      });
    });
  });
}

// What both products share: lists in scratch, an expert's entries, its rows block by block.
class Mixture {
 public:
  Mixture(Emitter& e, const ExpertsSpec& spec, const Args& a)
      : e_(e), b_(e.b()), spec_(spec), parts_(spec), a_(a) {
    Value* used = e_.i64(spec.used * 4);
    rows_ = part(parts_.lists);
    Value* bytes = b_.CreateAdd(b_.CreateMul(a["rows"], used), e_.i64(4 + 63));
    weights_ = e_.at(rows_, b_.CreateAnd(bytes, e_.i64(-64)));
    b_.CreateCall(make_lists(e_, spec.experts),
                  {a["routing"], a["rs"], a["rows"], part(parts_.begin), rows_, weights_});
  }

  const Parts& parts() const { return parts_; }
  Value* part(std::int64_t at) { return e_.at(a_["scratch"], at); }
  Value* entry(Value* list, Value* i) { return e_.at(list, i, std::int64_t{4}); }
  Value* rows() { return rows_; }
  Value* weights() { return weights_; }

  struct Range {
    Value *first, *count;
  };
  Range entries(Value* expert) {
    Value* at = e_.at(part(parts_.begin), expert, std::int64_t{4});
    auto u32 = [&](std::int64_t offset) { return b_.CreateZExt(e_.member_i32(at, offset), b_.getInt64Ty()); };
    Value* first = u32(0);
    return {first, b_.CreateSub(u32(4), first)};
  }

  // body(first entry, rows) over an expert's entries, kExpertRows at a time.
  void blocks(const Range& r, const std::function<void(Value*, Value*)>& body) {
    e_.for_range(e_.i64(0), r.count, kExpertRows, [&](Value* at) {
      Value* left = b_.CreateSub(r.count, at);
      Value* most = e_.i64(kExpertRows);
      body(b_.CreateAdd(r.first, at), b_.CreateSelect(b_.CreateICmpULT(left, most), left, most));
    });
  }

  // body(first unit, units, bytes of a product's row) over units [lo, hi) of `unit` columns.
  void chunks(Value* lo, Value* hi, std::int64_t unit, Value* rows,
              const std::function<void(Value*, Value*, Value*)>& body) {
    Value* few = b_.CreateICmpULE(rows, e_.i64(kFewRows));
    Value* chunk = b_.CreateSelect(few, e_.i64(kColumnsFewRows / unit), e_.i64(kColumnsManyRows / unit));
    Value* n = b_.CreateUDiv(b_.CreateAdd(b_.CreateSub(hi, lo), b_.CreateSub(chunk, e_.i64(1))), chunk);
    e_.for_range(e_.i64(0), n, 1, [&](Value* i) {
      Value* at = b_.CreateAdd(lo, b_.CreateMul(i, chunk));
      Value* left = b_.CreateSub(hi, at);
      body(at, b_.CreateSelect(b_.CreateICmpULT(left, chunk), left, chunk),
           b_.CreateMul(chunk, e_.i64(4 * unit)));
    });
  }

  // Rows [panel, panel + panels) of an expert's matrix, which has n_rows, times rows of x.
  void multiply(Format format, Value* matrices, std::int64_t n_rows, Value* expert, Value* panel, Value* x,
                Value* x_stride, Value* y, Value* stride, Value* panels, Value* rows) {
    const std::int64_t bytes = gc::panel_bytes(format, spec_.k);
    Value* at = b_.CreateAdd(b_.CreateMul(expert, e_.i64(n_rows / kPanelRows)), panel);
    b_.CreateCall(matmul(e_, {format, spec_.k, spec_.input}),
                  {e_.at(matrices, at, bytes), x, x_stride, y, stride, panels, rows});
  }

 private:
  Emitter& e_;
  llvm::IRBuilder<>& b_;
  const ExpertsSpec& spec_;
  const Parts parts_;
  const Args& a_;
  Value *rows_, *weights_;
};

// Bias of an expert: vectors of n values.
Value* bias_of(Emitter& e, Value* biases, bool there, Value* expert, std::int64_t n) {
  return there ? e.at(biases, expert, 4 * n) : biases;
}

void emit_experts_in(Emitter& e, const ExpertsInSpec& s, const Args& a) {
  using Values = Emitter::Values;
  auto& b = e.b();
  Mixture m(e, s, a);
  const std::int64_t unit = s.out == ir::Elem::Q16 ? 32 : 16, units = s.n / unit,
                     per_unit = unit / kPanelRows;
  const std::int64_t x_bytes = row_bytes(s.input, s.k);
  auto cost = [&](Value* count) { return b.CreateAdd(count, e.i64(kExpertCost)); };
  auto whole = [&](Value* count) {
    Value* none = b.CreateICmpEQ(count, e.i64(0));
    return b.CreateSelect(none, e.i64(0), b.CreateMul(cost(count), e.i64(units)));
  };
  const Values total = e.for_range(
      e.i64(0), e.i64(s.experts), 1, {e.i64(0)},
      [&](Value* x, const Values& sum) { return Values{b.CreateAdd(sum[0], whole(m.entries(x).count))}; });

  auto block = [&](Value* expert, Value* lo, Value* hi, Value* entry, Value* rows) {
    Value* list = m.entry(m.rows(), entry);
    // One row is multiplied where it is.
    const Values x = e.if_else(
        b.CreateICmpEQ(rows, e.i64(1)),
        [&] {
          Value* t = b.CreateZExt(e.member_i32(list, 0), b.getInt64Ty());
          return Values{e.at(a["x"], t, a["xs"]), a["xs"]};
        },
        [&] {
          Value* gathered = m.part(m.parts().gathered);
          b.CreateCall(gather(e, x_bytes), {a["x"], a["xs"], list, gathered, rows});
          return Values{gathered, e.i64(x_bytes)};
        });
    m.chunks(lo, hi, unit, rows, [&](Value* at, Value* count, Value* stride) {
      Value* first = b.CreateMul(at, e.i64(per_unit));
      Value* panels = b.CreateMul(count, e.i64(per_unit));
      Value* gate = m.part(m.parts().gate);
      Value* up = m.part(m.parts().up);
      Value* up_first = s.joined ? b.CreateAdd(first, e.i64(s.n / kPanelRows)) : first;
      const Format gate_format = s.gate.value_or(s.up);
      if (s.gated())
        m.multiply(gate_format, s.joined ? a["up"] : a["gate"], s.joined ? 2 * s.n : s.n, expert, first, x[0],
                   x[1], gate, stride, panels, rows);
      m.multiply(s.up, a["up"], s.up_rows(), expert, up_first, x[0], x[1], up, stride, panels, rows);
      Value* up_bias = bias_of(e, a["up_bias"], s.up_bias, expert, s.up_rows());
      Value* gate_bias = s.joined ? up_bias : bias_of(e, a["gate_bias"], s.gate_bias, expert, s.n);
      if (s.joined && s.up_bias) up_bias = e.at(up_bias, 4 * s.n);
      const auto scale_of = [&](const char* name, bool there) {
        return there ? e.at(a[name], expert, std::int64_t{4}) : a[name];
      };
      b.CreateCall(join(e, s), {gate, up, stride, scale_of("gate_scale", s.gate_scale),
                                scale_of("up_scale", s.up_scale), gate_bias, up_bias,
                                m.entry(m.weights(), entry), e.at(a["y"], entry, row_bytes(s.out, s.n)),
                                b.CreateMul(at, e.i64(unit)), b.CreateMul(count, e.i64(unit)), rows});
    });
  };
  e.for_range(e.i64(0), e.i64(s.experts), 1, {e.i64(0)}, [&](Value* expert, const Values& start) {
    const Mixture::Range r = m.entries(expert);
    auto bound = [&](Value* j) {
      return b.CreateCall(share_panels(e),
                          {total[0], start[0], cost(r.count), e.i64(units), j, a["workers"]});
    };
    e.if_then(b.CreateICmpNE(r.count, e.i64(0)), [&] {
      Value* lo = bound(a["worker"]);
      Value* hi = bound(b.CreateAdd(a["worker"], e.i64(1)));
      e.if_then(b.CreateICmpULT(lo, hi),
                [&] { m.blocks(r, [&](Value* entry, Value* rows) { block(expert, lo, hi, entry, rows); }); });
    });
    return Values{b.CreateAdd(start[0], whole(r.count))};
  });
}

void emit_experts_out(Emitter& e, const ExpertsOutSpec& s, const Args& a) {
  auto& b = e.b();
  Vec v(e);
  Mixture m(e, s, a);
  const std::int64_t panels = s.n / kPanelRows, x_bytes = row_bytes(s.input, s.k);
  auto bound = [&](Value* j) { return b.CreateCall(share_units(e), {e.i64(panels), j, a["workers"]}); };
  Value* lo = bound(a["worker"]);
  Value* hi = bound(b.CreateAdd(a["worker"], e.i64(1)));
  e.for_range(e.i64(0), a["rows"], 1, [&](Value* t) {
    Value* y = e.at(a["y"], t, a["ys"]);
    e.for_range(lo, hi, 1, [&](Value* p) { v.store(v.zero(), e.at(y, p, std::int64_t{64})); });
  });
  e.for_range(e.i64(0), e.i64(s.experts), 1, [&](Value* expert) {
    Value* bias = bias_of(e, a["bias"], s.bias, expert, s.n);
    m.blocks(m.entries(expert), [&](Value* entry, Value* rows) {
      Value* x = e.at(a["x"], entry, x_bytes);
      m.chunks(lo, hi, kPanelRows, rows, [&](Value* at, Value* count, Value* stride) {
        Value* product = m.part(m.parts().gate);
        m.multiply(s.down, a["down"], s.n, expert, at, x, e.i64(x_bytes), product, stride, count, rows);
        Value* column = b.CreateShl(at, 6);
        b.CreateCall(add_to_rows(e, s.bias, s.weigh),
                     {product, stride, s.bias ? e.at(bias, column) : bias, m.entry(m.weights(), entry),
                      m.entry(m.rows(), entry), e.at(a["y"], column), a["ys"], b.CreateShl(count, 4), rows});
      });
    });
  });
}

std::string shape_name(const ExpertsSpec& s) {
  return cat(s.experts, "_", s.used, "_", s.n, "x", s.k, elem_suffix(s.input));
}
std::string text(Format f) { return std::string(info(f).text_name); }

void check(const ExpertsSpec& s) { GC_CHECK(s.n % kPanelRows == 0, "an expert of ", s.n, " rows"); }

}  // namespace

llvm::Function* experts_in(Emitter& e, const ExpertsInSpec& s) {
  check(s);
  GC_CHECK(s.out != ir::Elem::Q16 || s.n % 32 == 0, "an expert of ", s.n, " rows");
  const std::string name =
      cat("experts_in_", shape_name(s), "_",
          s.joined ? "joined"
          : s.gate ? text(*s.gate)
                   : "plain",
          "_", text(s.up), "_", std::string(join(e, s)->getName()).substr(e.prefix().size()));
  const std::vector<Arg> args = {ptr("x"),        i64("xs"),        ptr("routing"), i64("rs"),
                                 i64("rows"),     ptr("gate"),      ptr("up"),      ptr("gate_scale"),
                                 ptr("up_scale"), ptr("gate_bias"), ptr("up_bias"), ptr("y"),
                                 ptr("scratch"),  i64("worker"),    i64("workers")};
  return e.function(name, args, [&](const Args& a) { emit_experts_in(e, s, a); });
}

llvm::Function* experts_out(Emitter& e, const ExpertsOutSpec& s) {
  check(s);
  const std::string name =
      cat("experts_out_", shape_name(s), "_", text(s.down), s.bias ? "_bias" : "", s.weigh ? "_weigh" : "");
  const std::vector<Arg> args = {ptr("x"),       ptr("routing"), i64("rs"),     i64("rows"),
                                 ptr("down"),    ptr("bias"),    ptr("y"),      i64("ys"),
                                 ptr("scratch"), i64("worker"),  i64("workers")};
  return e.function(name, args, [&](const Args& a) { emit_experts_out(e, s, a); });
}

std::int64_t experts_row_bytes(ir::Elem elem, std::int64_t n) { return row_bytes(elem, n); }

// Behind the fixed parts: two lists, each rounded up, with one entry more than is counted.
std::int64_t experts_scratch_bytes(const ExpertsSpec& spec) { return Parts(spec).lists + 2 * 128; }
std::int64_t experts_row_scratch_bytes(const ExpertsSpec& spec) { return 2 * 4 * spec.used; }

}  // namespace gc::cpu
