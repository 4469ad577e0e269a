// Products on tiles against the packed weights and bf16 rows in double, on hosts that have tiles; and what their
// contract promises: the bits of a result depend on its row and its panel alone.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "codegen_cpu/jit.h"
#include "codegen_cpu/kernels/matmul/matmul.h"
#include "codegen_cpu/kernels/matmul/test_data.h"
#include "codegen_cpu/kernels/matmul/tile_matmul.h"
#include "codegen_cpu/kernels/row_out/row_out.h"
#include "codegen_cpu/object.h"
#include "codegen_cpu/prompt_rows.h"
#include "compiler/base/strings.h"
#include "compiler/quant/float16.h"

namespace gc::cpu {
namespace {

using TileFn = void(const std::uint8_t* panels, const void* x, float* y, std::int64_t y_stride,
                    std::int64_t n_panels, std::int64_t n_rows, std::uint8_t* scratch);
using RoundFn = void(const float* x, std::int64_t x_stride, std::uint8_t* y, std::int64_t y_stride,
                     std::int64_t rows);

const Isa* isa_with_tiles() {
  for (const Isa& isa : all_isas())
    if (isa.has_amx && host_runs(isa)) return &isa;
  return nullptr;
}

std::vector<Format> tile_formats() {
  std::vector<Format> formats;
  for (Format format : matmul_formats())
    if (has_tile_matmul(format)) formats.push_back(format);
  return formats;
}

// Kernels of one format and K with a packed matrix of `panels` panels and rows of activations.
class Product {
 public:
  Product(const Isa& isa, Format format, std::int64_t k, std::int64_t panels, std::int64_t rows)
      : k_(k), panel_(panel_bytes(format, k)), format_(format) {
    Emitter e(context_, isa, "test");
    const std::string name(tile_matmul(e, format, k)->getName());
    const std::string round(round_rows(e, ir::Elem::BF16, k)->getName());
    tiles_begin(e);
    tiles_end(e);
    jit_ = std::make_unique<Jit>(e);
    f_ = jit_->get<TileFn>(name);
    raw_ =
        pack::packed(format, panels * kPanelRows, k, pack::random_matrix(format, panels * kPanelRows, k, 5));
    weights_ = aligned_copy(raw_);
    x_ = random_activations(rows * k, 3);
    const std::int64_t bytes = generated_at(rows) / kBlockRows * block_bytes(k);
    xb_ = aligned<std::uint8_t>(bytes);
    std::memset(xb_.get(), 0xff, bytes);  // NaN past the last row
    for (std::int64_t t = 0; t < rows; ++t)
      jit_->get<RoundFn>(round)(&x_[t * k], 4 * k, row(t), kPieceRow, 1);
    scratch_ = aligned<std::uint8_t>(tile_scratch_bytes(isa, k));
    std::memset(scratch_.get(), 0xff, tile_scratch_bytes(isa, k));  // NaN
  }

  // Rows [t, t + n), t a multiple of 32, times panels [p, p + m): [n][16 m], in a frame that nothing is written to.
  std::vector<float> operator()(std::int64_t t, std::int64_t n, std::int64_t p, std::int64_t m) {
    const std::int64_t width = m * kPanelRows, stride = width + 16, whole = generated_at(n);
    constexpr float kFrame = -12345;
    auto y = aligned<float>((whole + 1) * stride);
    std::fill_n(y.get(), (whole + 1) * stride, kFrame);
    jit_->get<void()>("tiles_begin")();
    f_(weights_.get() + p * panel_, row(t), y.get(), 4 * stride, m, n, scratch_.get());
    jit_->get<void()>("tiles_end")();
    std::vector<float> out;
    for (std::int64_t i = 0; i < (whole + 1) * stride; ++i) {
      const bool inside = i < whole * stride && i % stride < width;
      if (inside && i < n * stride) out.push_back(y[i]);
      if (!inside) {
        EXPECT_EQ(y[i], kFrame) << "written past the end";
      }
    }
    return out;
  }

