// From a module of kernels to machine code.
//
// Kernels are emitted as final, already blocked loops, so the pass pipeline is short: values to registers, common
// subexpressions, invariants out of loops, dead code. Unrolling, vectorising and loop idioms stay off: they undo the
// blocking, or turn loops into calls of memset and memcpy, which a kernel must not need. Floating point is exactly
// what was emitted: no contraction, no reassociation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codegen_cpu/isa.h"
#include "llvm/IR/Module.h"

namespace llvm {
class TargetMachine;
}

namespace gc::cpu {

std::unique_ptr<llvm::TargetMachine> target_machine(const Isa& isa);

// Runs the pipeline in place.
void optimize(llvm::Module& module, llvm::TargetMachine& machine);

// Optimizes and compiles to a position-independent ELF object, each function in its own section.
std::string compile_object(llvm::Module& module, const Isa& isa);

// The same as several objects that together are the module, made on up to `threads` threads. The split is a function
// of the module and of `shards` only, so the bytes don't depend on the machine. A shard is worth it from a dozen
// functions on (its copy of the module passes through bitcode).
std::vector<std::string> compile_objects(llvm::Module& module, const Isa& isa, int shards, int threads);

// Optimizes and prints assembly (AT&T syntax); the second cuts one function out of it by its symbol.
std::string compile_assembly(llvm::Module& module, const Isa& isa);
std::string function_assembly(const std::string& assembly, const std::string& function);

std::string print_ir(const llvm::Module& module);

}  // namespace gc::cpu
