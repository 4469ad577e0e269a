#include "codegen_cpu/kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "codegen_cpu/isa.h"
#include "codegen_cpu/kernels/attention/prompt.h"
#include "codegen_cpu/kernels/attention/reference.h"
#include "codegen_cpu/kernels/attention/rows.h"
#include "codegen_cpu/kernels/attention/unit.h"
#include "codegen_cpu/kernels/matmul/tile_matmul.h"
#include "codegen_cpu/kernels/testing.h"
#include "codegen_cpu/kv_layout.h"
#include "codegen_cpu/object.h"

namespace gc::cpu {
namespace {

using testing::Buffer;
using testing::Kernels;
using Append = void(const gc_step*, std::int64_t group, std::int64_t block_bytes, std::int64_t state_offset,
                    const float* qkv, std::int64_t qs, const float* k_norm, const float* fine,
                    const float* coarse, std::int64_t begin, std::int64_t end);
using Attn = void(const gc_step*, std::int64_t group, std::int64_t block_bytes, std::int64_t state_offset,
                  const float* q, std::int64_t qs, const float* q_norm, const float* fine,
                  const float* coarse, const float* sinks, void* y, std::int64_t ys, std::int64_t begin,
                  std::int64_t end, void* scratch);
using Split = void(const gc_step*, std::int64_t group, std::int64_t block_bytes, std::int64_t state_offset,
                   const float* q, std::int64_t qs, const float* q_norm, const float* fine,
                   const float* coarse, void* partials, std::int64_t ranges, std::int64_t begin,
                   std::int64_t end, void* scratch);
using Merge = void(const gc_step*, void* partials, std::int64_t ranges, const float* sinks, void* y,
                   std::int64_t ys, std::int64_t begin, std::int64_t end);

constexpr std::int64_t kGroup = 1, kFine = 64;

// One model's attention on one ISA, with the memory of a sequence whose blocks lie anywhere in the pool. The pool is
// full of NaN: a kernel that reads what nobody wrote shows it.
class Attention {
 public:
  Attention(const Isa& isa, const AttnSpec& spec)
      : isa_(isa),
        spec_(spec),
        kernels_(isa),
        append_(kernels_.name(attn_append(kernels_.e(), spec))),
        attn_(kernels_.name(attn(kernels_.e(), spec))),
        fine_(std::max<std::int64_t>(1, kFine * spec.rope.dims)),
        coarse_(std::max<std::int64_t>(1, kFine * spec.rope.dims)),
        q_norm_(spec.k_dim),
        k_norm_(spec.k_dim),
        sinks_(spec.heads * std::max<std::int64_t>(1, spec.buckets)) {
    if (on_tiles()) {
      tiles_begin(kernels_.e());
      tiles_end(kernels_.e());
    }
    if (!spec.bf16 && spec.buckets == 0) {
      split_ = kernels_.name(attn_split(kernels_.e(), spec));
      merge_ = kernels_.name(attn_merge(kernels_.e(), spec));
    }
    testing::fill_random(q_norm_, 11);
    testing::fill_random(k_norm_, 12);
    testing::fill_random(sinks_, 13, 2);
    for (std::int64_t p = 0; p < kFine; ++p) {
      for (std::int64_t i = 0; i < spec.rope.dims / 2; ++i) {
        const double f = std::pow(10000.0, -2.0 * double(i) / double(spec.rope.dims));
        const std::int64_t at = p * spec.rope.dims + 2 * i;
        fine_[at] = float(std::cos(double(p) * f)), fine_[at + 1] = float(std::sin(double(p) * f));
        coarse_[at] = float(std::cos(double(p * kFine) * f)),
        coarse_[at + 1] = float(std::sin(double(p * kFine) * f));
      }
    }
    offset_ = 192;
    block_bytes_ = offset_ + kv_state_bytes(spec.kv_heads, spec.k_dim, spec.v_dim, spec.kv_type) + 64;
  }

  // A new sequence of at most `tokens` in chunks of at most `chunk`.
  void begin(std::int64_t tokens, std::int64_t chunk) {
    const std::uint32_t n = spec_.ring ? gc_ring_blocks(std::uint32_t(spec_.window), std::uint32_t(chunk))
                                       : std::uint32_t(tokens / GC_KV_BLOCK + 1);
    table_.resize(n);
    std::iota(table_.begin(), table_.end(), 0u);
    std::shuffle(table_.begin(), table_.end(), std::mt19937(5));
    pool_ = std::make_unique<Buffer<std::uint8_t>>(block_bytes_ * n);
    std::fill(pool_->begin(), pool_->end(), 0xff);
    sequences_.resize(2);  // the second is ours
    sequences_[1].tables[kGroup] = {table_.data(), n, 0};
  }

