#include "compiler/blocks/norm.h"

#include <utility>

#include "compiler/base/error.h"

namespace gc::blocks {

ir::ValueId norm(ir::Builder& b, ir::ValueId x, const Norm& n, std::string name) {
  switch (n.kind) {
    case Norm::Kind::None:
      return x;
    case Norm::Kind::Rms: {
      if (!n.bias.valid()) return b.rms_norm(x, n.weight, n.eps, std::move(name));
      const ir::ValueId y = b.rms_norm(x, n.weight, n.eps, name + "_unshifted");
      return b.shift(y, n.bias, std::move(name));
    }
    case Norm::Kind::Layer:
      return b.layer_norm(x, n.weight, n.bias, n.eps, std::move(name));
  }
  GC_CHECK(false, "kind of norm ", int(n.kind));
  return x;
}

}  // namespace gc::blocks
