// What a wrong or unusual file is told: one line with the key or tensor, what was expected, what was found.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "compiler/base/error.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/reader.h"
#include "tests/support/tiny_model.h"

namespace gc::gguf {
namespace {

using testing::GgufWriter;
using testing::tiny_model;
using testing::TinyModel;

std::string write(const GgufWriter& w) {
  std::string path = ::testing::TempDir() + "tiny.gguf";
  w.write(path);
  return path;
}

LoadedModel load(const GgufWriter& w) { return load_model(File::open(write(w))); }

// The message without the file's path.
std::string message_of(const GgufWriter& w, ErrorKind kind) {
  const std::string path = write(w);
  try {
    load_model(File::open(path));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with(path + ": ")) << text;
    return text.substr(std::min(text.size(), path.size() + 2));
  }
  return "(no error)";
}

struct Fault {
  std::string about;
  std::function<void(GgufWriter&)> make;
  std::string message;
  ErrorKind kind = ErrorKind::kUser;
};

void expect_faults(const TinyModel& model, const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.about);
    GgufWriter w = tiny_model(model);
    fault.make(w);
    EXPECT_EQ(message_of(w, fault.kind), fault.message);
  }
}

const TinyModel kGemma3{.architecture = "gemma3", .n_layer = 7};
const TinyModel kLlama{.architecture = "llama"};

TEST(LoadErrors, Sizes) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect_faults(
      kGemma3,
      {
          {"no heads", [](auto& w) { w.u32("gemma3.attention.head_count", 0); },
           "key 'gemma3.attention.head_count': expected 1 to 16777216, found 0"},
          {"no kv heads", [](auto& w) { w.u32("gemma3.attention.head_count_kv", 0); },
           "key 'gemma3.attention.head_count_kv': expected 1 to 16777216, found 0"},
          {"kv heads do not divide", [](auto& w) { w.u32("gemma3.attention.head_count_kv", 3); },
           "key 'gemma3.attention.head_count_kv': expected a divisor of head_count 2, found 3"},
          {"a layer without kv heads",
           [](auto& w) {
             w.template array<uint32_t>("gemma3.attention.head_count_kv", GgufWriter::kU32,
                                        {1, 1, 0, 1, 1, 1, 1});
           },
           "key 'gemma3.attention.head_count_kv': expected 1 to 16777216, found 0 for layer 2"},
          {"more layers than tensors", [](auto& w) { w.u32("gemma3.block_count", 1u << 31); },
           "key 'gemma3.block_count': expected at most the file's number of tensors, 93, found 2147483648"},
          {"odd heads under RoPE", [](auto& w) { w.u32("gemma3.attention.key_length", 31); },
           "key 'gemma3.attention.key_length': expected an even number of dimensions for RoPE, at most 31, "
           "found 31"},
          {"more turned dimensions than a head has",
           [](auto& w) { w.u32("gemma3.rope.dimension_count", 18); },
           "key 'gemma3.rope.dimension_count': expected an even number of dimensions for RoPE, at most 16, "
           "found 18"},
          {"the head size must be given where it cannot be computed",
           [](auto& w) {
             w.erase("gemma3.attention.key_length").u32("gemma3.attention.head_count", 3);
             w.u32("gemma3.attention.head_count_kv", 3);
           },
           "key 'gemma3.attention.head_count': expected a divisor of embedding_length 32, since "
           "'gemma3.attention.key_length' is missing; found 3"},
          {"eps 0", [](auto& w) { w.f32("gemma3.attention.layer_norm_rms_epsilon", 0); },
           "key 'gemma3.attention.layer_norm_rms_epsilon': expected a number above 0, found 0"},
          {"eps -1", [](auto& w) { w.f32("gemma3.attention.layer_norm_rms_epsilon", -1); },
           "key 'gemma3.attention.layer_norm_rms_epsilon': expected a number above 0, found -1"},
          {"eps NaN", [nan](auto& w) { w.f32("gemma3.attention.layer_norm_rms_epsilon", nan); },
           "key 'gemma3.attention.layer_norm_rms_epsilon': expected a finite number, found f32 nan"},
          {"base 0", [](auto& w) { w.f32("gemma3.rope.freq_base", 0); },
           "key 'gemma3.rope.freq_base': expected a number above 0, found 0"},
          {"no context", [](auto& w) { w.u32("gemma3.context_length", 0); },
           "key 'gemma3.context_length': 0; expected 1 to 2147483647"},
          {"a token too many",
           [](auto& w) {
             w.array("tokenizer.ggml.tokens", GgufWriter::kString, std::vector<std::string>(41, "t"));
           },
           "key 'tokenizer.ggml.tokens': expected 40 tokens, the rows of token_embd.weight, found array of "
           "41 string"},
          {"a token too few",
           [](auto& w) {
             w.array("tokenizer.ggml.tokens", GgufWriter::kString, std::vector<std::string>(39, "t"));
           },
           "key 'tokenizer.ggml.tokens': expected 40 tokens, the rows of token_embd.weight, found array of "
           "39 string"},
          {"vocab_size where there are no tokens",
           [](auto& w) { w.erase("tokenizer.ggml.tokens").u32("gemma3.vocab_size", 64); },
           "key 'gemma3.vocab_size': expected 40, the rows of token_embd.weight, found u32 64"},
      });
}

