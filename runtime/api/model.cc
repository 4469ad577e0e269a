// The model's handle, status texts.
#include "runtime/api/handles.h"
#include "runtime/core/embedding.h"

using namespace gcrt;

extern "C" {

const char* gcm_status_text(int status) {
  switch (status) {
    case GCM_OK:
      return "success";
    case GCM_ERR_ARGUMENT:
      return "an argument is out of range";
    case GCM_ERR_MEMORY:
      return "out of memory";
    case GCM_ERR_CANCELLED:
      return "cancelled";
    case GCM_ERR_UNSUPPORTED:
      return "the model was compiled without it";
    case GCM_ERR_ISA:
      return "this CPU lacks what the model was compiled for";
    case GCM_ERR_FULL:
      return "no room";
    case GCM_ERR_NAN:
      return "the model's output is not a number";
    case GCM_ERR_IMAGE:
      return "the model's weights are missing or damaged";
    case GCM_ERR_INPUT:
      return "the input cannot be what was asked for";
    case GCM_ERR_SYSTEM:
      return "the operating system refused";
  }
  return "unknown status";
}

void gcm_model_options_init(gcm_model_options* options) {
  *options = {};
  options->size = sizeof *options;
}

gcm_status gcm_model_open(const gcm_model_options* given, gcm_model** out, char* text, size_t text_bytes) {
  const Span<char> message = message_span(text, text_bytes);
  if (out == nullptr) return fail(message, kErrArgument, "nowhere to put the model");
  *out = nullptr;
  gcm_model_options options;
  gcm_model_options_init(&options);
  if (take_options(given, &options) != kOk)
    return fail(message, kErrArgument, "model options of an unknown size");
  const Allocator memory = allocator_of(options.allocator, libc_allocator());
  gcm_model* m = create<gcm_model>(memory);
  if (m == nullptr) return fail(message, kErrMemory, "out of memory");
  Status s = open_model(options.isa, options.weights, &m->model, message);
  const gc_model& facts = gc_the_model;
  if (s == kOk && facts.tokenizer != nullptr) {
    s = m->tokenizer.open({facts.tokenizer, facts.tokenizer_bytes}, memory);
    if (s != kOk) format_to(message, "the tokenizer is damaged");
  }
  if (s == kOk && facts.chat_program != nullptr) {
    s = m->chat.open({facts.chat_program, facts.chat_program_bytes});
    if (s != kOk) format_to(message, "the chat template is damaged");
  }
  if (s != kOk) {
    gcm_model_close(m);
    return static_cast<gcm_status>(s);
  }
  *out = m;
  return GCM_OK;
}

void gcm_model_close(gcm_model* m) {
  if (m == nullptr) return;
  close_image(&m->model.image);
  destroy(m);
}

gcm_status gcm_model_get_info(const gcm_model* m, gcm_model_info* out) {
  if (m == nullptr) return GCM_ERR_ARGUMENT;
  const gc_model& facts = *m->model.facts;
  const bool has_tokens = m->tokenizer.available();
  gcm_model_info info = {};
  info.size = sizeof info;
  info.name = facts.name;
  info.architecture = facts.architecture;
  info.license = facts.license;
  info.chat_template = facts.chat_template;
  info.compiler = facts.compiler;
  info.isa = m->model.program->isa;
  info.n_vocab = m->model.program->n_vocab;
  info.n_ctx_train = facts.n_ctx_train;
  info.n_embd = facts.n_embd;
  info.n_layer = facts.n_layer;
  info.parameters = facts.parameters;
  info.weights_bytes = gc_weights.size;
  info.has_tokenizer = has_tokens;
  info.has_chat_template = m->chat.available();
  info.token_bos = has_tokens ? m->tokenizer.meta().bos : -1;
  info.token_eos = has_tokens ? m->tokenizer.meta().eos : -1;
  info.token_eot = has_tokens ? m->tokenizer.meta().eot : -1;
  info.token_pad = has_tokens ? m->tokenizer.meta().pad : -1;
  if (gives_embeddings(*m->model.program)) {
    info.n_embedding = m->model.program->n_output;
    info.gives_scores = facts.scores != 0;
    info.pooling = static_cast<int32_t>(facts.pooling);
  }
  return static_cast<gcm_status>(give_result(info, out));
}

}  // extern "C"
