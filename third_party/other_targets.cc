// LLD initializes every target that LLVM was built with. In a static link that would bring all their code generators along,
// 100 MB of them; programs are made for two, so the others' initializers do nothing. And Debian's LLVM names Polly, which
// links alone that optimize would ask for.
#include "llvm/Plugins/PassPlugin.h"

#define TARGETS(DO)                                                                                      \
  DO(AMDGPU)                                                                                             \
  DO(ARM)                                                                                                \
  DO(AVR) DO(BPF) DO(Hexagon) DO(Lanai) DO(LoongArch) DO(M68k) DO(MSP430) DO(Mips) DO(NVPTX) DO(PowerPC) \
      DO(RISCV) DO(SPIRV) DO(Sparc) DO(SystemZ) DO(VE) DO(WebAssembly) DO(XCore) DO(Xtensa)

extern "C" {
#define STUBS(target)                          \
  void LLVMInitialize##target##TargetInfo() {} \
  void LLVMInitialize##target##Target() {}     \
  void LLVMInitialize##target##TargetMC() {}   \
  void LLVMInitialize##target##AsmPrinter() {} \
  void LLVMInitialize##target##AsmParser() {}
TARGETS(STUBS)
#undef STUBS
}

llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "none", "", [](llvm::PassBuilder&) {}};
}
