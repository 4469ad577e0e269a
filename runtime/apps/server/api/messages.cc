// Anthropic's POST /v1/messages and /v1/messages/count_tokens.
#include "runtime/apps/server/api/openai.h"
#include "runtime/apps/server/plan.h"
#include "runtime/apps/server/routes.h"

namespace gcrt::serve {
namespace {

std::string_view text_of(const json::value& v) { return {v.get_string().data(), v.get_string().size()}; }

// ---- Their messages as OpenAI's ----

// The texts of a string, or of blocks of type text.
std::string plain_text(const json::value& content, const std::string& param) {
  if (content.is_string()) return std::string(text_of(content));
  std::string out;
  if (!content.is_array()) bad_request("'" + param + "': expected a string or a list of blocks", param);
  for (const json::value& block : content.get_array()) {
    const json::object* b = block.if_object();
    const json::value* type = b != nullptr ? find(*b, "type") : nullptr;
    const json::value* text = b != nullptr ? find(*b, "text") : nullptr;
    if (type == nullptr || *type != json::value("text") || text == nullptr || !text->is_string())
      bad_request("'" + param + "': expected blocks of text", param);
    out += (out.empty() ? "" : "\n") + std::string(text_of(*text));
  }
  return out;
}

std::string member_text(const json::object& block, const char* name, const std::string& param) {
  const json::value* v = find(block, name);
  if (v == nullptr || !v->is_string())
    bad_request("'" + param + "': a block without its '" + name + "'", param);
  return std::string(text_of(*v));
}

// One of theirs may be several: results of tools are messages of their own.
void add_message(json::array& out, const json::value& message, std::size_t i) {
  const std::string param = "messages[" + std::to_string(i) + "]";
  const json::object* m = message.if_object();
  const json::value* role = m != nullptr ? find(*m, "role") : nullptr;
  const json::value* content = m != nullptr ? find(*m, "content") : nullptr;
  if (role == nullptr ||
      (*role != json::value("user") && *role != json::value("assistant") && *role != json::value("system")))
    bad_request("'" + param + ".role': expected user or assistant", param + ".role");
  if (content == nullptr) bad_request("'" + param + ".content': there is none", param + ".content");
  if (content->is_string()) return out.push_back(json::object{{"role", *role}, {"content", *content}});
  if (!content->is_array())
    bad_request("'" + param + ".content': expected a string or a list of blocks", param + ".content");
  std::string text, reasoning;
  json::array calls;
  for (const json::value& block : content->get_array()) {
    const json::object* b = block.if_object();
    if (b == nullptr) bad_request("'" + param + ".content': expected blocks", param + ".content");
    const std::string type = member_text(*b, "type", param + ".content");
    if (type == "text") {
      text += (text.empty() ? "" : "\n") + member_text(*b, "text", param + ".content");
    } else if (type == "thinking") {
      reasoning += member_text(*b, "thinking", param + ".content");
    } else if (type == "tool_use") {
      const json::value* input = find(*b, "input");
      calls.push_back(
          json::object{{"id", member_text(*b, "id", param + ".content")},
                       {"type", "function"},
                       {"function",
                        {{"name", member_text(*b, "name", param + ".content")},
                         {"arguments", input != nullptr ? *input : json::value(json::object())}}}});
    } else if (type == "tool_result") {
      const json::value* result = find(*b, "content");
      out.push_back(json::object{
          {"role", "tool"},
          {"tool_call_id", member_text(*b, "tool_use_id", param + ".content")},
          {"content", result != nullptr ? plain_text(*result, param + ".content") : std::string()}});
    } else {
      bad_request("'" + param + ".content': this model reads text, not '" + type + "'", param + ".content");
    }
  }
  if (text.empty() && reasoning.empty() && calls.empty()) {
    if (content->get_array().empty())
      bad_request("'" + param + ".content': there is none", param + ".content");
    return;  // results alone
  }
  json::object made{{"role", *role}, {"content", text}};
  if (!reasoning.empty()) made["reasoning_content"] = reasoning;
  if (!calls.empty()) made["tool_calls"] = std::move(calls);
  out.push_back(std::move(made));
}

json::array openai_tools(const json::value& tools) {
  if (tools.is_null()) return {};
  if (!tools.is_array()) bad_request("'tools': expected a list", "tools");
  json::array out;
  for (const json::value& tool : tools.get_array()) {
    const json::object* t = tool.if_object();
    const json::value* name = t != nullptr ? find(*t, "name") : nullptr;
    const json::value* schema = t != nullptr ? find(*t, "input_schema") : nullptr;
    if (name == nullptr || schema == nullptr)
      bad_request("'tools': expected {\"name\", \"input_schema\"}", "tools");
    json::object function{{"name", *name}};
    if (const json::value* description = find(*t, "description")) function["description"] = *description;
    function["parameters"] = *schema;
    out.push_back(json::object{{"type", "function"}, {"function", std::move(function)}});
  }
  return read_tools(out);
}

void read_choice(const json::value& choice, ChatRequest& r) {
  if (choice.is_null()) return;
  const json::object* o = choice.if_object();
  const json::value* type = o != nullptr ? find(*o, "type") : nullptr;
  const std::string_view kind = type != nullptr && type->is_string() ? text_of(*type) : std::string_view();
  if (kind == "any")
    r.tool_choice = {ToolChoice::kRequired, ""};
  else if (kind == "none")
    r.tool_choice = {ToolChoice::kNone, ""};
  else if (kind == "tool")
    r.tool_choice = {ToolChoice::kNamed, member_text(*o, "name", "tool_choice")};
  else if (kind != "auto")
    bad_request("'tool_choice': expected a type of auto, any, tool or none", "tool_choice");
  if (const json::value* one = find(*o, "disable_parallel_tool_use")) {
    if (!one->is_bool())
      bad_request("'tool_choice.disable_parallel_tool_use': expected true or false", "tool_choice");
    r.parallel_calls = !one->get_bool();
  }
}

void read_thinking(const Service& service, const json::value& thinking, ChatRequest& r) {
  if (thinking.is_null()) return;
  const json::object* o = thinking.if_object();
  const json::value* type = o != nullptr ? find(*o, "type") : nullptr;
  const std::string_view kind = type != nullptr && type->is_string() ? text_of(*type) : std::string_view();
  if (kind == "disabled") {
    r.thinking = Thinking::kOff;
  } else if (kind == "enabled" || kind == "adaptive") {
    r.thinking = Thinking::kOn;
    if (!service.format.has_switch() && service.format.reasoning_close().empty())
      bad_request("'thinking': this model's template knows no such thing", "thinking");
    const json::value* budget = find(*o, "budget_tokens");
    if (budget == nullptr) return;
    if (!budget->is_int64() || budget->get_int64() < 1)
      bad_request("'thinking.budget_tokens': expected a number of tokens", "thinking");
    r.reasoning_budget = budget->get_int64();
  } else {
    bad_request("'thinking': expected a type of enabled, adaptive or disabled", "thinking");
  }
}

std::shared_ptr<Plan> plan_of(Service& service, const Params& p) {
  ChatRequest r;
  json::array messages;
  if (!p.system.is_null())
    messages.push_back(json::object{{"role", "system"}, {"content", plain_text(p.system, "system")}});
  if (!p.messages.is_array() || p.messages.get_array().empty())
    bad_request("'messages': expected a list with at least one message", "messages");
  for (std::size_t i = 0; i < p.messages.get_array().size(); ++i)
    add_message(messages, p.messages.get_array()[i], i);
  r.input.messages = read_messages(service, messages);
  r.input.tools = openai_tools(p.tools);
  read_choice(p.tool_choice, r);
  read_thinking(service, p.reasoning, r);
  return make_chat_plan(service, p, std::move(r));
}

// ---- Answers ----

const char* stop_reason(const Answer& a) {
  if (a.ending.end == End::kStop) return "stop_sequence";
  const std::string_view reason = finish_reason(a);
  return reason == "length" ? "max_tokens" : reason == "tool_calls" ? "tool_use" : "end_turn";
}

// Arguments that were cut are shown as far as they are an object.
json::value input_of(const std::string& arguments) {
  json::error_code e;
  json::value v = json::parse(arguments, e);
  return e || !v.is_object() ? json::value(json::object()) : v;
}

class MessageFormat : public Format {
 public:
  MessageFormat(Service& service) : service_(service), id_(make_id(service, "msg_")) {}

