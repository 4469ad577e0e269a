// The forms of tiny models that tests of passes and of compiled programs go through: every architecture, biases, joined
// and separate matrices, the everyday tensor types.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "tests/support/tiny_model.h"

namespace gc::testing {

struct Case {
  std::string name;
  TinyModel model;
};

inline void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

inline std::vector<Case> tiny_cases() {
  std::vector<Case> all = {
      {"gemma", {.architecture = "gemma"}},
      {"gemma2", {.architecture = "gemma2"}},
      {"gemma3", {.architecture = "gemma3", .n_layer = 7}},
      {"gemma3_untied", {.architecture = "gemma3", .tied = false}},
      {"gemma3_fused_qkv", {.architecture = "gemma3", .fused_qkv = true}},
      {"gemma3_biases", {.architecture = "gemma3", .biases = true}},
      {"llama", {.architecture = "llama"}},
      {"llama_biases", {.architecture = "llama", .tied = false, .biases = true}},
      {"llama_fused_qkv_biases", {.architecture = "llama", .biases = true, .fused_qkv = true}},
      {"llama_rope_freqs", {.architecture = "llama", .rope_freqs = true}},
      {"llama_one_layer_one_head", {.architecture = "llama", .n_layer = 1, .n_head = 1, .head_dim = 32}},
  };
  // Five experts: lists of different length, some empty.
  for (Format format : {Format::F32, Format::F16, Format::Q4_0, Format::Q8_0})
    all.push_back({"llama_experts_" + std::string(info(format).text_name),
                   {.architecture = "llama", .n_ff = 64, .format = format, .n_expert = 5}});
  all.push_back({"qwen2moe", {.architecture = "qwen2moe", .tied = false, .n_expert = 7, .n_used = 3}});
  all.push_back({"gpt_oss", {.architecture = "gpt-oss", .n_ff = 64, .format = Format::Q8_0, .n_expert = 6}});
  all.push_back({"llama4", {.architecture = "llama4", .n_layer = 5, .n_expert = 3, .n_used = 1}});
  all.push_back({"bailingmoe2",
                 {.architecture = "bailingmoe2", .n_layer = 3, .n_expert = 16, .n_used = 4, .n_group = 4}});
  // Recurrent layers first and last, in the everyday formats.
  for (const char* name : {"jamba", "granitehybrid", "lfm2"})
    all.push_back({name, {.architecture = name, .n_layer = 3}});
  all.push_back(
      {"granitehybrid_q8_0", {.architecture = "granitehybrid", .n_layer = 3, .format = Format::Q8_0}});
  for (Format format : {Format::Q4_0, Format::Q5_1, Format::Q8_0, Format::F16, Format::BF16}) {
    all.push_back(
        {"llama_" + std::string(info(format).text_name), {.architecture = "llama", .format = format}});
    all.push_back(
        {"gemma3_" + std::string(info(format).text_name), {.architecture = "gemma3", .format = format}});
  }
  // Rows of whole K-quant blocks in all matrices but one.
  for (Format format : {Format::Q4_K, Format::Q6_K}) {
    const TinyModel wide{
        .architecture = "gemma3", .n_layer = 1, .n_embd = 256, .head_dim = 128, .n_ff = 64, .format = format};
    all.push_back({"gemma3_" + std::string(info(format).text_name), wide});
  }
  return all;
}

}  // namespace gc::testing
