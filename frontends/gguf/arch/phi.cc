// Phi 2: layer norms, attention and an ungated GELU network side by side behind one norm. Phi 3 and 4: RMS norms, the
// two in turn, gate and up in one matrix; Phi 3.5 MoE has experts, biases, also of the norms. All turn by halves. Phi 3's long-context files bring factors of RoPE for short
// and for long contexts. Files of the 4k models name a window, which their converters filled wrongly for years, so
// nobody follows it.
#include "frontends/gguf/arch/dense.h"

namespace gc::gguf {

LoadedModel load_phi2(const File& file) {
  return load_dense(file, {.name = "phi2",
                           .norm = blocks::Norm::Kind::Layer,
                           .ffn_norm = nullptr,
                           .turn = Form::Turn::Halves,
                           .fn = ir::Fn::gelu_tanh,
                           .gate = Form::Gate::None,
                           .parallel = true,
                           .head = Form::Head::Own});
}

LoadedModel load_phi3(const File& file) {
  return load_dense(file, {.name = "phi3", .turn = Form::Turn::Halves, .gate = Form::Gate::InUp});
}

LoadedModel load_phimoe(const File& file) {
  return load_dense(file,
                    {.name = "phimoe",
                     .rms_biases = true,
                     .turn = Form::Turn::Halves,
                     .head = Form::Head::Own,
                     .experts = {.in = Form::Experts::In::Layers, .norm = Form::Experts::Norm::Always}});
}

}  // namespace gc::gguf
