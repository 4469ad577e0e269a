#include "codegen_cpu/isa.h"

#include <algorithm>
#include <array>

#include "compiler/base/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace gc::cpu {
namespace {

enum class Register { eax, ebx, ecx, edx, hwcap, hwcap2 };

struct FeatureTest {
  std::string_view name;
  std::uint32_t leaf, subleaf;
  Register reg;
  int bit;
  std::uint64_t xcr0;
};

constexpr FeatureTest kTests[] = {
#define GC_CPU_FEATURE(name, leaf, subleaf, reg, bit, xcr0) {#name, leaf, subleaf, Register::reg, bit, xcr0},
#include "runtime/abi/cpu_features.def"
#undef GC_CPU_FEATURE
};

std::vector<Isa> make_table(Arch arch) {
  constexpr unsigned VNNI = 1, AVX512 = 2, GFNI = 4, BF16DOT = 8, AMX = 16, NEON = 32, DOTPROD = 64,
                     I8MM = 128, VBMI = 256;
  using enum CpuFeature;
  std::vector<Isa> table;
#define ISA(name, in_use, cpu, features, bytes, l1, l2, facts, ...) \
  table.push_back({name,                                            \
                   in_use,                                          \
                   cpu,                                             \
                   features,                                        \
                   bytes,                                           \
                   1024 * l1,                                       \
                   1024 * l2,                                       \
                   ((facts) & VNNI) != 0,                           \
                   ((facts) & AVX512) != 0,                         \
                   ((facts) & GFNI) != 0,                           \
                   ((facts) & VBMI) != 0,                           \
                   ((facts) & BF16DOT) != 0,                        \
                   ((facts) & AMX) != 0,                            \
                   ((facts) & NEON) != 0,                           \
                   ((facts) & DOTPROD) != 0,                        \
                   ((facts) & I8MM) != 0,                           \
                   {__VA_ARGS__}});
#define MACHINE(name, isa)
#include "codegen_cpu/isa.def"
#undef MACHINE
#undef ISA
  std::erase_if(table, [&](const Isa& isa) { return isa.arch() != arch; });
  return table;
}

#if defined(__x86_64__)
std::uint64_t enabled_states() {
  unsigned a, b, c, d;
  constexpr unsigned kOsxsave = 1u << 27;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & kOsxsave)) return 0;
  std::uint32_t lo, hi;
  asm volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return std::uint64_t{hi} << 32 | lo;
}

// Linux keeps the tiles' registers for processes that asked for them.
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool test(const FeatureTest& feature) {
  constexpr std::uint64_t kTileStates = 0x60000;
  unsigned r[4] = {};
  if (static_cast<int>(feature.reg) >= 4) return false;  // another architecture's
  if (!__get_cpuid_count(feature.leaf, feature.subleaf, &r[0], &r[1], &r[2], &r[3])) return false;
  if (!(r[static_cast<int>(feature.reg)] >> feature.bit & 1)) return false;
  if ((enabled_states() & feature.xcr0) != feature.xcr0) return false;
  return feature.xcr0 != kTileStates || may_use_tiles();
}
#elif defined(__aarch64__)
bool test(const FeatureTest& feature) {
  if (feature.reg != Register::hwcap && feature.reg != Register::hwcap2) return false;
  return getauxval(feature.reg == Register::hwcap ? AT_HWCAP : AT_HWCAP2) >> feature.bit & 1;
}
#endif

}  // namespace

const char* triple(Arch arch) { return arch == Arch::AArch64 ? "aarch64-linux-gnu" : "x86_64-linux-gnu"; }

std::optional<Arch> arch_of(std::string_view name) {
  for (Arch arch : {Arch::X86_64, Arch::AArch64})
    if (name == triple(arch)) return arch;
  return std::nullopt;
}

std::span<const Isa> all_isas(Arch arch) {
  static const std::vector<Isa> x86 = make_table(Arch::X86_64), aarch64 = make_table(Arch::AArch64);
  return arch == Arch::AArch64 ? aarch64 : x86;
}

std::vector<const Isa*> usable_isas(Arch arch) {
  std::vector<const Isa*> isas;
  for (const Isa& isa : all_isas(arch)) {
    if (isa.in_use) isas.push_back(&isa);
  }
  return isas;
}

bool host_runs(const Isa& isa) {
  return isa.arch() == kHostArch && std::all_of(isa.cpu_features.begin(), isa.cpu_features.end(), host_has);
}

std::vector<const Isa*> host_isas() {
  std::vector<const Isa*> isas;
  for (const Isa* isa : usable_isas())
    if (host_runs(*isa)) isas.push_back(isa);
  return isas;
}

const Isa& best_host_isa() {
  const std::vector<const Isa*> isas = host_isas();
  if (isas.empty())
    throw_user("this machine is older than ", all_isas().front().name, "; name one with --cpu");
  return *isas.back();
}

const Isa* isa_by_name(std::string_view name, Arch arch) {
#define ISA(...)
#define MACHINE(machine, isa) \
  if (name == machine) name = isa;
#include "codegen_cpu/isa.def"
#undef MACHINE
#undef ISA
  for (const Isa* isa : usable_isas(arch)) {
    if (isa->name == name) return isa;
  }
  return nullptr;
}

bool host_has(CpuFeature feature) { return test(kTests[static_cast<int>(feature)]); }

std::string_view name(CpuFeature feature) { return kTests[static_cast<int>(feature)].name; }

}  // namespace gc::cpu
