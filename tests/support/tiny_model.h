// Tiny models for tests, a few KB each: every key and tensor that the architecture wants, weights from a counter.
// A test then changes what it is about: `.u32("gemma3.attention.head_count", 0)`, `.drop_tensor(...)`.
//
//   TinyModel m{.architecture = "gemma3", .n_layer = 7};
//   GgufWriter w = tiny_model(m);
//   w.write(path);
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/quant/formats.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/random_tensor.h"

namespace gc::testing {

struct TinyModel {
  std::string architecture = "gemma3";  // gemma, gemma2, gemma3, llama
  uint32_t n_layer = 2, n_embd = 32, n_head = 2, n_head_kv = 1, head_dim = 16, n_ff = 48, n_vocab = 40;
  uint32_t window = 8;          // of gemma2 and gemma3; 0: the key is left out
  bool tied = true;             // no output.weight
  bool biases = false;          // of every matrix of a layer
  bool fused_qkv = false;       // attn_qkv in place of attn_q, attn_k, attn_v
  bool rope_freqs = false;      // divisors 1, 2, 3, ...
  bool tokens = true;           // a list of n_vocab tokens, and tokenizer "none"
  Format format = Format::F32;  // of the matrices, where their rows are whole blocks of it, else Q8_0 or F32
  uint64_t seed = 1;
  uint32_t n_expert = 0;   // experts in place of the feed-forward network: llama, and in all files of
                           // qwen2moe, bailingmoe2, gpt-oss, llama4
  uint32_t n_used = 2;     // experts of a token
  uint32_t n_group = 0;    // groups of experts, of which half are chosen from
  uint32_t context = 256;  // positions

  Format format_of(uint64_t cols) const {
    for (Format f : {format, Format::Q8_0}) {
      if (format != Format::F32 && is_whole_blocks(f, int64_t(cols))) return f;
    }
    return Format::F32;
  }
};

// Writes the tensors of a TinyModel: weights of sensible size, the same for the same name and seed.
class TinyTensors {
 public:
  TinyTensors(GgufWriter& writer, uint64_t seed) : writer_(writer), seed_(seed) {}

  void matrix(const std::string& name, uint64_t rows, uint64_t cols, Format format = Format::F32) {
    const auto bytes =
        random_tensor(format, int64_t(rows), int64_t(cols), 1.6f / std::sqrt(float(cols)), key(name));
    writer_.tensor(name, {cols, rows}, info(format).gguf_id, bytes);
  }
  void stack(const std::string& name, uint64_t n, uint64_t rows, uint64_t cols, Format format) {
    const auto bytes =
        random_tensor(format, int64_t(n * rows), int64_t(cols), 1.6f / std::sqrt(float(cols)), key(name));
    writer_.tensor(name, {cols, rows, n}, info(format).gguf_id, bytes);
  }
  void biases(const std::string& name, uint64_t n, uint64_t rows) {
    writer_.tensor_f32(name, {rows, n}, values(name, n * rows, 0, 0.2f));
  }
  void decays(const std::string& name, uint64_t rows, uint64_t n) {
    writer_.tensor_f32(name, {rows, n}, values(name, n * rows, -1, 0.75f));
  }
  void norm(const std::string& name, uint64_t n) { writer_.tensor_f32(name, {n}, values(name, n, 1, 0.25f)); }
  void bias(const std::string& name, uint64_t n) { writer_.tensor_f32(name, {n}, values(name, n, 0, 0.2f)); }

  std::vector<float> values(const std::string& name, uint64_t n, float centre, float spread) const {
    const uint64_t first = key(name);
    std::vector<float> v(n);
    for (uint64_t i = 0; i < n; ++i) v[i] = centre + spread * test_value(first + i);
    return v;
  }

 private:
  uint64_t key(const std::string& name) const {
    uint64_t key = seed_ * 0x9E3779B97F4A7C15ull;
    for (char c : name) key = (key ^ uint8_t(c)) * 0x100000001B3ull;  // FNV-1a
    return key;
  }

