// Instruction sets as facts; the table is isa.def.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gc::cpu {

// Indices of runtime/abi/cpu_features.def.
enum class CpuFeature : std::uint8_t {
#define GC_CPU_FEATURE(name, leaf, subleaf, reg, bit, xcr0) name,
#include "runtime/abi/cpu_features.def"
#undef GC_CPU_FEATURE
};

enum class Arch : std::uint8_t { X86_64, AArch64 };
#if defined(__aarch64__)
inline constexpr Arch kHostArch = Arch::AArch64;
#else
inline constexpr Arch kHostArch = Arch::X86_64;
#endif
// "x86_64-linux-gnu": what --target calls it; and the architecture of such a name, if there is one.
const char* triple(Arch arch);
std::optional<Arch> arch_of(std::string_view triple);

struct Isa {
  std::string_view name;  // "x86-64-v4-vnni"
  bool in_use;            // programs are made for it
  const char* llvm_cpu;
  const char* llvm_features;
  int vector_bytes;
  std::int64_t l1_bytes, l2_bytes;  // data caches of a core
  bool has_vnni;                    // vpdpbusd on vectors of vector_bytes
  bool has_avx512;                  // masks, 32 registers
  bool has_gfni;                    // cheap shifts of bytes
  bool has_vbmi;     // permutations of the bytes of two registers, and of unaligned bytes of words
  bool has_bf16dot;  // vdpbf16ps
  bool has_amx;
  bool has_neon;
  bool has_dotprod;                      // sdot
  bool has_i8mm;                         // usdot
  std::vector<CpuFeature> cpu_features;  // all needed to run it

  // Not a fact but a wish: prompts may be multiplied in 8 bits where that is faster (kernels/matmul/prompt_way.h).
  bool coarse_prompts = false;

  // Prompt rows multiply in bf16, generated rows as integers (roles.h).
  bool roles_differ() const { return has_amx || (has_bf16dot && !coarse_prompts); }
  Arch arch() const { return has_neon ? Arch::AArch64 : Arch::X86_64; }
  int f32_lanes() const { return vector_bytes / 4; }
  int vector_registers() const { return has_avx512 || has_neon ? 32 : 16; }
  // All of them: of AVX-512 2048, of AVX2 and NEON 512.
  int register_bytes() const { return vector_registers() * vector_bytes; }
};

// The table's rows of an architecture, plainest first.
std::span<const Isa> all_isas(Arch arch = kHostArch);

// Those of them in use, which a program may be made for.
std::vector<const Isa*> usable_isas(Arch arch = kHostArch);

// Those of them that this machine runs (cpuid and the states the operating system enabled), plainest first. May be
// empty on a machine older than x86-64-v3.
std::vector<const Isa*> host_isas();

// The last of host_isas(); throws a user error when there is none.
const Isa& best_host_isa();

// A row in use, by its own name or a machine's, or nullptr.
const Isa* isa_by_name(std::string_view name, Arch arch = kHostArch);

bool host_has(CpuFeature feature);
// In use or not: tests of kernels that wait for a program may run them.
bool host_runs(const Isa& isa);
std::string_view name(CpuFeature feature);

}  // namespace gc::cpu
