// The experts of a row and their weights, from a router's logits (op route): all experts' weights are written, 0 for those
// that the row isn't given to.
#pragma once

#include <cstdint>

#include "codegen_cpu/emitter.h"

namespace gc::cpu {

struct RouteSpec {
  std::int64_t experts, used;
  bool bias = false;
  bool sigmoid = false;  // else softmax
  bool normed = false;   // weights are divided by their sum, at least `least`
  float least = 0;
  float by = 1;
  std::int64_t groups = 1, groups_used = 1;
};
// void(x, i64 xs, bias, y, i64 ys, i64 rows)
llvm::Function* route(Emitter& e, const RouteSpec& spec);

}  // namespace gc::cpu