  bool on_tiles() const { return spec_.bf16 && isa_.has_amx; }
  std::int64_t columns() const {
    return (spec_.heads + spec_.kv_heads) * spec_.k_dim + spec_.kv_heads * spec_.v_dim;
  }
  AttnWeights weights() const {
    return {spec_.q_norm ? q_norm_.data() : nullptr, spec_.k_norm ? k_norm_.data() : nullptr,
            spec_.sinks ? sinks_.data() : nullptr, spec_.buckets > 0 ? sinks_.data() : nullptr};
  }

  // Positions [begin, end) of x as one step, into their rows of y. By ranges: split items, some at a time, then merged.
  void step(const float* x, std::uint8_t* y, std::int64_t y_stride, std::int64_t begin, std::int64_t end,
            bool by_ranges) {
    std::vector<gc_row> rows;
    for (std::int64_t p = begin; p < end; ++p) rows.push_back({.token = 0, .pos = std::int32_t(p), .seq = 1});
    std::uint8_t* pools[] = {nullptr, pool_->data()};
    gc_step step = {};
    step.rows = rows.data();
    step.n_rows = std::uint32_t(rows.size());
    step.seqs = sequences_.data();
    step.pools = pools;
    const std::int64_t qs = columns() * 4, units = (end - begin) * spec_.kv_heads;
    const float* qkv = x + begin * columns();
    std::uint8_t* out = y + begin * y_stride;
    // Two workers' shares, in the other order.
    for (auto [first, last] : {std::pair{units / 2, units}, std::pair{std::int64_t{0}, units / 2}}) {
      kernels_.get<Append>(append_)(&step, kGroup, block_bytes_, offset_, qkv, qs, k_norm_.data(),
                                    fine_.data(), coarse_.data(), first, last);
    }
    Buffer<std::uint8_t> scratch(attn_scratch_bytes(isa_, spec_));
    std::fill(scratch.begin(), scratch.end(), 0xff);
    if (!by_ranges) {
      if (on_tiles()) kernels_.get<void()>("tiles_begin")();
      kernels_.get<Attn>(attn_)(&step, kGroup, block_bytes_, offset_, qkv, qs, q_norm_.data(), fine_.data(),
                                coarse_.data(), sinks_.data(), out, y_stride, 0, units, scratch.data());
      if (on_tiles()) kernels_.get<void()>("tiles_end")();
      return;
    }
    std::int64_t ranges = 1;
    for (const gc_row& row : rows) ranges = std::max(ranges, attn_ranges(row.pos, spec_.window));
    Buffer<std::uint8_t> partials(units * ranges * attn_partial_bytes(spec_));
    std::fill(partials.begin(), partials.end(), 0xff);
    constexpr std::int64_t kItems = 5;  // ends in the middle of units
    for (std::int64_t end_item = units * ranges; end_item > 0; end_item -= kItems) {
      kernels_.get<Split>(split_)(&step, kGroup, block_bytes_, offset_, qkv, qs, q_norm_.data(), fine_.data(),
                                  coarse_.data(), partials.data(), ranges,
                                  std::max<std::int64_t>(0, end_item - kItems), end_item, scratch.data());
    }
    kernels_.get<Merge>(merge_)(&step, partials.data(), ranges, sinks_.data(), out, y_stride, 0, units);
  }

  void run(const float* x, std::uint8_t* y, std::int64_t y_stride, std::int64_t tokens, std::int64_t chunk,
           bool by_ranges) {
    this->begin(tokens, chunk);
    for (std::int64_t p = 0; p < tokens; p += chunk) {
      step(x, y, y_stride, p, std::min(p + chunk, tokens), by_ranges);
    }
  }
  Kernels& kernels() { return kernels_; }

  // Blocks before position `end` become NaN.
  void forget(std::int64_t end) {
    for (std::int64_t b = 0; b < end / GC_KV_BLOCK; ++b)
      std::fill_n(pool_->data() + table_[b] * block_bytes_, block_bytes_, 0xff);
  }

