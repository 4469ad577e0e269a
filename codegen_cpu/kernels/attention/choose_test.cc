// Choosing positions is exact: the same f32 FMAs in plain C++ give the same choice, ties included, whatever the chunks. And
// attention to chosen positions agrees with its definition in double.
#include "codegen_cpu/kernels/attention/choose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "codegen_cpu/isa.h"
#include "codegen_cpu/kernels/attention/reference.h"
#include "codegen_cpu/kernels/matmul/tile_matmul.h"
#include "codegen_cpu/kernels/testing.h"
#include "codegen_cpu/kv_layout.h"

namespace gc::cpu {
namespace {

using testing::Buffer;
using testing::Kernels;
using Append = void(const gc_step*, std::int64_t, std::int64_t, std::int64_t, const float* k, std::int64_t ks,
                    const float* v, std::int64_t vs, const float*, const float*, const float*,
                    std::int64_t begin, std::int64_t end);
using Choose = void(const gc_step*, std::int64_t, std::int64_t, std::int64_t, const float* q, std::int64_t qs,
                    const float* w, std::int64_t ws, float* y, std::int64_t ys, std::int64_t begin,
                    std::int64_t end, void* scratch);
using Attn = void(const gc_step*, std::int64_t, std::int64_t, std::int64_t, const float* q, std::int64_t qs,
                  const float*, const float*, const float*, const float* sinks, float* y, std::int64_t ys,
                  std::int64_t begin, std::int64_t end, void* scratch, const float* chosen, std::int64_t cs);

// A sequence's blocks, anywhere in a pool full of NaN; keys [tokens][k_dim] and values [tokens][v_dim].
class Sequence {
 public:
  Sequence(const AttnSpec& spec, std::int64_t tokens)
      : block_bytes_(kOffset + kv_state_bytes(1, spec.k_dim, spec.v_dim, spec.kv_type) + 64),
        table_(static_cast<std::size_t>(tokens / GC_KV_BLOCK + 1)),
        pool_(block_bytes_ * static_cast<std::int64_t>(table_.size())) {
    std::iota(table_.begin(), table_.end(), 0u);
    std::shuffle(table_.begin(), table_.end(), std::mt19937(5));
    std::fill(pool_.begin(), pool_.end(), 0xff);
    seqs_[1].tables[0] = {table_.data(), static_cast<std::uint32_t>(table_.size()), 0};
  }

  // body(step, first, count) for chunks of positions 0, 1, ...
  template <class Body>
  void in_chunks(std::int64_t tokens, std::int64_t chunk, const Body& body) {
    for (std::int64_t p = 0; p < tokens; p += chunk) {
      std::vector<gc_row> rows;
      for (std::int64_t i = p; i < std::min(p + chunk, tokens); ++i)
        rows.push_back({.token = 0, .pos = static_cast<std::int32_t>(i), .seq = 1});
      std::uint8_t* pools[] = {pool_.data()};
      gc_step step = {};
      step.rows = rows.data();
      step.n_rows = static_cast<std::uint32_t>(rows.size());
      step.seqs = seqs_.data();
      step.pools = pools;
      body(&step, p, static_cast<std::int64_t>(rows.size()));
    }
  }
  std::int64_t block_bytes() const { return block_bytes_; }
  static constexpr std::int64_t kOffset = 192;

