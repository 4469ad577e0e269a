#include <cmath>

#include "codegen_cpu/kernels/recurrent/recurrent.h"
#include "codegen_cpu/kernels/recurrent/slots.h"
#include "codegen_cpu/kernels/row_out/row_out.h"
#include "codegen_cpu/vec/math.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/base/error.h"
#include "compiler/base/strings.h"

namespace gc::cpu {

using llvm::Value;

namespace {

using Kind = ScanSpec::Kind;

// A unit: columns [first, first + width) of one head, over all rows.
class Unit {
 public:
  Unit(Emitter& e, const ScanSpec& spec, const Args& a, const Slots& slots, Value* head, Value* first,
       std::int64_t width)
      : e_(e), b_(e.b()), v_(e), spec_(spec), a_(a), slots_(slots), head_(head), width_(width) {
    first_ = b_.CreateShl(first, 2);
    row_bytes_ = 4 * spec.values;
    if (spec.gate_of_keys || spec.kind == Kind::Wkv || spec.kind == Kind::Wkv7) {
      decays_ = e.stack(4 * spec.keys);
      weighed_keys_ = e.stack(4 * spec.keys);
    }
  }

  void run() {
    load_constants();
    Value* at = b_.CreateAdd(b_.CreateMul(head_, e_.i64(spec_.keys * row_bytes_)), first_);
    e_.for_range(e_.i64(0), slots_.n_rows(), 1, [&](Value* t) {
      t_ = t;
      const Slots::Row row = slots_.of(t);
      state_ = e_.at(row.state, at);
      e_.if_then(row.first, [&] {
        e_.for_range(0, spec_.keys, 1, [&](Value* i) {
          each([&](std::size_t p) { store(v_.zero(), e_.at(state_, i, row_bytes_), p); });
        });
      });
      emit_row();
    });
  }

 private:
  using Values = Vec::Values;

  std::size_t parts() const { return static_cast<std::size_t>((width_ + 15) / 16); }
  int count(std::size_t p) const {
    return static_cast<int>(std::min<std::int64_t>(16, width_ - 16 * static_cast<std::int64_t>(p)));
  }
  void each(const std::function<void(std::size_t)>& f) {
    for (std::size_t p = 0; p < parts(); ++p) f(p);
  }
  Values values(const std::function<Value*(std::size_t)>& f) {
    Values out;
    each([&](std::size_t p) { out.push_back(f(p)); });
    return out;
  }
  Value* load(Value* base, std::size_t p) {
    return v_.load(e_.at(base, 64 * static_cast<std::int64_t>(p)), count(p));
  }
  void store(Value* x, Value* base, std::size_t p) {
    v_.store(x, e_.at(base, 64 * static_cast<std::int64_t>(p)), count(p));
  }

  // Row t of operand i.
  Value* operand(int i) {
    static constexpr const char* kNames[] = {"x0", "x1", "x2", "x3", "x4", "x5"};
    static constexpr const char* kStrides[] = {"x0s", "x1s", "x2s", "x3s", "x4s", "x5s"};
    return e_.at(a_[kNames[i]], t_, a_[kStrides[i]]);
  }
  Value* of_head(Value* base, Value* head, std::int64_t size) { return e_.at(base, head, 4 * size); }
  Value* columns(Value* base) { return columns(base, head_); }
  Value* columns(Value* base, Value* head) { return e_.at(of_head(base, head, spec_.values), first_); }
  Value* scalar(Value* base, Value* i) { return v_.load_splat(e_.at(base, i, std::int64_t{4})); }

  Value* group() {
    if (spec_.groups == spec_.heads) return head_;
    if (spec_.in_turn) return b_.CreateURem(head_, e_.i64(spec_.groups));
    return b_.CreateUDiv(head_, e_.i64(spec_.heads / spec_.groups));
  }