 private:
  const Isa& isa_;
  AttnSpec spec_;
  Kernels kernels_;
  std::string append_, attn_, split_, merge_;
  Buffer<float> fine_, coarse_, q_norm_, k_norm_, sinks_;
  std::int64_t offset_, block_bytes_;
  std::vector<std::uint32_t> table_;
  std::unique_ptr<Buffer<std::uint8_t>> pool_;
  std::vector<gc_seq> sequences_;
};

AttnSpec shape(std::int64_t heads, std::int64_t kv_heads, std::int64_t dim, int kv_type) {
  AttnSpec spec{.heads = heads, .kv_heads = kv_heads, .k_dim = dim, .v_dim = dim};
  spec.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(dim)));
  spec.rope = {dim, true, kFine};
  spec.kv_type = kv_type;
  spec.eps = 1e-6f;
  return spec;
}

// Values of a row of the result.
std::int64_t out_columns(const AttnSpec& spec) { return spec.heads * (spec.v_dim + (spec.sums ? 1 : 0)); }

AttnSpec with(AttnSpec spec, const std::function<void(AttnSpec&)>& change) {
  change(spec);
  return spec;
}

// Within rounding of the reference: keys and values of 16 bits may fall to the other side, once in a while.
void expect_agrees(const AttnSpec& spec, std::int64_t tokens, const std::vector<std::int64_t>& chunks) {
  std::vector<float> first;
  std::vector<double> r;
  for (const Isa* isa : host_isas()) {
    Attention attention(*isa, spec);
    Buffer<float> x(tokens * attention.columns());
    testing::fill_random(x, 1);
    if (r.empty()) r = attn_reference(spec, attention.weights(), x.data(), tokens);
    const std::int64_t n = out_columns(spec);
    for (std::int64_t chunk : chunks) {
      std::vector<float> y(tokens * n, std::numeric_limits<float>::quiet_NaN());
      attention.run(x.data(), reinterpret_cast<std::uint8_t*>(y.data()), n * 4, tokens, chunk, false);
      constexpr double kBounds[GC_KV_TYPES] = {6e-6, 1e-4, 1e-3, 3e-3};
      // A score's rounding is an error of its weight, and without the usual scale scores are larger.
      const double larger = std::max(1.0, spec.scale * std::sqrt(static_cast<double>(spec.k_dim)));
      EXPECT_LT(testing::error(y.data(), r.data(), r.size()), kBounds[spec.kv_type] * larger)
          << isa->name << " " << spec.heads << "x" << spec.k_dim << ", chunks of " << chunk;
      if (first.empty()) first = y;
      EXPECT_EQ(std::memcmp(first.data(), y.data(), y.size() * 4), 0)
          << isa->name << ", chunks of " << chunk << ": other bits than the first";
    }
  }
}

TEST(Attention, AgreesWithDouble) {
  for (int kv_type = 0; kv_type < int{GC_KV_TYPES}; ++kv_type) {
    expect_agrees(with(shape(4, 1, 256, kv_type), [](AttnSpec& s) { s.q_norm = s.k_norm = true; }), 150,
                  {150});
    expect_agrees(with(shape(9, 3, 64, kv_type), [](AttnSpec& s) { s.rope.neox = false; }), 130, {40});
  }
  const int f32 = GC_KV_F32;
  expect_agrees(shape(1, 1, 128, f32), 70, {70});
  expect_agrees(shape(8, 1, 32, f32), 70, {70});
  expect_agrees(shape(7, 1, 48, f32), 70, {3});
  expect_agrees(shape(20, 1, 16, f32), 70, {70});
  for (int kv_type : {GC_KV_F32, GC_KV_BF16, GC_KV_Q8_0})
    expect_agrees(shape(2, 2, 20, kv_type), 70, {70, 1});
  expect_agrees(with(shape(2, 1, 22, GC_KV_Q8_0), [](AttnSpec& s) { s.v_dim = 38, s.rope.dims = 12; }), 70,
                {70, 1});
  expect_agrees(with(shape(2, 1, 24, f32), [](AttnSpec& s) { s.v_dim = 40, s.rope.dims = 12; }), 70, {70});
  expect_agrees(with(shape(4, 2, 112, f32), [](AttnSpec& s) { s.cap = 5, s.scale = 1; }), 70, {70});
  expect_agrees(with(shape(4, 2, 64, f32), [](AttnSpec& s) { s.sinks = true; }), 70, {70});
  expect_agrees(with(shape(4, 2, 64, f32), [](AttnSpec& s) { s.rope = {}; }), 70, {70});
  // ALiBi, also for a number of heads that is no power of two, and behind a softcap.
  expect_agrees(with(shape(6, 2, 64, f32), [](AttnSpec& s) { s.rope = {}, s.alibi = 8; }), 600, {31});
  expect_agrees(with(shape(4, 4, 32, f32), [](AttnSpec& s) { s.alibi = 8, s.cap = 5; }), 70, {70});
  expect_agrees(with(shape(6, 2, 64, f32), [](AttnSpec& s) { s.rope = {}, s.alibi = 8, s.ahead = true; }), 70,
                {70});
}

