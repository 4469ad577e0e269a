// The inner kernel of attention: (m, l, o) of one range of at most 512 positions for the query heads of a group.
//
// Per block of 64 keys: scores as an outer product (heads x 16-key vectors of accumulators over k_dim), then max, exp
// and sum a head, then values as an outer product (heads x 16-dimension vectors of accumulators over the positions).
// Tiles are as many accumulators as the ISA has registers for besides the operands; they decide speed only, since each
// accumulator sees its own products in the same order whatever the tile.
#include <algorithm>
#include <limits>

#include "codegen_cpu/kernels/attention/unit.h"
#include "codegen_cpu/kv_layout.h"
#include "codegen_cpu/vec/math.h"
#include "compiler/base/strings.h"

namespace gc::cpu {

using llvm::Value;
using Values = Emitter::Values;

namespace {

constexpr int kKeyVectors = GC_KV_BLOCK / Vec::kLanes;
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// n things in the fewest parts of at most `limit`, evenly.
std::int64_t even_part(std::int64_t n, std::int64_t limit) {
  limit = std::max<std::int64_t>(1, limit);
  const std::int64_t parts = (n + limit - 1) / limit;
  return (n + parts - 1) / parts;
}

// body(first, count) for parts of `part` of n things, unrolled.
void in_parts(std::int64_t n, std::int64_t part, const std::function<void(std::int64_t, int)>& body) {
  for (std::int64_t i = 0; i < n; i += part) body(i, static_cast<int>(std::min(part, n - i)));
}

class RangeEmitter {
 public:
  RangeEmitter(Emitter& e, const AttnSpec& spec, const Args& a)
      : e_(e),
        b_(e.b()),
        v_(e),
        s_(spec),
        q_(a["q"]),
        p_(a["p"]),
        lo_(a["lo"]),
        hi_(a["hi"]),
        pos_(a["pos"]),
        partial_(a["partial"]) {
    const PartialLayout at = partial_layout(spec);
    m_ = partial_;
    l_ = e_.at(partial_, at.l);
    o_ = e_.at(partial_, at.o);
    blocks_ = {a["table"], a["n"], a["base"], a["block_bytes"]};
    if (s_.alibi != 0) slopes_ = e_.at(e_.floats(slopes(s_)), a["kv_head"], s_.group() * 4);
    alpha_ = e_.stack(4 * s_.group());
    head_part_ = even_part(s_.group(), 6);
    // Vectors of 16 lanes that fit in registers at once, but for a broadcast: those of a tile are its accumulators, a
    // head's each, and the operands that the heads share (one head uses up each as it comes).
    const int registers = (e.isa().vector_registers() - 1) * e.isa().f32_lanes() / Vec::kLanes;
    vectors_ = head_part_ == 1 ? registers - 2 : registers / (head_part_ + 1);
  }

  void emit() {
    clear();
    Value* first = b_.CreateLShr(lo_, 6);
    Value* last = b_.CreateLShr(b_.CreateSub(hi_, e_.i64(1)), 6);
    e_.for_range(first, b_.CreateAdd(last, e_.i64(1)), 1, [&](Value* block) {
      Value* keys = emit_block(e_, s_, blocks_, block);
      Value* values = e_.at(keys, kv_keys_bytes(s_.k_dim, s_.kv_type));
      Value* origin = b_.CreateShl(block, 6);
      Value* begin = maximum(b_.CreateSub(lo_, origin), e_.i64(0));
      Value* end = minimum(b_.CreateSub(hi_, origin), e_.i64(GC_KV_BLOCK));
      scores(keys);
      if (s_.cap != 0) cap();
      if (s_.alibi != 0) alibi(origin);
      mask(begin, end);
      softmax();
      weigh(values, begin, end);
    });
  }

 private:
  static std::vector<float> slopes(const AttnSpec& spec) {
    std::vector<float> all;
    for (std::int64_t h = 0; h < spec.heads; ++h)
      all.push_back(static_cast<float>(ir::alibi_slope(spec.alibi, h, spec.heads)));
    return all;
  }

  Value* maximum(Value* a, Value* b) { return b_.CreateSelect(b_.CreateICmpSGT(a, b), a, b); }
  Value* minimum(Value* a, Value* b) { return b_.CreateSelect(b_.CreateICmpSLT(a, b), a, b); }
  Value* f32_at(Value* base, Value* i) { return e_.at(base, i, std::int64_t{4}); }

  void clear() {
    e_.for_range(0, s_.group(), 1, [&](Value* g) {
      e_.store(e_.f32(kMinusInfinity), f32_at(m_, g), 4);
      e_.store(e_.f32(0), f32_at(l_, g), 4);
    });
    v_.over(s_.group() * s_.v_dim, [&](Value* i, int count) { v_.store(v_.zero(), f32_at(o_, i), count); });
  }

