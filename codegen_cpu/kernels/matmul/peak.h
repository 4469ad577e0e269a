// The bound of prompts: the rate, on registers, of what multiplies their rows.
#pragma once

#include <string_view>

#include "codegen_cpu/emitter.h"

namespace gc::cpu {

struct PromptPeak {
  std::string_view unit;  // "vdpbf16ps"
  llvm::Function* run;    // "prompt_peak": void(i64 n)
  std::int64_t macs;      // multiplications of a weight and an activation, for each of n
};

// `in_f32`: of products with F32 weights, which have no other way.
PromptPeak prompt_peak(Emitter& e, bool in_f32);

}  // namespace gc::cpu