TEST(Attention, LaterPositionsToo) {
  for (int kv_type : {GC_KV_F32, GC_KV_BF16}) {
    for (std::int64_t tokens : {1, 3, 70, 600})
      expect_agrees(with(shape(4, 2, 64, kv_type), [](AttnSpec& s) { s.ahead = true; }), tokens, {tokens});
    for (std::int64_t window : {1, 9, 200})
      expect_agrees(with(shape(4, 2, 64, kv_type), [&](AttnSpec& s) { s.ahead = true, s.window = window; }),
                    700, {700});
  }
}

TEST(Attention, BiasesOfDistances) {
  for (std::int64_t tokens : {1, 70, 700})
    expect_agrees(with(shape(4, 2, 64, GC_KV_F32),
                       [](AttnSpec& s) { s.rope = {}, s.ahead = true, s.scale = 1, s.buckets = 32; }),
                  tokens, {tokens});
}

TEST(Attention, WindowsAndRings) {
  for (int kv_type : {GC_KV_F32, GC_KV_BF16}) {
    for (std::int64_t window : {1, 5, 64, 100}) {
      const AttnSpec spec = with(shape(2, 1, 32, kv_type), [&](AttnSpec& s) { s.window = window; });
      expect_agrees(with(spec, [](AttnSpec& s) { s.ring = true; }), 333, {1, 7, 48, 200});
      expect_agrees(spec, 200, {200});
    }
  }
}

// The logarithm of what the softmax divides by, behind the values; a row of every so many positions, or none yet.
TEST(Attention, SumsAndCompressedKeys) {
  for (int kv_type : {GC_KV_F32, GC_KV_F16}) {
    const AttnSpec spec = with(shape(4, 1, 64, kv_type), [](AttnSpec& s) { s.sums = true, s.rope = {}; });
    expect_agrees(with(spec, [](AttnSpec& s) { s.sinks = true, s.window = 20, s.ring = true; }), 70,
                  {70, 7, 1});
    expect_agrees(with(spec, [](AttnSpec& s) { s.sinks = true; }), 600, {600, 31});
    for (std::int64_t every : {1, 4, 50})
      for (std::int64_t tokens : {3, 70, 600})
        expect_agrees(with(spec, [&](AttnSpec& s) { s.every = every; }), tokens, {tokens, 7, 1});
  }
}

// One sequence in chunks, row by row and by ranges: the same bits, past several ranges, with rings too.
TEST(Attention, BitsDontDependOnChunksOrSplits) {
  struct Way {
    int kv_type;
    bool ring;
    std::int64_t every;
  };
  for (const Way& way : {Way{GC_KV_F16, false, 0},
                         {GC_KV_F16, true, 0},
                         {GC_KV_BF16, true, 0},
                         {GC_KV_Q8_0, false, 0},
                         {GC_KV_F16, false, 2},
                         {GC_KV_Q8_0, false, 2}}) {
    const int kv_type = way.kv_type;
    const AttnSpec spec = with(shape(4, 2, 32, kv_type), [&](AttnSpec& s) {
      s.q_norm = s.k_norm = s.sinks = true;
      s.ints = kv_type == GC_KV_Q8_0;
      if (way.ring) s.ring = true, s.window = 600;
      if (way.every > 0) s.every = way.every, s.sums = true;
    });
    const std::int64_t tokens = 1300, n = out_columns(spec);
    std::vector<float> whole;
    for (const Isa* isa : host_isas()) {
      Attention attention(*isa, spec);
      Buffer<float> x(tokens * attention.columns());
      testing::fill_random(x, 1);
      for (bool by_ranges : {false, true}) {
        for (std::int64_t chunk : {1300, 7, 31, 512}) {
          std::vector<float> y(tokens * n);
          attention.run(x.data(), reinterpret_cast<std::uint8_t*>(y.data()), n * 4, tokens, chunk, by_ranges);
          if (whole.empty()) {
            whole = y;
            const auto r = attn_reference(spec, attention.weights(), x.data(), tokens);
            EXPECT_LT(testing::error(y.data(), r.data(), r.size()), kv_type == GC_KV_F16 ? 2e-4 : 5e-3)
                << isa->name;
          }
          EXPECT_EQ(std::memcmp(whole.data(), y.data(), y.size() * 4), 0)
              << isa->name << " " << chunk << by_ranges;
        }
      }
    }
  }
}

