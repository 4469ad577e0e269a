// The norms of transformer layers as one value, so that a block can take whichever its family has.
#pragma once

#include <string>

#include "compiler/ir/builder.h"

namespace gc::blocks {

struct Norm {
  enum class Kind { None, Rms, Layer };
  Kind kind = Kind::None;
  ir::WeightId weight;  // [dim]; optional for Rms and Layer
  ir::WeightId bias;    // [dim], optional
  double eps = 0;

  explicit operator bool() const { return kind != Kind::None; }
};

// Over the last dimension of x ([T, dim], or [T, heads, dim] for a norm of each head). Without a norm: x itself.
ir::ValueId norm(ir::Builder& b, ir::ValueId x, const Norm& n, std::string name);

}  // namespace gc::blocks
