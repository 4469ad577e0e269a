// Latent attention as files have it: its keys, and the tensors of one layer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/blocks/latent.h"
#include "frontends/gguf/arch/dense.h"
#include "frontends/gguf/arch/keys.h"
#include "frontends/gguf/arch/tensors.h"

namespace gc::gguf {

struct LatentSizes {
  std::int64_t q_rank = 0;                        // of the query's latent, 0: it has none
  std::int64_t rank = 0;                          // of the latent of key and value
  std::int64_t k_dim = 0, v_dim = 0, turned = 0;  // of a head; leading to the end of k_dim, what turns
  bool absorbed = false;                          // attn_k_b and attn_v_b in place of attn_kv_b
  double scale = 1;                               // of the scores
};

// `rope` is that of rope_args, whose magnitude the family may take elsewhere: corrected here. `local`: of sliding
// layers, where the form says that they have their own.
LatentSizes latent_sizes(const Keys& keys, const Form& form, ir::RopeArgs& rope, bool local);

// attn_q_a, attn_q_a_norm, attn_q_b or attn_q; attn_kv_a_mqa, attn_kv_a_norm; attn_k_b and attn_v_b or attn_kv_b;
// attn_output. prefix: "blk.3.".
blocks::LatentAttention latent_of(Tensors& tensors, const Form& form, const LatentSizes& sizes,
                                  const std::string& prefix, std::int64_t n_head, std::int64_t n_embd,
                                  double eps);

// indexer.head_count, .key_length and .top_k; indexer.attn_q_b, .attn_k, .k_norm, .proj. rope: of the layer's heads.
blocks::Indexer indexer_of(const Keys& keys, Tensors& tensors, const Form& form, const ir::RopeArgs& rope,
                           const std::string& prefix, std::int64_t q_rank, std::int64_t n_embd, double eps);
// Which layers have an indexer.
std::vector<bool> indexer_owners(const Keys& keys, const Form& form, std::int64_t n_layer,
                                 std::int64_t n_ctx_train);

}  // namespace gc::gguf
