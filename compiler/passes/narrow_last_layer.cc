// Only attention reads rows of other tokens: once the last layer has appended its keys and values, nothing needs the
// rows whose output nobody asked for. select moves up to that layer's attention, so its output projection and its
// feed-forward network run on the rows asked for alone: of a prompt's hundreds one, in chunks before the last none. That
// saves 4.6 % of the products of a Gemma 3 270M prompt (18 layers), 2.4 % of the 4B's.
//
// Apart from head_last so that it can be switched off: with it, a value of the last layer is dumped for the rows asked
// for only.
#include <utility>

#include "compiler/passes/pass.h"
#include "compiler/passes/raise_select.h"

namespace gc::passes {

ir::Graph narrow_last_layer(ir::Graph g) { return raise_selects(std::move(g), Reach::LastLayer); }

}  // namespace gc::passes