AttnSpec in_ints(std::int64_t heads, std::int64_t kv_heads, std::int64_t dim) {
  return with(shape(heads, kv_heads, dim, GC_KV_Q8_0), [](AttnSpec& s) { s.ints = true; });
}

// Integer sums are exact, so every ISA has the same bits, whatever its registers.
TEST(AttentionInIntegers, AgreesWithDoubleOnEveryIsa) {
  ASSERT_TRUE(attn_has_ints(in_ints(4, 1, 256)));
  expect_agrees(with(in_ints(4, 1, 256), [](AttnSpec& s) { s.q_norm = s.k_norm = true; }), 150, {150, 33});
  expect_agrees(with(in_ints(9, 3, 64), [](AttnSpec& s) { s.rope.neox = false; }), 130, {40});
  expect_agrees(in_ints(2, 2, 96), 70, {70, 1});
  expect_agrees(with(in_ints(7, 1, 32), [](AttnSpec& s) { s.v_dim = 64; }), 70, {70});
  expect_agrees(in_ints(20, 1, 32), 70, {70});
  expect_agrees(with(in_ints(8, 1, 128), [](AttnSpec& s) { s.cap = 5, s.scale = 1, s.sinks = true; }), 70,
                {9});
  expect_agrees(with(in_ints(6, 2, 64), [](AttnSpec& s) { s.rope = {}, s.alibi = 8; }), 600, {600});
}

TEST(AttentionInIntegers, WindowsAndRings) {
  for (std::int64_t window : {1, 5, 64, 100}) {
    const AttnSpec spec = with(in_ints(2, 1, 32), [&](AttnSpec& s) { s.window = window; });
    expect_agrees(with(spec, [](AttnSpec& s) { s.ring = true; }), 333, {1, 7, 200});
    expect_agrees(spec, 200, {200});
  }
}

// Weights are rounded beside their block's largest, not beside the sequence's: what a thousand small ones add up to stays,
// but for those in the block of a weight that is 150,000 times theirs.
TEST(AttentionInIntegers, ManySmallWeightsCount) {
  constexpr std::int64_t kTokens = 1000, kDim = 32;
  constexpr float kKey = 127.0f / 16, kQuery = 1.5f;  // which q8_0 and the query's 16 bits hold exactly
  const AttnSpec spec = with(in_ints(1, 1, kDim), [](AttnSpec& s) { s.rope = {}, s.scale = 1; });
  for (const Isa* isa : host_isas()) {
    Attention attention(*isa, spec);
    Buffer<float> x(kTokens * 3 * kDim);
    std::fill(x.begin(), x.end(), 0.f);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      float* q = &x[t * 3 * kDim];
      q[0] = kQuery, q[kDim] = t == 0 ? kKey : 0;
      std::fill_n(q + 2 * kDim, kDim, t == 0 ? 0.f : 1.f);
    }
    std::vector<float> y(kTokens * kDim);
    attention.run(x.data(), reinterpret_cast<std::uint8_t*>(y.data()), kDim * 4, kTokens, kTokens, false);
    const double each = std::exp(-double{kKey} * kQuery), small = (kTokens - 1) * each;
    EXPECT_NEAR(y[(kTokens - 1) * kDim], small / (1 + small), 64 * each) << isa->name;
  }
}

// Those of the host that multiply bf16, with tiles and without.
std::vector<const Isa*> isas_with_bf16() {
  std::vector<const Isa*> isas;
  for (const Isa* isa : host_isas())
    if (isa->has_bf16dot) isas.push_back(isa);
  return isas;
}

AttnSpec in_bf16(std::int64_t heads, std::int64_t kv_heads, std::int64_t dim) {
  return with(shape(heads, kv_heads, dim, GC_KV_BF16), [](AttnSpec& s) { s.bf16 = true; });
}