  // What is the same for all rows.
  void load_constants() {
    switch (spec_.kind) {
      case Kind::Ssm:
        rate_ = scalar(a_["a"], head_);
        if (spec_.dt_bias) dt_bias_ = {scalar(a_["dt_bias"], head_)};
        if (spec_.d) d_ = Values(parts(), scalar(a_["d"], head_));
        return;
      case Kind::SsmStates:
        if (spec_.dt_bias) dt_bias_ = values([&](std::size_t p) { return load(columns(a_["dt_bias"]), p); });
        if (spec_.d) d_ = values([&](std::size_t p) { return load(columns(a_["d"]), p); });
        return;
      case Kind::Delta:
      case Kind::Wkv:
      case Kind::Wkv7:
        return;
      case Kind::Decay: {
        std::vector<float> decays;
        for (std::int64_t h = 0; h < spec_.heads; ++h)
          decays.push_back(
              static_cast<float>(std::exp(-spec_.by * ir::alibi_slope(spec_.alibi, h, spec_.heads))));
        decay_ = scalar(e_.floats(decays), head_);
        return;
      }
    }
  }

  void emit_row() {
    switch (spec_.kind) {
      case Kind::Ssm:
        return emit_ssm();
      case Kind::SsmStates:
        return emit_ssm_states();
      case Kind::Delta:
        return emit_delta();
      case Kind::Decay: {
        const Values u = values([&](std::size_t p) { return load(columns(operand(2)), p); });
        const auto decay = [&](Value*, std::size_t) { return decay_; };
        return finish(update(u, decay, of_head(operand(1), group(), spec_.keys),
                             of_head(operand(0), group(), spec_.keys)),
                      v_.splat(spec_.scale), {});
      }
      case Kind::Wkv:
        return emit_wkv();
      case Kind::Wkv7:
        return emit_wkv7();
    }
  }

  void emit_ssm() {
    Value* dt = scalar(operand(1), head_);
    if (spec_.dt_bias) dt = v_.add(dt, dt_bias_[0]);
    Value* step = softplus(v_, dt);
    Value* decay = exp(v_, v_.mul(step, rate_));
    const Values x = values([&](std::size_t p) { return load(columns(operand(0)), p); });
    const Values u = values([&](std::size_t p) { return v_.mul(step, x[p]); });
    const auto rows_decay = [&](Value*, std::size_t) { return decay; };
    finish(update(u, rows_decay, of_head(operand(2), group(), spec_.keys),
                  of_head(operand(3), group(), spec_.keys)),
           nullptr, x);
  }

  void emit_ssm_states() {
    const Values step = values([&](std::size_t p) {
      Value* dt = load(columns(operand(1)), p);
      return softplus(v_, spec_.dt_bias ? v_.add(dt, dt_bias_[p]) : dt);
    });
    const Values x = values([&](std::size_t p) { return load(columns(operand(0)), p); });
    const Values u = values([&](std::size_t p) { return v_.mul(step[p], x[p]); });
    const auto decay = [&](Value* i, std::size_t p) {
      return exp(v_, v_.mul(step[p], load(e_.at(columns(a_["a"]), i, row_bytes_), p)));
    };
    finish(update(u, decay, operand(2), operand(3)), nullptr, x);
  }

  void emit_delta() {
    Value *query = of_head(operand(0), group(), spec_.keys), *key = of_head(operand(1), group(), spec_.keys);
    Value* decay = nullptr;
    if (spec_.gate_of_keys)
      weigh_keys(of_head(operand(3), head_, spec_.keys), key, [](Value* d, Value*, int) { return d; });
    else
      decay = exp(v_, scalar(operand(3), head_));
    // What the decayed state says of the key, and what is missing of the value.
    Values known = sums([&](Value* i, Values acc) {
      Value* k = scalar(spec_.gate_of_keys ? weighed_keys_ : key, i);
      each([&](std::size_t p) { acc[p] = v_.fma(k, load(e_.at(state_, i, row_bytes_), p), acc[p]); });
      return acc;
    });
    Value* beta = scalar(operand(4), head_);
    const Values u = values([&](std::size_t p) {
      Value* said = decay != nullptr ? v_.mul(decay, known[p]) : known[p];
      return v_.mul(beta, v_.sub(load(columns(operand(2)), p), said));
    });
    const auto decay_of = [&](Value* i, std::size_t) {
      return decay != nullptr ? decay : scalar(decays_, i);
    };
    finish(update(u, decay_of, key, query), v_.splat(spec_.scale), {});
  }

