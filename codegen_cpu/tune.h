// Measures block shapes on this machine: candidates of shapes.def, compiled as in a program and run (jit.h) over memory
// past the private caches, by one thread. A candidate must be faster by a few percent to replace what the cost table
// chooses, so that noise chooses nothing.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "codegen_cpu/tuning.h"
#include "compiler/plan/plan.h"

namespace gc::cpu {

// The products of a plan whose shapes can be chosen, each once, with what the cost table chooses.
std::vector<TunedProduct> products_of(const plan::Plan& plan, const Isa& isa);

// `say` is given a line after each product. The host must run the ISA.
Tuning tune(const Isa& isa, std::vector<TunedProduct> products,
            const std::function<void(std::string_view)>& say);

}  // namespace gc::cpu
