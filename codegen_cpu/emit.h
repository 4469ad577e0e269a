// A plan as code: the entries that workers execute, and the constants that describe the program.
//
// A program is made of sections: the embedding, each layer, the head. A section is a straight list of kernel calls
// and meets. What differs between layers of one shape (offsets of weights, of buffers, of states) is not in the code
// but in a table that the section is given, so layers of one shape are one function: a section is emitted with its
// constants drawn from the table, and when the function that comes out equals an earlier one, the earlier one is
// called with the new table. Gemma 3 with its 5 : 1 pattern and mixed formats has a handful of layer functions,
// whether of 18 layers or 62; one function for all layers would need every offset at run time, one unrolled function
// for the whole model minutes in LLVM.
#pragma once

#include "codegen_cpu/emitter.h"
#include "compiler/plan/plan.h"

namespace gc::cpu {

// Emits everything that the plan needs and defines "<prefix>program".
void emit_program(Emitter& e, const plan::Plan& plan);

// As many objects a program is split into, so that threads can share the work of compiling it.
int shards_of(const plan::Plan& plan);

}  // namespace gc::cpu
