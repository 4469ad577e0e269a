#include "runtime/apps/server/prompt.h"

#include <ctime>
#include <new>

#include "runtime/apps/server/api_error.h"
#include "runtime/apps/server/plain_tools.h"

namespace gcrt::serve {
namespace {

std::string_view text_of(const json::value& v) { return {v.get_string().data(), v.get_string().size()}; }

std::string where(std::size_t i) { return "messages[" + std::to_string(i) + "]"; }

// A text, or parts. Parts that are no text are what this model cannot read.
json::value read_content(const Service& service, const json::value* content, const std::string& param) {
  if (content == nullptr) return json::string();
  if (content->is_string()) return *content;
  if (!content->is_array()) bad_request("'" + param + "': expected a string or a list of parts", param);
  json::array parts;
  std::string joined;
  for (const json::value& part : content->get_array()) {
    const json::object* object = part.if_object();
    const json::value* type = object != nullptr ? find(*object, "type") : nullptr;
    if (type == nullptr || !type->is_string()) bad_request("'" + param + "': a part has no type", param);
    const std::string_view kind = text_of(*type);
    if (kind != "text" && kind != "input_text" && kind != "output_text" && kind != "refusal")
      bad_request("'" + param + "': this model reads text, not '" + std::string(kind) + "'", param);
    const json::value* text = find(*object, kind == "refusal" ? "refusal" : "text");
    if (text == nullptr || !text->is_string()) bad_request("'" + param + "': a part has no text", param);
    parts.push_back(json::object{{"type", "text"}, {"text", *text}});
    joined += (joined.empty() ? "" : "\n") + std::string(text_of(*text));
  }
  if (service.takes_parts) return parts;
  return json::value(joined);
}

// Arguments are JSON as text in the API; templates want the object, or the text.
json::value read_arguments(const Service& service, const json::value* arguments, const std::string& param) {
  if (arguments == nullptr)
    return service.takes_argument_objects ? json::value(json::object()) : json::value("{}");
  json::value object = *arguments;
  if (arguments->is_string()) {
    json::error_code e;
    const std::string_view text = text_of(*arguments);
    object = text.find_first_not_of(" \t\r\n") == text.npos
                 ? json::value(json::object())
                 : json::parse(json::string_view(text.data(), text.size()), e);
    if (e) bad_request("'" + param + "': arguments are no JSON: " + e.message(), param);
  }
  if (!object.is_object()) bad_request("'" + param + "': expected arguments that are an object", param);
  if (service.takes_argument_objects) return object;
  return arguments->is_string() ? *arguments : json::value(dump(object));
}

json::array read_calls(const Service& service, const json::value& calls, const std::string& param) {
  if (!calls.is_array()) bad_request("'" + param + "': expected a list", param);
  json::array out;
  for (const json::value& call : calls.get_array()) {
    const json::object* c = call.if_object();
    const json::value* function = c != nullptr ? find(*c, "function") : nullptr;
    const json::object* f = function != nullptr ? function->if_object() : nullptr;
    const json::value* name = f != nullptr ? find(*f, "name") : nullptr;
    if (name == nullptr || !name->is_string())
      bad_request("'" + param + "': a call without a function's name", param);
    json::object made{{"type", "function"}};
    if (const json::value* id = find(*c, "id")) made["id"] = *id;
    made["function"] =
        json::object{{"name", *name}, {"arguments", read_arguments(service, find(*f, "arguments"), param)}};
    out.push_back(std::move(made));
  }
  return out;
}

json::value read_message(const Service& service, const json::value& message, std::size_t i) {
  const json::object* m = message.if_object();
  if (m == nullptr) bad_request("'" + where(i) + "': expected an object", where(i));
  const json::value* role = find(*m, "role");
  if (role == nullptr || !role->is_string())
    bad_request("'" + where(i) + ".role': expected a string", where(i) + ".role");
  for (const char* name : {"function_call", "audio"})
    if (find(*m, name) != nullptr)
      bad_request("'" + where(i) + "." + name + "' is not supported by this server", where(i) + "." + name);
  json::object out;
  // The API's newer name of the same role.
  out["role"] = text_of(*role) == "developer" ? json::value("system") : *role;
  const json::value* content = find(*m, "content");
  const json::value* calls = find(*m, "tool_calls");
  if (content == nullptr && calls == nullptr && find(*m, "reasoning_content") == nullptr)
    bad_request("'" + where(i) + ".content': there is none", where(i) + ".content");
  out["content"] = read_content(service, content, where(i) + ".content");
  if (calls != nullptr && !(calls->is_array() && calls->get_array().empty()))
    out["tool_calls"] = read_calls(service, *calls, where(i) + ".tool_calls");
  for (const char* name : {"name", "tool_call_id", "reasoning_content"}) {
    const json::value* v = find(*m, name);
    if (v == nullptr) continue;
    if (!v->is_string())
      bad_request("'" + where(i) + "." + name + "': expected a string", where(i) + "." + name);
    out[name] = *v;
  }
  return out;
}

[[noreturn]] void no_tokenizer() { bad_request("this model has no tokenizer: give token ids", "prompt"); }

std::string piece_of(const Service& service, std::int32_t id) {
  Vec<char> out;
  if (id >= 0) (void)service.tokenizer.append_piece(id, true, out);
  return {out.data(), out.size()};
}

// The prompt as text, with what people wrote marked in it. False: the template refuses, `error` says why.
bool render(const Service& service, const ChatInput& input, Rendered& out, std::string* error) {
  json::object context = input.variables;
  context["messages"] = input.messages;
  if (!input.tools.empty()) context["tools"] = input.tools;
  context["add_generation_prompt"] = input.add_generation_prompt && !input.continue_final;
  std::string text = dump(context);
  if (!input.switches.empty()) text.insert(text.size() - 1, input.switches);
  const std::string bos = piece_of(service, service.tokenizer.meta().bos);
  const std::string eos = piece_of(service, service.tokenizer.meta().eos);
  const TemplateVariable defaults[] = {{"bos_token", str(bos)}, {"eos_token", str(eos)}};
  RenderOptions options;
  options.defaults = defaults;
  options.now = now_seconds();
  options.max_memory = std::uint64_t{1} << 30;
  const std::time_t now = options.now;
  std::tm local{};
  if (localtime_r(&now, &local) != nullptr) options.utc_offset = local.tm_gmtoff;
  char message[512] = "";
  const Status s = service.chat_template.render(str(text), options, out, message);
  if (s == kErrMemory) throw std::bad_alloc();
  if (s == kOk) return true;
  *error = message[0] != 0 ? message : "the template failed";
  return false;
}

// What the template does with `input`; empty when it refuses.
std::string try_render(const Service& service, const ChatInput& input) {
  Rendered out;
  std::string error;
  return render(service, input, out, &error) ? std::string(out.text.data(), out.text.size()) : std::string();
}

json::object user_message(json::value content) { return {{"role", "user"}, {"content", std::move(content)}}; }

}  // namespace

json::array read_messages(const Service& service, const json::value& messages) {
  if (!messages.is_array() || messages.get_array().empty())
    bad_request("'messages': expected a list with at least one message", "messages");
  json::array out;
  for (std::size_t i = 0; i < messages.get_array().size(); ++i)
    out.push_back(read_message(service, messages.get_array()[i], i));
  return out;
}

namespace {

// Names stand beside markup in prompts, so they have nothing that could be some.
void check_tool_name(std::string_view name) {
  bool right = !name.empty() && name.size() <= 128;
  for (const char c : name)
    right = right && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '-' || c == '.' || c == ':');
  if (!right) bad_request("'tools': a function's name is letters, digits, _ - . and :, at most 128", "tools");
}

}  // namespace

