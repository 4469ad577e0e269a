// What this CPU and operating system can run, by the list of runtime/abi/cpu_features.def, and which of a file's
// programs that makes the best. Detected, never assumed: a feature counts when cpuid has it and the operating system
// saves its registers.
#pragma once

#include <stdint.h>

#include "runtime/abi/program.h"
#include "runtime/base/span.h"

namespace gcrt {

enum CpuFeature : uint8_t {
#define GC_CPU_FEATURE(name, leaf, subleaf, reg, bit, xcr0) kCpu_##name,
#include "runtime/abi/cpu_features.def"
#undef GC_CPU_FEATURE
  kCpuFeatures
};

const char* cpu_feature_name(uint8_t feature);

// Bit i: feature i is there.
uint64_t cpu_features();

// The first program that this CPU can run, or, with a name, that program. Null when there is none; `message` then
// says what is missing.
const gc_program* choose_program(const gc_program* const* programs, uint32_t n, Str isa, Span<char> message);

}  // namespace gcrt
