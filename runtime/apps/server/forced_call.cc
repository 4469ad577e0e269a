#include "runtime/apps/server/forced_call.h"

namespace gcrt::serve {
namespace {

// A pattern of OutputRow as text: white space that may be there is a line end.
std::string written(const char* pattern, std::string_view name, std::string_view id) {
  std::string out;
  for (const char* p = pattern != nullptr ? pattern : ""; *p != 0; ++p) {
    if (*p == '~') {
      if (!out.empty()) out += '\n';
    } else if (*p == '%' && (p[1] == 'n' || p[1] == 'i')) {
      out += *++p == 'n' ? name : id;
    } else {
      out += *p;
    }
  }
  return out;
}

const json::object& function_of(const json::value& tool) {
  return tool.get_object().at("function").get_object();
}

json::value parameters_of(const json::value& tool) {
  const json::value* schema = find(function_of(tool), "parameters");
  return schema != nullptr ? *schema
                           : json::value(json::object{{"type", "object"}, {"additionalProperties", false}});
}

}  // namespace

void force_call(Service& service, const json::array& tools, const ToolChoice& choice, Plan& plan) {
  json::array wanted;
  for (const json::value& tool : tools)
    if (choice.kind != ToolChoice::kNamed || function_of(tool).at("name") == json::value(choice.name))
      wanted.push_back(tool);
  if (wanted.empty()) bad_request("'tool_choice': there is no tool '" + choice.name + "'", "tool_choice");
  const CallShape own = plan.format->row().shape;
  if (own != CallShape::kObject && !(own == CallShape::kJson && wanted.size() == 1))
    plan.format = &service.plain_tools;
  const OutputRow& row = plan.format->row();
  json::value schema;
  if (row.shape == CallShape::kObject) {
    json::array calls;
    for (const json::value& tool : wanted)
      calls.push_back(json::object{
          {"type", "object"},
          {"properties",
           {{"name", {{"const", function_of(tool).at("name")}}}, {"arguments", parameters_of(tool)}}},
          {"required", {"name", "arguments"}},
          {"additionalProperties", false}});
    schema = calls.size() == 1 ? calls[0] : json::value(json::object{{"anyOf", calls}});
    plan.said_before = written(row.section_open, "", "");
    if (!plan.said_before.empty() && row.section_close != nullptr) plan.said_before += '\n';
    plan.said_after = written(row.section_close, "", "");
  } else {
    const json::string& name = function_of(wanted[0]).at("name").get_string();
    schema = parameters_of(wanted[0]);
    plan.said_before = written(row.section_open, "", "") +
                       written(row.head, {name.data(), name.size()}, make_id(service, "").substr(0, 9));
    plan.said_after = written(row.tail, "", "") + written(row.section_close, "", "");
  }
  const std::vector<std::int32_t> ids = tokenize(service, plan.said_before, false, true);
  plan.prompt.ids.insert(plan.prompt.ids.end(), ids.begin(), ids.end());
  plan.prompt.text += plan.said_before;
  plan.grammar = GrammarText{Grammars::Kind::kJsonSchema, dump(schema), "tools"};
}

}  // namespace gcrt::serve
