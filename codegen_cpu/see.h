// Shows values to whoever asked (gc_step.see): `OUT dump`, tests. Costs a load and a branch a value when nobody did.
#pragma once

#include "codegen_cpu/emitter.h"

namespace gc::cpu {

// void see(frame, i64 value, data, i64 stride): where gc_step.see is set, all workers meet, worker 0 shows the rows of
// the value of this number, all meet again so that nobody overwrites them meanwhile.
llvm::Function* see_value(Emitter& e);

}  // namespace gc::cpu
