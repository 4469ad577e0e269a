#include "runtime/text/chat_messages.h"

#include "runtime/text/chat_template.h"
#include "runtime/text/jinja/machine.h"

namespace gcrt {
namespace {

using jinja::Kind;
using jinja::Machine;
using jinja::Value;

Value member(Machine& m, const Value& dict, Str name) {
  const Value* found = nullptr;
  return jinja::find_key(m, dict, jinja::literal(name), &found) && found != nullptr ? *found : Value();
}

// A text, or parts with texts. False with a message.
bool take_text(Machine& m, const Value& v, size_t number, Vec<char>& out) {
  if (v.is(Kind::kString)) return append(out, v.str()) || m.fail_memory();
  if (v.is(Kind::kNone)) return true;
  if (!v.is(Kind::kList)) return m.fail("message ", number, " has no text as its content");
  for (const Value& part : v.list()) {
    const Value text = part.is(Kind::kDict) ? member(m, part, "text") : Value();
    if (!text.is(Kind::kString)) return m.fail("message ", number, " has parts that are no text");
    if (!append(out, text.str())) return m.fail_memory();
  }
  return true;
}

bool take_message(Machine& m, const Value& v, size_t number, ChatMessage& out) {
  if (!v.is(Kind::kDict)) return m.fail("message ", number, " is no object");
  const Value role = member(m, v, "role"), reasoning = member(m, v, "reasoning_content");
  if (!role.is(Kind::kString)) return m.fail("message ", number, " has no role");
  if (!append(out.role, role.str())) return m.fail_memory();
  if (!take_text(m, member(m, v, "content"), number, out.content)) return false;
  return !reasoning.is(Kind::kString) || append(out.reasoning, reasoning.str()) || m.fail_memory();
}

}  // namespace

bool append_message_json(const ChatMessage& message, Vec<char>& out) {
  bool ok = append(out, "{\"role\": ") && append_json_string(out, str(message.role)) &&
            append(out, ", \"content\": ") && append_json_string(out, str(message.content));
  if (!message.reasoning.empty())
    ok = ok && append(out, ", \"reasoning_content\": ") && append_json_string(out, str(message.reasoning));
  return ok && out.push('}');
}

Status read_messages_json(Str json, Vec<ChatMessage>& out, Span<char> message, Allocator allocator) {
  const jinja::Program none;
  Machine m(none, allocator, {.steps = 50'000'000, .memory = uint64_t{256} << 20});
  const size_t old = out.size();
  Value all;
  bool ok = jinja::read_json(m, json, jinja::Marking::kNone, &all);
  if (ok && all.is(Kind::kDict)) all = member(m, all, "messages");
  if (ok && !all.is(Kind::kList)) ok = m.fail("there is no array of messages");
  for (size_t i = 0; ok && i < all.n; ++i) {
    ok = out.push(ChatMessage(allocator)) || m.fail_memory();
    ok = ok && take_message(m, all.items[i], i, out.back());
  }
  if (ok) return kOk;
  out.truncate(old);
  format_to(message, m.message[0] != 0 ? m.message : "not enough memory");
  return kErrInput;
}

}  // namespace gcrt