// What no row's window reaches isn't read: a value that is no number would show in any product, even by 0.
TEST(Attention, DoesntReadWhatIsOutsideTheWindow) {
  constexpr std::int64_t kTokens = 700, kWindow = 100;
  std::vector<std::pair<const Isa*, bool>> ways = {{host_isas().back(), false}};
  for (const Isa* isa : isas_with_bf16()) ways.emplace_back(isa, true);
  for (auto [isa, bf16] : ways) {
    for (std::int64_t rows : {1, 60}) {
      const AttnSpec spec = with(bf16 ? in_bf16(4, 2, 64) : shape(4, 2, 64, GC_KV_F16),
                                 [](AttnSpec& s) { s.window = kWindow; });
      Attention attention(*isa, spec);
      Buffer<float> x(kTokens * attention.columns());
      testing::fill_random(x, 1);
      const std::int64_t n = spec.heads * spec.v_dim, before = kTokens - rows;
      std::vector<float> y(kTokens * n);
      auto* out = reinterpret_cast<std::uint8_t*>(y.data());
      attention.run(x.data(), out, n * 4, kTokens, before, false);
      const std::vector<float> whole = y;
      attention.forget(before - kWindow + 1);
      attention.step(x.data(), out, n * 4, before, kTokens, false);
      EXPECT_EQ(std::memcmp(&whole[before * n], &y[before * n], rows * n * 4), 0)
          << isa->name << bf16 << " " << rows;
    }
  }
}

TEST(Attention, QuantizedOutputIsTheQuantizedRow) {
  for (const Isa* isa : host_isas()) {
    const AttnSpec spec = shape(4, 2, 64, GC_KV_F16);
    const std::int64_t tokens = 70, n = spec.heads * spec.v_dim, bytes = act_row_bytes(n);
    Buffer<float> x(tokens * 512), y(tokens * n);
    testing::fill_random(x, 1);
    Attention plain(*isa, spec);
    plain.run(x.data(), reinterpret_cast<std::uint8_t*>(y.data()), n * 4, tokens, tokens, false);
    Buffer<std::uint8_t> q(tokens * bytes), r(tokens * bytes);
    std::fill(q.begin(), q.end(), 0);
    std::fill(r.begin(), r.end(), 0);
    Attention joined(*isa, with(spec, [](AttnSpec& s) { s.out = ir::Elem::Q16; }));
    joined.run(x.data(), q.data(), bytes, tokens, tokens, false);
    Kernels k(*isa);
    const std::string quantizer = k.name(quantize(k.e(), n));
    k.get<testing::Quantize>(quantizer)(y.data(), n * 4, r.data(), bytes, tokens);
    EXPECT_TRUE(q == r) << isa->name;
  }
}

// Keys and values in buffers of their own: the same blocks as from a joined row.
TEST(Attention, AppendsFromSeparateBuffers) {
  const AttnSpec spec =
      with(shape(4, 2, 24, GC_KV_F16), [](AttnSpec& s) { s.v_dim = 40, s.k_norm = true, s.rope = {}; });
  using Separate =
      void(const gc_step*, std::int64_t group, std::int64_t block_bytes, std::int64_t state_offset,
           const float* k, std::int64_t ks, const float* v, std::int64_t vs, const float* k_norm,
           const float* fine, const float* coarse, std::int64_t begin, std::int64_t end);
  for (const Isa* isa : host_isas()) {
    Kernels kernels(*isa);
    const std::string joined = kernels.name(attn_append(kernels.e(), spec));
    const std::string separate = kernels.name(kv_append(kernels.e(), spec));
    constexpr std::int64_t kTokens = 70;
    const std::int64_t q = 4 * 24, k = 2 * 24, v = 2 * 40, columns = q + k + v;
    const std::int64_t block = kv_state_bytes(2, 24, 40, GC_KV_F16);
    Buffer<float> x(kTokens * columns), keys(kTokens * k), values(kTokens * v), norm(24);
    testing::fill_random(x, 1);
    testing::fill_random(norm, 2);
    std::vector<gc_row> rows(kTokens);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      rows[t].pos = std::int32_t(t);
      std::memcpy(&keys[t * k], &x[t * columns + q], k * 4);
      std::memcpy(&values[t * v], &x[t * columns + q + k], v * 4);
    }
    Buffer<std::uint8_t> pools[2] = {Buffer<std::uint8_t>(2 * block), Buffer<std::uint8_t>(2 * block)};
    const std::uint32_t table[] = {1, 0};
    gc_seq seq = {};
    seq.tables[0] = {table, 2, 0};
    for (Buffer<std::uint8_t>& pool : pools) {
      std::fill(pool.begin(), pool.end(), 0);
      std::uint8_t* pointers[] = {pool.data()};
      gc_step step = {};
      step.rows = rows.data(), step.seqs = &seq, step.pools = pointers;
      if (&pool == pools) {
        kernels.get<Append>(joined)(&step, 0, block, 0, x.data(), columns * 4, norm.data(), nullptr, nullptr,
                                    0, 2 * kTokens);
      } else {
        kernels.get<Separate>(separate)(&step, 0, block, 0, keys.data(), k * 4, values.data(), v * 4,
                                        norm.data(), nullptr, nullptr, 0, 2 * kTokens);
      }
    }
    EXPECT_TRUE(pools[0] == pools[1]) << isa->name;
  }
}

