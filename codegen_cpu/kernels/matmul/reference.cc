#include "codegen_cpu/kernels/matmul/reference.h"

#include <cmath>
#include <vector>

#include "compiler/quant/layouts.h"

#pragma STDC FP_CONTRACT OFF

namespace gc::cpu {

float block_dot_reference(Format format, std::span<const ActBlock32> x, const std::uint8_t* panel,
                          std::int64_t row) {
  const Layout& layout = layout_for(format);
  const std::int64_t cols = static_cast<std::int64_t>(x.size()) * kActBlock, n = layout.scale_cols;
  const RowParts w = row_parts(format, cols, panel, row);
  float y = 0;
  for (std::int64_t b = 0; b < cols / n; ++b) {
    const float d = x[b * n / kActBlock].d;
    std::int32_t sum = 0, x_sum = 0;
    for (std::int64_t c = b * n; c < (b + 1) * n; ++c) {
      const std::int32_t q = x[c / kActBlock].q[c % kActBlock];
      sum += w.q[c] * q;
      x_sum += q;
    }
    const float scale = w.scale[b] * d;
    y = std::fma(static_cast<float>(sum), scale, y);
    if (layout.min != ScaleKind::None) {
      const float d_sum = d * static_cast<float>(x_sum);
      y = std::fma(w.min[b], d_sum, y);
    }
  }
  return y;
}

float float_dot_reference(Format format, std::span<const float> x, const std::uint8_t* panel,
                          std::int64_t row) {
  std::vector<float> w(x.size());
  unpack_row(format, static_cast<std::int64_t>(x.size()), panel, row, w.data());
  float y = 0;
  for (std::size_t k = 0; k < x.size(); ++k) y = std::fma(w[k], x[k], y);
  return y;
}

}  // namespace gc::cpu