TEST(LoadErrors, Windows) {
  expect_faults(
      kGemma3,
      {
          {"pattern of another number of layers",
           [](auto& w) {
             w.template array<bool>("gemma3.attention.sliding_window_pattern", GgufWriter::kBool,
                                    {true, false, true});
           },
           "key 'gemma3.attention.sliding_window_pattern': has 3 values; expected 7, one for each layer"},
          {"a single flag", [](auto& w) { w.boolean("gemma3.attention.sliding_window_pattern", true); },
           "key 'gemma3.attention.sliding_window_pattern': expected a period or an array of one "
           "flag for each layer, found a single flag"},
      });
}

TEST(LoadErrors, Tensors) {
  expect_faults(
      kGemma3,
      {
          {"missing", [](auto& w) { w.drop_tensor("blk.3.ffn_up.weight"); },
           "tensor 'blk.3.ffn_up.weight': expected [32, 48], found no such tensor"},
          {"embedding missing", [](auto& w) { w.drop_tensor("token_embd.weight"); },
           "tensor 'token_embd.weight' is missing"},
          {"transposed",
           [](auto& w) { w.tensor_f32("blk.0.attn_k.weight", {16, 32}, std::vector<float>(512)); },
           "tensor 'blk.0.attn_k.weight': expected [32, 16], found [16, 32]"},
          {"integers",
           [](auto& w) {
             w.tensor("blk.1.ffn_down.weight", {48, 32}, 26, std::vector<uint8_t>(48 * 32 * 4));
           },
           "tensor 'blk.1.ffn_down.weight': expected weights, found integers of type I32"},
          {"a quantized norm",
           [](auto& w) { w.tensor("blk.1.attn_norm.weight", {32}, 8, std::vector<uint8_t>(34)); },
           "tensor 'blk.1.attn_norm.weight': expected a vector of floats, found type Q8_0"},
          {"two factors of a matrix", [](auto& w) { w.tensor_f32("blk.0.ffn_up.scale", {2}, {2, 2}); },
           "tensor 'blk.0.ffn_up.scale': expected one value of type F32, found [2] of type F32"},
          {"a factor that is none",
           [](auto& w) { w.tensor_f32("blk.0.ffn_up.scale", {1}, {std::numeric_limits<float>::infinity()}); },
           "tensor 'blk.0.ffn_up.scale': expected a finite factor"},
          {"a factor beside a norm", [](auto& w) { w.tensor_f32("blk.0.ffn_norm.scale", {1}, {2}); },
           "tensor 'blk.0.ffn_norm.scale': the architecture's graph has no place for it",
           ErrorKind::kUnsupported},
          {"a bias of an RMS norm",
           [](auto& w) { w.tensor_f32("blk.0.attn_norm.bias", {32}, std::vector<float>(32)); },
           "tensor 'blk.0.attn_norm.bias': the architecture's graph has no place for it",
           ErrorKind::kUnsupported},
          {"frequencies that Gemma does not take",
           [](auto& w) { w.tensor_f32("rope_freqs.weight", {8}, std::vector<float>(8, 1)); },
           "tensor 'rope_freqs.weight': the architecture's graph has no place for it",
           ErrorKind::kUnsupported},
      });
  TinyModel rope = kLlama;
  rope.rope_freqs = true;
  expect_faults(rope, {{"frequencies of another size",
                        [](auto& w) { w.tensor_f32("rope_freqs.weight", {4}, {1, 2, 3, 4}); },
                        "tensor 'rope_freqs.weight': expected [8], found [4]"}});
}