// ---- Products of bf16 ----

// Within the rounding of queries and weights to bf16 of the reference, and the same bits in any chunks.
void expect_agrees_on(const Isa& isa, const AttnSpec& spec, std::int64_t tokens,
                      const std::vector<std::int64_t>& chunks) {
  ASSERT_TRUE(attn_has_bf16(isa, spec));
  Attention attention(isa, spec);
  Buffer<float> x(tokens * attention.columns());
  testing::fill_random(x, 1);
  const auto r = attn_reference(spec, attention.weights(), x.data(), tokens);
  const std::int64_t n = out_columns(spec);
  std::vector<float> first;
  for (std::int64_t chunk : chunks) {
    std::vector<float> y(tokens * n, std::numeric_limits<float>::quiet_NaN());
    attention.run(x.data(), reinterpret_cast<std::uint8_t*>(y.data()), n * 4, tokens, chunk, false);
    double error = 0, power = 0;
    for (std::size_t i = 0; i < y.size(); ++i) error += std::pow(y[i] - r[i], 2), power += r[i] * r[i];
    EXPECT_LT(std::sqrt(error / power), 4e-3)
        << isa.name << " " << spec.heads << "x" << spec.k_dim << ", chunks of " << chunk;
    EXPECT_LT(testing::error(y.data(), r.data(), r.size()), 5e-2)
        << isa.name << " " << spec.heads << "x" << spec.k_dim << ", chunks of " << chunk;
    if (first.empty()) first = y;
    EXPECT_EQ(std::memcmp(first.data(), y.data(), y.size() * 4), 0)
        << isa.name << " " << spec.heads << "x" << spec.k_dim << ", chunks of " << chunk
        << ": other bits than the first";
  }
}

void expect_bf16_agrees(const AttnSpec& spec, std::int64_t tokens, const std::vector<std::int64_t>& chunks) {
  if (isas_with_bf16().empty()) GTEST_SKIP() << "no products of bf16 on this host";
  for (const Isa* isa : isas_with_bf16()) expect_agrees_on(*isa, spec, tokens, chunks);
}

TEST(AttentionInBf16, AgreesWithDoubleInAnyChunks) {
  for (std::int64_t dim : {32, 64, 96, 128, 192, 256})
    expect_bf16_agrees(with(in_bf16(4, 1, dim), [](AttnSpec& s) { s.q_norm = s.k_norm = true; }), 300,
                       {300, 1, 33, 128});
  expect_bf16_agrees(with(in_bf16(9, 3, 64), [](AttnSpec& s) { s.rope.neox = false; }), 650, {650, 40, 7});
  expect_bf16_agrees(with(in_bf16(2, 1, 96), [](AttnSpec& s) { s.v_dim = 64; }), 70, {70, 5});
  expect_bf16_agrees(in_bf16(300, 1, 32), 40, {40, 3});
  expect_bf16_agrees(with(in_bf16(4, 2, 64), [](AttnSpec& s) { s.cap = 5, s.scale = 1; }), 70, {70, 9});
  for (std::int64_t dim : {64, 96, 128, 256}) {
    expect_bf16_agrees(
        with(in_bf16(8, 1, dim), [](AttnSpec& s) { s.sinks = true, s.window = 128, s.cap = 20; }), 400,
        {400, 90});
  }
  expect_bf16_agrees(with(in_bf16(6, 2, 64), [](AttnSpec& s) { s.rope = {}, s.alibi = 8; }), 600, {600, 31});
}

TEST(AttentionInBf16, WindowsAndRings) {
  for (std::int64_t window : {1, 5, 64, 100, 300}) {
    const AttnSpec spec = with(in_bf16(2, 1, 32), [&](AttnSpec& s) { s.window = window; });
    expect_bf16_agrees(with(spec, [](AttnSpec& s) { s.ring = true; }), 700, {1, 7, 48, 200});
    expect_bf16_agrees(spec, 700, {700, 200});
  }
}

TEST(AttentionInBf16, SumsAndCompressedKeys) {
  const AttnSpec spec = with(in_bf16(4, 1, 64), [](AttnSpec& s) { s.sums = true, s.rope = {}; });
  expect_bf16_agrees(with(spec, [](AttnSpec& s) { s.sinks = true, s.window = 100, s.ring = true; }), 300,
                     {300, 40});
  expect_bf16_agrees(with(spec, [](AttnSpec& s) { s.every = 4; }), 1300, {1300, 90, 7});
}

