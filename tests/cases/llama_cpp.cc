// llama.cpp as a peer of differential.py: llama_cpp MODEL OUT.f32 TOKEN... writes the logits of the last token.
// Exit code 1: the model is not accepted.
#include <llama.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  llama_backend_init();
  llama_model_params model_params = llama_model_default_params();
  model_params.n_gpu_layers = 0;
  llama_model* model = llama_model_load_from_file(argv[1], model_params);
  if (model == nullptr) return 1;
  llama_context_params params = llama_context_default_params();
  params.n_ctx = 256;
  params.n_threads = params.n_threads_batch = 1;
  params.type_k = params.type_v = GGML_TYPE_F32;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  llama_context* context = llama_init_from_model(model, params);
  if (context == nullptr) return 1;
  std::vector<llama_token> tokens;
  for (int i = 3; i < argc; ++i) tokens.push_back(std::atoi(argv[i]));
  if (llama_decode(context, llama_batch_get_one(tokens.data(), static_cast<int32_t>(tokens.size()))) != 0)
    return 1;
  const float* logits = llama_get_logits_ith(context, -1);
  const int n = llama_vocab_n_tokens(llama_model_get_vocab(model));
  std::FILE* out = std::fopen(argv[2], "wb");
  if (logits == nullptr || out == nullptr) return 1;
  const bool ok = std::fwrite(logits, sizeof(float), static_cast<size_t>(n), out) == static_cast<size_t>(n);
  return std::fclose(out) == 0 && ok ? 0 : 1;
}
