#include "frontends/gguf/arch/arch.h"

#include "compiler/base/error.h"

namespace gc::gguf {
namespace {

constexpr Architecture kArchitectures[] = {
#define ARCH(name, load, about) {name, load, about},
#include "frontends/gguf/arch/arch.def"
#undef ARCH
};

}  // namespace

std::span<const Architecture> list_architectures() { return kArchitectures; }

LoadedModel load_model(const File& file) {
  const std::string_view name = file.get_string("general.architecture");
  for (const Architecture& architecture : kArchitectures)
    if (architecture.name == name) return architecture.load(file);
  throw_unsupported(file.path(), ": architecture ", quote(name),
                    " is not supported; --list-architectures shows those that are");
}

}  // namespace gc::gguf
