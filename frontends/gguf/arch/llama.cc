// Llama in its plain form: Llama 1 to 3, Mistral 7B, SmolLM2 and whatever else is published under that name without
// experts. Pre-norm RMS, grouped heads, RoPE by adjacent pairs (converters permute q and k so), SiLU-gated
// feed-forward network, biases where the file has them, tied or separate head. Llama 3's long-context RoPE comes as
// divisors of the frequencies in the tensor rope_freqs.weight.
//
// mistral3 is the same with queries that grow with the position, past the context that it was first trained for.
//
// Files may carry keys that only relatives follow (sliding windows, scales of embedding, residual and logits): they
// have no meaning here and are warned of.
#include "frontends/gguf/arch/dense.h"

namespace gc::gguf {

// Mixtral and others of its form.
constexpr Form::Experts kExperts{.in = Form::Experts::In::IfCounted, .norm = Form::Experts::Norm::Always};

LoadedModel load_llama(const File& file) { return load_dense(file, {.name = "llama", .experts = kExperts}); }

LoadedModel load_mistral3(const File& file) {
  return load_dense(file, {.name = "mistral3", .temper_key = true, .experts = kExperts});
}

}  // namespace gc::gguf
