// A matrix with an optional bias and an optional factor, as files have them. NVFP4's blocks and BitNet's signs stand beside
// one factor for the whole matrix.
#pragma once

#include <string>
#include <utility>

#include "compiler/ir/builder.h"

namespace gc::blocks {

struct Linear {
  ir::WeightId weight;  // [out, in]
  ir::WeightId bias;    // [out], or none
  double scale = 1;     // of the product, before the bias

  explicit operator bool() const { return weight.valid(); }
};

// x [T, in] -> [T, out].
inline ir::ValueId linear(ir::Builder& b, ir::ValueId x, const Linear& m, std::string name) {
  if (m.scale == 1) return b.matmul(x, m.weight, m.bias, std::move(name));
  const ir::ValueId y = b.matmul(x, m.weight, name + "_unscaled");
  if (!m.bias.valid()) return b.scale(y, m.scale, std::move(name));
  return b.shift(b.scale(y, m.scale, name + "_unshifted"), m.bias, std::move(name));
}

}  // namespace gc::blocks
