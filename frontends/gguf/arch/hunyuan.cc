// Hunyuan dense, and the text model of its vision models: norms of each head of q and k after RoPE, which goes by halves
// from a base raised by the key rope.scaling.alpha.
#include "frontends/gguf/arch/dense.h"

namespace gc::gguf {
namespace {

LoadedModel load(const File& file, const char* name) {
  return load_dense(file, {.name = name,
                           .head_norms = Form::HeadNorms::EachTurned,
                           .turn = Form::Turn::Halves,
                           .ntk_alpha = true});
}

}  // namespace

LoadedModel load_hunyuan_dense(const File& file) { return load(file, "hunyuan-dense"); }
LoadedModel load_hunyuan_vl(const File& file) { return load(file, "hunyuan_vl"); }

}  // namespace gc::gguf