  void emit_wkv() {
    Value *query = of_head(operand(0), head_, spec_.keys), *key = of_head(operand(1), group(), spec_.keys);
    const auto weight = [&](Value* decay, Value* i, int n) -> Value* {
      if (spec_.leaky) return v_.sub(v_.splat(1), decay);
      return spec_.bonus ? v_.load(e_.at(of_head(a_["a"], head_, spec_.keys), i, std::int64_t{4}), n)
                         : nullptr;
    };
    weigh_keys(of_head(operand(3), head_, spec_.keys), key, weight);
    const Values u = values([&](std::size_t p) { return load(columns(operand(2), group()), p); });
    if (!spec_.bonus) {
      const auto decay = [&](Value* i, std::size_t) { return scalar(decays_, i); };
      return finish(update(u, decay, weighed_keys_, query), v_.splat(spec_.scale), {});
    }
    finish(sums([&](Value* i, Values acc) {
             Value* s = e_.at(state_, i, row_bytes_);
             Value *decay = scalar(decays_, i), *k = scalar(key, i), *bonus = scalar(weighed_keys_, i);
             each([&](std::size_t p) {
               Value* before = load(s, p);
               store(v_.fma(k, u[p], v_.mul(decay, before)), s, p);
               acc[p] = v_.fma(scalar(query, i), v_.fma(bonus, u[p], before), acc[p]);
             });
             return acc;
           }),
           v_.splat(spec_.scale), {});
  }

  void emit_wkv7() {
    const auto of = [&](int i) { return of_head(operand(i), head_, spec_.keys); };
    Value *query = of(0), *key = of(1), *a = of(4), *b = of(5);
    weigh_keys(of(3), key, [](Value*, Value*, int) { return nullptr; });
    const Values v = values([&](std::size_t p) { return load(columns(operand(2)), p); });
    const Values known = sums([&](Value* i, Values acc) {
      Value* a_i = scalar(a, i);
      each([&](std::size_t p) { acc[p] = v_.fma(a_i, load(e_.at(state_, i, row_bytes_), p), acc[p]); });
      return acc;
    });
    finish(sums([&](Value* i, Values acc) {
             Value* s = e_.at(state_, i, row_bytes_);
             Value *decay = scalar(decays_, i), *k = scalar(key, i), *b_i = scalar(b, i),
                   *q = scalar(query, i);
             each([&](std::size_t p) {
               Value* next = v_.fma(k, v[p], v_.fma(b_i, known[p], v_.mul(decay, load(s, p))));
               store(next, s, p);
               acc[p] = v_.fma(q, next, acc[p]);
             });
             return acc;
           }),
           nullptr, {});
  }

  // Decays of the head's keys, and the keys times weight(decay, index, count), or 1 where that gives none.
  void weigh_keys(Value* gate, Value* key,
                  const std::function<Value*(Value* decay, Value* i, int n)>& weight) {
    v_.over(spec_.keys, [&](Value* i, int n) {
      auto in = [&](Value* base) { return e_.at(base, i, std::int64_t{4}); };
      Value* decay = exp(v_, v_.load(in(gate), n));
      v_.store(decay, in(decays_), n);
      Value *k = v_.load(in(key), n), *w = weight(decay, i, n);
      v_.store(w != nullptr ? v_.mul(w, k) : k, in(weighed_keys_), n);
    });
  }

  // Sums over the rows of the state, even and odd ones apart: one's steps wait for each other.
  Values sums(const std::function<Values(Value* i, Values acc)>& add) {
    const std::size_t n = parts();
    const std::int64_t step = spec_.keys % 2 == 0 ? 2 : 1;
    Values all =
        e_.for_range(e_.i64(0), e_.i64(spec_.keys), step,
                     Values(n * static_cast<std::size_t>(step), v_.zero()), [&](Value* i, const Values& acc) {
                       Values out = add(i, Values(acc.begin(), acc.begin() + n));
                       if (step == 1) return out;
                       const Values odd = add(b_.CreateAdd(i, e_.i64(1)), Values(acc.begin() + n, acc.end()));
                       out.insert(out.end(), odd.begin(), odd.end());
                       return out;
                     });
    if (step == 1) return all;
    return values([&](std::size_t p) { return v_.add(all[p], all[n + p]); });
  }

  // S[i] = decay S[i] + key[i] u; gives query . S.
  Values update(const Values& u, const std::function<Value*(Value* i, std::size_t p)>& decay, Value* key,
                Value* query) {
    return sums([&](Value* i, Values acc) {
      Value* s = e_.at(state_, i, row_bytes_);
      Value *k = scalar(key, i), *q = scalar(query, i);
      each([&](std::size_t p) {
        Value* next = v_.fma(k, u[p], v_.mul(decay(i, p), load(s, p)));
        store(next, s, p);
        acc[p] = v_.fma(q, next, acc[p]);
      });
      return acc;
    });
  }

