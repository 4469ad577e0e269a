#include "runtime/generate/conversation.h"

#include "runtime/base/format.h"

namespace gcrt {
namespace {

bool is_system(const ChatMessage& m) { return str(m.role) == "system" || str(m.role) == "developer"; }
bool is_user(const ChatMessage& m) { return str(m.role) == "user"; }

// The members of an object, without its braces; empty when there are none.
Str members_of(Str object) {
  auto blank = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
  auto trim = [&] {
    while (!object.empty() && blank(object[0])) object = object.sub(1);
    while (!object.empty() && blank(object[object.size() - 1])) object = object.sub(0, object.size() - 1);
  };
  trim();
  if (object.size() < 2 || object[0] != '{' || !object.ends_with("}")) return Str();
  object = object.sub(1, object.size() - 2);
  trim();
  return object;
}

}  // namespace

const ChatMessage* Conversation::system() const {
  return !messages_.empty() && is_system(messages_[0]) ? &messages_[0] : nullptr;
}

bool Conversation::add(Str role, Str content, Str reasoning) {
  ChatMessage m(allocator_);
  return append(m.role, role) && append(m.content, content) && append(m.reasoning, reasoning) &&
         messages_.push(static_cast<ChatMessage&&>(m));
}

bool Conversation::set_system(Str content) {
  if (system() == nullptr) {
    if (content.empty()) return true;
    if (!add("system", content)) return false;
    for (size_t i = messages_.size() - 1; i > 0; --i) swap_values(messages_[i - 1], messages_[i]);
    return true;
  }
  if (!content.empty()) return messages_[0].content.copy(Span<const char>(content.data(), content.size()));
  for (size_t i = 1; i < messages_.size(); ++i) swap_values(messages_[i - 1], messages_[i]);
  messages_.pop();
  return true;
}

void Conversation::clear() { messages_.truncate(first_turn()); }

bool Conversation::drop_answer() {
  size_t n = messages_.size();
  while (n > 0 && !is_user(messages_[n - 1])) --n;
  if (n == 0) return false;
  messages_.truncate(n);
  return true;
}

// Into rendered_ and ids_. The first `skip` messages after the system's are left out.
Status Conversation::render(const PromptOptions& options, size_t skip, bool system_alone,
                            Span<char> message) {
  const Str variables = members_of(options.variables);
  Vec<char> context(allocator_), bos(allocator_), eos(allocator_);
  bool ok = append(context, "{\"add_generation_prompt\": ") &&
            append(context, system_alone ? "false" : "true") && append(context, options.switches) &&
            append(context, variables.empty() ? "" : ", ") && append(context, variables) &&
            append(context, ", \"messages\": [");
  const char* comma = "";
  for (size_t i = 0; ok && i < messages_.size(); ++i) {
    if (i >= first_turn() && (system_alone || i < first_turn() + skip)) continue;
    ok = append(context, comma) && append_message_json(messages_[i], context);
    comma = ", ";
  }
  ok = ok && append(context, "]}");
  const frozen::Meta& meta = tokenizer_.meta();
  if (ok && meta.bos >= 0) ok = tokenizer_.append_piece(meta.bos, true, bos) == kOk;
  if (ok && meta.eos >= 0) ok = tokenizer_.append_piece(meta.eos, true, eos) == kOk;
  if (!ok) return kErrMemory;
  const TemplateVariable defaults[] = {{"bos_token", str(bos)}, {"eos_token", str(eos)}};
  RenderOptions o;
  o.defaults = defaults;
  o.now = options.now;
  o.utc_offset = options.utc_offset;
  if (const Status s = template_.render(str(context), o, rendered_, message, allocator_); s != kOk) return s;
  ids_.clear();
  return tokenizer_.encode(str(rendered_.text),
                           {.add_special = true, .parse_special = true, .literal = rendered_.literal}, ids_);
}

Status Conversation::prompt(const PromptOptions& options, Span<char> message) {
  size_t skip = 0;
  Status s = kOk;
  while ((s = render(options, skip, false, message)) == kOk && ids_.size() > options.room) {
    size_t next = first_turn() + skip + 1;  // where the turn after the oldest one begins
    while (next < messages_.size() && !is_user(messages_[next])) ++next;
    if (!options.drop_turns || next >= messages_.size()) {
      format_to(message,
                skip == 0 ? "the conversation has " : "the last message and what comes with it have ",
                ids_.size(), " tokens, and the context has room for ", options.room);
      return kErrFull;
    }
    skip = next - first_turn();
  }
  dropped_ = skip;
  if (s == kOk) find_fixed(options);
  return s;
}

// Templates may refuse a conversation without questions: nothing is fixed then but BOS.
void Conversation::find_fixed(const PromptOptions& options) {
  const frozen::Meta& meta = tokenizer_.meta();
  fixed_ = !ids_.empty() && meta.bos >= 0 && ids_[0] == meta.bos ? 1 : 0;
  if (system() == nullptr) return;
  Rendered rendered = static_cast<Rendered&&>(rendered_);
  Vec<int32_t> ids = static_cast<Vec<int32_t>&&>(ids_);
  char ignored[256];
  if (render(options, 0, true, ignored) == kOk) {
    size_t n = 0;
    while (n < min_of(ids.size(), ids_.size()) && ids[n] == ids_[n]) ++n;
    fixed_ = max_of(fixed_, n);
  }
  rendered_ = static_cast<Rendered&&>(rendered);
  ids_ = static_cast<Vec<int32_t>&&>(ids);
}

}  // namespace gcrt
