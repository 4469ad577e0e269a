// Text to tokens, tokens to text, conversations to prompts.
#include <time.h>

#include "runtime/api/handles.h"

using namespace gcrt;

namespace {

// The context that a template is given, as JSON.
bool make_context(const gcm_chat& chat, Vec<char>& out) {
  if (chat.json != nullptr) return append(out, Str(chat.json, chat.json_bytes));
  bool ok = append(out, "{\"messages\":[");
  for (size_t i = 0; ok && i < chat.n_messages; ++i) {
    const gcm_message& m = chat.messages[i];
    ok = append(out, i ? ",{\"role\":" : "{\"role\":") && append_json_string(out, m.role) &&
         append(out, ",\"content\":") && append_json_string(out, m.content) && out.push('}');
  }
  return ok && append(out, "],\"add_generation_prompt\":") &&
         append(out, chat.add_generation_prompt ? "true}" : "false}");
}

Status render(const gcm_model& m, const gcm_chat* given, Rendered& out, Span<char> message) {
  gcm_chat chat;
  gcm_chat_init(&chat);
  if (given == nullptr || take_options(given, &chat) != kOk) {
    format_to(message, "a conversation of an unknown size");
    return kErrArgument;
  }
  if (!m.chat.available()) {
    format_to(message, "the model has no chat template");
    return kErrUnsupported;
  }
  if ((chat.json == nullptr) == (chat.messages == nullptr)) {
    format_to(message, "a conversation is given as messages or as JSON");
    return kErrArgument;
  }
  Vec<char> context(m.memory);
  Status s = make_context(chat, context) ? kOk : kErrMemory;
  if (s == kOk) {
    const TemplateVariable defaults[] = {{"bos_token", m.tokenizer.view().piece(m.tokenizer.meta().bos)},
                                         {"eos_token", m.tokenizer.view().piece(m.tokenizer.meta().eos)}};
    RenderOptions options;
    options.now = chat.now != 0 ? chat.now : time(nullptr);
    options.utc_offset = chat.utc_offset;
    if (m.tokenizer.available()) options.defaults = defaults;
    s = m.chat.render(str(context), options, out, message, m.memory);
  }
  if (s == kErrMemory) format_to(message, "out of memory");
  return s;
}

gcm_status no_tokenizer() { return GCM_ERR_UNSUPPORTED; }

}  // namespace

extern "C" {

gcm_status gcm_tokenize(const gcm_model* m, const char* text, size_t text_bytes, uint32_t flags, int32_t* ids,
                        size_t capacity, size_t* n_ids) {
  if (m == nullptr || (text == nullptr && text_bytes != 0)) return GCM_ERR_ARGUMENT;
  if (!m->tokenizer.available()) return no_tokenizer();
  Vec<int32_t> all(m->memory);
  const EncodeOptions options{(flags & GCM_TEXT_SPECIAL) != 0, (flags & GCM_TEXT_PARSE) != 0, {}};
  const Status s = m->tokenizer.encode(Str(text, text_bytes), options, all);
  return s == kOk ? give_all(all, ids, capacity, n_ids) : static_cast<gcm_status>(s);
}

gcm_status gcm_detokenize(const gcm_model* m, const int32_t* ids, size_t n_ids, uint32_t flags, char* text,
                          size_t capacity, size_t* text_bytes) {
  if (m == nullptr || (ids == nullptr && n_ids != 0)) return GCM_ERR_ARGUMENT;
  if (!m->tokenizer.available()) return no_tokenizer();
  Vec<char> all(m->memory);
  const bool special = (flags & GCM_TEXT_SPECIAL) != 0;
  const Status s = n_ids == 1 ? m->tokenizer.append_piece(ids[0], special, all)
                              : m->tokenizer.decode({ids, n_ids}, {.special = special}, all);
  return s == kOk ? give_all(all, text, capacity, text_bytes) : static_cast<gcm_status>(s);
}

int gcm_token_is_end(const gcm_model* m, int32_t id) {
  return m != nullptr && m->tokenizer.available() && m->tokenizer.is_eog(id);
}

int32_t gcm_token_find(const gcm_model* m, const char* piece) {
  return m != nullptr && piece != nullptr && m->tokenizer.available() ? m->tokenizer.find(piece) : -1;
}

void gcm_chat_init(gcm_chat* chat) {
  *chat = {};
  chat->size = sizeof *chat;
  chat->add_generation_prompt = 1;
}

gcm_status gcm_chat_text(const gcm_model* m, const gcm_chat* chat, char* text, size_t capacity,
                         size_t* text_bytes, char* message, size_t message_bytes) {
  if (m == nullptr) return GCM_ERR_ARGUMENT;
  Rendered rendered{Vec<char>(m->memory), Vec<TextRange>(m->memory)};
  const Status s = render(*m, chat, rendered, message_span(message, message_bytes));
  return s == kOk ? give_all(rendered.text, text, capacity, text_bytes) : static_cast<gcm_status>(s);
}

gcm_status gcm_chat_tokens(const gcm_model* m, const gcm_chat* chat, int32_t* ids, size_t capacity,
                           size_t* n_ids, char* text, size_t text_bytes) {
  if (m == nullptr) return GCM_ERR_ARGUMENT;
  const Span<char> message = message_span(text, text_bytes);
  if (!m->tokenizer.available()) return fail(message, kErrUnsupported, "the model has no tokenizer");
  Rendered rendered{Vec<char>(m->memory), Vec<TextRange>(m->memory)};
  Vec<int32_t> all(m->memory);
  Status s = render(*m, chat, rendered, message);
  if (s == kOk) s = m->tokenizer.encode(str(rendered.text), {true, true, rendered.literal}, all);
  return s == kOk ? give_all(all, ids, capacity, n_ids) : static_cast<gcm_status>(s);
}

}  // extern "C"
