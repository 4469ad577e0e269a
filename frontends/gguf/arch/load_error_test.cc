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