// Two dense layers with sparse attention, of DeepSeek 3.2 or a relative.
GgufWriter sparse_model(const std::string& architecture) {
  const std::uint64_t n_embd = 32, n_head = 2, rank = 16, turned = 8, k_dim = 16, v_dim = 16, heads = 2,
                      dim = 12;
  GgufWriter w = tiny_model({.architecture = architecture, .n_layer = 2});
  const std::string a = architecture + ".attention.";
  w.u32(architecture + ".leading_dense_block_count", 2).u32(architecture + ".rope.dimension_count", turned);
  w.u32(architecture + ".expert_count", 2).u32(architecture + ".expert_used_count", 1);
  w.u32(a + "q_lora_rank", rank).u32(a + "kv_lora_rank", rank).u32(a + "key_length", rank + turned);
  w.u32(a + "key_length_mla", k_dim).u32(a + "value_length_mla", v_dim);
  w.u32(a + "indexer.head_count", heads).u32(a + "indexer.key_length", dim).u32(a + "indexer.top_k", 8);
  testing::TinyTensors t(w, 1);
  for (const char* blk : {"blk.0.", "blk.1."}) {
    const auto matrix = [&](const char* name, std::uint64_t rows, std::uint64_t cols) {
      t.matrix(cat(blk, name, ".weight"), rows, cols);
    };
    for (const char* name : {"attn_q", "attn_k", "attn_v"}) w.drop_tensor(cat(blk, name, ".weight"));
    matrix("attn_q_a", rank, n_embd), matrix("attn_q_b", n_head * k_dim, rank);
    t.norm(cat(blk, "attn_q_a_norm.weight"), rank), t.norm(cat(blk, "attn_kv_a_norm.weight"), rank);
    matrix("attn_kv_a_mqa", rank + turned, n_embd), matrix("attn_output", n_embd, n_head * v_dim);
    t.stack(cat(blk, "attn_k_b.weight"), n_head, rank, k_dim - turned, Format::F32);
    t.stack(cat(blk, "attn_v_b.weight"), n_head, v_dim, rank, Format::F32);
    matrix("indexer.attn_q_b", heads * dim, rank), matrix("indexer.attn_k", dim, n_embd);
    matrix("indexer.proj", heads, n_embd);
    t.norm(cat(blk, "indexer.k_norm.weight"), dim), t.bias(cat(blk, "indexer.k_norm.bias"), dim);
  }
  return w;
}

