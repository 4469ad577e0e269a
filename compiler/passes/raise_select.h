// Moving select up, for the passes head_last and narrow_last_layer:
//
//   select(f(x))    ->  f(select(x)),    for every f that treats rows apart
//   select(a + b)   ->  select(a) + select(b)
#pragma once

#include "compiler/ir/ir.h"

namespace gc::passes {

enum class Reach {
  Head,      // stops at the matrices of the layers
  LastLayer  // stops at the last layer's attention and at its input
};

ir::Graph raise_selects(ir::Graph g, Reach reach);

}  // namespace gc::passes
