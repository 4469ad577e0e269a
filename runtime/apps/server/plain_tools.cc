#include "runtime/apps/server/plain_tools.h"

#include <stdexcept>

namespace gcrt::serve {
namespace {

std::string text_of(const json::value& content) {
  if (content.is_string()) return std::string(content.get_string());
  std::string out;
  if (const json::array* parts = content.if_array())
    for (const json::value& part : *parts) out += (out.empty() ? "" : "\n") + text_of(part.at("text"));
  return out;
}

json::value content_of(const Service& service, const std::string& text) {
  if (!service.takes_parts) return json::value(text);
  return json::array{json::object{{"type", "text"}, {"text", text}}};
}

std::string description(const json::array& tools) {
  std::string out = "You can call functions. Each line describes one:\n";
  for (const json::value& tool : tools) out += dump(*find(tool.get_object(), "function")) + "\n";
  return out +
         "To call one, write its name and its arguments as JSON in this form, and wait for the result:\n"
         "<tool_call>\n{\"name\": \"NAME\", \"arguments\": {\"ARGUMENT\": \"VALUE\"}}\n</tool_call>\n"
         "Call a function only where it helps. Otherwise answer in words.";
}

// Arguments are an object, or its text.
std::string written_call(const json::value& call) {
  const json::value& function = call.at("function");
  const json::value& arguments = function.at("arguments");
  return "<tool_call>\n{\"name\": " + dump(function.at("name")) +
         ", \"arguments\": " + (arguments.is_string() ? text_of(arguments) : dump(arguments)) +
         "}\n</tool_call>";
}

void put_before(std::string& text, const std::string& what) {
  text = text.empty() ? what : what + "\n\n" + text;
}

}  // namespace

OutputFormat plain_tool_format() {
  const Span<const OutputRow> rows = output_rows();
  OutputFormat format;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (std::string_view(rows[i].name) == "hermes" &&
        format.open(frozen_output(static_cast<std::uint16_t>(i), 0)) == kOk)
      return format;
  throw std::runtime_error("there is no format of calls named hermes");
}

bool can_write_tools(const OutputFormat& own) {
  const OutputRow& row = own.row();
  const bool thinks_alike = row.think_open == nullptr || std::string_view(row.think_open) == "<think>";
  return thinks_alike && row.wrap_open == nullptr && (row.flags & kHeaders) == 0;
}

void write_tools(const Service& service, ChatInput& input) {
  json::array out;
  bool results = false;  // the last message is made of results
  for (const json::value& message : input.messages) {
    json::object m = message.get_object();
    std::string text = text_of(m.at("content"));
    if (m.at("role") == json::value("tool")) {
      text = "<tool_response>\n" + text + "\n</tool_response>";
      if (results) {
        json::value& last = out.back().get_object()["content"];
        last = content_of(service, text_of(last) + "\n" + text);
      } else {
        out.push_back(json::object{{"role", "user"}, {"content", content_of(service, text)}});
      }
      results = true;
      continue;
    }
    results = false;
    if (const json::value* calls = find(m, "tool_calls")) {
      for (const json::value& call : calls->get_array())
        text += (text.empty() ? "" : "\n") + written_call(call);
      m.erase("tool_calls");
      m["content"] = content_of(service, text);
    }
    out.push_back(std::move(m));
  }
  if (!input.tools.empty()) {
    const std::string said = description(input.tools);
    json::object& first = out[0].get_object();
    std::string text = text_of(first.at("content"));
    if (first.at("role") == json::value("system")) {
      first["content"] = content_of(service, text.empty() ? said : text + "\n\n" + said);
    } else if (service.takes_system) {
      out.insert(out.begin(), json::object{{"role", "system"}, {"content", content_of(service, said)}});
    } else if (first.at("role") == json::value("user")) {
      put_before(text, said);
      first["content"] = content_of(service, text);
    } else {
      out.insert(out.begin(), json::object{{"role", "user"}, {"content", content_of(service, said)}});
    }
    input.tools.clear();
  }
  input.messages = std::move(out);
}

}  // namespace gcrt::serve
