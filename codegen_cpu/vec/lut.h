// Tables of 16, 32 or 64 bytes looked up by codes of 4, 5 or 6 bits: how formats whose values are no plain integers become such.
#pragma once

#include <cstdint>
#include <span>

#include "codegen_cpu/emitter.h"

namespace gc::cpu {

// table[code & 15] of each byte of `codes` (<32 x i8> or <64 x i8>, codes below 128; `table` has 16 entries). One byte
// shuffle per vector where the ISA has it.
llvm::Value* lut16(Emitter& e, llvm::Value* codes, std::span<const std::uint8_t> table);
// Tables of 16, 32 or 64 entries; 32 take two shuffles and a choice, 64 four and three.
llvm::Value* lut(Emitter& e, llvm::Value* codes, std::span<const std::uint8_t> table);
// table[code % n] of each byte of <64 x i8>, n a power of two up to 64: whatever is in the bits above. With VBMI alone.
llvm::Value* lut_low_bits(Emitter& e, llvm::Value* codes, std::span<const std::uint8_t> table);
// lut16 in plain LLVM IR, right everywhere: four levels of choices by the code's bits.
llvm::Value* lut16_generic(Emitter& e, llvm::Value* codes, std::span<const std::uint8_t> table);

}  // namespace gc::cpu
