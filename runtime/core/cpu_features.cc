#include "runtime/core/cpu_features.h"

#include "runtime/base/format.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace gcrt {
namespace {

struct Row {
  const char* name;
  uint32_t leaf, subleaf;
  int reg;
  int bit;
  uint64_t xcr0;
};

enum { eax, ebx, ecx, edx, hwcap, hwcap2 };

constexpr Row kRows[] = {
#define GC_CPU_FEATURE(name, leaf, subleaf, reg, bit, xcr0) {#name, leaf, subleaf, reg, bit, xcr0},
#include "runtime/abi/cpu_features.def"
#undef GC_CPU_FEATURE
};

#if defined(__x86_64__)
uint64_t saved_by_system() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return 0;  // OSXSAVE
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

// Linux keeps the tiles' registers for processes that asked for them, all their threads.
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

}  // namespace

const char* cpu_feature_name(uint8_t feature) {
  return feature < kCpuFeatures ? kRows[feature].name : "unknown";
}

uint64_t cpu_features() {
  uint64_t have = 0;
#if defined(__x86_64__)
  constexpr uint64_t kTileStates = 0x60000;
  uint64_t saved = saved_by_system();
  if ((saved & kTileStates) == kTileStates && !may_use_tiles()) saved &= ~kTileStates;
  for (uint32_t i = 0; i < kCpuFeatures; ++i) {
    const Row& row = kRows[i];
    uint32_t r[4] = {};
    if (row.reg > edx) continue;  // another architecture's
    if (!__get_cpuid_count(row.leaf, row.subleaf, &r[eax], &r[ebx], &r[ecx], &r[edx])) continue;
    if ((r[row.reg] >> row.bit & 1) && (saved & row.xcr0) == row.xcr0) have |= uint64_t{1} << i;
  }
#elif defined(__aarch64__)
  const unsigned long words[] = {getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
  for (uint32_t i = 0; i < kCpuFeatures; ++i)
    if (kRows[i].reg >= hwcap && (words[kRows[i].reg - hwcap] >> kRows[i].bit & 1)) have |= uint64_t{1} << i;
#endif
  return have;
}

const gc_program* choose_program(const gc_program* const* programs, uint32_t n, Str isa, Span<char> message) {
  const uint64_t have = cpu_features();
  Writer w(message.data(), message.size());
  for (uint32_t i = 0; i < n; ++i) {
    const gc_program* p = programs[i];
    if (!isa.empty() && Str(p->isa) != isa) continue;
    if (p->abi_version != GC_ABI_VERSION || p->size != sizeof(gc_program)) {
      format(w, "program ", p->isa, " is of another version of the runtime");
      return nullptr;
    }
    const char* missing = nullptr;
    for (uint32_t f = 0; f < p->n_cpu_features && !missing; ++f)
      if (!(have >> p->cpu_features[f] & 1)) missing = cpu_feature_name(p->cpu_features[f]);
    if (!missing) return p;
    if (i > 0 && isa.empty()) w.put("; ");
    format(w, "this CPU can't run ", p->isa, ": it has no ", missing);
  }
  if (w.wanted() == 0) {
    format(w, "this file has no program '", isa, "'; it has:");
    for (uint32_t i = 0; i < n; ++i) format(w, " ", programs[i]->isa);
  }
  return nullptr;
}

}  // namespace gcrt