  // p[g][key] = q[g] . k[key] for all 64 keys of a block.
  void scores(Value* keys) {
    const std::int64_t element = kv_element_bytes(s_.kv_type);
    const std::int64_t key_part = even_part(kKeyVectors, vectors_);
    in_parts(s_.group(), head_part_, [&](std::int64_t g0, int heads) {
      in_parts(kKeyVectors, key_part, [&](std::int64_t c0, int vectors) {
        Values acc(heads * vectors, v_.zero());
        acc = e_.for_range(e_.i64(0), e_.i64(s_.k_dim), 1, acc, [&](Value* d, const Values& in) {
          Values next(in);
          Value* row = e_.at(keys, d, GC_KV_BLOCK * element, c0 * Vec::kLanes * element);
          Values k;
          for (int c = 0; c < vectors; ++c)
            k.push_back(load_kv(v_, s_.kv_type, e_.at(row, c * Vec::kLanes * element)));
          for (int g = 0; g < heads; ++g) {
            Value* q = v_.load_splat(e_.at(q_, d, 4, (g0 + g) * s_.k_dim * 4));
            for (int c = 0; c < vectors; ++c) next[g * vectors + c] = v_.fma(q, k[c], in[g * vectors + c]);
          }
          return next;
        });
        for (int g = 0; g < heads; ++g) {
          for (int c = 0; c < vectors; ++c) {
            v_.store(acc[g * vectors + c], e_.at(p_, ((g0 + g) * GC_KV_BLOCK + (c0 + c) * Vec::kLanes) * 4));
          }
        }
      });
    });
  }

  // Scores of positions outside [begin, end) become -inf, whatever the memory held that nobody wrote. Only blocks at an
  // end of the range have any.
  void mask(Value* begin, Value* end) {
    e_.for_range(0, s_.group(), 1, [&](Value* g) {
      Value* row = e_.at(p_, g, GC_KV_BLOCK * 4);
      auto clear_scores = [&](Value* key) { e_.store(e_.f32(kMinusInfinity), f32_at(row, key), 4); };
      e_.for_range(e_.i64(0), begin, 1, clear_scores);
      e_.for_range(end, e_.i64(GC_KV_BLOCK), 1, clear_scores);
    });
  }

  void cap() {
    v_.over(s_.group() * GC_KV_BLOCK, [&](Value* i, int count) {
      v_.store(softcap(v_, s_.cap, v_.load(f32_at(p_, i), count)), f32_at(p_, i), count);
    });
  }

  // p -= slope (pos - key).
  void alibi(Value* origin) {
    Value* first = v_.splat(b_.CreateSIToFP(b_.CreateSub(origin, pos_), e_.f32()));
    e_.for_range(0, s_.group(), 1, [&](Value* g) {
      Value* row = e_.at(p_, g, GC_KV_BLOCK * 4);
      Value* slope = v_.load_splat(f32_at(slopes_, g));
      for (int c = 0; c < kKeyVectors; ++c) {
        std::vector<llvm::Constant*> keys;
        for (int i = 0; i < Vec::kLanes; ++i)
          keys.push_back(llvm::ConstantFP::get(e_.f32(), c * Vec::kLanes + i));
        Value* distance = v_.add(first, llvm::ConstantVector::get(keys));
        Value* at = e_.at(row, c * Vec::kLanes * 4);
        v_.store(v_.fma(slope, distance, v_.load(at)), at);
      }
    });
  }

  // p = exp(p - m) with m, l and alpha, the factor of what was summed before.
  void softmax() {
    e_.for_range(0, s_.group(), 1, [&](Value* g) {
      Value* row = e_.at(p_, g, GC_KV_BLOCK * 4);
      Values s;
      for (int c = 0; c < kKeyVectors; ++c) s.push_back(v_.load(e_.at(row, c * Vec::kLanes * 4)));
      Value* top = v_.reduce_max(v_.max(v_.max(s[0], s[2]), v_.max(s[1], s[3])));
      Value* before = e_.load(e_.f32(), f32_at(m_, g), 4);
      Value* m = b_.CreateSelect(b_.CreateFCmpOGT(before, top), before, top);
      for (Value*& x : s) x = exp(v_, v_.sub(x, v_.splat(m)));
      Value* sum = v_.reduce_add(v_.add(v_.add(s[0], s[2]), v_.add(s[1], s[3])));
      for (int c = 0; c < kKeyVectors; ++c) v_.store(s[c], e_.at(row, c * Vec::kLanes * 4));
      Value* alpha = b_.CreateExtractElement(exp(v_, v_.splat(b_.CreateFSub(before, m))), std::uint64_t{0});
      Value* l = e_.load(e_.f32(), f32_at(l_, g), 4);
      e_.store(v_.fma(l, alpha, sum), f32_at(l_, g), 4);
      e_.store(m, f32_at(m_, g), 4);
      e_.store(alpha, f32_at(alpha_, g), 4);
    });
  }