 private:
  std::int64_t block_bytes_;
  std::vector<std::uint32_t> table_;
  Buffer<std::uint8_t> pool_;
  std::vector<gc_seq> seqs_{2};
};

// Rows of n values as they are read back.
std::vector<float> rounded(int kv_type, const Buffer<float>& x, std::int64_t n) {
  std::vector<float> all;
  for (std::size_t i = 0; i < x.size(); i += static_cast<std::size_t>(n)) {
    std::vector<double> row(x.data() + i, x.data() + i + n);
    kv_round(kv_type, row.data(), n);
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

struct Inputs {
  Buffer<float> q, k, w;
  Inputs(const ChooseSpec& s, std::int64_t tokens)
      : q(tokens * s.heads * s.k_dim), k(tokens * s.k_dim), w(tokens * s.heads) {
    testing::fill_random(q, 1);
    testing::fill_random(k, 2);
    testing::fill_random(w, 3);
  }
};

std::vector<float> wanted(const ChooseSpec& s, const Inputs& in, std::int64_t tokens) {
  const std::vector<float> k = rounded(s.kv_type, in.k, s.k_dim);
  std::vector<float> y(tokens * s.used, -1);
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::vector<float> score(t + 1, 0);
    for (std::int64_t p = 0; p <= t; ++p) {
      for (std::int64_t h = 0; h < s.heads; ++h) {
        float x = 0;
        for (std::int64_t d = 0; d < s.k_dim; ++d)
          x = std::fma(in.q[(t * s.heads + h) * s.k_dim + d], k[p * s.k_dim + d], x);
        score[p] = std::fma(in.w[t * s.heads + h], std::max(0.0f, x), score[p]);
      }
    }
    std::vector<std::int64_t> best(t + 1);
    std::iota(best.begin(), best.end(), 0);
    std::sort(best.begin(), best.end(),
              [&](auto a, auto b) { return score[a] > score[b] || (score[a] == score[b] && a < b); });
    best.resize(std::min(s.used, t + 1));
    std::sort(best.begin(), best.end());
    std::copy(best.begin(), best.end(), y.begin() + t * s.used);
  }
  return y;
}

std::vector<float> chosen(const Isa& isa, const ChooseSpec& s, const Inputs& in, std::int64_t tokens,
                          std::int64_t chunk) {
  Kernels kernels(isa);
  const std::string append = Kernels::name(kv_append(kernels.e(), s.state()));
  const std::string choose = Kernels::name(choose_positions(kernels.e(), s));
  Sequence sequence(s.state(), tokens);
  Buffer<std::uint8_t> scratch(choose_scratch_bytes(s));
  std::fill(scratch.begin(), scratch.end(), 0xff);
  std::vector<float> y(tokens * s.used, std::numeric_limits<float>::quiet_NaN());
  sequence.in_chunks(tokens, chunk, [&](const gc_step* step, std::int64_t p, std::int64_t n) {
    const std::int64_t bytes = sequence.block_bytes(), at = Sequence::kOffset;
    kernels.get<Append>(append)(step, 0, bytes, at, in.k.data() + p * s.k_dim, s.k_dim * 4, nullptr, 0,
                                nullptr, nullptr, nullptr, 0, n);
    kernels.get<Choose>(choose)(step, 0, bytes, at, in.q.data() + p * s.heads * s.k_dim,
                                s.heads * s.k_dim * 4, in.w.data() + p * s.heads, s.heads * 4,
                                y.data() + p * s.used, s.used * 4, 0, n, scratch.data());
  });
  return y;
}

TEST(ChoosePositions, AreThoseOfTheGreatestScores) {
  for (int kv_type = 0; kv_type < int{GC_KV_TYPES}; ++kv_type) {
    // Lists that are cut never, once and often; sizes that are no multiple of anything.
    for (const auto& [heads, dim, used, tokens] :
         {std::array{3, 22, 5, 150}, {8, 64, 100, 700}, {1, 32, 64, 130}, {4, 128, 1, 90}}) {
      const ChooseSpec spec{heads, dim, used, kv_type};
      const Inputs in(spec, tokens);
      const std::vector<float> want = wanted(spec, in, tokens);
      for (const Isa* isa : host_isas())
        for (std::int64_t chunk : {tokens, 7})
          EXPECT_EQ(chosen(*isa, spec, in, tokens, chunk), want)
              << isa->name << " " << kv_type_name(kv_type) << " " << heads << "x" << dim << ", " << used;
    }
  }
}

// Products below 0 count nothing: all scores are equal, and the first positions are chosen, in the midst of lists that are
// cut and at their ends.
TEST(ChoosePositions, OfEqualScoresTheFirst) {
  const ChooseSpec spec{2, 32, 70, GC_KV_F16};
  constexpr std::int64_t kTokens = 600;
  Inputs in(spec, kTokens);
  std::fill(in.k.begin(), in.k.end(), 1.0f);
  std::fill(in.q.begin(), in.q.end(), -1.0f);
  for (std::int64_t p : {300, 555})
    std::fill_n(in.k.begin() + p * spec.k_dim, spec.k_dim, -1.0f);  // above all
  for (float& w : in.w) w = 1;
  const std::vector<float> want = wanted(spec, in, kTokens);
  EXPECT_EQ(want[599 * 70 + 67], 67);
  EXPECT_EQ(want[599 * 70 + 68], 300);
  for (const Isa* isa : host_isas()) EXPECT_EQ(chosen(*isa, spec, in, kTokens, 600), want) << isa->name;
}

struct ChosenAttention {
  AttnSpec spec;
  std::int64_t tokens;
  Buffer<float> q, k, v, sinks;
  std::vector<float> lists;  // [tokens][chosen]

  ChosenAttention(const AttnSpec& s, std::int64_t tokens)
      : spec(s),
        tokens(tokens),
        q(tokens * s.heads * s.k_dim),
        k(tokens * s.k_dim),
        v(tokens * s.v_dim),
        sinks(s.heads) {
    testing::fill_random(q, 1);
    testing::fill_random(k, 2);
    testing::fill_random(v, 3);
    testing::fill_random(sinks, 4, 2);
    std::mt19937 random(6);
    for (std::int64_t t = 0; t < tokens; ++t) {
      std::vector<float> all(t + 1), list;
      std::iota(all.begin(), all.end(), 0.0f);
      std::sample(all.begin(), all.end(), std::back_inserter(list), s.chosen, random);
      list.resize(s.chosen, -1);
      lists.insert(lists.end(), list.begin(), list.end());
    }
  }

  std::vector<double> reference() const {
    const std::vector<float> keys = rounded(spec.kv_type, k, spec.k_dim);
    const std::vector<float> values = rounded(spec.kv_type, v, spec.v_dim);
    std::vector<double> y(tokens * spec.heads * spec.v_dim);
    for (std::int64_t row = 0; row < tokens * spec.heads; ++row) {
      const std::int64_t t = row / spec.heads;
      double sum = spec.sinks ? std::exp(double(sinks[row % spec.heads])) : 0;
      for (std::int64_t i = 0; i < spec.chosen && lists[t * spec.chosen + i] >= 0; ++i) {
        const auto p = static_cast<std::int64_t>(lists[t * spec.chosen + i]);
        double s = 0;
        for (std::int64_t d = 0; d < spec.k_dim; ++d)
          s += double(q[row * spec.k_dim + d]) * keys[p * spec.k_dim + d];
        const double weight = std::exp(spec.scale * s);
        sum += weight;
        for (std::int64_t d = 0; d < spec.v_dim; ++d)
          y[row * spec.v_dim + d] += weight * values[p * spec.v_dim + d];
      }
      for (std::int64_t d = 0; d < spec.v_dim; ++d) y[row * spec.v_dim + d] /= sum;
    }
    return y;
  }

  std::vector<float> run(const Isa& isa, AttnSpec s, std::int64_t chunk) const {
    Kernels kernels(isa);
    const std::string append = Kernels::name(kv_append(kernels.e(), s)),
                      name = Kernels::name(attn_chosen(kernels.e(), s));
    const bool tiles = s.bf16 && isa.has_amx;
    if (tiles) tiles_begin(kernels.e()), tiles_end(kernels.e());
    Sequence sequence(s, tokens);
    Buffer<std::uint8_t> scratch(attn_scratch_bytes(isa, s));
    std::fill(scratch.begin(), scratch.end(), 0xff);
    const std::int64_t qs = s.heads * s.k_dim, ys = s.heads * s.v_dim;
    std::vector<float> y(tokens * ys, std::numeric_limits<float>::quiet_NaN());
    sequence.in_chunks(tokens, chunk, [&](const gc_step* step, std::int64_t p, std::int64_t n) {
      const std::int64_t bytes = sequence.block_bytes(), at = Sequence::kOffset;
      kernels.get<Append>(append)(step, 0, bytes, at, k.data() + p * s.k_dim, s.k_dim * 4,
                                  v.data() + p * s.v_dim, s.v_dim * 4, nullptr, nullptr, nullptr, 0, n);
      if (tiles) kernels.get<void()>("tiles_begin")();
      kernels.get<Attn>(name)(step, 0, bytes, at, q.data() + p * qs, qs * 4, nullptr, nullptr, nullptr,
                              sinks.data(), y.data() + p * ys, ys * 4, 0, n, scratch.data(),
                              lists.data() + p * s.chosen, s.chosen * 4);
      if (tiles) kernels.get<void()>("tiles_end")();
    });
    return y;
  }
};

AttnSpec shape(std::int64_t heads, std::int64_t k_dim, std::int64_t v_dim, std::int64_t chosen, int kv_type) {
  AttnSpec spec{.heads = heads, .kv_heads = 1, .k_dim = k_dim, .v_dim = v_dim};
  spec.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(k_dim)));
  spec.chosen = chosen;
  spec.kv_type = kv_type;
  return spec;
}

TEST(AttentionToChosen, AgreesWithDouble) {
  constexpr double kBound = 2e-5;  // of a mean of up to 600 values, which is small
  for (int kv_type = 0; kv_type < int{GC_KV_TYPES}; ++kv_type) {
    for (AttnSpec spec :
         {shape(4, 96, 64, 70, kv_type), shape(3, 22, 38, 1, kv_type), shape(9, 64, 64, 600, kv_type)}) {
      spec.sinks = spec.heads == 9;
      const ChosenAttention attention(spec, spec.chosen + 110);
      const std::vector<double> want = attention.reference();
      std::vector<float> first;
      for (const Isa* isa : host_isas()) {
        for (std::int64_t chunk : {attention.tokens, std::int64_t{9}}) {
          const std::vector<float> y = attention.run(*isa, spec, chunk);
          EXPECT_LT(testing::error(y.data(), want.data(), want.size()), kBound)
              << isa->name << " " << kv_type_name(kv_type) << " " << spec.k_dim << ", chunks of " << chunk;
          if (first.empty()) first = y;
          EXPECT_EQ(std::memcmp(first.data(), y.data(), y.size() * 4), 0)
              << isa->name << ", chunks of " << chunk;
        }
      }
    }
  }
}

// Both roles: rows that see all are multiplied as those of attn, the others in f32.
TEST(AttentionToChosen, IsTheSameInBothRolesWhereNotAllIsSeen) {
  for (int kv_type : {GC_KV_BF16, GC_KV_Q8_0}) {
    const AttnSpec spec = shape(4, 96, 64, 70, kv_type);
    const ChosenAttention attention(spec, 180);
    const std::vector<double> want = attention.reference();
    for (const Isa* isa : host_isas()) {
      AttnSpec other = spec;
      other.bf16 = attn_has_bf16(*isa, spec), other.ints = attn_has_ints(spec);
      const std::vector<float> plain = attention.run(*isa, spec, 180), y = attention.run(*isa, other, 180);
      EXPECT_EQ(y, attention.run(*isa, other, 11)) << isa->name;
      EXPECT_LT(testing::error(y.data(), want.data(), want.size()), 3e-2) << isa->name;
      const std::int64_t columns = spec.heads * spec.v_dim, all = spec.chosen * columns;
      EXPECT_TRUE(std::equal(y.begin() + all, y.end(), plain.begin() + all)) << isa->name;
    }
  }
}

TEST(AttentionToChosen, SaysWhatIsMissing) {
  AttnSpec spec = shape(4, 64, 64, 70, GC_KV_F16);
  EXPECT_EQ(attn_unsupported(spec), "");
  spec.kv_heads = 2;
  EXPECT_NE(attn_unsupported(spec), "");
}

}  // namespace
}  // namespace gc::cpu
