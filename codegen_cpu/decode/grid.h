// The codes of the codebook types that keep their indices (IQ2_XXS, IQ2_XS, IQ3_XXS): an index names 8 or 4 codes of 2
// or 3 bits, which signs and a table of values make numbers of (planes.h).
//
// With AVX-512 VBMI an entry of a grid is two bytes, and 64 indices are looked up at once, a byte of their entries in each of
// two tables: a permutation of the bytes of two registers for each 128 entries, results chosen among by the index's upper
// bits. vpmultishiftqb spreads the codes of a row over the bytes of a step. That is 10 or 18 instructions for 512 codes (256
// of IQ3), then four for each 64. One core of a Zen 4 unpacks 10 GB/s of the file's bytes so (IQ2_XXS; IQ3_XXS 12), 12 of
// the codes themselves (15), which are 1.6 (1.4) times as many bytes: two cores are as fast either way, more are limited by
// what they read.
//
// Without, each four codes are loaded from a table of bytes by the index as an address: 3 instructions, some 5 weights a
// cycle. As many bits looked up by shuffles of 16 bytes are as many instructions; gathers are slower on most machines.
#pragma once

#include <vector>

#include "codegen_cpu/emitter.h"
#include "compiler/quant/layouts.h"

namespace gc::cpu {

// With VBMI: q of the 8 steps of the i-th 32 columns of a group whose quants are at `quants`, <64 x i8> each, signs included.
std::vector<llvm::Value*> grid_values(Emitter& e, const Layout& layout, llvm::Value* quants, llvm::Value* i);
// Without: their codes.
std::vector<llvm::Value*> grid_steps(Emitter& e, const Layout& layout, llvm::Value* quants, llvm::Value* i);
// Those of one row, <32 x i8>.
llvm::Value* grid_row(Emitter& e, const Layout& layout, llvm::Value* quants, llvm::Value* i,
                      llvm::Value* row);

}  // namespace gc::cpu
