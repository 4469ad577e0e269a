// Every kernel of kernels.def on every ISA of this host against the scalar reference, bit for bit.
#include "codegen_cpu/kernels/matmul/matmul.h"

#include <gtest/gtest.h>

#include "codegen_cpu/jit.h"
#include "codegen_cpu/kernels/matmul/reference.h"
#include "codegen_cpu/kernels/matmul/shapes.h"
#include "codegen_cpu/kernels/matmul/test_data.h"
#include "codegen_cpu/kernels/row_decode/row_decode.h"
#include "codegen_cpu/object.h"
#include "codegen_cpu/vec/dot.h"
#include "compiler/quant/two_streams.h"

namespace gc::cpu {
namespace {

class EveryFormat : public testing::TestWithParam<Format> {};

std::vector<std::int64_t> columns(Format format) {
  if (info(format).kind == FormatKind::kFloat) return {1, 65, 256, 290};
  // The last two of some: more than what is unpacked at once.
  if (format == Format::Q4_K || format == Format::Q6_K) return {256, 768, 1280};
  if (format == Format::Q4_1 || format == Format::Q5_0) return {32, 288, 1056};
  if (info(format).block_values == 256) return {256, 768};
  if (info(format).block_values > 32) return {128, 384, 640};
  return {32, 224, 288, 640};
}

struct Case {
  Format format;
  std::int64_t k, rows_w;
  std::vector<std::uint8_t> raw;
  Aligned<std::uint8_t> panels;
  Case(Format f, std::int64_t k, std::int64_t n)
      : format(f),
        k(k),
        rows_w(n),
        raw(pack::random_matrix(f, n, k, static_cast<std::uint32_t>(k + n))),
        panels(aligned_copy(pack::packed(f, n, k, raw))) {}
};

// [t][16 * panels] of the contract.
std::vector<float> expected(const Case& c, const std::vector<float>& x, std::int64_t rows) {
  std::vector<float> y;
  const std::int64_t n = panels_of(c.rows_w) * kPanelRows;
  for (std::int64_t t = 0; t < rows; ++t) {
    std::vector<ActBlock32> q;
    for (std::int64_t i = 0; i + 32 <= c.k; i += 32) q.push_back(quantize_block32(&x[t * c.k + i]));
    for (std::int64_t r = 0; r < n; ++r) {
      const std::uint8_t* panel = c.panels.get() + r / kPanelRows * panel_bytes(c.format, c.k);
      y.push_back(matmul_input(c.format) == ir::Elem::Q16
                      ? block_dot_reference(c.format, q, panel, r % kPanelRows)
                      : float_dot_reference(c.format, std::span(&x[t * c.k], c.k), panel, r % kPanelRows));
    }
  }
  return y;
}

TEST_P(EveryFormat, IsTheReferenceOnEveryIsa) {
  const Format format = GetParam();
  const ir::Elem input = matmul_input(format);
  for (const Isa* isa : host_isas()) {
    llvm::LLVMContext context;
    Emitter e(context, *isa, "test");
    for (std::int64_t k : columns(format)) {
      matmul(e, {format, k, input});
      if (input == ir::Elem::Q16) quantize(e, k);
    }
    Jit jit(e);
    for (std::int64_t k : columns(format)) {
      for (std::int64_t n : {16, 33, 80}) {  // 1, 3 and 5 panels
        const Case c(format, k, n);
        const std::int64_t max_rows = n == 80 ? 17 : 7;
        const std::vector<float> x = random_activations(max_rows * k, 7);
        const std::vector<float> want = expected(c, x, max_rows);
        const std::int64_t panels = panels_of(n), width = panels * kPanelRows, y_stride = (width + 16) * 4;
        const std::int64_t x_stride = input == ir::Elem::Q16 ? act_row_bytes(k) + 64 : k * 4;
        auto xq = aligned<std::uint8_t>(max_rows * x_stride);
        if (input == ir::Elem::Q16) {
          jit.get<QuantizeFn>("quantize_" + std::to_string(k))(x.data(), k * 4, xq.get(), x_stride, max_rows);
        } else {
          std::memcpy(xq.get(), x.data(), x.size() * 4);
        }
        auto* f = jit.get<MatmulFn>(matmul_name({format, k, input}));
        for (std::int64_t rows = 1; rows <= max_rows; ++rows) {
          auto y = aligned<float>(max_rows * y_stride / 4);
          std::fill_n(y.get(), max_rows * y_stride / 4, std::nanf(""));
          f(c.panels.get(), xq.get(), x_stride, y.get(), y_stride, panels, rows);
          for (std::int64_t t = 0; t < max_rows; ++t) {
            for (std::int64_t i = 0; i < y_stride / 4; ++i) {
              const float got = y[t * y_stride / 4 + i];
              if (t < rows && i < width) {
                ASSERT_EQ(std::bit_cast<std::uint32_t>(got),
                          std::bit_cast<std::uint32_t>(want[t * width + i]))
                    << isa->name << " k " << k << " n " << n << " rows " << rows << " t " << t << " i " << i
                    << ": " << got << " for " << want[t * width + i];
              } else {
                ASSERT_TRUE(std::isnan(got)) << "written past the end";
              }
            }
          }
        }
      }
    }
  }
}

// A panel by itself or with others, a row by itself or with others: covered above for rows; here a share of panels
// that begins in the middle.
TEST_P(EveryFormat, PanelsStandAlone) {
  const Format format = GetParam();
  const ir::Elem input = matmul_input(format);
  const std::int64_t k = 512, n = 80;
  const Case c(format, k, n);
  for (const Isa* isa : host_isas()) {
    llvm::LLVMContext context;
    Emitter e(context, *isa, "test");
    matmul(e, {format, k, input});
    quantize(e, k);
    Jit jit(e);
    const std::int64_t rows = 8, x_stride = input == ir::Elem::Q16 ? act_row_bytes(k) : k * 4;
    const std::vector<float> x = random_activations(rows * k, 3);
    auto xq = aligned<std::uint8_t>(rows * x_stride);
    if (input == ir::Elem::Q16) {
      jit.get<QuantizeFn>("quantize_512")(x.data(), k * 4, xq.get(), x_stride, rows);
    } else {
      std::memcpy(xq.get(), x.data(), x.size() * 4);
    }
    auto* f = jit.get<MatmulFn>(matmul_name({format, k, input}));
    auto whole = aligned<float>(rows * n), parts = aligned<float>(rows * n);
    f(c.panels.get(), xq.get(), x_stride, whole.get(), n * 4, 5, rows);
    for (auto [begin, count] : {std::pair{0, 1}, {1, 3}, {4, 1}}) {
      f(c.panels.get() + begin * panel_bytes(format, k), xq.get(), x_stride, parts.get() + 16 * begin, n * 4,
        count, rows);
    }
    EXPECT_EQ(std::memcmp(whole.get(), parts.get(), rows * n * 4), 0) << isa->name;
  }
}

// A head in two streams has the bits of the whole one.
TEST(TwoStreams, AreTheWholeMatrix) {
  for (const Isa* isa : host_isas()) {
    for (std::int64_t k : {224, 640, 1056}) {
      llvm::LLVMContext context;
      Emitter e(context, *isa, "test");
      two_stream_matmul(e, k);
      quantize(e, k);
      Jit jit(e);
      const Case c(Format::Q8_0, k, 80);
      const std::int64_t panels = 5, width = 80, rows = 19, x_stride = act_row_bytes(k);
      auto upper = aligned<std::uint8_t>(panels * upper_panel_bytes(k));
      auto lower = aligned<std::uint8_t>(panels * lower_panel_bytes(k));
      for (std::int64_t p = 0; p < panels; ++p)
        split_panel(k, c.panels.get() + p * panel_bytes(Format::Q8_0, k),
                    upper.get() + p * upper_panel_bytes(k), lower.get() + p * lower_panel_bytes(k));
      const std::vector<float> x = random_activations(rows * k, 9);
      const std::vector<float> want = expected(c, x, rows);
      auto xq = aligned<std::uint8_t>(rows * x_stride);
      jit.get<QuantizeFn>("quantize_" + std::to_string(k))(x.data(), k * 4, xq.get(), x_stride, rows);
      auto* f =
          jit.get<void(const std::uint8_t*, const std::uint8_t*, const void*, std::int64_t, float*,
                       std::int64_t, std::int64_t, std::int64_t)>("two_stream_matmul_" + std::to_string(k));
      auto y = aligned<float>(rows * width);
      for (std::int64_t n = kTwoStreamRows; n <= rows; ++n) {
        std::fill_n(y.get(), rows * width, std::nanf(""));
        f(upper.get(), lower.get(), xq.get(), x_stride, y.get(), width * 4, panels, n);
        ASSERT_EQ(std::memcmp(y.get(), want.data(), n * width * 4), 0)
            << isa->name << " k " << k << " rows " << n;
        ASSERT_TRUE(n == rows || std::isnan(y[n * width])) << "written past the end";
      }
    }
  }
}

// Whatever the shapes, the bits are the same.
TEST(Shapes, ChangeNoBit) {
  for (auto [format, k] :
       {std::pair{Format::Q8_0, 640}, {Format::Q4_K, 1280}, {Format::Q6_K, 768}, {Format::IQ6_K, 768}}) {
    const Case c(format, k, 80);
    const std::int64_t rows = 17, panels = 5, width = 80, x_stride = act_row_bytes(k);
    const std::vector<float> x = random_activations(rows * k, 13);
    const std::vector<float> want = expected(c, x, rows);
    // row_panels, ahead, tile_rows, chunk_groups
    for (const RowShapes& shapes :
         {RowShapes{1, 0, 2, 1}, {2, 100, 17, 2}, {3, 24576, 17, 3}, {8, 65536, 5, 4}}) {
      llvm::LLVMContext context;
      Emitter e(context, best_host_isa(), "test");
      const TunedProduct tuned[] = {{format, k, shapes}};
      set_shapes(e, tuned);
      EXPECT_EQ(row_shapes(e, format, k), shapes);
      EXPECT_EQ(row_shapes(e, format, k + 32), usual_shapes(e.isa(), format));
      matmul(e, {format, k, ir::Elem::Q16});
      quantize(e, k);
      Jit jit(e);
      auto xq = aligned<std::uint8_t>(rows * x_stride);
      jit.get<QuantizeFn>("quantize_" + std::to_string(k))(x.data(), k * 4, xq.get(), x_stride, rows);
      auto* f = jit.get<MatmulFn>(matmul_name({format, k, ir::Elem::Q16}));
      auto y = aligned<float>(rows * width);
      for (std::int64_t n = 1; n <= rows; ++n) {
        f(c.panels.get(), xq.get(), x_stride, y.get(), width * 4, panels, n);
        ASSERT_EQ(std::memcmp(y.get(), want.data(), n * width * 4), 0) << name(format) << " rows " << n;
      }
    }
  }
}

TEST_P(EveryFormat, RowsAreReadBackFromPanels) {
  const Format format = GetParam();
  for (const Isa* isa : host_isas()) {
    llvm::LLVMContext context;
    Emitter e(context, *isa, "test");
    for (std::int64_t k : columns(format)) row_decode(e, format, k);
    Jit jit(e);
    for (std::int64_t k : columns(format)) {
      const Case c(format, k, 37);
      auto* f =
          jit.get<RowDecodeFn>("row_decode_" + std::string(info(format).text_name) + "_" + std::to_string(k));
      std::vector<float> want(k), got(k);
      for (std::int64_t r = 0; r < 37; ++r) {
        unpack_row(format, k, c.panels.get() + r / kPanelRows * panel_bytes(format, k), r % kPanelRows,
                   want.data());
        for (float& w : want) w *= 25.25f;
        f(c.panels.get(), r, got.data(), 25.25f);
        ASSERT_EQ(std::memcmp(want.data(), got.data(), k * 4), 0) << isa->name << " k " << k << " row " << r;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, EveryFormat, testing::ValuesIn(matmul_formats().begin(), matmul_formats().end()),
                         [](const auto& param) { return std::string(name(param.param)); });

TEST(Quantize, AgreesWithTheDefinition) {
  const std::int64_t k = 320, rows = 3;
  std::vector<float> x = random_activations(rows * k, 11);
  x[5] = 0x1p-140f;  // a block whose factor overflows
  for (int i = 0; i < 32; ++i) x[i] = i == 5 ? 0x1p-140f : 0;
  for (int i = 0; i < 32; ++i)
    x[32 + i] = static_cast<float>(i % 2 ? 1 : -1);  // the limits, -128 in the low plane
  for (const Isa* isa : host_isas()) {
    llvm::LLVMContext context;
    Emitter e(context, *isa, "test");
    quantize(e, k);
    Jit jit(e);
    const std::int64_t stride = act_row_bytes(k);
    auto y = aligned<std::uint8_t>(rows * stride);
    jit.get<QuantizeFn>("quantize_320")(x.data(), k * 4, y.get(), stride, rows);
    for (std::int64_t t = 0; t < rows; ++t) {
      for (std::int64_t block = 0; block < k / 32; ++block) {
        const ActBlock32 want = quantize_block32(&x[t * k + block * 32]);
        const std::uint8_t* q = y.get() + t * stride + block * 64;
        ActMeta meta;
        std::memcpy(&meta, y.get() + t * stride + act_meta_offset(k) + block * 16, sizeof meta);
        EXPECT_EQ(meta.d, want.d) << isa->name;
        int sum[2] = {};
        for (int i = 0; i < 32; ++i) {
          const int at = i / 4 * 4 + (i % 4 == 1 ? 2 : i % 4 == 2 ? 1 : i % 4);
          std::int16_t pair;
          std::memcpy(&pair, q + 2 * at, 2);
          ASSERT_EQ(pair, want.q[i]) << isa->name << " block " << block << " value " << i;
          if (isa->has_vnni) {
            const auto* plane = reinterpret_cast<const std::int8_t*>(q + act_planes_offset(k));
            ASSERT_EQ(256 * plane[i] + plane[32 + i], want.q[i])
                << isa->name << " block " << block << " value " << i;
          }
          sum[i / 16] += want.q[i];
        }
        EXPECT_EQ(meta.sum[0], sum[0]);
        EXPECT_EQ(meta.sum[1], sum[1]);
        EXPECT_EQ(meta.d_sum, meta.d * static_cast<float>(sum[0] + sum[1]));
      }
    }
  }
}

// The instructions that the speed stands on are there: in the function, which has the code for one row, and in the
// largest tile that it calls.
TEST(Opcodes, ProductsAreWhatTheIsaHas) {
  for (const Isa* isa : usable_isas()) {
    llvm::LLVMContext context;
    Emitter e(context, *isa, "test");
    matmul(e, {Format::Q4_K, 512, ir::Elem::Q16});
    const auto module = e.take();
    const std::string text = compile_assembly(*module, *isa);
    const auto expect = [&](const std::string& function, const std::string& opcode,
                            const std::string& not_opcode) {
      const std::string code = function_assembly(text, function);
      ASSERT_FALSE(code.empty()) << function;
      EXPECT_NE(code.find(opcode), std::string::npos) << isa->name << " " << function << "\n" << code;
      EXPECT_EQ(code.find(not_opcode), std::string::npos) << isa->name << " " << function << "\n" << code;
      EXPECT_NE(code.find(isa->has_avx512 ? "%zmm" : "%ymm"), std::string::npos)
          << isa->name << " " << function;
    };
    const std::string row = "matmul_q4_k_q16_512";
    const std::string tile = isa->has_avx512 ? "tile_8x2_s32_min" : "tile_4x1_s32_min";
    if (isa->has_vnni) {
      expect(row, "vpdpbusd", "vpmaddwd");
      expect(tile, "vpdpwssd", "vpdpbusd");  // vpmaddwd stands where a sum begins
    } else {
      expect(row, "vpmaddwd", "vpdp");
      expect(tile, "vpmaddwd", "vpdp");
    }
    EXPECT_NE(text.find("prefetcht1"), std::string::npos);
    EXPECT_EQ(text.find("tdpbssd") != std::string::npos, isa->has_amx) << isa->name;
    if (isa->has_amx) expect("plane_tile_8x2x1_s32_min_16", "tdpbssd", "vpdp");
  }
}

// Values that are looked up cost a byte shuffle a step, not a chain of choices.
TEST(Opcodes, TablesAreByteShuffles) {
  for (const Isa* isa : usable_isas()) {
    llvm::LLVMContext context;
    Emitter e(context, *isa, "test");
    matmul(e, {Format::IQ4_XS, 512, ir::Elem::Q16});
    const auto module = e.take();
    const std::string text = compile_assembly(*module, *isa);
    for (const char* function : {"matmul_iq4_xs_q16_512", "unpack_iq4_xs_pairs"}) {
      const std::string code = function_assembly(text, function);
      EXPECT_NE(code.find("vpshufb"), std::string::npos) << isa->name << " " << function;
      EXPECT_EQ(code.find("vpblendvb"), std::string::npos) << isa->name << " " << function;
    }
  }
}

// For machines that this one isn't: code is made and looked at. tests/e2e/aarch64.sh runs it.
TEST(Opcodes, Aarch64MultipliesByItsDotProducts) {
  for (const Isa* isa : usable_isas(Arch::AArch64)) {
    llvm::LLVMContext context;
    Emitter e(context, *isa, "test");
    matmul(e, {Format::Q4_K, 512, ir::Elem::Q16});
    matmul(e, {Format::IQ4_XS, 512, ir::Elem::Q16});
    const auto module = e.take();
    const std::string text = compile_assembly(*module, *isa);
    const auto expect = [&](const std::string& function, const std::string& opcode) {
      const std::string code = function_assembly(text, function);
      EXPECT_NE(code.find("\t" + opcode + "\t"), std::string::npos) << isa->name << " " << function << "\n"
                                                                    << code;
    };
    for (const char* function : {"matmul_q4_k_q16_512", "tile_3x1_s32_min"})
      expect(function, isa->has_i8mm ? "usdot" : isa->has_dotprod ? "sdot" : "smull");
    expect(isa->has_dotprod ? "unpack_iq4_xs_planes" : "unpack_iq4_xs_pairs", "tbl");
    EXPECT_NE(text.find("prfm"), std::string::npos);
  }
}

// Plain LLVM IR gives the same sums on any ISA.
TEST(Dot, GenericIsTheSame) {
  std::vector<std::uint8_t> weights(64);
  std::vector<std::int32_t> q(32);
  for (int i = 0; i < 64; ++i) weights[i] = static_cast<std::uint8_t>(i * 37 + 200);
  for (int i = 0; i < 32; ++i) q[i] = i % 3 == 0 ? 32512 : i * 1999 - 32512;
  for (const Isa* isa : host_isas()) {
    llvm::LLVMContext context;
    Emitter e(context, *isa, "test");
    const auto emit = [&](const char* name, std::unique_ptr<Dot> dot) {
      e.function(name, {in("w"), in("q"), out("y")}, [&](const Args& args) {
        llvm::Value* block = e.stack(64);
        dot->store_activation(e.load(llvm::FixedVectorType::get(e.b().getInt32Ty(), 32), args["q"], 4),
                              block);
        llvm::Value* acc = llvm::Constant::getNullValue(dot->acc_type());
        llvm::Value* step = e.load(llvm::FixedVectorType::get(e.b().getInt8Ty(), 64), args["w"], 1);
        for (int pass = 0; pass < dot->passes(); ++pass) {
          if (pass > 0) acc = e.b().CreateShl(acc, llvm::ConstantInt::get(acc->getType(), 8));
          for (int s = 0; s < 8; ++s)
            acc = dot->mac(acc, dot->weights(step, 0), dot->activation(block, pass, s));
        }
        e.store(acc, args["y"], 4);
      });
    };
    emit("generic", Dot::generic(e));
    emit("row", Dot::for_row(e));
    emit("tiles", Dot::for_tiles(e));
    Jit jit(e);
    for (const char* name : {"generic", "row", "tiles"}) {
      std::int32_t y[16];
      jit.get<void(const std::uint8_t*, const std::int32_t*, std::int32_t*)>(name)(weights.data(), q.data(),
                                                                                   y);
      for (int r = 0; r < 16; ++r) {
        std::int32_t want = 0;
        for (int i = 0; i < 32; ++i) want += weights[4 * r + i % 4] * q[i];
        EXPECT_EQ(y[r], want) << isa->name << " " << name << " row " << r;
      }
    }
  }
}

}  // namespace
}  // namespace gc::cpu
