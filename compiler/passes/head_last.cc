// The logits are wanted of few rows: one of a prompt's hundreds. An architecture selects where it likes; here select
// moves up so that the head, and the residual sum and norms before it, run on those rows alone. The last sum (with the
// norm of its branch) moves into the head, where fuse_residual joins it with the head's norm; the value that enters the
// head is then [R, n].
#include <utility>

#include "compiler/passes/pass.h"
#include "compiler/passes/raise_select.h"

namespace gc::passes {

ir::Graph head_last(ir::Graph g) { return raise_selects(std::move(g), Reach::Head); }

}  // namespace gc::passes