  // o[g] = o[g] * alpha[g] + sum over keys of p[g][key] * v[key].
  void weigh(Value* values, Value* begin, Value* end) {
    const std::int64_t whole = s_.v_dim / Vec::kLanes;
    const std::int64_t part = even_part(std::max<std::int64_t>(whole, 1), vectors_);
    in_parts(s_.group(), head_part_, [&](std::int64_t g0, int heads) {
      if (whole > 0) {
        // Equal parts as a loop, a shorter rest after it.
        const std::int64_t loops = whole / part;
        e_.for_range(0, loops * part * Vec::kLanes, part * Vec::kLanes, [&](Value* at) {
          weigh_part(values, begin, end, g0, heads, at, std::vector<int>(part, Vec::kLanes));
        });
        if (loops * part < whole) {
          weigh_part(values, begin, end, g0, heads, e_.i64(loops * part * Vec::kLanes),
                     std::vector<int>(whole - loops * part, Vec::kLanes));
        }
      }
      if (s_.v_dim % Vec::kLanes != 0) {
        weigh_part(values, begin, end, g0, heads, e_.i64(whole * Vec::kLanes),
                   {static_cast<int>(s_.v_dim % Vec::kLanes)});
      }
    });
  }

  // Dimensions from `at` on: vectors of `counts` elements.
  void weigh_part(Value* values, Value* begin, Value* end, std::int64_t g0, int heads, Value* at,
                  const std::vector<int>& counts) {
    const std::int64_t element = kv_element_bytes(s_.kv_type);
    const int vectors = static_cast<int>(counts.size());
    auto place = [&](int g, int c) {
      return e_.at(f32_at(o_, at), ((g0 + g) * s_.v_dim + std::int64_t{c} * Vec::kLanes) * 4);
    };
    Values acc;
    for (int g = 0; g < heads; ++g) {
      Value* alpha = v_.load_splat(e_.at(alpha_, (g0 + g) * 4));
      for (int c = 0; c < vectors; ++c) acc.push_back(v_.mul(v_.load(place(g, c), counts[c]), alpha));
    }
    Value* column = e_.at(values, at, element);
    acc = e_.for_range(begin, end, 1, acc, [&](Value* key, const Values& in) {
      Values next(in);
      Value* row = e_.at(column, key, s_.v_dim * element);
      Values x;
      for (int c = 0; c < vectors; ++c) {
        x.push_back(load_kv(v_, s_.kv_type, e_.at(row, c * Vec::kLanes * element), counts[c]));
      }
      for (int g = 0; g < heads; ++g) {
        Value* p = v_.load_splat(e_.at(p_, key, 4, (g0 + g) * GC_KV_BLOCK * 4));
        for (int c = 0; c < vectors; ++c) next[g * vectors + c] = v_.fma(p, x[c], in[g * vectors + c]);
      }
      return next;
    });
    for (int g = 0; g < heads; ++g) {
      for (int c = 0; c < vectors; ++c) v_.store(acc[g * vectors + c], place(g, c), counts[c]);
    }
  }

  Emitter& e_;
  llvm::IRBuilder<>& b_;
  Vec v_;
  const AttnSpec& s_;
  Value *q_, *p_, *lo_, *hi_, *pos_, *partial_;
  Value* slopes_ = nullptr;  // of the group's heads, with ALiBi
  Value *m_, *l_, *o_, *alpha_;
  Blocks blocks_;
  std::int64_t head_part_, vectors_;  // largest tile: heads by vectors
};

}  // namespace

llvm::Function* attn_range(Emitter& e, const AttnSpec& spec) {
  // Norms, RoPE, sinks, output and scale are the callers' concern.
  AttnSpec inner = spec;
  inner.q_norm = inner.k_norm = inner.sinks = false;
  inner.rope = {};
  inner.out = ir::Elem::F32;
  inner.scale = 1;
  inner.window = 0;
  const std::vector<Arg> args = {in("q"),   out("p"),   out("partial"),     in("table"),
                                 i64("n"),  in("base"), i64("block_bytes"), i64("lo"),
                                 i64("hi"), i64("pos"), i64("kv_head")};
  return e.function(attn_name("attn_range", inner), args,
                    [&](const Args& a) { RangeEmitter(e, inner, a).emit(); });
}

}  // namespace gc::cpu
