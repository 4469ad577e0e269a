// Products of prompt rows by dot products, in every way that an ISA may take, against the packed weights and the rows in
// double; what their contract promises: the bits of a result depend on its row and its panel alone; and that the instruction
// that each row of isa.def is there for multiplies.
#include <gtest/gtest.h>

#include <cmath>

#include "codegen_cpu/jit.h"
#include "codegen_cpu/kernels/matmul/dot_matmul.h"
#include "codegen_cpu/kernels/matmul/matmul.h"
#include "codegen_cpu/kernels/matmul/test_data.h"
#include "codegen_cpu/kernels/matmul/tile_matmul.h"
#include "codegen_cpu/kernels/row_out/row_out.h"
#include "codegen_cpu/object.h"
#include "codegen_cpu/prompt_rows.h"
#include "compiler/base/strings.h"

namespace gc::cpu {
namespace {

using DotFn = void(const std::uint8_t* panels, const void* x, std::int64_t x_stride, float* y,
                   std::int64_t y_stride, std::int64_t n_panels, std::int64_t n_rows, std::uint8_t* scratch);

// Every row of the table as it is and told to be coarse, where that is another way; but for tiles.
std::vector<Isa> isas_with_dots() {
  std::vector<Isa> isas;
  for (Isa isa : all_isas()) {
    const PromptWay way = prompt_way(isa);
    if (way == PromptWay::Tiles) continue;
    isas.push_back(isa);
    isa.coarse_prompts = true;
    if (prompt_way(isa) != way) isas.push_back(isa);
  }
  return isas;
}

std::vector<Format> dot_formats() {
  std::vector<Format> formats;
  for (Format format : matmul_formats())
    if (has_prompt_matmul(PromptWay::Pairs, format)) formats.push_back(format);
  return formats;
}

// Kernels of one format and K with a packed matrix of `panels` panels and rows of activations.
class Product {
 public:
  Product(const Isa& isa, Format format, std::int64_t k, std::int64_t panels, std::int64_t rows)
      : k_(k), panel_(panel_bytes(format, k)), format_(format), way_(prompt_way(isa)) {
    Emitter e(context_, isa, "test");
    const std::string name(dot_matmul(e, format, k)->getName());
    const bool bf16 = prompt_input(way_) == ir::Elem::BF16;
    const std::string quantizer((bf16 ? round_rows(e, ir::Elem::BF16, k) : quantize(e, k))->getName());
    jit_ = std::make_unique<Jit>(e);
    f_ = jit_->get<DotFn>(name);
    const std::int64_t n = panels * kPanelRows;
    weights_ = aligned_copy(pack::packed(format, n, k, pack::random_matrix(format, n, k, 5)));
    x_ = random_activations(rows * k, 3);
    stride_ = bf16 ? block_bytes(k) / kBlockRows : act_row_bytes(k);
    const std::int64_t bytes = generated_at(rows) * stride_;
    xq_ = aligned<std::uint8_t>(bytes);
    std::memset(xq_.get(), 0xff, bytes);
    for (std::int64_t t = 0; t < rows; ++t) {
      std::uint8_t* to = row(t) + (bf16 ? t % kBlockRows * kPieceRow : 0);
      jit_->get<QuantizeFn>(quantizer)(&x_[t * k], 4 * k, to, stride_, 1);
    }
    scratch_ = aligned<std::uint8_t>(prompt_scratch_bytes(isa, k));
    std::memset(scratch_.get(), 0xff, prompt_scratch_bytes(isa, k));  // NaN
  }

  // Rows [t, t + n), t a multiple of 16, times panels [p, p + m): [n][16 m], in a frame that nothing is written to.
  std::vector<float> operator()(std::int64_t t, std::int64_t n, std::int64_t p, std::int64_t m) {
    const std::int64_t width = m * kPanelRows, stride = width + 16;
    constexpr float kFrame = -12345;
    auto y = aligned<float>((n + 1) * stride);
    std::fill_n(y.get(), (n + 1) * stride, kFrame);
    f_(weights_.get() + p * panel_, row(t), stride_, y.get(), 4 * stride, m, n, scratch_.get());
    std::vector<float> out;
    for (std::int64_t i = 0; i < (n + 1) * stride; ++i) {
      const bool inside = i < n * stride && i % stride < width;
      if (inside) out.push_back(y[i]);
      if (!inside) {
        EXPECT_EQ(y[i], kFrame) << "written past the end";
      }
    }
    return out;
  }

