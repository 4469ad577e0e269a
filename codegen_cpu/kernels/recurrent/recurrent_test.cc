// Recurrences against double precision; and their bits, which depend neither on how rows come in steps, nor on who
// takes which unit, nor on the other sequences of a step, nor on the ISA.
#include "codegen_cpu/kernels/recurrent/recurrent.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "codegen_cpu/kernels/recurrent/signatures.h"
#include "codegen_cpu/kernels/testing.h"
#include "compiler/ir/recur.h"
#include "compiler/pack/random_matrix.h"
#include "compiler/quant/reference.h"
#include "runtime/abi/program.h"

namespace gc::cpu {
namespace {

using testing::Buffer;
using testing::Kernels;

constexpr int kSeqs = 3, kLength = 9;
constexpr std::int64_t kOffset = 128;  // of the state in its slot

double softplus_of(double x) { return std::log1p(std::exp(x)); }

// Sequences with slots in one pool, full of rubbish, and steps over their rows.
class Sequences {
 public:
  explicit Sequences(std::int64_t state_floats)
      : slot_bytes_(kOffset + 4 * state_floats), pool_(static_cast<std::size_t>(kSeqs * slot_bytes_ / 4)) {
    testing::fill_random(pool_, 99, 1e6f);
    for (std::uint32_t s = 0; s < kSeqs; ++s) {
      slots_[s] = kSeqs - 1 - s;
      seqs_[s].tables[1] = {&slots_[s], 1, 0};
    }
  }

  // The step of these rows: (sequence, position).
  const gc_step* step(const std::vector<std::pair<int, int>>& rows) {
    rows_.clear();
    for (auto [seq, pos] : rows) rows_.push_back({.pos = pos, .seq = static_cast<std::uint32_t>(seq)});
    step_ = {};
    step_.rows = rows_.data();
    step_.n_rows = static_cast<std::uint32_t>(rows_.size());
    step_.seqs = seqs_;
    pools_[1] = reinterpret_cast<std::uint8_t*>(pool_.data());
    step_.pools = pools_;
    return &step_;
  }
  std::int64_t slot_bytes() const { return slot_bytes_; }

