#include "codegen_cpu/kernels/attention/tiles.h"

#include <algorithm>
#include <limits>

#include "codegen_cpu/kernels/attention/elements.h"
#include "codegen_cpu/kernels/attention/unit.h"
#include "codegen_cpu/kv_layout.h"
#include "codegen_cpu/vec/math.h"

namespace gc::cpu {

using llvm::Value;
using Values = Emitter::Values;

namespace {

constexpr int kKeyVectors = GC_KV_BLOCK / Vec::kLanes;
constexpr std::int64_t kDims = 64;        // of keys widened at a time: 16 KB
constexpr std::int64_t kMostVectors = 8;  // of values widened at a time: 32 KB
// Queries of a tile: 6 x 4 accumulators of 16 lanes with AVX-512, 6 x 1 with AVX2. A single row's heads rather share
// what is widened in registers, 8 x 2.
constexpr std::int64_t kMostQueries = 6, kMostOfARow = 8;

// n things in the fewest parts of at most `limit`, evenly.
std::int64_t even_part(std::int64_t n, std::int64_t limit) {
  limit = std::max<std::int64_t>(1, limit);
  const std::int64_t parts = (n + limit - 1) / limit;
  return (n + parts - 1) / parts;
}

// Vectors of 16 lanes that fit in registers at once, but for a broadcast: those of a tile are its accumulators, a
// query's each, and the operands that the queries share (one query uses up each as it comes), of pairs both
// elements.
std::int64_t tile_vectors(const Isa& isa, std::int64_t queries, bool pairs) {
  const std::int64_t registers = (isa.vector_registers() - 1) * isa.f32_lanes() / Vec::kLanes;
  if (pairs) return registers / (queries + 2);
  return queries == 1 ? registers - 2 : registers / (queries + 1);
}

}  // namespace

Tiles::Tiles(Vec& v, const AttnSpec& spec, bool many, std::int64_t queries)
    : v_(v),
      e_(v.e()),
      b_(e_.b()),
      s_(spec),
      widened_(many || kv_has_scales(spec.kv_type)),
      kv_type_(widened_ ? int{GC_KV_F32} : spec.kv_type),
      element_(kv_element_bytes(kv_type_)),
      queries_(!many && e_.isa().has_avx512 ? even_part(queries, kMostOfARow) : queries_of(queries)),
      vectors_(tile_vectors(e_.isa(), queries_, kv_in_pairs(kv_type_))) {}

std::int64_t Tiles::queries_of(std::int64_t queries) { return even_part(queries, kMostQueries); }

std::int64_t Tiles::wide_bytes(const AttnSpec& spec) {
  return GC_KV_BLOCK * 4 * std::max(kDims, kMostVectors * Vec::kLanes);
}

void Tiles::over_keys(Value* keys, Value* wide, const Keys& body) {
  if (!widened_) return body(keys, e_.i64(0), e_.i64(s_.k_dim), true);
  auto some = [&](Value* begin, Value* end, bool fresh) {
    if (s_.kv_type == GC_KV_F32) return body(keys, begin, end, fresh);
    b_.CreateCall(attn_widen_keys(e_, s_), {keys, begin, end, wide});
    body(e_.at(wide, begin, -std::int64_t{GC_KV_BLOCK * 4}), begin, end, fresh);
  };
  some(e_.i64(0), e_.i64(std::min(kDims, s_.k_dim)), true);
  if (s_.k_dim <= kDims) return;
  e_.for_range(kDims, s_.k_dim, kDims, [&](Value* d) {
    Value* end = b_.CreateAdd(d, e_.i64(kDims));
    Value* last = e_.i64(s_.k_dim);
    some(d, b_.CreateSelect(b_.CreateICmpSLT(end, last), end, last), false);
  });
}

// Bytes [step * bytes, (step + 1) * bytes) from base on, into the second-level cache: a part fills the first.
void Tiles::prefetch(Value* base, Value* step, std::int64_t bytes) {
  Value* from = e_.at(base, step, bytes);
  for (std::int64_t i = 0; i < bytes; i += 64) e_.prefetch(e_.at(from, i), 2);
}

void Tiles::scores(Value* q, Value* keys, Value* p, int n, Value* begin, Value* end, bool fresh,
                   Ahead ahead) {
  const std::int64_t part = even_part(kKeyVectors, vectors_);
  for (std::int64_t c0 = 0; c0 < kKeyVectors; c0 += part) {
    const int vectors = static_cast<int>(std::min<std::int64_t>(part, kKeyVectors - c0));
    auto place = [&](int g, int c) { return e_.at(p, (g * GC_KV_BLOCK + (c0 + c) * Vec::kLanes) * 4); };
    Values acc;
    for (int g = 0; g < n; ++g) {
      for (int c = 0; c < vectors; ++c) acc.push_back(fresh ? v_.zero() : v_.load(place(g, c)));
    }
    const int dims = kv_in_pairs(kv_type_) ? 2 : 1;  // that lie together
    auto add = [&](Value* d, const Values& in) {
      Values next(in), k[2];
      if (ahead.base && c0 == 0)
        prefetch(ahead.base, b_.CreateUDiv(d, e_.i64(dims)), ahead.bytes * dims / s_.k_dim);
      Value* row = e_.at(keys, d, GC_KV_BLOCK * element_, c0 * Vec::kLanes * element_ * dims);
      for (int c = 0; c < vectors; ++c) {
        Value* at = e_.at(row, c * Vec::kLanes * element_ * dims);
        if (dims == 1) {
          k[0].push_back(load_kv(v_, kv_type_, at));
        } else {
          const auto [first, second] = load_pairs(v_, at);
          k[0].push_back(first), k[1].push_back(second);
        }
      }
      for (int i = 0; i < dims; ++i) {
        for (int g = 0; g < n; ++g) {
          Value* x = v_.load_splat(e_.at(q, d, 4, (g * s_.k_dim + i) * 4));
          for (int c = 0; c < vectors; ++c) {
            Value*& sum = next[g * vectors + c];
            sum = v_.fma(x, k[i][c], sum);
          }
        }
      }
      return next;
    };
    acc = e_.for_range(begin, end, dims, acc, add);
    for (int g = 0; g < n; ++g) {
      for (int c = 0; c < vectors; ++c) v_.store(acc[g * vectors + c], place(g, c));
    }
  }
}

void Tiles::cap(Value* p, Value* n) {
  e_.for_range(e_.i64(0), b_.CreateMul(n, e_.i64(GC_KV_BLOCK)), Vec::kLanes, [&](Value* i) {
    Value* at = e_.at(p, i, std::int64_t{4});
    v_.store(softcap(v_, s_.cap, v_.load(at)), at);
  });
}

void Tiles::alibi(Value* p, Value* kv_head, Value* first) {
  std::vector<float> slopes;
  for (std::int64_t h = 0; h < s_.heads; ++h)
    slopes.push_back(static_cast<float>(ir::alibi_slope(s_.alibi, h, s_.heads)));
  Value* of_group = e_.at(e_.floats(slopes), kv_head, s_.group() * 4);
  Value* begin = v_.splat(b_.CreateSIToFP(first, e_.f32()));
  e_.for_range(0, s_.group(), 1, [&](Value* g) {
    Value* slope = v_.load_splat(e_.at(of_group, g, std::int64_t{4}));
    for (int c = 0; c < kKeyVectors; ++c) {
      std::vector<llvm::Constant*> keys;
      for (int i = 0; i < Vec::kLanes; ++i)
        keys.push_back(llvm::ConstantFP::get(e_.f32(), c * Vec::kLanes + i));
      Value* distance = v_.add(begin, llvm::ConstantVector::get(keys));
      if (s_.ahead) distance = v_.neg(v_.abs(distance));
      Value* at = e_.at(p, g, std::int64_t{GC_KV_BLOCK * 4}, std::int64_t{c} * Vec::kLanes * 4);
      v_.store(v_.fma(slope, distance, v_.load(at)), at);
    }
  });
}

void Tiles::bias(Value* p, Value* of_distances, Value* first) {
  auto limit = [&](Value* x, int64_t by, bool least) {
    Value* bound = e_.i64(by);
    return b_.CreateSelect(least ? b_.CreateICmpSLT(x, bound) : b_.CreateICmpSGT(x, bound), bound, x);
  };
  // Past the reach all distances have the same bias, and so have blocks.
  Value* begin = limit(limit(first, -kBiasCentre, true), ir::kBucketReach, false);
  Value* row = e_.at(of_distances, b_.CreateAdd(begin, e_.i64(kBiasCentre)), std::int64_t{4});
  e_.for_range(0, s_.group(), 1, [&](Value* g) {
    for (int c = 0; c < kKeyVectors; ++c) {
      const std::int64_t byte = std::int64_t{c} * Vec::kLanes * 4;
      Value* at = e_.at(p, g, std::int64_t{GC_KV_BLOCK * 4}, byte);
      v_.store(v_.add(v_.load(at), v_.load(e_.at(row, g, kBiasFloats * 4, byte))), at);
    }
  });
}

void Tiles::softmax(const Softmax& s, Value* n) {
  // A row that has seen no position yet has m = -inf, and -inf - -inf is no number.
  auto base = [&](Value* m) {
    Value* infinite = b_.CreateFCmpOEQ(m, v_.splat(-std::numeric_limits<double>::infinity()));
    return b_.CreateSelect(infinite, v_.zero(), m);
  };
  // In passes, so that a query's chain of steps doesn't keep the next one's from starting.
  auto load_row = [&](Value* row) {
    Values x;
    for (int c = 0; c < kKeyVectors; ++c) x.push_back(v_.load(e_.at(row, c * Vec::kLanes * 4)));
    return x;
  };
  auto row_of = [&](Value* g) { return e_.at(s.p, g, std::int64_t{GC_KV_BLOCK * 4}); };
  e_.for_range(e_.i64(0), n, 1, [&](Value* g) {
    const Values x = load_row(row_of(g));
    Value* top = v_.reduce_max(v_.max(v_.max(x[0], x[2]), v_.max(x[1], x[3])));
    Value* before = e_.load(e_.f32(), e_.at(s.m, g, std::int64_t{4}), 4);
    Value* m = b_.CreateSelect(b_.CreateFCmpOGT(before, top), before, top);
    e_.store(m, e_.at(s.tops, g, std::int64_t{4}), 4);
  });
  e_.for_range(e_.i64(0), n, 1, [&](Value* g) {
    Values x = load_row(row_of(g));
    Value* from = base(v_.load_splat(e_.at(s.tops, g, std::int64_t{4})));
    for (Value*& y : x) y = v_.sub(y, from);
    x = exp_each(v_, x);
    for (int c = 0; c < kKeyVectors; ++c) v_.store(x[c], e_.at(row_of(g), c * Vec::kLanes * 4));
    Value* sum = v_.reduce_add(v_.add(v_.add(x[0], x[2]), v_.add(x[1], x[3])));
    e_.store(sum, e_.at(s.sums, g, std::int64_t{4}), 4);
  });
  // The factors of 16 queries at once.
  e_.for_range(e_.i64(0), n, Vec::kLanes, [&](Value* i) {
    auto at = [&](Value* array) { return e_.at(array, i, std::int64_t{4}); };
    Value* m = v_.load(at(s.tops));
    Value* alpha = exp(v_, v_.sub(v_.load(at(s.m)), base(m)));
    v_.store(v_.fma(v_.load(at(s.l)), alpha, v_.load(at(s.sums))), at(s.l));
    v_.store(m, at(s.m));
    v_.store(alpha, at(s.alpha));
  });
}

void Tiles::over_values(Value* values, Value* wide, Value* begin, Value* end,
                        const std::function<void(const Columns&)>& body) {
  const std::int64_t whole = s_.v_dim / Vec::kLanes;
  const std::int64_t part =
      even_part(std::max<std::int64_t>(whole, 1), widened_ ? std::min(vectors_, kMostVectors) : vectors_);
  auto some = [&](Value* at, std::int64_t vectors, int count) {
    const std::vector<int> counts(static_cast<std::size_t>(vectors), count);
    const std::int64_t slots = kv_together(s_.kv_type);
    if (!widened_) return body({at, counts, e_.at(values, at, element_ * slots), s_.v_dim * element_});
    // One after the other: at their own stride, a power of two as a rule, they would fall on few sets of the cache.
    const std::int64_t stride = vectors * Vec::kLanes * 4;
    // A pair's or quad's other positions are widened too, and not looked at.
    Value* first = b_.CreateAnd(begin, e_.i64(-slots));
    e_.for_range(first, end, slots, [&](Value* slot) {
      for (std::int64_t c = 0; c < vectors; ++c) {
        Value* i = b_.CreateAdd(at, e_.i64(c * Vec::kLanes));
        Value* to = e_.at(wide, slot, stride, c * Vec::kLanes * 4);
        const Values x = wide_values(values, slot, i, count);
        for (std::int64_t s = 0; s < slots; ++s) v_.store(x[s], e_.at(to, s * stride));
      }
    });
    body({at, counts, wide, stride});
  };
  if (whole > 0) {
    // Equal parts as a loop, a shorter rest after it.
    const std::int64_t loops = whole / part;
    e_.for_range(0, loops * part * Vec::kLanes, part * Vec::kLanes,
                 [&](Value* at) { some(at, part, Vec::kLanes); });
    if (loops * part < whole) some(e_.i64(loops * part * Vec::kLanes), whole - loops * part, Vec::kLanes);
  }
  if (s_.v_dim % Vec::kLanes != 0)
    some(e_.i64(whole * Vec::kLanes), 1, static_cast<int>(s_.v_dim % Vec::kLanes));
}

// Of the positions from `slot` on that lie together, dimensions from `at` on.
Values Tiles::wide_values(Value* values, Value* slot, Value* at, int count) {
  if (kv_has_scales(s_.kv_type)) return load_scaled_values(v_, s_, values, slot, at, count);
  const std::int64_t element = kv_element_bytes(s_.kv_type);
  Value* row = e_.at(values, slot, s_.v_dim * element);
  if (!kv_in_pairs(s_.kv_type)) return {load_kv(v_, s_.kv_type, e_.at(row, at, element), count)};
  const auto [even, odd] = load_pairs(v_, e_.at(row, at, std::int64_t{4}), count);
  return {even, odd};
}

void Tiles::weigh(const Columns& columns, const Weigh& w, Value* begin, Value* end, int n, Ahead ahead) {
  const int vectors = static_cast<int>(columns.counts.size());
  const int slots = kv_in_pairs(kv_type_) ? 2 : 1;
  // The columns' share of what is ahead, a piece with each step over the positions.
  Value* share = ahead.base ? e_.at(ahead.base, columns.at, ahead.bytes / s_.v_dim) : nullptr;
  const std::int64_t piece = ahead.bytes / s_.v_dim * vectors * Vec::kLanes * slots / GC_KV_BLOCK;
  auto prefetch_at = [&](Value* key) {
    if (share) prefetch(share, b_.CreateUDiv(key, e_.i64(slots)), piece);
  };
  auto place = [&](int g, int c) {
    return e_.at(w.o, columns.at, std::int64_t{4}, (g * s_.v_dim + std::int64_t{c} * Vec::kLanes) * 4);
  };
  Values acc;
  for (int g = 0; g < n; ++g) {
    Value* by = v_.load_splat(e_.at(w.alpha, std::int64_t{g} * 4));
    for (int c = 0; c < vectors; ++c) acc.push_back(v_.mul(v_.load(place(g, c), columns.counts[c]), by));
  }
  auto add = [&](Values& sums, Value* key, std::int64_t after, const Values& x) {
    for (int g = 0; g < n; ++g) {
      Value* weight = v_.load_splat(e_.at(w.p, key, 4, (g * std::int64_t{GC_KV_BLOCK} + after) * 4));
      for (int c = 0; c < vectors; ++c) {
        Value*& sum = sums[g * vectors + c];
        sum = v_.fma(weight, x[c], sum);
      }
    }
  };
  if (kv_in_pairs(kv_type_)) {
    // A position before the first has the weight 0; the one after the last may be memory that nobody wrote.
    auto pair = [&](Value* key, bool both, Values sums) {
      prefetch_at(key);
      Values x[2];
      Value* row = e_.at(columns.values, key, columns.stride);
      for (int c = 0; c < vectors; ++c) {
        const auto [even, odd] = load_pairs(v_, e_.at(row, c * Vec::kLanes * 4), columns.counts[c]);
        x[0].push_back(even), x[1].push_back(odd);
      }
      for (int i = 0; i < (both ? 2 : 1); ++i) add(sums, key, i, x[i]);
      return sums;
    };
    Value* whole = b_.CreateAnd(end, e_.i64(-2));
    acc = e_.for_range(b_.CreateAnd(begin, e_.i64(-2)), whole, 2, acc,
                       [&](Value* key, const Values& in) { return pair(key, true, in); });
    acc =
        e_.for_range(whole, end, 1, acc, [&](Value* key, const Values& in) { return pair(key, false, in); });
  } else {
    acc = e_.for_range(begin, end, 1, acc, [&](Value* key, const Values& in) {
      Values next(in), x;
      prefetch_at(key);
      Value* row = e_.at(columns.values, key, columns.stride);
      for (int c = 0; c < vectors; ++c)
        x.push_back(load_kv(v_, kv_type_, e_.at(row, c * Vec::kLanes * element_), columns.counts[c]));
      add(next, key, 0, x);
      return next;
    });
  }
  for (int g = 0; g < n; ++g) {
    for (int c = 0; c < vectors; ++c) v_.store(acc[g * vectors + c], place(g, c), columns.counts[c]);
  }
}

}  // namespace gc::cpu
