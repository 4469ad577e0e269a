// The values of the trellis types (IQ*_KT), made in registers from their indices.
//
// Value j of an index is a sum of the bytes of (index + 4096) * f^(j + 1) & 0x3f3f3f3f (compiler/quant/blocks.h). A lane of 32
// bits is a row, so a step of 4 columns is four products of one vector with powers of f, masks, and four sums of bytes that
// end in the four bytes of their lane. With vpdpbusd a sum of bytes is one product with ones, and shifting the accumulator
// before the next puts them beside each other: 15 instructions for 64 weights. Without, halves of words are added in pairs
// of columns, 23.
//
// The alternative is to keep values as bytes in the image: 8 bits of memory for 1.75 to 4 in the file, and a model that no
// longer fits where it was meant to.
#pragma once

#include <vector>

#include "codegen_cpu/emitter.h"
#include "compiler/quant/layouts.h"

namespace gc::cpu {

// The 8 steps (<64 x i8>, values + 126) of 32 columns whose indices are at p.
std::vector<llvm::Value*> trellis_steps(Emitter& e, const Layout& layout, llvm::Value* p);
// The 32 values + 126 of one row (<32 x i8>); p points at the row's bytes of the first vector.
llvm::Value* trellis_row(Emitter& e, const Layout& layout, llvm::Value* p);

}  // namespace gc::cpu
