#include "frontends/gguf/arch/arch.h"

#include "compiler/base/error.h"
#include "frontends/gguf/arch/embedding.h"
#include "frontends/gguf/arch/keys.h"

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
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name != name) continue;
    LoadedModel model = architecture.load(file);
    const Keys keys(file, std::string(name));
    if (!model.graph.encoder && pooling_key(keys) != PoolingKey::None) end_before_head(keys, model);
    return model;
  }
  throw_unsupported(file.path(), ": architecture ", quote(name),
                    " is not supported; --list-architectures shows those that are");
}

}  // namespace gc::gguf
