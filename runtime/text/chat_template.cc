#include "runtime/text/chat_template.h"

#include "runtime/text/jinja/executor.h"
#include "runtime/text/utf8.h"

namespace gcrt {
namespace {

using jinja::Kind;
using jinja::Machine;
using jinja::Value;

// The template's variables: the defaults, then what the context says.
bool make_context(Machine& m, Str json, const RenderOptions& options, Value* out) {
  Value given;
  if (!jinja::read_json(m, json, jinja::Marking::kContext, &given)) return false;
  jinja::DictBuild all(m);
  bool ok = all.put(jinja::literal("tools"), jinja::none()) &&
            all.put(jinja::literal("documents"), jinja::none()) &&
            all.put(jinja::literal("add_generation_prompt"), jinja::boolean(true));
  for (const TemplateVariable& v : options.defaults)
    ok = ok && all.put(jinja::literal(v.name), jinja::literal(v.value));
  if (given.kind == Kind::kList) {
    ok = ok && all.put(jinja::literal("messages"), given);
  } else if (given.kind == Kind::kDict) {
    for (uint32_t i = 0; ok && i < given.n; ++i) ok = all.put(given.entries[i].key, given.entries[i].value);
  } else {
    return m.fail("expected an object of variables, or an array of messages");
  }
  *out = all.take();
  return ok;
}

bool take_output(const jinja::Text& text, Rendered& out) {
  if (!out.text.append({text.ptr, text.len})) return false;
  for (size_t i = 0; i < text.len; ++i) {
    if (!text.mark(i)) continue;
    size_t end = i + 1;
    while (end < text.len && text.mark(end)) ++end;
    if (!out.literal.push({static_cast<uint32_t>(i), static_cast<uint32_t>(end)})) return false;
    i = end;
  }
  return true;
}

// One line, whatever a template or a message put into it; cut between characters.
void tell(const Machine& m, Span<char> message) {
  Writer w(message.data(), message.size());
  if (m.line) format(w, "line ", m.line, ": ");
  const Str s(m.message);
  for (size_t i = 0, n = 0; i < s.size(); i += n) {
    const uint32_t code = jinja::code_at(s.data() + i, s.size() - i, &n);
    if (w.wanted() + n + 1 > message.size()) break;
    if (code < 0x20 || code == 0x7F)
      w.put(' ');
    else if (n > 1 || code < 0x80)
      w.put(s.sub(i, n));
  }
}

}  // namespace

Status ChatTemplate::render(Str context, const RenderOptions& options, Rendered& out, Span<char> message,
                            Allocator allocator) const {
  out.text.clear();
  out.literal.clear();
  if (!available()) return kErrUnsupported;
  Machine m(program_, allocator, {options.max_steps, options.max_memory});
  m.now = options.now + options.utc_offset;
  Value variables;
  jinja::Build text(m);
  if (!make_context(m, context, options, &variables)) {
    if (m.message[0]) {
      Writer w(message.data(), message.size());
      format(w, "context: ", m.message);
    }
    return kErrInput;
  }
  if (!jinja::Executor(m).run(variables, text)) {
    m.fail("the template failed");
    tell(m, message);
    return kErrInput;
  }
  return take_output(text.text(), out) ? kOk : kErrMemory;
}

bool append_json_string(Vec<char>& out, Str s) {
  static constexpr char kHex[] = "0123456789abcdef";
  if (!out.push('"')) return false;
  for (size_t i = 0; i < s.size();) {
    const uint8_t c = static_cast<uint8_t>(s[i]);
    if (c < 0x20 || c == '"' || c == '\\') {
      const char short_form = c == '\n' ? 'n' : c == '\t' ? 't' : c >= 0x20 ? static_cast<char>(c) : 'u';
      if (!out.push('\\') || !out.push(short_form)) return false;
      if (short_form == 'u' && (!append(out, "00") || !out.push(kHex[c >> 4]) || !out.push(kHex[c & 15])))
        return false;
      ++i;
      continue;
    }
    const int n = utf8_next(s.sub(i));
    if (n > 0 ? !append(out, s.sub(i, static_cast<size_t>(n))) : !append(out, "\xEF\xBF\xBD")) return false;
    i += n > 0 ? static_cast<size_t>(n) : n < 0 ? static_cast<size_t>(-n) : s.size() - i;
  }
  return out.push('"');
}

}  // namespace gcrt
