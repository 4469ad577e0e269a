// The experts of a row and their weights, from a router's logits (op route): all experts' weights are written, 0 for those
// that the row isn't given to.
#pragma once

#include <cstdint>
#include <optional>

#include "codegen_cpu/emitter.h"
#include "compiler/ir/ir.h"

namespace gc::cpu {

struct RouteSpec {
  std::int64_t experts, used;
  bool bias = false;
  std::optional<ir::Fn> fn;  // of each logit; none: softmax
  bool normed = false;       // weights are divided by their sum, at least `least`
  float least = 0;
  float by = 1;
  std::int64_t groups = 1, groups_used = 1;
};
// void(x, i64 xs, bias, y, i64 ys, i64 rows)
llvm::Function* route(Emitter& e, const RouteSpec& spec);
// The experts are those of the row's token in the table, f32[tokens][used] (op route_by_token): no bias, no groups. A
// number that is no expert's counts as the last or the first.
// void(rows, x, i64 xs, table, y, i64 ys, i64 n_rows)
llvm::Function* route_by_token(Emitter& e, const RouteSpec& spec);

}  // namespace gc::cpu
