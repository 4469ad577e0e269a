// Recurrences in plain f32: what one row does to its sequence's state, and what it gives. The meaning of the ops with
// recurrent states, for the interpreter.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "compiler/ir/interpret.h"
#include "compiler/ir/ir.h"

namespace gc::ir {

struct Recurrence {
  const Op& op;
  std::vector<const Tensor*> in;
  std::map<std::string_view, const float*> weights;  // by slot, all of each
  Tensor* out;
  bool decay_of_states = false;  // a of ssm_scan is [H, N]
  int64_t position = 0;          // of the row at hand

  const float* weight(std::string_view slot) const {
    auto at = weights.find(slot);
    return at == weights.end() ? nullptr : at->second;
  }
};

// Row t of an op whose kind has a recurrent state. `s` is its sequence's state: of Conv [window, channels], the oldest
// row first, of Ssm [heads, k_dim, v_dim].
void recur_row(const Recurrence& r, const State& state, int64_t t, float* s);

// The rows of its table that an ngram_embed's token takes, of each head. `s` holds the tokens before it, the latest first,
// each the bits of an i32 that is larger by 1, and goes on.
std::vector<int64_t> ngram_rows(const Op& op, int64_t token, float* s);

}  // namespace gc::ir