 private:
  std::int64_t slot_bytes_;
  Buffer<float> pool_;
  std::uint32_t slots_[kSeqs];
  gc_seq seqs_[kSeqs] = {};
  std::uint8_t* pools_[2] = {};
  std::vector<gc_row> rows_;
  gc_step step_{};
};

using Rows = std::vector<std::pair<int, int>>;

// How the rows of all sequences come: whole, sequence by sequence; interleaved; one by one.
std::vector<std::vector<Rows>> orders() {
  std::vector<Rows> whole, one_by_one;
  Rows mixed_a, mixed_b;
  for (int s = 0; s < kSeqs; ++s) {
    Rows rows;
    for (int p = 0; p < kLength; ++p) rows.push_back({s, p});
    whole.push_back(rows);
  }
  for (int p = 0; p < kLength; ++p)
    for (int s = 0; s < kSeqs; ++s) {
      one_by_one.push_back({{s, p}});
      (p < 4 ? mixed_a : mixed_b).push_back({s, p});
    }
  return {whole, {mixed_a, mixed_b}, one_by_one};
}

// Runs a kernel over all rows in an order, with `parts` shares of its units. call(step, slot_bytes, first row's index in
// the values below, lo, hi): rows of values are [sequence][position].
using Call = std::function<void(const gc_step*, std::int64_t slot_bytes, const std::vector<std::int64_t>& at,
                                std::int64_t lo, std::int64_t hi)>;
void run(std::int64_t state_floats, std::int64_t units, int parts, const std::vector<Rows>& steps,
         const Call& call) {
  Sequences sequences(state_floats);
  for (const Rows& rows : steps) {
    std::vector<std::int64_t> at;
    for (auto [s, p] : rows) at.push_back(s * kLength + p);
    const gc_step* step = sequences.step(rows);
    for (int i = 0; i < parts; ++i)
      call(step, sequences.slot_bytes(), at, units * i / parts, units * (i + 1) / parts);
  }
}

// Values of the rows of a step, in its order; and back.
struct Gathered {
  Gathered(const Buffer<float>& all, std::int64_t n, const std::vector<std::int64_t>& at)
      : rows(at.size() * static_cast<std::size_t>(n)) {
    for (std::size_t t = 0; t < at.size(); ++t)
      std::copy_n(all.data() + at[t] * n, n, rows.data() + static_cast<std::int64_t>(t) * n);
  }
  Buffer<float> rows;
};
void scatter(const Buffer<float>& rows, std::int64_t n, const std::vector<std::int64_t>& at,
             Buffer<float>& all) {
  for (std::size_t t = 0; t < at.size(); ++t)
    std::copy_n(rows.data() + static_cast<std::int64_t>(t) * n, n, all.data() + at[t] * n);
}

constexpr std::int64_t kRows = kSeqs * kLength;

TEST(Conv, SeesTheLastRowsOfItsSequence) {
  for (const ConvSpec& spec : {ConvSpec{40, 3, true, ir::Fn::silu}, ConvSpec{32, 2}, ConvSpec{7, 1, true},
                               ConvSpec{20, 6, true, {}, 3}}) {
    const std::int64_t n = spec.channels, before = spec.kept / spec.dilation;
    Buffer<float> x(kRows * n), taps((before + 1) * n), bias(n), first(kRows * n);
    testing::fill_random(x, 1);
    testing::fill_random(taps, 2);
    testing::fill_random(bias, 3);
    bool is_first = true;
    for (const Isa* isa : host_isas()) {
      Kernels k(*isa);
      auto* f = k.get<Conv>(k.name(conv(k.e(), spec)));
      for (const auto& order : orders()) {
        for (int parts : {1, 2}) {
          Buffer<float> y(kRows * n);
          run(spec.kept * n, spec.units(), parts, order,
              [&](const gc_step* step, std::int64_t slot, const auto& at, std::int64_t lo, std::int64_t hi) {
                const Gathered in(x, n, at);
                Gathered out(y, n, at);
                f(step, 1, slot, kOffset, in.rows.data(), 4 * n, taps.data(), bias.data(), out.rows.data(),
                  4 * n, lo, hi);
                scatter(out.rows, n, at, y);
              });
          if (is_first) std::memcpy(first.data(), y.data(), y.size() * 4);
          is_first = false;
          ASSERT_EQ(y, first) << isa->name;
        }
      }
    }
    for (std::int64_t row = 0; row < kRows; ++row)
      for (std::int64_t c = 0; c < n; ++c) {
        double sum = spec.bias ? bias[c] : 0;
        for (std::int64_t j = 0; j <= before && j * spec.dilation <= row % kLength; ++j)
          sum += double(taps[(before - j) * n + c]) * x[(row - j * spec.dilation) * n + c];
        ASSERT_NEAR(first[row * n + c], spec.fn ? sum / (1 + std::exp(-sum)) : sum, 1e-5);
      }
  }
}

using Compress = void(const gc_step*, std::int64_t group, std::int64_t slot, std::int64_t offset,
                      const float* x, std::int64_t xs, const float* scores, std::int64_t ss, const float* ape,
                      float* y, std::int64_t ys, std::int64_t lo, std::int64_t hi);

TEST(Compress, WeighsTheRowsOfABlock) {
  for (const CompressSpec& spec :
       {CompressSpec{40, 4}, CompressSpec{64, 2, 2}, CompressSpec{24, 3, 2}, CompressSpec{16, 1}}) {
    const std::int64_t columns = spec.columns, n = spec.out_columns();
    Buffer<float> x(kRows * columns), scores(kRows * columns), ape(spec.every * columns), first(kRows * n);
    testing::fill_random(x, 1);
    testing::fill_random(scores, 2, 3);
    testing::fill_random(ape, 3);
    bool is_first = true;
    for (const Isa* isa : host_isas()) {
      Kernels k(*isa);
      auto* f = k.get<Compress>(k.name(compress(k.e(), spec)));
      for (const auto& order : orders()) {
        for (int parts : {1, 2}) {
          Buffer<float> y(kRows * n);
          run(spec.kept() * 2 * columns, spec.units(), parts, order,
              [&](const gc_step* step, std::int64_t slot, const auto& at, std::int64_t lo, std::int64_t hi) {
                const Gathered in(x, columns, at), by(scores, columns, at);
                Gathered out(y, n, at);
                f(step, 1, slot, kOffset, in.rows.data(), 4 * columns, by.rows.data(), 4 * columns,
                  ape.data(), out.rows.data(), 4 * n, lo, hi);
                scatter(out.rows, n, at, y);
              });
          if (is_first) std::memcpy(first.data(), y.data(), y.size() * 4);
          is_first = false;
          ASSERT_EQ(y, first) << isa->name;
        }
      }
    }
    for (std::int64_t row = 0; row < kRows; ++row)
      for (std::int64_t c = 0; c < n; ++c) {
        const std::int64_t p = row % kLength;
        double sum = 0, values = 0;
        for (std::int64_t j = std::max<std::int64_t>(0, p + 1 - spec.kept()); j <= p; ++j) {
          const std::int64_t half = spec.halves == 2 && j > p - spec.every ? n : 0;
          const std::int64_t from = (row - p + j) * columns + half + c;
          const double w = std::exp(double(scores[from]) + ape[j % spec.every * columns + half + c]);
          sum += w, values += w * x[from];
        }
        ASSERT_NEAR(first[row * n + c], (p + 1) % spec.every == 0 ? values / sum : 0, 1e-5)
            << row << " " << c;
      }
  }
}

using Ngram = void(const gc_step*, std::int64_t group, std::int64_t slot, std::int64_t offset,
                   const std::uint8_t* table, float* y, std::int64_t ys, std::int64_t lo, std::int64_t hi);

// As the interpreter has it: hashes of the last three tokens, in any steps, an end token among them.
TEST(NgramEmbed, LooksUpHashesOfTheLastTokens) {
  constexpr std::int64_t kRowsOfTable = 60, kColumns = 32, kHeads = 4, n = kHeads * kColumns;
  const NgramSpec spec = {.format = Format::Q8_0,
                          .n = kColumns,
                          .multipliers = {0x123456789abcdef, 3, -5},
                          .sizes = {7, 11, 13, 17},
                          .begins = {0, 7, 18, 43},
                          .end_token = 2};
  ir::Op op{ir::OpKind::ngram_embed};
  op.set_list(ir::AttrName::multipliers, spec.multipliers);
  op.set_list(ir::AttrName::sizes, spec.sizes);
  op.set_list(ir::AttrName::begins, spec.begins);
  op.set_i64(ir::AttrName::end_token, spec.end_token);
  const auto raw = pack::random_matrix(spec.format, kRowsOfTable, kColumns, 1);
  const auto panels = pack::packed(spec.format, kRowsOfTable, kColumns, raw);
  Buffer<std::uint8_t> table(panels.size());
  std::memcpy(table.data(), panels.data(), panels.size());
  const auto token_of = [](std::int64_t row) { return static_cast<std::int32_t>(row * row % 5); };
  std::vector<float> want(kRows * n);
  for (std::int64_t row = 0; row < kRows; ++row) {
    static float state[2];
    if (row % kLength == 0) state[0] = state[1] = 0;
    const auto rows = ir::ngram_rows(op, token_of(row), state);
    for (std::int64_t h = 0; h < kHeads; ++h)
      dequantize_row(spec.format, raw.data() + rows[h] * row_bytes(spec.format, kColumns),
                     &want[row * n + h * kColumns], kColumns);
  }
  for (const Isa* isa : host_isas()) {
    Kernels k(*isa);
    auto* f = k.get<Ngram>(k.name(ngram_embed(k.e(), spec)));
    for (const auto& order : orders()) {
      Buffer<float> y(kRows * n);
      run(2, 1, 1, order,
          [&](const gc_step* step, std::int64_t slot, const auto& at, std::int64_t lo, std::int64_t hi) {
            for (std::size_t t = 0; t < at.size(); ++t)
              const_cast<gc_row*>(step->rows)[t].token = token_of(at[t]);
            Gathered out(y, n, at);
            f(step, 1, slot, kOffset, table.data(), out.rows.data(), 4 * n, lo, hi);
            scatter(out.rows, n, at, y);
          });
      for (std::size_t i = 0; i < want.size(); ++i) ASSERT_EQ(y[i], want[i]) << isa->name << " " << i;
    }
  }
}

using Shift = void(const gc_step*, std::int64_t group, std::int64_t slot, std::int64_t offset, const float* x,
                   std::int64_t xs, const float* mix, float* y, std::int64_t ys, std::int64_t lo,
                   std::int64_t hi);

TEST(TokenShift, SeesTheRowBefore) {
  for (const ShiftSpec& spec : {ShiftSpec{40}, ShiftSpec{7}, ShiftSpec{40, 6}, ShiftSpec{21, 1}}) {
    const std::int64_t n = spec.columns, wide = n * std::max<std::int64_t>(1, spec.mixes);
    Buffer<float> x(kRows * n), mix(wide);
    testing::fill_random(x, 1);
    testing::fill_random(mix, 2);
    for (const Isa* isa : host_isas()) {
      Kernels k(*isa);
      auto* f = k.get<Shift>(k.name(token_shift(k.e(), spec)));
      for (const auto& order : orders())
        for (int parts : {1, 2}) {
          Buffer<float> y(kRows * wide);
          run(n, spec.units(), parts, order,
              [&](const gc_step* step, std::int64_t slot, const auto& at, std::int64_t lo, std::int64_t hi) {
                const Gathered in(x, n, at);
                Gathered out(y, wide, at);
                f(step, 1, slot, kOffset, in.rows.data(), 4 * n, mix.data(), out.rows.data(), 4 * wide, lo,
                  hi);
                scatter(out.rows, wide, at, y);
              });
          for (std::int64_t i = 0; i < kRows * wide; ++i) {
            const std::int64_t row = i / wide, column = i % n, at = row * n + column;
            const float d = (row % kLength > 0 ? x[at - n] : 0) - x[at];
            const float want = spec.mixes > 0 ? std::fma(mix[i % wide], d, x[at]) : d;
            ASSERT_EQ(y[i], want) << isa->name << " " << i;
          }
        }
    }
  }
}

struct ScanCase {
  const char* name;
  ScanSpec spec;
};

// Operands' sizes of a row.
std::vector<std::int64_t> sizes_of(const ScanSpec& s) {
  const std::int64_t qk = s.groups * s.keys, v = s.heads * s.values;
  switch (s.kind) {
    case ScanSpec::Kind::Ssm:
      return {v, s.heads, qk, qk};
    case ScanSpec::Kind::SsmStates:
      return {v, v, s.keys, s.keys};
    case ScanSpec::Kind::Delta:
      return {qk, qk, v, s.gate_of_keys ? s.heads * s.keys : s.heads, s.heads};
    case ScanSpec::Kind::Decay:
      return {qk, qk, v};
    case ScanSpec::Kind::Wkv:
      return {s.heads * s.keys, qk, s.groups * s.values, s.heads * s.keys};
    case ScanSpec::Kind::Wkv7:
      return {qk, qk, v, qk, qk, qk};
  }
  return {};
}

struct Weights {
  Buffer<float> a, dt_bias, d;
};

// Of Wkv and Wkv7 in double: one head's column j goes on, and gives what the query sees.
double wkv_cell(const ScanSpec& s, const std::function<double(std::size_t operand, std::int64_t i)>& at,
                const Weights& w, std::int64_t h, std::int64_t j, double* column) {
  const std::int64_t g = h / (s.heads / s.groups);
  const double v = at(2, g * s.values + j);
  double known = 0, sum = 0;
  for (std::int64_t i = 0; s.kind == ScanSpec::Kind::Wkv7 && i < s.keys; ++i)
    known += at(4, h * s.keys + i) * column[i * s.values];
  for (std::int64_t i = 0; i < s.keys; ++i) {
    double& cell = column[i * s.values];
    const double decay = std::exp(at(3, h * s.keys + i)), before = cell;
    const double key = at(1, g * s.keys + i) * (s.leaky ? 1 - decay : 1);
    cell = decay * cell + key * v;
    if (s.kind == ScanSpec::Kind::Wkv7) cell += at(5, h * s.keys + i) * known;
    sum += at(0, h * s.keys + i) * (s.bonus ? before + w.a[h * s.keys + i] * key * v : cell);
  }
  return s.scale * sum;
}

// The whole recurrence in double.
std::vector<double> reference(const ScanSpec& s, const std::vector<std::unique_ptr<Buffer<float>>>& x,
                              const Weights& w) {
  using Kind = ScanSpec::Kind;
  const std::int64_t keys = s.keys, values = s.values, n = s.heads * values;
  std::vector<double> y(static_cast<std::size_t>(kRows * n)), state;
  for (std::int64_t row = 0; row < kRows; ++row) {
    if (row % kLength == 0) state.assign(static_cast<std::size_t>(s.heads * keys * values), 0);
    auto at = [&](std::size_t operand, std::int64_t i) {
      return static_cast<double>((*x[operand])[static_cast<std::size_t>(row * sizes_of(s)[operand] + i)]);
    };
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const std::int64_t g = s.in_turn ? h % s.groups : h / (s.heads / s.groups);
      const bool ssm = s.kind == Kind::Ssm || s.kind == Kind::SsmStates;
      const std::size_t key_in = ssm ? 2 : 1, query_in = ssm ? 3 : 0, value_in = ssm ? 0 : 2;
      for (std::int64_t j = 0; j < values; ++j) {
        if (s.kind == Kind::Wkv || s.kind == Kind::Wkv7) {
          double* cells = &state[static_cast<std::size_t>(h * keys * values + j)];
          y[static_cast<std::size_t>(row * n + h * values + j)] = wkv_cell(s, at, w, h, j, cells);
          continue;
        }
        const std::int64_t column = h * values + j, dt_at = s.kind == Kind::Ssm ? h : column;
        const double step = ssm ? softplus_of(at(1, dt_at) + (s.dt_bias ? w.dt_bias[dt_at] : 0)) : 1;
        double u = step * at(value_in, column), known = 0, sum = 0;
        for (std::int64_t i = 0; i < keys; ++i) {
          double decay = 1;
          if (s.kind == Kind::Ssm) decay = std::exp(step * w.a[h]);
          if (s.kind == Kind::SsmStates) decay = std::exp(step * w.a[i * values + j]);
          if (s.kind == Kind::Delta) decay = std::exp(at(3, s.gate_of_keys ? h * keys + i : h));
          if (s.kind == Kind::Decay) decay = std::exp(-s.by * ir::alibi_slope(s.alibi, h, s.heads));
          double& cell = state[static_cast<std::size_t>((h * keys + i) * values + j)];
          cell *= decay;
          known += cell * at(key_in, g * keys + i);
        }
        if (s.kind == Kind::Delta) u = at(4, h) * (u - known);
        for (std::int64_t i = 0; i < keys; ++i) {
          double& cell = state[static_cast<std::size_t>((h * keys + i) * values + j)];
          cell += u * at(key_in, g * keys + i);
          sum += cell * at(query_in, g * keys + i);
        }
        if (s.d) sum += double(w.d[s.kind == Kind::Ssm ? h : column]) * at(0, column);
        y[static_cast<std::size_t>(row * n + column)] = ssm ? sum : s.scale * sum;
      }
    }
  }
  return y;
}

class Scans : public ::testing::TestWithParam<ScanCase> {};

TEST_P(Scans, GoOnRowByRow) {
  const ScanSpec spec = GetParam().spec;
  const std::int64_t n = spec.heads * spec.values;
  const auto sizes = sizes_of(spec);
  std::vector<std::unique_ptr<Buffer<float>>> x;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    x.push_back(std::make_unique<Buffer<float>>(static_cast<std::size_t>(kRows * sizes[i])));
    testing::fill_random(*x.back(), static_cast<unsigned>(i + 1), 0.5f);
  }
  if (spec.kind == ScanSpec::Kind::Wkv || spec.kind == ScanSpec::Kind::Wkv7)
    for (float& g : *x[3]) g = -std::abs(g);
  if (spec.kind == ScanSpec::Kind::Wkv7)
    for (const std::size_t i : {4, 5})
      for (float& f : *x[i]) f /= std::sqrt(static_cast<float>(spec.keys));
  if (spec.kind == ScanSpec::Kind::Delta) {
    for (float& g : *x[3]) g = -std::abs(g);
    for (float& b : *x[4]) b = std::abs(b);
    for (float& k : *x[1]) k /= std::sqrt(static_cast<float>(spec.keys)) / 2;
  }
  Weights w{Buffer<float>(static_cast<std::size_t>(n * spec.keys)),
            Buffer<float>(static_cast<std::size_t>(n)), Buffer<float>(static_cast<std::size_t>(n))};
  testing::fill_random(w.a, 7);
  for (float& a : w.a) a = -std::abs(a);
  testing::fill_random(w.dt_bias, 8);
  testing::fill_random(w.d, 9);