  // y = scale * sums + d * x; without scale 1, without x no sum.
  void finish(const Values& sums, Value* scale, const Values& x) {
    Value* y = columns(e_.at(a_["y"], t_, a_["ys"]));
    each([&](std::size_t p) {
      Value* r = scale != nullptr ? v_.mul(scale, sums[p]) : sums[p];
      if (spec_.d) r = v_.fma(d_[p], x[p], r);
      store(r, y, p);
    });
  }

  Emitter& e_;
  llvm::IRBuilder<>& b_;
  Vec v_;
  const ScanSpec& spec_;
  const Args& a_;
  const Slots& slots_;
  Value *head_, *first_ = nullptr, *t_ = nullptr, *state_ = nullptr;
  const std::int64_t width_;
  std::int64_t row_bytes_ = 0;
  Value *rate_ = nullptr, *decay_ = nullptr, *decays_ = nullptr, *weighed_keys_ = nullptr;
  Values dt_bias_, d_;
};

std::string name_of(const ScanSpec& s) {
  const std::string sizes = cat(s.heads, "x", s.keys, "x", s.values, "_of", s.groups);
  switch (s.kind) {
    case Kind::Ssm:
      return cat("ssm_scan_", sizes, s.dt_bias ? "_bias" : "", s.d ? "_d" : "");
    case Kind::SsmStates:
      return cat("ssm_scan_states_", sizes, s.dt_bias ? "_bias" : "", s.d ? "_d" : "");
    case Kind::Delta:
      return cat("delta_rule_", sizes, s.gate_of_keys ? "_keys" : "", s.in_turn ? "_in_turn" : "", "_",
                 float_name(s.scale));
    case Kind::Decay:
      return cat("decay_attention_", sizes, "_", float_name(s.scale), "_",
                 float_name(static_cast<float>(s.alibi)), "_", float_name(static_cast<float>(s.by)));
    case Kind::Wkv:
      return cat("wkv_", sizes, s.bonus ? "_bonus" : "", s.leaky ? "_leaky" : "", "_", float_name(s.scale));
    case Kind::Wkv7:
      return cat("wkv7_", sizes);
  }
  throw_internal("kind of scan");
}

}  // namespace

std::int64_t ScanSpec::block(const Isa& isa) const {
  const std::int64_t most = kind == Kind::SsmStates ? 32 : isa.vector_bytes >= 64 ? 64 : 32;
  return std::min(most, (values + 15) / 16 * 16);
}

llvm::Function* scan(Emitter& e, const ScanSpec& spec) {
  const std::vector<Arg> args = {in("step"), i64("group"), i64("slot_bytes"), i64("offset"), in("x0"),
                                 i64("x0s"), in("x1"),     i64("x1s"),        in("x2"),      i64("x2s"),
                                 in("x3"),   i64("x3s"),   in("x4"),          i64("x4s"),    in("x5"),
                                 i64("x5s"), in("a"),      in("dt_bias"),     in("d"),       out("y"),
                                 i64("ys"),  i64("lo"),    i64("hi")};
  return e.function(name_of(spec), args, [&, spec](const Args& a) {
    auto& b = e.b();
    const Slots slots(e, a);
    const std::int64_t block = spec.block(e.isa()), blocks = (spec.values + block - 1) / block;
    const std::int64_t tail = spec.values - (blocks - 1) * block;
    e.for_range(a["lo"], a["hi"], 1, [&](Value* unit) {
      Value* head = b.CreateUDiv(unit, e.i64(blocks));
      Value* number = b.CreateURem(unit, e.i64(blocks));
      auto part = [&](std::int64_t width) {
        Unit(e, spec, a, slots, head, b.CreateMul(number, e.i64(block)), width).run();
        return Emitter::Values{};
      };
      if (tail == block) {
        part(block);
        return;
      }
      e.if_else(
          b.CreateICmpEQ(number, e.i64(blocks - 1)), [&] { return part(tail); }, [&] { return part(block); });
    });
  });
}

}  // namespace gc::cpu
