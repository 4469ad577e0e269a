#include "codegen_cuda/arch.h"

#include "compiler/base/error.h"

namespace gc::cuda {
namespace {

enum Fact : unsigned { MMA = 1, ASYNC = 2, PDL = 4, BULK = 8, WGMMA = 16 };

constexpr Arch make(std::string_view name, int number, std::int64_t block, std::int64_t sm, unsigned facts) {
  const auto has = [facts](Fact f) { return (facts & f) != 0; };
  return {name, number, block, sm, has(MMA), has(ASYNC), has(PDL), has(BULK), has(WGMMA)};
}

constexpr Arch kTable[] = {
#define CUDA_ARCH(name, number, block, sm, facts) make(#name, number, block, sm, facts),
#include "codegen_cuda/arch.def"
#undef CUDA_ARCH
};

}  // namespace

std::span<const Arch> all_archs() { return kTable; }

const Arch& arch_by_name(std::string_view name) {
  std::string known;
  for (const Arch& arch : kTable) {
    if (arch.name == name) return arch;
    known += cat(known.empty() ? "" : ", ", arch.name);
  }
  throw_user("--cuda-arch ", quote(name), " is not known; expected some of: ", known);
}

}  // namespace gc::cuda
