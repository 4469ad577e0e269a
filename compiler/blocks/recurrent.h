// What recurrent layers have in place of attention, or beside it: mixers, which mix a sequence's tokens by way of a state
// of fixed size.
//
// Names of the values, after the layer's prefix: ssm_in (projected) ssm_z ssm_conv ssm_x ssm_b ssm_c ssm_dt, ssm_scan
// [T, heads, dim], ssm_gated, ssm_norm, ssm_out [T, n_embd].
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "compiler/blocks/linear.h"
#include "compiler/blocks/norm.h"
#include "compiler/ir/builder.h"

namespace gc::blocks {

// x [T, n_embd], normed -> [T, n_embd]. `layer` numbers the layer's states.
using Mixer =
    std::function<ir::ValueId(ir::Builder& b, ir::ValueId x, std::int64_t layer, const std::string& prefix)>;

// `part` tells several of a layer apart; `rows`: what is kept.
ir::StateId conv_state(ir::Builder& b, std::int64_t layer, const std::string& part, std::int64_t rows,
                       std::int64_t channels);
ir::StateId ssm_state(ir::Builder& b, std::int64_t layer, std::int64_t heads, std::int64_t k_dim,
                      std::int64_t v_dim);

// A convolution over the last `taps` rows.
struct Conv {
  ir::WeightId taps, bias;    // [channels, taps], [channels] or none
  std::int64_t dilation = 1;  // rows from tap to tap
};
// x [T, channels] -> the same, through fn if one is given.
ir::ValueId convolve(ir::Builder& b, ir::ValueId x, const Conv& c, std::optional<ir::Fn> fn,
                     std::int64_t layer, const std::string& part, std::string name);

// Mamba: every channel has a state of its own decays; dt, B and C come from what the convolution gives.
struct Mamba {
  std::int64_t inner = 0, state = 0, rank = 0;  // channels; values of a channel's state; inputs of dt
  Linear in;                                    // [2 inner, n_embd]: x, then z
  Conv conv;
  Linear x;                      // [rank + 2 state, inner]: dt, B, C
  Norm dt_norm, b_norm, c_norm;  // or none
  Linear dt;                     // [inner, rank], with its bias
  ir::WeightId a, d;             // [inner, state], [inner]
  Linear out;                    // [n_embd, inner]
};
ir::ValueId mamba(ir::Builder& b, ir::ValueId x, const Mamba& m, std::int64_t layer,
                  const std::string& prefix);

// Mamba 2: channels in heads of one decay, B and C in groups of heads, all convolved together.
struct Mamba2 {
  std::int64_t inner = 0, state = 0, heads = 0, groups = 1;
  Linear in;  // [2 inner + 2 groups state + heads, n_embd]: z, (x, B, C), dt
  Conv conv;
  ir::WeightId dt_bias, a, d;  // [heads]
  double eps = 0;
  ir::WeightId norm;  // [inner] of RMS norms of each group, or none
  Linear out;         // [n_embd, inner]
};
ir::ValueId mamba2(ir::Builder& b, ir::ValueId x, const Mamba2& m, std::int64_t layer,
                   const std::string& prefix);

// PLaMo 2's: z and x head by head in one matrix, one decay a head, and B, C and dt from what the convolution gives.
struct PlamoMamba {
  std::int64_t inner = 0, state = 0, heads = 0, rank = 0;
  Linear in;  // [2 inner, n_embd]: of each head z, then x
  Conv conv;
  Linear x;  // [2 state + rank, inner]: B, C, dt
  Norm dt_norm, b_norm, c_norm;
  Linear dt;          // [heads, rank], with its bias
  ir::WeightId a, d;  // [heads]
  Linear out;         // [n_embd, inner]
};
ir::ValueId plamo_mamba(ir::Builder& b, ir::ValueId x, const PlamoMamba& m, std::int64_t layer,
                        const std::string& prefix);

// out(c * conv(b * x)), b, c and x projected.
struct ShortConv {
  Linear in;  // [3 n_embd, n_embd]: b, c, x
  Conv conv;
  Linear out;
};
ir::ValueId short_conv(ir::Builder& b, ir::ValueId x, const ShortConv& m, std::int64_t layer,
                       const std::string& prefix);

}  // namespace gc::blocks
