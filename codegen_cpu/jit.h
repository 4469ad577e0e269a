// Runs kernels in this process (tests, benches, tuning). They pass through the same pipeline and the same object
// code as in a linked program; ORC only loads the object.
#pragma once

#include <memory>
#include <string>

#include "codegen_cpu/emitter.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"

namespace gc::cpu {

class Jit {
 public:
  // Compiles what was emitted. A symbol that the module doesn't define is a bug (GC_CHECK): kernels call nothing.
  // The emitter is left without a module.
  explicit Jit(Emitter& emitter);
  ~Jit();

  // Address of a function by its name in the emitter, without the prefix; GC_CHECKs that it is there.
  template <class F>
  F* get(const std::string& name) {
    return reinterpret_cast<F*>(address(prefix_ + name));
  }

 private:
  std::uint64_t address(const std::string& symbol);

  std::string prefix_;
  std::unique_ptr<llvm::orc::LLJIT> jit_;
};

}  // namespace gc::cpu