  GgufWriter& writer_;
  uint64_t seed_;
};

inline void tiny_expert_keys(GgufWriter& w, const TinyModel& m) {
  const std::string a = m.architecture + ".";
  w.u32(a + "expert_count", m.n_expert).u32(a + "expert_used_count", m.n_used);
  if (m.n_group > 0)
    w.u32(a + "expert_group_count", m.n_group).u32(a + "expert_group_used_count", m.n_group / 2);
  if (m.architecture == "llama4") w.u32(a + "interleave_moe_layer_step", 1);
  if (m.architecture == "gpt-oss") w.u32(a + "attention.sliding_window", m.window);
  if (m.architecture != "bailingmoe2") return;
  w.u32(a + "expert_gating_func", 2).boolean(a + "expert_weights_norm", true);
  w.f32(a + "expert_weights_scale", 2.5f);
  w.u32(a + "leading_dense_block_count", 1).u32(a + "expert_shared_count", 1);
}

// Every other layer, from the first on, is recurrent.
inline bool tiny_is_recurrent(const TinyModel& m) {
  for (const char* name : {"jamba", "granitehybrid", "lfm2"})
    if (m.architecture == name) return true;
  return false;
}

inline void tiny_recurrent_keys(GgufWriter& w, const TinyModel& m) {
  const std::string a = m.architecture + ".";
  std::vector<uint32_t> kv_heads;
  for (uint32_t i = 0; i < m.n_layer; ++i) kv_heads.push_back(i % 2 == 0 ? 0 : m.n_head_kv);
  w.array(a + "attention.head_count_kv", GgufWriter::kU32, kv_heads);
  w.u32(a + "ssm.inner_size", 2 * m.n_embd).u32(a + "ssm.conv_kernel", 4).u32(a + "ssm.state_size", 8);
  w.u32(a + "ssm.time_step_rank", m.architecture == "jamba" ? 5 : 4).u32(a + "ssm.group_count", 2);
  w.u32(a + "shortconv.l_cache", 3);
}

// The mixer of a recurrent layer: Mamba in jamba, Mamba 2 in granitehybrid, a short convolution in lfm2.
inline void tiny_mixer(TinyTensors& t, const TinyModel& m, const std::string& blk) {
  const uint64_t d = m.n_embd, inner = 2 * d, state = 8;
  const auto linear = [&](const std::string& name, uint64_t rows, uint64_t cols) {
    t.matrix(blk + name + ".weight", rows, cols, m.format_of(cols));
  };
  if (m.architecture == "lfm2") {
    linear("shortconv.in_proj", 3 * d, d), linear("shortconv.out_proj", d, d);
    t.matrix(blk + "shortconv.conv.weight", d, 3);
    return;
  }
  const bool by_state = m.architecture == "jamba";
  const uint64_t rank = by_state ? 5 : 4, channels = by_state ? inner : inner + 2 * 2 * state;
  const uint64_t steps = by_state ? inner : rank;
  linear("ssm_in", by_state ? 2 * inner : inner + channels + rank, d), linear("ssm_out", d, inner);
  t.matrix(blk + "ssm_conv1d.weight", channels, 4), t.bias(blk + "ssm_conv1d.bias", channels);
  t.bias(blk + "ssm_dt.bias", steps);
  t.decays(blk + "ssm_a", by_state ? state : 1, steps);
  if (by_state) {
    linear("ssm_x", rank + 2 * state, inner), linear("ssm_dt", inner, rank), t.bias(blk + "ssm_d", inner);
    t.norm(blk + "ssm_dt_norm.weight", rank), t.norm(blk + "ssm_b_norm.weight", state);
    t.norm(blk + "ssm_c_norm.weight", state);
  } else {
    t.biases(blk + "ssm_d", rank, 1), t.biases(blk + "ssm_norm.weight", 2, inner / 2);
  }
}

inline void tiny_keys(GgufWriter& w, const TinyModel& m) {
  const std::string a = m.architecture + ".";
  w.str("general.name", "tiny").u32(a + "context_length", m.context).u32(a + "embedding_length", m.n_embd);
  w.u32(a + "block_count", m.n_layer).u32(a + "feed_forward_length", m.n_ff);
  w.u32(a + "attention.head_count", m.n_head);
  if (tiny_is_recurrent(m)) {
    tiny_recurrent_keys(w, m);
  } else {
    w.u32(a + "attention.head_count_kv", m.n_head_kv);
  }
  w.u32(a + "attention.key_length", m.head_dim).u32(a + "attention.value_length", m.head_dim);
  w.f32(a + "attention.layer_norm_rms_epsilon", 1e-6f);
  if (m.architecture == "gemma3") w.f32(a + "rope.freq_base", 1e6f);
  if (m.window > 0 && (m.architecture == "gemma3" || m.architecture == "gemma2")) {
    w.u32(a + "attention.sliding_window", m.window);
  }
  if (m.n_expert > 0) tiny_expert_keys(w, m);
  w.str("tokenizer.ggml.model", "none");
  if (!m.tokens) return;
  std::vector<std::string> tokens;
  for (uint32_t i = 0; i < m.n_vocab; ++i) tokens.push_back("t" + std::to_string(i));
  w.array("tokenizer.ggml.tokens", GgufWriter::kString, tokens);
}

// Router and experts, with what each architecture has beside.
inline void tiny_experts(TinyTensors& t, const TinyModel& m, const std::string& blk) {
  const uint64_t d = m.n_embd, n = m.n_expert, ff = m.n_ff;
  const bool biases = m.architecture == "gpt-oss",
             shared = m.architecture == "bailingmoe2" || m.architecture == "qwen2moe";
  t.matrix(blk + "ffn_gate_inp.weight", n, d);
  if (biases) t.bias(blk + "ffn_gate_inp.bias", n);
  const auto stack = [&](const std::string& name, uint64_t rows, uint64_t cols) {
    t.stack(blk + name + "_exps.weight", n, rows, cols, m.format_of(cols));
    if (biases) t.biases(blk + name + "_exps.bias", n, rows);
    if (shared) t.matrix(blk + name + "_shexp.weight", rows, cols, m.format_of(cols));
  };
  stack("ffn_gate", ff, d), stack("ffn_up", ff, d), stack("ffn_down", d, ff);
  if (m.architecture == "qwen2moe") t.bias(blk + "ffn_gate_inp_shexp.weight", d);
  if (m.architecture == "bailingmoe2") t.bias(blk + "exp_probs_b.bias", n);
}

inline void tiny_layer(TinyTensors& t, const TinyModel& m, const std::string& blk) {
  const bool gemma3 = m.architecture == "gemma3", sandwich = gemma3 || m.architecture == "gemma2";
  const bool lfm2 = m.architecture == "lfm2", recurrent = tiny_is_recurrent(m) && (blk[4] - '0') % 2 == 0;
  const bool head_norms = gemma3 || lfm2 || m.architecture == "bailingmoe2",
             oss = m.architecture == "gpt-oss";
  const bool dense_lead = m.architecture == "bailingmoe2" && blk == "blk.0.";
  const uint64_t d = m.n_embd, q = uint64_t{m.n_head} * m.head_dim, kv = uint64_t{m.n_head_kv} * m.head_dim;
  t.norm(blk + "attn_norm.weight", d);
  const auto linear = [&](const std::string& name, uint64_t rows, uint64_t cols) {
    t.matrix(blk + name + ".weight", rows, cols, m.format_of(cols));
    if (m.biases) t.bias(blk + name + ".bias", rows);
  };
  if (recurrent) {
    tiny_mixer(t, m, blk);
  } else if (m.fused_qkv) {
    linear("attn_qkv", q + 2 * kv, d);
  } else {
    linear("attn_q", q, d), linear("attn_k", kv, d), linear("attn_v", kv, d);
  }
  if (oss) t.bias(blk + "attn_sinks.weight", m.n_head);
  if (head_norms && !recurrent)
    t.norm(blk + "attn_q_norm.weight", m.head_dim), t.norm(blk + "attn_k_norm.weight", m.head_dim);
  if (!recurrent) linear("attn_output", d, q);
  if (sandwich) t.norm(blk + "post_attention_norm.weight", d);
  t.norm(blk + (oss ? "post_attention_norm.weight" : "ffn_norm.weight"), d);
  if (m.n_expert > 0 && !dense_lead) return tiny_experts(t, m, blk);
  linear("ffn_gate", m.n_ff, d), linear("ffn_up", m.n_ff, d), linear("ffn_down", d, m.n_ff);
  if (sandwich) t.norm(blk + "post_ffw_norm.weight", d);
}

inline GgufWriter tiny_model(const TinyModel& m) {
  GgufWriter w(m.architecture);
  tiny_keys(w, m);
  TinyTensors t(w, m.seed);
  t.matrix("token_embd.weight", m.n_vocab, m.n_embd, m.format_of(m.n_embd));
  for (uint32_t i = 0; i < m.n_layer; ++i) tiny_layer(t, m, "blk." + std::to_string(i) + ".");
  t.norm(m.architecture == "lfm2" ? "token_embd_norm.weight" : "output_norm.weight", m.n_embd);
  if (!m.tied) t.matrix("output.weight", m.n_vocab, m.n_embd, m.format_of(m.n_embd));
  if (m.rope_freqs) {
    std::vector<float> divisors;
    for (uint32_t i = 0; i < m.head_dim / 2; ++i) divisors.push_back(float(i + 1));
    w.tensor_f32("rope_freqs.weight", {m.head_dim / 2}, divisors);
  }
  return w;
}

}  // namespace gc::testing