TEST(AttentionInBf16, MultipliesInBf16) {
  for (const Isa& isa : all_isas()) {
    if (!isa.has_bf16dot) continue;
    llvm::LLVMContext context;
    Emitter e(context, isa, "test");
    std::vector<std::string> names;
    for (int dim : {64, 96, 128, 256}) {
      attn(e, in_bf16(4, 1, dim));
      for (const char* part : {"scores_", "values_"})
        names.push_back("attn_prompt_" + std::string(part) + std::to_string(dim));
    }
    const std::string module = compile_assembly(*e.take(), isa);
    for (const std::string& name : names) {
      const std::string assembly = function_assembly(module, name);
      EXPECT_NE(assembly.find(isa.has_amx ? "tdpbf16ps" : "vdpbf16ps"), std::string::npos) << assembly;
      EXPECT_EQ(assembly.find("ldtilecfg"), std::string::npos) << "configured once a step, not here";
      EXPECT_EQ(assembly.find("Spill"), std::string::npos) << assembly;
    }
  }
}

int count(const std::string& text, const char* part) {
  int n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// The inner loops are what they are meant to be on each level: half-precision loads converted in one instruction, wide
// FMAs, and no accumulator that goes through the stack.
TEST(Attention, InnerLoopsAreWideAndDontSpill) {
  for (const Isa* isa : usable_isas()) {
    for (auto [heads, dim] : {std::pair{1, 64}, {3, 64}, {4, 256}, {7, 128}}) {
      llvm::LLVMContext context;
      Emitter e(context, *isa, "test");
      const AttnSpec spec = shape(heads, 1, dim, GC_KV_F16);
      attn(e, spec);
      const std::string names[] = {attn_range(e, spec)->getName().str(), attn_rows(e, spec)->getName().str()};
      const std::string module = compile_assembly(*e.take(), *isa);
      const char* wide = isa->has_avx512 ? "%zmm" : "%ymm";
      for (const std::string& name : names) {
        const bool rows = name == names[1];  // over keys and values as f32
        const std::string assembly = function_assembly(module, name);
        int loops = 0;
        for (std::size_t at = 0; at != std::string::npos;) {
          const std::size_t next = assembly.find("\n.LBB", at + 1);
          std::string block = assembly.substr(at, next - at);
          block.resize(std::min(block.size(), block.find("\n# %bb", 1)));  // what follows a loop's jump
          at = next;
          const int madds = count(block, "vfmadd");
          if (rows ? madds < 12 || count(block, "vmulps") > 0
                   : madds == 0 || block.find("vcvtph2ps") == std::string::npos)
            continue;
          ++loops;
          EXPECT_NE(block.find(wide), std::string::npos) << isa->name << block;
          EXPECT_EQ(block.find("Spill"), std::string::npos) << isa->name << block;
          EXPECT_EQ(block.find("Reload"), std::string::npos) << isa->name << block;
        }
        EXPECT_GE(loops, 2) << isa->name << " " << name;
      }
    }
  }
}

// Generated rows over q8_0 take what the ISA multiplies weights with that several rows share.
TEST(AttentionInIntegers, MultipliesIntegers) {
  for (const Isa& isa : all_isas()) {
    for (auto [heads, dim] : {std::pair{1, 64}, {3, 64}, {4, 256}, {7, 128}}) {
      llvm::LLVMContext context;
      Emitter e(context, isa, "test");
      const std::string name = attn_range(e, in_ints(heads, 1, dim))->getName().str();
      const std::string assembly = function_assembly(compile_assembly(*e.take(), isa), name);
      const char* product = isa.has_vnni      ? "vpdpwssd"
                            : isa.has_i8mm    ? "usdot"
                            : isa.has_dotprod ? "sdot"
                            : isa.has_neon    ? "smull"
                                              : "vpmaddwd";
      EXPECT_NE(assembly.find(product), std::string::npos) << isa.name << assembly;
    }
  }
}

TEST(Attention, SaysWhatIsMissing) {
  EXPECT_EQ(attn_unsupported(shape(4, 1, 64, GC_KV_F16)), "");
  EXPECT_NE(attn_unsupported(with(shape(4, 1, 80, GC_KV_F16), [](AttnSpec& s) { s.out = ir::Elem::Q16; })),
            "");
}

}  // namespace
}  // namespace gc::cpu