  double expected(std::int64_t t, std::int64_t row) const {
    std::vector<float> w(k_);
    unpack_row(format_, k_, weights_.get() + row / kPanelRows * panel_, row % kPanelRows, w.data());
    double sum = 0;
    for (std::int64_t i = 0; i < k_; ++i) {
      std::uint16_t x;
      std::memcpy(&x, at(t, i), 2);
      sum += static_cast<double>(f32_of_bf16(x)) * (format_ == Format::F16 ? w[i] : nearest(w[i]));
    }
    return sum;
  }
  const std::uint8_t* panel(std::int64_t p) const { return weights_.get() + p * panel_; }
  std::uint8_t* scratch() const { return scratch_.get(); }
  std::uint8_t* row(std::int64_t t) const {
    return xb_.get() + t / kBlockRows * block_bytes(k_) + t % kBlockRows * kPieceRow;
  }
  float x(std::int64_t t, std::int64_t i) const { return x_[t * k_ + i]; }
  float rounded(std::int64_t t, std::int64_t i) const {
    std::uint16_t x;
    std::memcpy(&x, at(t, i), 2);
    return f32_of_bf16(x);
  }

 private:
  // To bf16, ties away from zero.
  static float nearest(float w) {
    return std::bit_cast<float>((std::bit_cast<std::uint32_t>(w) + 0x8000) & 0xffff0000);
  }
  const std::uint8_t* at(std::int64_t t, std::int64_t i) const {
    return row(t) + i / 32 * kPieceBytes + 2 * piece_order(static_cast<int>(i % 32));
  }

  llvm::LLVMContext context_;
  const std::int64_t k_, panel_;
  const Format format_;
  std::unique_ptr<Jit> jit_;
  TileFn* f_ = nullptr;
  std::vector<std::uint8_t> raw_;
  Aligned<std::uint8_t> weights_, xb_, scratch_;
  std::vector<float> x_;
};

// The gated unit of two matrices of a format, over the rows and matrices of two products.
class Glu {
 public:
  Glu(const Isa& isa, Format format, std::int64_t k, std::int64_t n, std::int64_t rows)
      : product_(isa, format, k, 2 * n / kPanelRows, rows), n_(n) {
    llvm::LLVMContext context;
    Emitter e(context, isa, "glu");
    const std::string name(tile_glu(e, format, k, {ir::Fn::silu, n})->getName());
    tiles_begin(e);
    tiles_end(e);
    jit_ = std::make_unique<Jit>(e);
    f_ = jit_->get<GluFn>(name);
    sums_ = product_(0, rows, 0, 2 * n / kPanelRows);
  }

  // Rows [t, t + m), t a multiple of 32, of the columns of panels [p, p + q), p even: [m][16 q].
  std::vector<float> operator()(std::int64_t t, std::int64_t m, std::int64_t p, std::int64_t q) {
    const std::int64_t bytes = generated_at(m) / kBlockRows * block_bytes(n_);
    auto y = aligned<std::uint8_t>(bytes);
    std::memset(y.get(), 0x55, bytes);
    jit_->get<void()>("tiles_begin")();
    f_(product_.panel(p), product_.panel(n_ / kPanelRows + p), product_.row(t), y.get() + p / 2 * kPieceBytes,
       q, m, product_.scratch());
    jit_->get<void()>("tiles_end")();
    std::vector<float> out;
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t c = 0; c < n_; ++c) {
        std::uint16_t bits;
        std::memcpy(&bits,
                    y.get() + i / kBlockRows * block_bytes(n_) + c / 32 * kPieceBytes +
                        i % kBlockRows * kPieceRow + 2 * piece_order(static_cast<int>(c % 32)),
                    2);
        const bool inside = c / kPanelRows >= p && c / kPanelRows < p + q;
        if (inside) out.push_back(f32_of_bf16(bits));
        if (!inside) {
          EXPECT_EQ(bits, 0x5555) << "written beside its columns";
        }
      }
    return out;
  }
  float expected(std::int64_t t, std::int64_t c) const {
    const float gate = sums_[t * 2 * n_ + c], up = sums_[t * 2 * n_ + n_ + c];
    return gate / (1 + std::exp(-gate)) * up;
  }

