// Nemotron models that a search pruned from Llama: as llama.cc.
#include "frontends/gguf/arch/dense.h"

namespace gc::gguf {

LoadedModel load_deci(const File& file) { return load_dense(file, {.name = "deci"}); }

}  // namespace gc::gguf