  Buffer<float> first(static_cast<std::size_t>(kRows * n));
  bool is_first = true;
  for (const Isa* isa : host_isas()) {
    Kernels k(*isa);
    auto* f = k.get<Scan>(k.name(scan(k.e(), spec)));
    for (const auto& order : orders()) {
      for (int parts : {1, 3}) {
        Buffer<float> y(static_cast<std::size_t>(kRows * n));
        run(spec.heads * spec.keys * spec.values, spec.units(*isa), parts, order,
            [&](const gc_step* step, std::int64_t slot, const auto& at, std::int64_t lo, std::int64_t hi) {
              std::vector<std::unique_ptr<Gathered>> in;
              for (std::size_t i = 0; i < 6; ++i)
                in.push_back(
                    std::make_unique<Gathered>(*x[i < x.size() ? i : 0], i < x.size() ? sizes[i] : 1, at));
              auto p = [&](std::size_t i) { return in[i]->rows.data(); };
              auto stride = [&](std::size_t i) { return i < sizes.size() ? 4 * sizes[i] : 0; };
              Gathered out(y, n, at);
              f(step, 1, slot, kOffset, p(0), stride(0), p(1), stride(1), p(2), stride(2), p(3), stride(3),
                p(4), stride(4), p(5), stride(5), w.a.data(), w.dt_bias.data(), w.d.data(), out.rows.data(),
                4 * n, lo, hi);
              scatter(out.rows, n, at, y);
            });
        if (is_first) std::memcpy(first.data(), y.data(), y.size() * 4);
        is_first = false;
        ASSERT_EQ(y, first) << isa->name;
      }
    }
  }
  const std::vector<double> r = reference(spec, x, w);
  EXPECT_LT(testing::error(first.data(), r.data(), r.size()), 2e-6);
}

