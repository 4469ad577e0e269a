// RWKV's mixers. Time mixing: linear attention whose rows are blended with the row before them, each projection by weights
// of its own. Version 6 makes those weights and the decays from the row, adds a bonus for the row itself, and its kin for
// Qwen 2 leaks as much as it takes in. Version 7 corrects the state in a direction that the row chooses, as the delta
// rule does, and later layers add the first one's values. Channel mixing is a hidden layer of squared ReLU.
//
// Names of the values, after the layer's prefix: shift, mix_r mix_w mix_k mix_v .. (blended), r k v g, decay (logarithms), wkv
// [T, heads, dim], wkv_norm, wkv_gated, time_out [T, n_embd]; channel_k, channel_act, channel_out.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "compiler/blocks/linear.h"
#include "compiler/ir/builder.h"

namespace gc::blocks {

// A norm of each head, then a weight and a bias for all of them; without weight none.
struct HeadsNorm {
  ir::WeightId weight, bias;  // [heads dim]
  double eps = 64e-5;
};

struct TimeMix6 {
  std::int64_t heads = 0, groups = 0, dim = 0, rank = 0;  // groups: heads of k and v
  ir::WeightId lerp_x;                                    // [n_embd]
  Linear blend;                                           // [5 rank, n_embd]
  ir::WeightId blend_up;                                  // [5, n_embd, rank]: w, k, v, r, g
  ir::WeightId lerps;                                     // [5 n_embd], or
  std::array<ir::WeightId, 5> lerp;                       // [n_embd] each
  Linear decay_down, decay_up;
  ir::WeightId decay;  // [n_embd]
  Linear r, k, v, g, out;
  ir::WeightId bonus;  // [heads, dim]; without: the kin for Qwen 2, whose gate is a sigmoid
  HeadsNorm norm;
};
// x [T, n_embd], normed -> [T, n_embd].
ir::ValueId time_mix(ir::Builder& b, ir::ValueId x, const TimeMix6& m, std::int64_t layer,
                     const std::string& prefix);

struct TimeMix7 {
  std::int64_t heads = 0, dim = 0;
  ir::WeightId lerps;  // [5 or 6, n_embd]: r, w, k, v, a, g
  Linear r, k, v, out;
  Linear w_down, w_up, a_down, a_up, v_down, v_up;
  Linear g_down, g_up;                    // or none: no gate
  ir::WeightId w, a, v_blend;             // [n_embd]
  ir::WeightId key_unit, key_blend, own;  // [n_embd]: of k before its length is 1, of k times a, of r k
  HeadsNorm norm;
};
// `first`: the first layer's values, which that layer sets and the others read.
ir::ValueId time_mix(ir::Builder& b, ir::ValueId x, const TimeMix7& m, std::int64_t layer,
                     const std::string& prefix, ir::ValueId& first);

struct ChannelMix {
  ir::WeightId lerp_k, lerp_r;  // [n_embd]; lerp_r goes with r
  Linear k, v, r;               // out = v relu(k x)^2, times sigmoid(r x) where there is r
};
ir::ValueId channel_mix(ir::Builder& b, ir::ValueId x, const ChannelMix& m, std::int64_t layer,
                        const std::string& prefix);

}  // namespace gc::blocks
