// Nemotron models that a search pruned from Llama (51B, Super 49B, Ultra 253B): Llama's form, but heads and hidden units
// differ between layers, some layers have no attention or no feed-forward network, and in some attention is its output
// matrix alone, which files tell by heads without key heads.
#include "frontends/gguf/arch/dense.h"

namespace gc::gguf {

LoadedModel load_deci(const File& file) { return load_dense(file, {.name = "deci", .pruned = true}); }

}  // namespace gc::gguf