using Kind = ScanSpec::Kind;
INSTANTIATE_TEST_SUITE_P(
    All, Scans,
    ::testing::Values(
        ScanCase{"heads", {.kind = Kind::Ssm, .heads = 4, .groups = 2, .keys = 16, .values = 64, .d = true}},
        ScanCase{"heads_bias",
                 {.kind = Kind::Ssm,
                  .heads = 3,
                  .groups = 1,
                  .keys = 5,
                  .values = 80,
                  .dt_bias = true,
                  .d = true}},
        ScanCase{"heads_small", {.kind = Kind::Ssm, .heads = 2, .groups = 2, .keys = 8, .values = 3}},
        ScanCase{"states",
                 {.kind = Kind::SsmStates,
                  .heads = 1,
                  .groups = 1,
                  .keys = 16,
                  .values = 72,
                  .dt_bias = true,
                  .d = true}},
        ScanCase{"delta_in_turn",
                 {.kind = Kind::Delta,
                  .heads = 4,
                  .groups = 2,
                  .keys = 16,
                  .values = 32,
                  .in_turn = true,
                  .scale = 0.25f}},
        ScanCase{"delta",
                 {.kind = Kind::Delta, .heads = 4, .groups = 2, .keys = 32, .values = 64, .scale = 0.25f}},
        ScanCase{"delta_keys",
                 {.kind = Kind::Delta,
                  .heads = 2,
                  .groups = 2,
                  .keys = 40,
                  .values = 96,
                  .gate_of_keys = true,
                  .scale = 0.5f}},
        ScanCase{"wkv",
                 {.kind = Kind::Wkv, .heads = 2, .groups = 2, .keys = 64, .values = 64, .bonus = true}},
        ScanCase{"wkv_leaky",
                 {.kind = Kind::Wkv,
                  .heads = 4,
                  .groups = 2,
                  .keys = 24,
                  .values = 40,
                  .leaky = true,
                  .scale = 0.25f}},
        ScanCase{"wkv_plain", {.kind = Kind::Wkv, .heads = 3, .groups = 1, .keys = 5, .values = 80}},
        ScanCase{"wkv7", {.kind = Kind::Wkv7, .heads = 3, .groups = 3, .keys = 64, .values = 64}},
        ScanCase{"wkv7_small", {.kind = Kind::Wkv7, .heads = 2, .groups = 2, .keys = 7, .values = 3}},
        ScanCase{"decay",
                 {.kind = Kind::Decay,
                  .heads = 4,
                  .groups = 4,
                  .keys = 24,
                  .values = 32,
                  .scale = 1,
                  .alibi = 8,
                  .by = 0.5}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace gc::cpu