TEST(LoadErrors, SparseAttention) {
  for (const char* architecture : {"deepseek32", "glm-dsa"})
    EXPECT_EQ(load(sparse_model(architecture)).warnings, std::vector<std::string>{});
  const std::uint32_t huge = 0xFFFFFFFF;
  const std::string of = "key 'deepseek32.attention.indexer.", range = "; expected 1 to 16777216";
  std::vector<Fault> faults;
  for (const char* name : {"head_count", "key_length", "top_k"}) {
    const std::string key = cat("deepseek32.attention.indexer.", name);
    faults.push_back({"missing", [=](auto& w) { w.erase(key); },
                      cat(of, name, "' is missing; expected an unsigned 32-bit integer")});
    faults.push_back({"0", [=](auto& w) { w.u32(key, 0); }, cat(of, name, "': 0", range)});
    faults.push_back({"huge", [=](auto& w) { w.u32(key, huge); }, cat(of, name, "': ", huge, range)});
    faults.push_back({"below 0", [=](auto& w) { w.i32(key, -1); },
                      cat(of, name, "': expected an unsigned 32-bit integer, found i32 -1")});
    faults.push_back({"text", [=](auto& w) { w.str(key, "8"); },
                      cat(of, name, "': expected an unsigned 32-bit integer, found string '8'")});
  }
  const std::string even =
      "key_length': expected an even number of at least the 8 dimensions that turn, found ";
  for (const std::uint32_t n : {1u, 6u, 13u})
    faults.push_back({cat("a key of ", n),
                      [=](auto& w) { w.u32("deepseek32.attention.indexer.key_length", n); },
                      cat(of, even, n)});
  faults.push_back({"heads that the tensors don't have",
                    [](auto& w) { w.u32("deepseek32.attention.indexer.head_count", 3); },
                    "tensor 'blk.0.indexer.attn_q_b.weight': expected [16, 36], found [16, 24]"});
  faults.push_back({"as many heads as a key may say",
                    [](auto& w) { w.u32("deepseek32.attention.indexer.head_count", 1 << 24); },
                    "tensor 'blk.0.indexer.attn_q_b.weight': expected [16, 201326592], found [16, 24]"});
  for (const char* name : {"q_lora_rank", "key_length_mla", "value_length_mla"})
    faults.push_back(
        {cat("no ", name), [=](auto& w) { w.erase(cat("deepseek32.attention.", name)); },
         cat(of,
             "top_k': without key_length_mla, value_length_mla and q_lora_rank, sparse attention is "
             "not supported (found u32 8)"),
         ErrorKind::kUnsupported});
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.about);
    GgufWriter w = sparse_model("deepseek32");
    fault.make(w);
    EXPECT_EQ(message_of(w, fault.kind), fault.message);
  }
}

TEST(LoadErrors, WhichLayersHaveAnIndexer) {
  const auto with_types = [](const std::vector<std::uint32_t>& types) {
    GgufWriter w = sparse_model("glm-dsa");
    w.array("glm-dsa.attention.indexer.types", GgufWriter::kU32, types);
    return message_of(w, ErrorKind::kUser);
  };
  const std::string key = "key 'glm-dsa.attention.indexer.types': ";
  EXPECT_EQ(with_types({1, 0}), "(no error)");
  EXPECT_EQ(with_types({0, 1}), key + "layer 0 has no indexer, and none is before it");
  EXPECT_EQ(with_types({0, 0}), key + "layer 0 has no indexer, and none is before it");
  EXPECT_EQ(with_types({}), key + "has 0 values; expected 2, one for each layer");
  EXPECT_EQ(with_types({1}), key + "has 1 values; expected 2, one for each layer");
  EXPECT_EQ(with_types({1, 1, 1}), key + "has 3 values; expected 2, one for each layer");
  EXPECT_EQ(with_types({1, 2}), key + "expected a bool, found u32 2 at index 1");
}

// Indexers that choose blocks or pools: how far attention reaches is theirs to say.
TEST(LoadErrors, Reach) {
  struct Key {
    const char *architecture, *name;
  };
  for (const Key& k : {Key{"minimax-m3", "top_k"}, Key{"minimax-m3", "block_size"}, Key{"qwen4exp", "top_k"},
                       Key{"glm5-next", "top_k"}}) {
    SCOPED_TRACE(cat(k.architecture, " ", k.name));
    const std::string key = cat(k.architecture, ".attention.indexer.", k.name);
    const auto message = [&](const std::function<void(GgufWriter&)>& change) {
      GgufWriter w = tiny_model({.architecture = k.architecture});
      for (const char* name : {"top_k", "block_size"})
        w.u32(cat(k.architecture, ".attention.indexer.", name), 8);
      w.boolean("glm5-next.attention.indexer.kpool_select_tail", true);
      change(w);
      return message_of(w, ErrorKind::kUser);
    };
    EXPECT_EQ(message([&](auto& w) { w.erase(key); }),
              cat("key '", key, "' is missing; expected an unsigned 32-bit integer"));
    EXPECT_EQ(message([&](auto& w) { w.u32(key, 0); }), cat("key '", key, "': 0; expected 1 to 16777216"));
    EXPECT_EQ(message([&](auto& w) { w.u32(key, 1 << 31); }),
              cat("key '", key, "': 2147483648; expected 1 to 16777216"));
  }
  EXPECT_EQ(
      message_of(tiny_model({.architecture = "glm5-next"}), ErrorKind::kUnsupported),
      "key 'glm5-next.attention.indexer.kpool_select_tail': true alone is supported: positions are seen as "
      "soon as they are there");
}

