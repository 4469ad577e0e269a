// The head when its sink chooses tokens (gc_choice in runtime/abi/program.h) instead of storing logits.
#pragma once

#include "codegen_cpu/emitter.h"

namespace gc::cpu {

// void(choice, i64 worker, i64 first, i64 panels, logits, i64 stride, i64 rows): gives the logits of `panels` panels, token
// `first` on, of each row to choice->take; stride in bytes.
llvm::Function* give_logits(Emitter& e);

}  // namespace gc::cpu