json::array read_tools(const json::value& tools) {
  if (tools.is_null()) return {};
  if (!tools.is_array()) bad_request("'tools': expected a list", "tools");
  for (const json::value& tool : tools.get_array()) {
    const json::object* t = tool.if_object();
    const json::value* function = t != nullptr ? find(*t, "function") : nullptr;
    const json::object* f = function != nullptr ? function->if_object() : nullptr;
    const json::value* name = f != nullptr ? find(*f, "name") : nullptr;
    if (name == nullptr || !name->is_string())
      bad_request("'tools': expected {\"type\": \"function\", \"function\": {\"name\", \"parameters\"}}",
                  "tools");
    check_tool_name(text_of(*name));
    const json::value* parameters = find(*f, "parameters");
    if (parameters != nullptr && !parameters->is_object())
      bad_request("'tools': the parameters of '" + std::string(text_of(*name)) + "' are no schema", "tools");
  }
  return tools.get_array();
}

Prompt render_chat(const Service& service, const ChatInput& input) {
  if (!service.chat_template.available())
    bad_request(
        "this model has no chat template: compile it with --chat-template NAME, or use /v1/completions",
        "messages");
  if (!input.tools.empty() && !service.takes_tools)
    bad_request("this model's chat template does not take tools, and marks its answers in a way of its own",
                "tools");
  Rendered rendered;
  std::string error;
  if (!render(service, input, rendered, &error))
    bad_request("the chat template refuses: " + error, "messages");
  std::size_t length = rendered.text.size();
  // An answer that goes on has no end yet: what follows its text is markup that would end it.
  if (input.continue_final && !rendered.literal.empty()) length = rendered.literal.back().end;
  Prompt p;
  p.text.assign(rendered.text.data(), length);
  Vec<std::int32_t> ids;
  const Status s = service.tokenizer.encode(
      str(p.text), {.add_special = true, .parse_special = true, .literal = rendered.literal}, ids);
  if (s == kErrArgument) bad_request("the prompt is too long", "messages");
  if (s != kOk) throw std::bad_alloc();
  p.ids.assign(ids.begin(), ids.end());
  return p;
}

