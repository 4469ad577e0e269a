// A matrix with an optional bias, as files have them.
#pragma once

#include <string>

#include "compiler/ir/builder.h"

namespace gc::blocks {

struct Linear {
  ir::WeightId weight;  // [out, in]
  ir::WeightId bias;    // [out], or none

  explicit operator bool() const { return weight.valid(); }
};

// x [T, in] -> [T, out].
inline ir::ValueId linear(ir::Builder& b, ir::ValueId x, const Linear& m, std::string name) {
  return b.matmul(x, m.weight, m.bias, std::move(name));
}

}  // namespace gc::blocks
