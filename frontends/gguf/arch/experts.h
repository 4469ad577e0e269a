// Mixtures of experts as files have them: their keys, and the tensors of one layer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/blocks/moe.h"
#include "frontends/gguf/arch/dense.h"
#include "frontends/gguf/arch/keys.h"
#include "frontends/gguf/arch/tensors.h"

namespace gc::gguf {

struct ExpertSizes {
  std::int64_t n = 0, used = 0;      // experts of a layer and of a token; n = 0: there are none
  std::int64_t first = 0, step = 1;  // layer i has experts if i >= first and (i + 1) % step == 0
  std::int64_t groups = 1, groups_used = 1;
  bool shared = false;  // the file says that there are shared experts
  ir::RouteArgs::Weights weights = ir::RouteArgs::Weights::Softmax;
  bool norm = false;
  double scale = 1, limit = 0;
  std::vector<double> limits, shared_limits;  // of each layer, where the form has them
};

ExpertSizes expert_sizes(const Keys& keys, const Form& form, std::int64_t n_layer);

inline bool experts_in_layer(const ExpertSizes& sizes, std::int64_t layer) {
  return sizes.n > 0 && layer >= sizes.first && (layer + 1) % sizes.step == 0;
}

// The layer's bounds in place of one for all.
ExpertSizes of_layer(const ExpertSizes& sizes, std::int64_t layer);

// ffn_gate_inp, ffn_{gate,up,down}_exps, exp_probs_b, ffn_{gate,up,down}_shexp, ffn_gate_inp_shexp. prefix: "blk.3.".
blocks::Moe experts_of(Tensors& tensors, const Form& form, const ExpertSizes& sizes,
                       const std::string& prefix, std::int64_t n_embd, double eps);

// Hidden units of the dense network of a layer, which beside experts has a size of its own: its tensor's.
std::int64_t dense_size(const Tensors& tensors, const Form& form, const std::string& prefix,
                        std::int64_t n_ff);

}  // namespace gc::gguf
