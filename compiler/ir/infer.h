// The types of an op's results, computed from its operands and attributes. The one place that knows the shape
// rules: the builder and the parser type values by it, the verifier compares with it.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/ir.h"

namespace gc::ir {

// Fills `types` (one for each result) and returns "", or returns what is wrong with the op: a missing operand or
// attribute, or shapes that do not fit. Ids in the op must be valid in the graph.
std::string infer(const Graph& g, const Op& op, std::vector<Type>& types);

// "f32[T, 640]", "q5_0[1024, 640]".
std::string to_string(const Dim& dim);
std::string to_string(const Type& type);
std::string to_string(Format format, const std::vector<int64_t>& shape);

// The last dimension of a value, 0 where it isn't a constant.
int64_t last_dim(const Type& type);

}  // namespace gc::ir
