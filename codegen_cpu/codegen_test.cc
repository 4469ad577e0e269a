#include <gtest/gtest.h>

#include "codegen_cpu/emitter.h"
#include "codegen_cpu/isa.h"
#include "codegen_cpu/jit.h"
#include "codegen_cpu/object.h"
#include "llvm/Object/ObjectFile.h"

namespace gc::cpu {
namespace {

// y[i] = i * x, and a second function that calls it.
void emit_pair(Emitter& e) {
  llvm::Function* inner = e.function("inner", {i64("n"), i64("x"), out("y")}, [&](const Args& a) {
    e.for_range(e.i64(0), a["n"], 1, [&](llvm::Value* i) {
      e.store(e.b().CreateMul(i, a["x"]), e.at(a["y"], i, std::int64_t{8}), 8);
    });
  });
  e.function("outer", {i64("n"), out("y")},
             [&](const Args& a) { e.b().CreateCall(inner, {a["n"], e.i64(3), a["y"]}); });
}

TEST(Isa, FactsFollowFromTheFeatures) {
  for (const Isa& isa : all_isas()) {
    auto has = [&](CpuFeature f) {
      return std::find(isa.cpu_features.begin(), isa.cpu_features.end(), f) != isa.cpu_features.end();
    };
    EXPECT_EQ(isa.has_avx512, has(CpuFeature::avx512vl)) << isa.name;
    EXPECT_EQ(isa.has_vnni, has(CpuFeature::avx512vnni) || has(CpuFeature::avxvnni)) << isa.name;
    EXPECT_EQ(isa.has_gfni, has(CpuFeature::gfni)) << isa.name;
    EXPECT_EQ(isa.vector_bytes, isa.has_avx512 ? 64 : 32) << isa.name;
    EXPECT_EQ(isa.has_amx, has(CpuFeature::amx_bf16)) << isa.name;
  }
  EXPECT_EQ(isa_by_name("x86-64-v4-vnni")->name, "x86-64-v4-vnni");
  EXPECT_EQ(isa_by_name("sapphirerapids")->name, "sapphirerapids");
  EXPECT_EQ(isa_by_name("znver4")->name, "zen4");
  EXPECT_EQ(isa_by_name("z80"), nullptr);
}

TEST(Isa, OtherArchitecturesHaveTheirOwnRows) {
  for (const Isa& isa : all_isas(Arch::AArch64)) {
    EXPECT_EQ(isa.arch(), Arch::AArch64);
    EXPECT_EQ(host_runs(isa), kHostArch == Arch::AArch64 && host_has(isa.cpu_features.back())) << isa.name;
  }
  EXPECT_EQ(isa_by_name("neoverse-n1", Arch::AArch64)->name, "armv8-a-dotprod");
  EXPECT_EQ(isa_by_name("x86-64-v3", Arch::AArch64), nullptr);
  EXPECT_EQ(isa_by_name("armv8-a", Arch::X86_64), nullptr);
  for (Arch arch : {Arch::X86_64, Arch::AArch64}) EXPECT_EQ(arch_of(triple(arch)), arch);
  EXPECT_EQ(arch_of("riscv64-linux-gnu"), std::nullopt);
}

TEST(Jit, RunsOnEveryIsaOfTheHost) {
  for (const Isa* isa : host_isas()) {
    llvm::LLVMContext context;
    Emitter e(context, *isa, "test", "p.");
    emit_pair(e);
    emit_pair(e);  // found again, not made twice
    Jit jit(e);
    std::int64_t y[5] = {};
    jit.get<void(std::int64_t, std::int64_t*)>("outer")(5, y);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(y[i], 3 * i);
    jit.get<void(std::int64_t, std::int64_t*)>("outer")(0, nullptr);
  }
}

TEST(Object, ShardsHoldTheModuleWhateverTheThreads) {
  const Isa& isa = all_isas().front();
  std::vector<std::string> made[2];
  for (int threads : {1, 2}) {
    llvm::LLVMContext context;
    Emitter e(context, isa, "test");
    emit_pair(e);
    made[threads - 1] = compile_objects(*e.take(), isa, 2, threads);
  }
  EXPECT_EQ(made[0], made[1]);
  std::multiset<std::string> defined;
  for (const std::string& object : made[0]) {
    auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "o"));
    ASSERT_TRUE(!!file);
    for (const auto& symbol : (*file)->symbols()) {
      const auto flags = llvm::cantFail(symbol.getFlags());
      using S = llvm::object::SymbolRef;
      if ((flags & S::SF_Global) && !(flags & S::SF_Undefined))
        defined.insert(llvm::cantFail(symbol.getName()).str());
    }
  }
  EXPECT_EQ(defined, (std::multiset<std::string>{"inner", "outer"}));
}

TEST(Object, PrintsAssembly) {
  llvm::LLVMContext context;
  const Isa& isa = all_isas().front();
  Emitter e(context, isa, "test");
  emit_pair(e);
  const std::string assembly = compile_assembly(*e.take(), isa);
  EXPECT_NE(function_assembly(assembly, "outer").find("inner"), std::string::npos);
  EXPECT_EQ(function_assembly(assembly, "inner").find("outer"), std::string::npos);
}

}  // namespace
}  // namespace gc::cpu