TEST(LoadErrors, Unsupported) {
  const ErrorKind kind = ErrorKind::kUnsupported;
  expect_faults(
      kLlama,
      {
          {"a scaling of RoPE", [](auto& w) { w.str("llama.rope.scaling.type", "ntk"); },
           "key 'llama.rope.scaling.type': supported are none, linear, yarn and longrope (found string "
           "'ntk')",
           kind},
          {"experts", [](auto& w) { w.u32("llama.expert_count", 8).u32("llama.expert_used_count", 2); },
           "tensor 'blk.0.ffn_up_exps.weight': expected matrices, found no such tensor"},
          {"experts of no known form",
           [](auto& w) {
             w.u32("llama.expert_count", 8)
                 .u32("llama.expert_used_count", 2)
                 .f32("llama.swiglu_clamp_exp", 7);
           },
           "key 'llama.swiglu_clamp_exp': a bound of gate and up is not supported (found f32 7)", kind},
          {"more experts used than there are",
           [](auto& w) { w.u32("llama.expert_count", 8).u32("llama.expert_used_count", 9); },
           "key 'llama.expert_used_count': expected at most expert_count 8, found 9"},
          {"clamped q, k, v", [](auto& w) { w.f32("llama.attention.clamp_kqv", 30); },
           "key 'llama.attention.clamp_kqv': clamping of q, k and v is not supported (found f32 30)", kind},
          {"bidirectional", [](auto& w) { w.boolean("llama.attention.causal", false); },
           "key 'llama.attention.causal': attention to later tokens is not supported (found bool false)",
           kind},
      });
}

TEST(LoadErrors, Architecture) {
  expect_faults(
      {}, {
              {"unknown", [](auto& w) { w.str("general.architecture", "marvin\x1b[2J"); },
               "architecture 'marvin\\x1b[2J' is not supported; --list-architectures shows those that are",
               ErrorKind::kUnsupported},
              {"missing", [](auto& w) { w.erase("general.architecture"); },
               "key 'general.architecture' is missing; expected a string"},
          });
}

TEST(LoadWarnings, TensorsThatNoGraphKnows) {
  GgufWriter w = tiny_model(kGemma3);
  w.tensor_f32("blk.0.foo.weight", {4}, {1, 2, 3, 4});
  EXPECT_EQ(load(w).warnings,
            std::vector<std::string>{
                "tensors that the architecture does not know are left out: 'blk.0.foo.weight'"});
  for (int i = 0; i < 4; ++i) w.tensor_f32(cat("v.", i, ".weight"), {1}, {1});
  EXPECT_EQ(load(w).warnings,
            std::vector<std::string>{
                "tensors that the architecture does not know are left out: 'blk.0.foo.weight', "
                "'v.0.weight', 'v.1.weight', 2 more"});
}

TEST(LoadWarnings, KeysOfRelatives) {
  GgufWriter w = tiny_model(kLlama);
  w.u32("llama.attention.sliding_window", 4096).f32("llama.logit_scale", 0);
  EXPECT_EQ(load(w).warnings,
            std::vector<std::string>{
                "key 'llama.attention.sliding_window' has no meaning for architecture 'llama' and "
                "is ignored (found u32 4096)"});
}

}  // namespace
}  // namespace gc::gguf
