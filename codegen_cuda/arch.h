// GPU architectures as facts; the table is arch.def.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gc::cuda {

struct Arch {
  std::string_view name;  // "sm_90a"
  int number;             // 90
  std::int64_t shared_block, shared_sm;
  bool has_mma, has_async, has_pdl, has_bulk, has_wgmma;
};

std::span<const Arch> all_archs();
// By name; throws a user error that lists what there is.
const Arch& arch_by_name(std::string_view name);

// Shared memory that every block has without its launch asking for it. Kernels keep to it, so one source serves all.
inline constexpr std::int64_t kStaticShared = 48 * 1024;

}  // namespace gc::cuda
