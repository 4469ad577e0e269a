#include "codegen_cpu/kernels/embed/embed.h"

#include <gtest/gtest.h>

#include "codegen_cpu/kernels/testing.h"
#include "compiler/pack/random_matrix.h"
#include "compiler/quant/reference.h"
#include "runtime/abi/program.h"

namespace gc::cpu {
namespace {

using testing::Buffer;
using testing::Kernels;
using Embed = void(const gc_row* rows, const std::uint8_t* matrix, float* y, std::int64_t ys,
                   std::int64_t n_rows);

TEST(Embed, IsTheFilesRowScaled) {
  constexpr std::int64_t kVocabulary = 40, kColumns = 512;
  for (Format format : {Format::F32, Format::F16, Format::BF16, Format::Q4_0, Format::Q5_0, Format::Q8_0,
                        Format::Q4_K, Format::Q6_K}) {
    const auto raw = pack::random_matrix(format, kVocabulary, kColumns, 1);
    const auto panels = pack::packed(format, kVocabulary, kColumns, raw);
    Buffer<std::uint8_t> matrix(panels.size());
    std::memcpy(matrix.data(), panels.data(), panels.size());
    for (const Isa* isa : host_isas()) {
      Kernels k(*isa);
      const std::string name = k.name(embed(k.e(), {format, kColumns, 2.5f}));
      const std::vector<std::int32_t> tokens = {0, 39, 7, 7, 16};
      std::vector<gc_row> rows(tokens.size());
      for (std::size_t t = 0; t < tokens.size(); ++t) rows[t].token = tokens[t];
      const std::int64_t stride = kColumns + 16;
      Buffer<float> y(tokens.size() * stride);
      k.get<Embed>(name)(rows.data(), matrix.data(), y.data(), stride * 4,
                         static_cast<std::int64_t>(rows.size()));
      for (std::size_t t = 0; t < tokens.size(); ++t) {
        std::vector<float> row(kColumns);
        dequantize_row(format, raw.data() + tokens[t] * row_bytes(format, kColumns), row.data(), kColumns);
        for (std::int64_t i = 0; i < kColumns; ++i) {
          ASSERT_EQ(y[t * stride + i], row[i] * 2.5f) << isa->name << " " << gc::name(format) << " " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace gc::cpu
