#include "compiler/link/bundles.h"

#include "compiler/base/error.h"

extern "C" const std::uint8_t x86_64_linux_gnu_begin[], x86_64_linux_gnu_end[];
extern "C" const std::uint8_t aarch64_linux_gnu_begin[], aarch64_linux_gnu_end[];

namespace gc::link {

std::span<const std::uint8_t> bundle_for(std::string_view target) {
  if (target == "x86_64-linux-gnu") return {x86_64_linux_gnu_begin, x86_64_linux_gnu_end};
  if (target == "aarch64-linux-gnu") return {aarch64_linux_gnu_begin, aarch64_linux_gnu_end};
  throw_unsupported("target ", quote(target),
                    ": this compiler carries runtimes for x86_64-linux-gnu and "
                    "aarch64-linux-gnu");
}

}  // namespace gc::link
