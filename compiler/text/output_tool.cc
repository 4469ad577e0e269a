#include "compiler/text/output_tool.h"

#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <string>

#include "compiler/base/error.h"
#include "compiler/text/jinja_freeze.h"
#include "compiler/text/output_freeze.h"
#include "compiler/text/template_tool.h"
#include "runtime/text/output/parser.h"

namespace gc::text {
namespace {

using Json = nlohmann::ordered_json;

gcrt::Str view(std::string_view s) { return {s.data(), s.size()}; }
std::string text(gcrt::Str s) { return {s.data(), s.size()}; }

Json read_case(std::string_view text) {
  Json c = Json::parse(text, nullptr, false);
  if (c.is_discarded()) throw_user("the case is not valid JSON");
  if (!c.is_object() || !c.contains("raw") || !c["raw"].is_string()) throw_user("the case has no text 'raw'");
  return c;
}

bool flag(const Json& c, const char* name, bool absent) {
  const auto found = c.find(name);
  if (found == c.end() || found->is_null()) return absent;
  if (!found->is_boolean()) throw_user("the case's '", name, "' is neither true nor false");
  return found->get<bool>();
}

// The prompt, for how it ends: only that tells whether the answer begins inside the reasoning. Some templates refuse
// tools that they know no way to write; they end the prompt alike without them.
std::string prompt_of(std::string_view template_text, const Json& c) {
  Json context = {{"messages", c.value("messages", Json::array())},
                  {"add_generation_prompt", true},
                  {"enable_thinking", flag(c, "enable_thinking", true)}};
  ApplyTemplateOptions options;
  options.bos_token.clear(), options.eos_token.clear();
  for (const bool with_tools : {true, false}) {
    const Json tools = c.value("tools", Json());
    if (with_tools && !(tools.is_array() && !tools.empty())) continue;
    context["tools"] = with_tools ? tools : Json();
    std::ostringstream prompt, warnings;
    try {
      apply_template(template_text, context.dump(), options, prompt, warnings);
      return prompt.str();
    } catch (const UserError&) {
      if (c.contains("generation_prompt")) break;
    }
  }
  return c.value("generation_prompt", "");
}

}  // namespace

int parse_output(std::string_view template_text, std::string_view case_json, std::ostream& out,
                 std::ostream& err) {
  const Json c = read_case(case_json);
  const FrozenTemplate frozen = freeze_template(template_text);
  for (const std::string& w : frozen.warnings) err << "warning: " << w << "\n";
  gcrt::OutputFormat format;
  GC_CHECK(format.open(freeze_output(template_text, frozen.program)) == gcrt::kOk);
  gcrt::ToolSet tools;
  const std::string tools_json = c.contains("tools") ? c["tools"].dump() : "";
  if (tools.open(view(tools_json)) != gcrt::kOk)
    throw_user("the case's tools are not a list of named functions");
  gcrt::OutputOptions options;
  options.in_reasoning = format.opens_reasoning(view(prompt_of(template_text, c)));
  options.parallel_calls = flag(c, "parallel_tool_calls", true);

  gcrt::OutputParser parser;
  GC_CHECK(parser.begin(format, tools, options) == gcrt::kOk);
  gcrt::Status status = parser.push(view(c["raw"].get_ref<const std::string&>()));
  if (status == gcrt::kOk && !flag(c, "partial", false)) status = parser.finish();
  if (status == gcrt::kErrInput) throw_user(escape_controls(text(parser.message())));
  GC_CHECK(status == gcrt::kOk, "status ", status);

  Json calls = Json::array();
  for (std::size_t i = 0; i < parser.calls(); ++i) {
    const gcrt::OutputCall& call = parser.call(i);
    calls.push_back({{"id", text(str(call.id))},
                     {"name", text(parser.call_name(i))},
                     {"arguments", text(str(call.arguments))}});
  }
  const Json result = {{"content", text(parser.content())},
                       {"reasoning_content", text(parser.reasoning())},
                       {"tool_calls", calls}};
  out << result.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  return 0;
}

}  // namespace gc::text