  // [t][row of the weights].
  std::vector<double> expected(std::int64_t rows, std::int64_t rows_w) const {
    std::vector<double> y(rows * rows_w);
    std::vector<float> w(k_);
    for (std::int64_t r = 0; r < rows_w; ++r) {
      unpack_row(format_, k_, weights_.get() + r / kPanelRows * panel_, r % kPanelRows, w.data());
      for (std::int64_t t = 0; t < rows; ++t)
        for (std::int64_t i = 0; i < k_; ++i) y[t * rows_w + r] += static_cast<double>(x_[t * k_ + i]) * w[i];
    }
    return y;
  }
  PromptWay way() const { return way_; }

 private:
  // Of prompt rows the block.
  std::uint8_t* row(std::int64_t t) const {
    return xq_.get() + (prompt_input(way_) == ir::Elem::BF16 ? t / kBlockRows * kBlockRows : t) * stride_;
  }

  llvm::LLVMContext context_;
  const std::int64_t k_, panel_;
  const Format format_;
  const PromptWay way_;
  std::unique_ptr<Jit> jit_;
  DotFn* f_ = nullptr;
  std::int64_t stride_ = 0;
  Aligned<std::uint8_t> weights_, xq_, scratch_;
  std::vector<float> x_;
};

// Of the power of a product of random weights and of activations whose blocks of 32 differ by up to 2^11.
double most_error(PromptWay way) {
  switch (way) {
    case PromptWay::Tiles:
      break;
    case PromptWay::Bf16:
      return 1e-5;
    case PromptWay::Pairs:
      return 1e-6;
    case PromptWay::Bytes:
      return 2e-4;
  }
  return 0;
}

class EveryFormat : public testing::TestWithParam<Format> {};

TEST_P(EveryFormat, IsTheProduct) {
  for (const Isa& isa : isas_with_dots()) {
    if (!host_runs(isa)) continue;
    for (std::int64_t k : {32, 640, 768}) {
      if (k == 768 && 640 % info(GetParam()).block_values == 0) continue;
      if (k % info(GetParam()).block_values != 0) continue;
      const std::int64_t rows = 19, panels = 28;
      Product product(isa, GetParam(), k, panels, rows);
      const std::vector<float> y = product(0, rows, 0, panels);
      const std::vector<double> want = product.expected(rows, panels * kPanelRows);
      double error = 0, power = 0;
      for (std::size_t i = 0; i < y.size(); ++i) {
        error += std::pow(want[i] - y[i], 2);
        power += want[i] * want[i];
      }
      EXPECT_LT(error / power, most_error(product.way())) << isa.name << " " << k;
    }
  }
}

// What formats differ in ends with their unpacking; these have one scale of 32 columns or two, mins or none.
class SomeFormats : public testing::TestWithParam<Format> {};

TEST_P(SomeFormats, RowsAndPanelsStandAlone) {
  for (const Isa& isa : isas_with_dots()) {
    if (!host_runs(isa)) continue;
    const std::int64_t k = 768, rows = 70, panels = 35, width = panels * kPanelRows;
    Product product(isa, GetParam(), k, panels, rows);
    const std::vector<float> whole = product(0, rows, 0, panels);
    for (auto [t, n] : {std::pair{0, 1}, {64, 6}, {32, 16}, {0, 17}, {48, 20}, {0, 64}})
      for (auto [p, m] : {std::pair{0, 35}, {7, 1}, {1, 2}, {16, 17}}) {
        const std::vector<float> part = product(t, n, p, m);
        for (int i = 0; i < n; ++i)
          ASSERT_EQ(std::memcmp(&part[i * m * kPanelRows], &whole[(t + i) * width + p * kPanelRows], 64 * m),
                    0)
              << isa.name << " rows " << t << " + " << n << ", panels " << p << " + " << m;
      }
    EXPECT_TRUE(product(0, 0, 0, 3).empty());
  }
}

// More rows than a pass has.
TEST(Passes, RowsStandAlone) {
  for (const Isa& isa : isas_with_dots()) {
    if (!host_runs(isa)) continue;
    const std::int64_t k = 320, rows = 1045, panels = 4, width = panels * kPanelRows;
    Product product(isa, Format::Q8_0, k, panels, rows);
    const std::vector<float> whole = product(0, rows, 0, panels);
    const std::vector<float> last = product(1040, 5, 0, panels);
    EXPECT_EQ(std::memcmp(last.data(), &whole[1040 * width], last.size() * 4), 0) << isa.name;
  }
}

const auto kNames = [](const auto& param) { return std::string(name(param.param)); };
INSTANTIATE_TEST_SUITE_P(, EveryFormat, testing::ValuesIn(dot_formats()), kNames);
INSTANTIATE_TEST_SUITE_P(, SomeFormats,
                         testing::Values(Format::Q8_0, Format::Q4_1, Format::Q6_K, Format::Q2_K), kNames);

// The one table of what multiplies on each row of isa.def: a product of prompt rows, one generated row, several.
struct Opcodes {
  const char *isa, *prompt, *coarse, *row, *rows;
};
constexpr Opcodes kOpcodes[] = {
    {"x86-64-v3", "vpmaddwd", "vpmaddwd", "vpmaddwd", "vpmaddwd"},
    {"x86-64-v3-vnni", "vpdpwssd", "vpdpbusd", "vpdpbusd", "vpdpwssd"},
    {"x86-64-v4", "vpmaddwd", "vpmaddwd", "vpmaddwd", "vpmaddwd"},
    {"x86-64-v4-vnni", "vpdpwssd", "vpdpbusd", "vpdpbusd", "vpdpwssd"},
    {"zen4", "vdpbf16ps", "vpdpbusd", "vpdpbusd", "vpdpwssd"},
    {"sapphirerapids", "tdpbf16ps", "tdpbf16ps", "vpdpbusd", "vpdpwssd"},
    {"armv8-a", "smull", "smull", "smull", "smull"},
    {"armv8-a-dotprod", "sdot", "sdot", "sdot", "sdot"},
    {"armv8-a-i8mm", "smmla", "smmla", "usdot", "usdot"},
};
constexpr const char* kProducts[] = {"vpmaddwd", "vpdpwssd", "vpdpbusd", "vdpbf16ps", "tdpbf16ps",
                                     "smull",    "sdot",     "usdot",    "smmla"};

// The function multiplies with `opcode`: most of its products are that (vpmaddwd may begin a sum of vpdpwssd).
void expect_products(const std::string& assembly, const std::string& function, const std::string& opcode,
                     const std::string& isa) {
  const std::string code = function_assembly(assembly, function);
  ASSERT_FALSE(code.empty()) << isa << ": no " << function;
  const auto count = [&](const std::string& what) {
    int n = 0;
    const std::string word = "\t" + what + "\t";
    for (std::size_t at = code.find(word); at != std::string::npos; at = code.find(word, at + 1)) ++n;
    return n;
  };
  EXPECT_GE(count(opcode), opcode == "tdpbf16ps" ? 4 : 8) << isa << " " << function;
  for (const char* other : kProducts) {
    if (other != opcode) {
      EXPECT_LT(count(other), count(opcode)) << isa << " " << function;
    }
  }
}

// For machines that this one isn't code is made and looked at.
TEST(Opcodes, EveryIsaMultipliesWithItsOwn) {
  std::vector<const Isa*> isas;
  for (Arch arch : {Arch::X86_64, Arch::AArch64})
    for (const Isa& isa : all_isas(arch)) isas.push_back(&isa);
  ASSERT_EQ(std::size(kOpcodes), isas.size()) << "a row of isa.def without expectations";
  for (std::size_t i = 0; i < isas.size(); ++i) {
    const Opcodes& want = kOpcodes[i];
    ASSERT_EQ(want.isa, isas[i]->name);
    for (bool coarse : {false, true}) {
      Isa isa = *isas[i];
      isa.coarse_prompts = coarse;
      const PromptWay way = prompt_way(isa);
      llvm::LLVMContext context;
      Emitter e(context, isa, "test");
      matmul(e, {Format::Q4_K, 512, ir::Elem::Q16});
      way == PromptWay::Tiles ? tile_matmul(e, Format::Q4_K, 512) : dot_matmul(e, Format::Q4_K, 512);
      std::vector<std::string> names;
      for (const llvm::Function& f : e.module()) names.push_back(f.getName().str());
      const auto module = e.take();
      const std::string text = compile_assembly(*module, isa);
      const auto expect = [&](const std::string& stem, const char* opcode) {
        int found = 0;
        for (const std::string& name : names)
          if (name.rfind(stem, 0) == 0 && name.find("matmul", 1) == std::string::npos) {
            ++found;
            expect_products(text, name, opcode, cat(isa.name, coarse ? " (coarse)" : ""));
          }
        EXPECT_GT(found, 0) << stem;
      };
      expect_products(text, "matmul_q4_k_q16_512", want.row, std::string(isa.name));
      expect("tile_", want.rows);
      expect(way == PromptWay::Tiles ? "tiles_2x2" : "dots_", coarse ? want.coarse : want.prompt);
    }
  }
}

}  // namespace
}  // namespace gc::cpu