std::vector<std::int32_t> tokenize(const Service& service, std::string_view text, bool add_special,
                                   bool parse_special) {
  if (!service.tokenizer.available()) no_tokenizer();
  Vec<std::int32_t> ids;
  const Status s = service.tokenizer.encode(
      str(text), {.add_special = add_special, .parse_special = parse_special, .literal = {}}, ids);
  if (s == kErrArgument) bad_request("the text is too long", "prompt");
  if (s != kOk) throw std::bad_alloc();
  return {ids.begin(), ids.end()};
}

std::string token_bytes(const Service& service, std::int32_t id) {
  return service.tokenizer.available() ? piece_of(service, id) : std::string();
}

namespace {

std::int32_t token_id(const Service& service, const json::value& v, const std::string& param) {
  const std::int64_t n = v.is_int64() ? v.get_int64() : -1;
  if (n < 0 || n >= static_cast<std::int64_t>(service.facts.n_vocab))
    bad_request("'" + param + "': invalid token " + dump(v) + "; ids are whole numbers below " +
                    std::to_string(service.facts.n_vocab),
                param);
  return static_cast<std::int32_t>(n);
}

// A text, or a list of ids and texts.
Prompt one_prompt(const Service& service, const json::value& v, const std::string& param, bool special) {
  Prompt p;
  if (v.is_string()) {
    p.text = text_of(v);
    p.ids = tokenize(service, p.text, true, special);
    return p;
  }
  bool first = true;
  for (const json::value& item : v.get_array()) {
    if (item.is_string()) {
      const auto ids = tokenize(service, text_of(item), first, special);
      p.ids.insert(p.ids.end(), ids.begin(), ids.end());
    } else {
      p.ids.push_back(token_id(service, item, param));
    }
    first = false;
  }
  return p;
}

}  // namespace

std::vector<Prompt> read_prompts(const Service& service, const json::value& prompt, const std::string& param,
                                 bool parse_special) {
  constexpr std::size_t kMostPrompts = 2048;
  if (!prompt.is_string() && !prompt.is_array())
    bad_request("'" + param + "': expected a string, a list of token ids, or a list of them", param);
  std::vector<Prompt> out;
  bool lists = false, texts = true;
  if (prompt.is_array()) {
    for (const json::value& item : prompt.get_array()) {
      lists = lists || item.is_array();
      texts = texts && item.is_string();
    }
  }
  if (prompt.is_string() || (!lists && !texts) || prompt.get_array().empty()) {
    out.push_back(one_prompt(service, prompt, param, parse_special));
  } else {
    if (prompt.get_array().size() > kMostPrompts)
      bad_request("'" + param + "': at most " + std::to_string(kMostPrompts) + " prompts", param);
    for (const json::value& item : prompt.get_array()) {
      if (!item.is_string() && !item.is_array())
        bad_request("'" + param + "': expected a string or a list of token ids, found " + dump(item), param);
      out.push_back(one_prompt(service, item, param, parse_special));
    }
  }
  for (const Prompt& p : out)
    if (p.ids.empty()) bad_request("'" + param + "': the prompt has no tokens", param);
  return out;
}

void probe_template(Service& service) {
  if (!service.chat_template.available()) return;
  const std::string word = "gcprobe";
  ChatInput in;
  in.messages = {user_message(json::array{json::object{{"type", "text"}, {"text", word}}})};
  const std::string parts = try_render(service, in);
  service.takes_parts = parts.find(word) != parts.npos && parts.find("'text'") == parts.npos &&
                        parts.find("\"text\"") == parts.npos;
  const json::value content =
      service.takes_parts ? in.messages[0].get_object()["content"] : json::value("hi");
  in.messages = {
      json::object{{"role", "system"}, {"content", service.takes_parts ? content : json::value(word)}},
      user_message(service.takes_parts ? content : json::value("hi"))};
  service.takes_system = try_render(service, in).find(word) != std::string::npos;
  in.messages = {user_message(content)};
  in.tools = {json::object{{"type", "function"},
                           {"function",
                            {{"name", word},
                             {"description", "d"},
                             {"parameters", {{"type", "object"}, {"properties", json::object()}}}}}}};
  const std::string tools = try_render(service, in);
  service.takes_tools = service.format.has_calls() && tools.find(word) != tools.npos;
  service.writes_tools = !service.takes_tools && can_write_tools(service.format);
  if (!service.takes_tools) return;
  in.messages.push_back(json::object{
      {"role", "assistant"},
      {"content", ""},
      {"tool_calls",
       json::array{json::object{{"id", "gcprobe00"},
                                {"type", "function"},
                                {"function", {{"name", word}, {"arguments", {{"gckey", "gcvalue"}}}}}}}}});
  const std::string called = try_render(service, in);
  service.takes_argument_objects =
      called.find("gckey") != called.npos && called.find("'gckey'") == called.npos;
}

}  // namespace gcrt::serve
