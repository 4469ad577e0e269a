// Feed-forward networks: gated (fn(gate x) * up x), or plain (fn(up x)), then down.
//
// Names of the values, after the layer's prefix: ffn_gate ffn_up ffn_act, ffn_geglu (the gated product; ffn_swiglu
// and so on by the function), ffn_weighed, ffn_sub_norm, ffn_out [T, n_embd].
#pragma once

#include <optional>
#include <string>

#include "compiler/blocks/linear.h"
#include "compiler/blocks/norm.h"
#include "compiler/ir/builder.h"

namespace gc::blocks {

// alpha_p max(x, 0)^2 + alpha_n (elu(x) - x) + beta x, the "expanded integral of ELU" (arXiv 2411.13010).
struct Xielu {
  double alpha_p = 0, alpha_n = 0, beta = 0;
};

struct Ffn {
  Linear gate;  // [n_ff, n_embd], or none: not gated
  Linear up;    // [n_ff, n_embd]; [2 n_ff, n_embd] with gate_in_up: the gate's rows, then those of up
  Linear down;  // [n_embd, n_ff]
  ir::Fn fn = ir::Fn::silu;
  std::optional<Xielu> xielu;  // in place of fn, without a gate
  bool gate_in_up = false;
  double sparsity = 0;     // the gate's values count from so many deviations above their mean on; 0: all
  double limit = 0;        // of gate from above, of up both ways, before they are joined; 0: none
  bool limit_out = false;  // the gate's bound holds behind fn
  bool up_one = false;     // up + 1 is joined in place of up
  double gate_cap = 0, up_cap = 0;  // softcap(gate) fn(gate) softcap(up), in place of fn(gate) up; 0: none
  ir::WeightId divisors;            // [n_ff] of the activation function's values, or none
  Norm down_norm;                   // of what down reads

  explicit operator bool() const { return up.weight.valid(); }
};

// x [T, n_embd], normed -> [T, n_embd].
ir::ValueId ffn(ir::Builder& b, ir::ValueId x, const Ffn& f, const std::string& prefix);

}  // namespace gc::blocks
