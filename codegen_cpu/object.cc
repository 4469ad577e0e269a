#include "codegen_cpu/object.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <set>

#include "compiler/base/error.h"
#include "compiler/base/parallel.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/ADCE.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/GVN.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Utils/LCSSA.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"

namespace gc::cpu {
namespace {

void initialize_target() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeAArch64AsmParser();
  });
}

// Optimizes, then generates code of either kind.
std::string generate(llvm::Module& module, const Isa& isa, llvm::CodeGenFileType kind) {
  const std::unique_ptr<llvm::TargetMachine> machine = target_machine(isa);
  optimize(module, *machine);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  GC_CHECK(!machine->addPassesToEmitFile(passes, stream, nullptr, kind), "no code generator for ", isa.name);
  passes.run(module);
  return std::string(bytes.begin(), bytes.end());
}

// Names of the module's functions with a body, dealt to shards so that sizes even out: largest first, each to the
// shard with the fewest instructions so far.
std::vector<std::set<std::string>> deal(const llvm::Module& module, int shards) {
  std::vector<std::pair<std::size_t, std::string>> functions;
  for (const llvm::Function& f : module) {
    if (!f.isDeclaration()) functions.emplace_back(f.getInstructionCount(), f.getName().str());
  }
  std::sort(functions.begin(), functions.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::vector<std::set<std::string>> names(shards);
  std::vector<std::size_t> load(shards);
  for (const auto& [size, name] : functions) {
    const auto least = std::min_element(load.begin(), load.end()) - load.begin();
    names[least].insert(name);
    load[least] += size;
  }
  return names;
}

// Bodies that are not the shard's become declarations. Variables with external linkage stay with the first shard;
// private ones go where they are used.
void keep_only(llvm::Module& module, const std::set<std::string>& names, bool first) {
  for (llvm::Function& f : module) {
    if (f.isDeclaration() || names.count(f.getName().str())) continue;
    f.deleteBody();  // leaves an external declaration
  }
  for (llvm::GlobalVariable& g : llvm::make_early_inc_range(module.globals())) {
    if (g.hasLocalLinkage()) {
      if (g.use_empty()) g.eraseFromParent();
    } else if (!first && g.hasInitializer()) {
      g.setInitializer(nullptr);
      g.setLinkage(llvm::GlobalValue::ExternalLinkage);
    }
  }
}

}  // namespace

std::unique_ptr<llvm::TargetMachine> target_machine(const Isa& isa) {
  initialize_target();
  const llvm::Triple triple(cpu::triple(isa.arch()));
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  GC_CHECK(target, error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  options.MCOptions.AsmVerbose = true;  // printed code says what is spilled
  options.FunctionSections = true;
  options.DataSections = true;
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, isa.llvm_cpu, isa.llvm_features, options, llvm::Reloc::PIC_,
                                  llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
  GC_CHECK(machine, "no target machine for ", isa.name);
  return machine;
}

void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  module.setDataLayout(machine.createDataLayout());
  llvm::PassBuilder builder(&machine);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  // No library function is known, so none is recognised or introduced.
  llvm::TargetLibraryInfoImpl no_library(machine.getTargetTriple());
  no_library.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(no_library); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);

  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::GVNPass());
  passes.addPass(
      llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::ADCEPass());
  passes.addPass(llvm::SimplifyCFGPass());
  llvm::ModulePassManager pipeline;
  pipeline.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  pipeline.run(module, modules);
}

std::string compile_object(llvm::Module& module, const Isa& isa) {
  return generate(module, isa, llvm::CodeGenFileType::ObjectFile);
}

std::string compile_assembly(llvm::Module& module, const Isa& isa) {
  return generate(module, isa, llvm::CodeGenFileType::AssemblyFile);
}

std::vector<std::string> compile_objects(llvm::Module& module, const Isa& isa, int shards, int threads) {
  initialize_target();
  llvm::SmallVector<char, 0> bitcode;
  llvm::raw_svector_ostream stream(bitcode);
  llvm::WriteBitcodeToFile(module, stream);
  const std::vector<std::set<std::string>> names = deal(module, shards);
  std::vector<std::string> objects(shards);
  std::atomic<int> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  auto work = [&] {
    try {
      for (int i; (i = next++) < shards;) {
        llvm::LLVMContext context;
        auto part = llvm::parseBitcodeFile(
            llvm::MemoryBufferRef(llvm::StringRef(bitcode.data(), bitcode.size()), module.getName()),
            context);
        GC_CHECK(part, "our own bitcode isn't readable");
        keep_only(**part, names[i], i == 0);
        objects[i] = compile_object(**part, isa);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  };
  run_on_threads(std::min(threads, shards), work);
  if (failure) std::rethrow_exception(failure);
  return objects;
}

std::string function_assembly(const std::string& assembly, const std::string& function) {
  const std::string label = "\n" + function + ":";
  const std::size_t begin = assembly.find(label);
  GC_CHECK(begin != std::string::npos, "no function ", function, " in the assembly");
  const std::size_t end = assembly.find(".Lfunc_end", begin);
  return assembly.substr(begin + 1, end - begin - 1);
}

std::string print_ir(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

}  // namespace gc::cpu
