// LLD initializes every target that LLVM was built with. In a static link that would bring all their code generators along,
// 100 MB of them; programs are made for two, so the others' initializers do nothing. And Debian's LLVM names Polly, which
// links alone that optimize would ask for.
#include "llvm/Plugins/PassPlugin.h"

extern "C" {
#define STUBS(target)                          \
  void LLVMInitialize##target##TargetInfo() {} \
  void LLVMInitialize##target##Target() {}     \
  void LLVMInitialize##target##TargetMC() {}   \
  void LLVMInitialize##target##AsmPrinter() {} \
  void LLVMInitialize##target##AsmParser() {}
STUBS(AMDGPU)
STUBS(ARM)
STUBS(AVR)
STUBS(BPF)
STUBS(Hexagon)
STUBS(Lanai)
STUBS(LoongArch)
STUBS(M68k)
STUBS(MSP430)
STUBS(Mips)
STUBS(NVPTX)
STUBS(PowerPC)
STUBS(RISCV)
STUBS(SPIRV)
STUBS(Sparc)
STUBS(SystemZ)
STUBS(VE)
STUBS(WebAssembly)
STUBS(XCore)
STUBS(Xtensa)
#undef STUBS
}

llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "none", "", [](llvm::PassBuilder&) {}};
}