  json::value whole(const Job& job) override {
    const Answer& a = job.answers()[0];
    json::array content;
    if (!a.reasoning.empty())
      content.push_back(
          json::object{{"type", "thinking"}, {"thinking", text_value(a.reasoning)}, {"signature", ""}});
    if (!a.content.empty() || (content.empty() && a.calls.empty()))
      content.push_back(json::object{{"type", "text"}, {"text", text_value(a.content)}});
    for (const Answer::Call& c : a.calls)
      content.push_back(json::object{
          {"type", "tool_use"}, {"id", c.id}, {"name", c.name}, {"input", input_of(c.arguments)}});
    json::object o = envelope();
    o["content"] = std::move(content);
    o["stop_reason"] = stop_reason(a);
    o["stop_sequence"] = stop_sequence(job);
    o["usage"] = usage(a);
    return o;
  }

  std::string begin(const Job& job) override {
    json::object message = envelope();
    message["content"] = json::array();
    message["stop_reason"] = nullptr;
    message["stop_sequence"] = nullptr;
    message["usage"] = {{"input_tokens", job.plan(0).prompt.ids.size()}, {"output_tokens", 0}};
    return sse("message_start", json::object{{"type", "message_start"}, {"message", std::move(message)}});
  }

  std::string piece(const Job& job, std::size_t, const Piece& piece) override {
    std::string out;
    if (!piece.reasoning.empty()) {
      out += enter(Block::kThinking, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
      out += delta({{"type", "thinking_delta"}, {"thinking", text_value(piece.reasoning)}});
    }
    if (!piece.content.empty()) {
      out += enter(Block::kText, {{"type", "text"}, {"text", ""}});
      out += delta({{"type", "text_delta"}, {"text", text_value(piece.content)}});
    }
    for (const CallPiece& c : piece.calls) {
      if (c.begins) {
        out += leave();
        out += enter(Block::kCall,
                     {{"type", "tool_use"}, {"id", c.id}, {"name", c.name}, {"input", json::object()}});
      }
      if (!c.arguments.empty())
        out += delta({{"type", "input_json_delta"}, {"partial_json", text_value(c.arguments)}});
    }
    return out;
  }

  std::string ended(const Job& job, std::size_t) override {
    const Answer& a = job.answers()[0];
    std::string out;
    if (index_ == 0 && block_ == Block::kNone) out += enter(Block::kText, {{"type", "text"}, {"text", ""}});
    out += leave();
    return out + sse("message_delta",
                     json::object{
                         {"type", "message_delta"},
                         {"delta", {{"stop_reason", stop_reason(a)}, {"stop_sequence", stop_sequence(job)}}},
                         {"usage", usage(a)}});
  }
  std::string finish(const Job&) override {
    return sse("message_stop", json::object{{"type", "message_stop"}});
  }
  std::string failed(const ApiError& error) override {
    return "event: error\ndata: " + anthropic_error(error) + "\n\n";
  }
  std::string error_body(const ApiError& error) override { return anthropic_error(error); }

 private:
  enum class Block { kNone, kThinking, kText, kCall };

  json::object envelope() const {
    return {{"id", id_}, {"type", "message"}, {"role", "assistant"}, {"model", service_.options.model}};
  }
  static json::object usage(const Answer& a) {
    return {{"input_tokens", a.ending.times.prompt_tokens},
            {"cache_read_input_tokens", a.ending.times.kept_tokens},
            {"cache_creation_input_tokens", 0},
            {"output_tokens", a.ending.times.tokens}};
  }
  static json::value stop_sequence(const Job& job) {
    const Answer& a = job.answers()[0];
    const auto& stops = job.plan(0).stops;
    if (a.ending.end != End::kStop || a.ending.stop < 0 ||
        static_cast<std::size_t>(a.ending.stop) >= stops.size())
      return nullptr;
    return text_value(stops[static_cast<std::size_t>(a.ending.stop)]);
  }
  std::string enter(Block block, json::object content) {
    if (block_ == block) return {};
    std::string out = leave();
    block_ = block;
    return out + sse("content_block_start", json::object{{"type", "content_block_start"},
                                                         {"index", index_},
                                                         {"content_block", std::move(content)}});
  }
  std::string leave() {
    if (block_ == Block::kNone) return {};
    block_ = Block::kNone;
    return sse("content_block_stop", json::object{{"type", "content_block_stop"}, {"index", index_++}});
  }
  std::string delta(json::object d) const {
    return sse("content_block_delta",
               json::object{{"type", "content_block_delta"}, {"index", index_}, {"delta", std::move(d)}});
  }

  Service& service_;
  std::string id_;
  Block block_ = Block::kNone;
  std::size_t index_ = 0;
};

}  // namespace

void route_messages(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Params p = read_params(parse_json(exchange->request().body), kMessages, service.options.sampling);
  must_generate(service);
  (void)wants_usage(p);  // it is always there
  if (p.max_tokens < 1) bad_request("'max_tokens': expected a number of tokens", "max_tokens");
  auto job = std::make_shared<Job>(service, exchange, std::make_unique<MessageFormat>(service), p.stream);
  job->add(plan_of(service, p), 0);
  job->ping_every(p.ping_seconds);
  job->start();
}

void route_count_tokens(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Params p = read_params(parse_json(exchange->request().body), kMessages, service.options.sampling);
  const std::shared_ptr<Plan> plan = plan_of(service, p);
  exchange->respond(200, "application/json", dump(json::object{{"input_tokens", plan->prompt.ids.size()}}));
}

}  // namespace gcrt::serve
