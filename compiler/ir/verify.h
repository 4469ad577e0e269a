// Checks that a graph is well formed. A graph that is not is a bug of ours: the error is internal and names the op
// and the value. Runs after every pass in tests and under --verify-ir.
//
//  1. Every id is in range. Every value has one definition, which lists it among its results; every result is a
//     value of the graph. Names of values, weights and states are unique and not empty.
//  2. An operand is defined by an earlier op: the order of ops is a schedule.
//  3. An op has the operands, weights, state and attributes of its row in ops.def; attributes are sorted by name.
//  4. The types of its results are what infer.h computes.
//  5. A weight is a whole number of blocks of its format; a matrix of a matmul is no integer format. Table weights
//     (RoPE) are f32 and have the shape of their parameters.
//  6. Every state is appended to by one op alone (two would append twice), and has sizes that its kind needs.
//  7. layer_begin and layer_input are both empty or have n_layer + 1 entries; layer_begin does not decrease.
//  8. layer_input[i] is [T, n] or, of the head, [R, n]; it is defined before layer i, or in it by the residual
//     sum (residual_norm's first result, or an add) that closes layer i - 1 and opens layer i.
//  9. There is an output; outputs are values of the graph.
#pragma once

#include "compiler/ir/ir.h"

namespace gc::ir {

void verify(const Graph& g);

}  // namespace gc::ir