 private:
  using GluFn = void(const std::uint8_t* gate, const std::uint8_t* up, const void* x, std::uint8_t* y,
                     std::int64_t n_panels, std::int64_t n_rows, std::uint8_t* scratch);
  Product product_;
  const std::int64_t n_;
  std::unique_ptr<Jit> jit_;
  GluFn* f_ = nullptr;
  std::vector<float> sums_;
};

class EveryTileFormat : public testing::TestWithParam<Format> {};

TEST_P(EveryTileFormat, IsTheProduct) {
  const Isa* isa = isa_with_tiles();
  if (!isa) GTEST_SKIP() << "no tiles on this host";
  for (std::int64_t k : {32, 640, 768, 1152, 2816}) {
    if (k % info(GetParam()).block_values != 0) continue;
    const std::int64_t rows = 37, panels = 19;
    Product product(*isa, GetParam(), k, panels, rows);
    for (std::int64_t t = 0; t < rows; ++t)
      for (std::int64_t i = 0; i < k; ++i)
        ASSERT_EQ(product.rounded(t, i), f32_of_bf16(bf16_of_f32(product.x(t, i))));
    const std::vector<float> y = product(0, rows, 0, panels);
    double error = 0, power = 0;
    for (std::int64_t t = 0; t < rows; ++t)
      for (std::int64_t r = 0; r < panels * kPanelRows; ++r) {
        const double want = product.expected(t, r);
        error += std::pow(want - y[t * panels * kPanelRows + r], 2);
        power += want * want;
      }
    // Rounding of f32 sums, and of weights that all but tie.
    EXPECT_LT(error / power, 1e-7) << k;
  }
}

TEST_P(EveryTileFormat, RowsAndPanelsStandAlone) {
  const Isa* isa = isa_with_tiles();
  if (!isa) GTEST_SKIP() << "no tiles on this host";
  const std::int64_t k = 768, rows = 70, panels = 35, width = panels * kPanelRows;
  Product product(*isa, GetParam(), k, panels, rows);
  const std::vector<float> whole = product(0, rows, 0, panels);
  for (auto [t, n] : {std::pair{0, 1}, {64, 6}, {32, 16}, {0, 17}, {32, 32}, {0, 33}, {0, 64}})
    for (auto [p, m] : {std::pair{0, 35}, {7, 1}, {1, 2}, {16, 17}}) {
      const std::vector<float> part = product(t, n, p, m);
      for (int i = 0; i < n; ++i)
        ASSERT_EQ(std::memcmp(&part[i * m * kPanelRows], &whole[(t + i) * width + p * kPanelRows], 64 * m), 0)
            << "rows " << t << " + " << n << ", panels " << p << " + " << m;
    }
  EXPECT_TRUE(product(0, 0, 0, 3).empty());
}

// Gate and up joined as their sums leave: act(gate) * up of the products alone, rounded; each row and panel alone.
TEST_P(EveryTileFormat, JoinsGateAndUp) {
  const Isa* isa = isa_with_tiles();
  if (!isa) GTEST_SKIP() << "no tiles on this host";
  for (std::int64_t k : {256, 2816}) {
    const std::int64_t n = 19 * 32, panels = n / kPanelRows, rows = 70;
    Glu glu(*isa, GetParam(), k, n, rows);
    const std::vector<float> y = glu(0, rows, 0, panels);
    for (std::int64_t t = 0; t < rows; ++t)
      for (std::int64_t c = 0; c < n; ++c) {
        const float want = glu.expected(t, c);
        ASSERT_NEAR(y[t * n + c], want, std::abs(want) * 0x1p-7f + 1e-30f) << k << " " << t << " " << c;
      }
    for (auto [t, m] : {std::pair{0, 1}, {32, 17}, {32, 38}, {64, 6}})
      for (auto [p, q] : {std::pair{0, 38}, {2, 2}, {36, 2}, {4, 18}}) {
        const std::vector<float> part = glu(t, m, p, q);
        for (int i = 0; i < m; ++i)
          ASSERT_EQ(std::memcmp(&part[i * q * kPanelRows], &y[(t + i) * n + p * kPanelRows], 64 * q), 0)
              << "rows " << t << " + " << m << ", panels " << p << " + " << q;
      }
  }
}

INSTANTIATE_TEST_SUITE_P(, EveryTileFormat, testing::ValuesIn(tile_formats()),
                         [](const auto& param) { return std::string(name(param.param)); });

TEST(Opcodes, TilesMultiply) {
  for (const Isa* isa : usable_isas()) {
    if (!isa->has_amx) continue;
    llvm::LLVMContext context;
    Emitter e(context, *isa, "test");
    for (Format format : {Format::Q4_K, Format::BF16, Format::F16}) tile_matmul(e, format, 512);
    tile_glu(e, Format::Q4_K, 512, {ir::Fn::silu, 64});
    const auto module = e.take();
    const std::string text = compile_assembly(*module, *isa);
    for (const char* name :
         {"tiles_2x2_q4_k_512", "tiles_2x2_q4_k_512_silu_64", "tiles_2x2_bf16_512", "tiles_2x2_f16_512"}) {
      const std::string tiles = function_assembly(text, name);
      EXPECT_NE(tiles.find("tdpbf16ps"), std::string::npos) << tiles;
      EXPECT_EQ(tiles.find("ldtilecfg"), std::string::npos) << "configured once a step, not here";
    }
  }
}

}  // namespace
}  // namespace gc::cpu
