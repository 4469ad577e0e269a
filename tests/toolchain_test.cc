// Shows that the parts the compiler is made of work together on this machine: LLVM turns IR into an object,
// LLD as a library links it into a static program, and the program runs. When this fails, the set-up is
// wrong, not our code.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "lld/Common/Driver.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"

LLD_HAS_DRIVER(elf)

namespace {

// An object whose _start leaves with exit code 42 through Linux's exit system call.
llvm::SmallVector<char, 0> object_that_exits_with_42() {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::InitializeNativeTargetAsmParser();  // for the inline assembly below
  llvm::LLVMContext context;
  llvm::Module module("exit42", context);
  const llvm::Triple triple("x86_64-linux-gnu");
  module.setTargetTriple(triple);
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  EXPECT_NE(target, nullptr) << error;
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, "x86-64", "", {}, llvm::Reloc::PIC_));
  module.setDataLayout(machine->createDataLayout());

  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), false);
  auto* start = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "_start", module);
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(context, "entry", start));
  b.CreateCall(llvm::InlineAsm::get(type, "movl $$60, %eax; movl $$42, %edi; syscall", "", true));
  b.CreateUnreachable();

  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream out(object);
  llvm::legacy::PassManager passes;
  EXPECT_FALSE(machine->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::ObjectFile));
  passes.run(module);
  return object;
}

TEST(Toolchain, LlvmAndLldMakeAProgramThatRuns) {
  const std::string folder = ::testing::TempDir();
  const std::string object_path = folder + "/exit42.o", program = folder + "/exit42";
  const auto object = object_that_exits_with_42();
  std::ofstream(object_path, std::ios::binary)
      .write(object.data(), static_cast<std::streamsize>(object.size()));

  const char* args[] = {"ld.lld", "-static", object_path.c_str(), "-o", program.c_str()};
  const lld::Result linked = lld::lldMain(args, llvm::outs(), llvm::errs(), {{lld::Gnu, &lld::elf::link}});
  ASSERT_EQ(linked.retCode, 0);

  const int status = std::system(program.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
}

}  // namespace
