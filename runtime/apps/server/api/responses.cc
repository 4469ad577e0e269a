// OpenAI's POST /v1/responses.
#include "runtime/apps/server/api/openai.h"
#include "runtime/apps/server/plan.h"
#include "runtime/apps/server/routes.h"

namespace gcrt::serve {
namespace {

std::string_view text_of(const json::value& v) { return {v.get_string().data(), v.get_string().size()}; }

// ---- Their items as messages ----

std::string item_text(const json::object& item, const char* name, const std::string& param) {
  const json::value* v = find(item, name);
  if (v == nullptr || !v->is_string())
    bad_request("'" + param + "': an item without its '" + name + "'", param);
  return std::string(text_of(*v));
}

// Calls and reasoning are items beside the assistant's message: they become one message again.
json::object& assistant(json::array& messages) {
  if (messages.empty() || messages.back().get_object().at("role") != json::value("assistant"))
    messages.push_back(json::object{{"role", "assistant"}, {"content", ""}});
  return messages.back().get_object();
}

void add_item(json::array& messages, const json::value& v, std::size_t i) {
  const std::string param = "input[" + std::to_string(i) + "]";
  const json::object* item = v.if_object();
  if (item == nullptr) bad_request("'" + param + "': expected an object", param);
  const json::value* type = find(*item, "type");
  const std::string kind = type != nullptr ? item_text(*item, "type", param) : "message";
  if (kind == "message") {
    const json::value* content = find(*item, "content");
    if (content == nullptr) bad_request("'" + param + ".content': there is none", param + ".content");
    messages.push_back(json::object{{"role", item_text(*item, "role", param)}, {"content", *content}});
  } else if (kind == "function_call") {
    json::object& m = assistant(messages);
    if (!m.contains("tool_calls")) m["tool_calls"] = json::array();
    m["tool_calls"].get_array().push_back(json::object{
        {"id", item_text(*item, "call_id", param)},
        {"type", "function"},
        {"function",
         {{"name", item_text(*item, "name", param)}, {"arguments", item_text(*item, "arguments", param)}}}});
  } else if (kind == "function_call_output") {
    const json::value* output = find(*item, "output");
    if (output == nullptr) bad_request("'" + param + ".output': there is none", param + ".output");
    messages.push_back(json::object{
        {"role", "tool"}, {"tool_call_id", item_text(*item, "call_id", param)}, {"content", *output}});
  } else if (kind == "reasoning") {
    const json::value* content = find(*item, "content");
    std::string text;
    if (content != nullptr && content->is_array())
      for (const json::value& part : content->get_array())
        if (part.is_object()) text += item_text(part.get_object(), "text", param);
    if (!text.empty())
      messages.push_back(json::object{{"role", "assistant"}, {"content", ""}, {"reasoning_content", text}});
  } else {
    bad_request("'" + param + "': items of type '" + kind + "' are not supported", param);
  }
}

ChatRequest request_of(const Service& service, Params& p) {
  json::array messages;
  if (!p.instructions.empty())
    messages.push_back(json::object{{"role", "system"}, {"content", p.instructions}});
  if (p.prompt.is_string())
    messages.push_back(json::object{{"role", "user"}, {"content", p.prompt}});
  else if (p.prompt.is_array())
    for (std::size_t i = 0; i < p.prompt.get_array().size(); ++i)
      add_item(messages, p.prompt.get_array()[i], i);
  else
    bad_request("'input': expected a string or a list of items", "input");
  ChatRequest r;
  r.input.messages = read_messages(service, messages);
  r.parallel_calls = p.parallel_tool_calls;
  json::array tools;
  if (!p.tools.is_null() && !p.tools.is_array()) bad_request("'tools': expected a list", "tools");
  if (p.tools.is_array()) {
    for (const json::value& tool : p.tools.get_array()) {
      const json::object* t = tool.if_object();
      if (t == nullptr || item_text(*t, "type", "tools") != "function")
        bad_request("'tools': only tools of type function are supported", "tools");
      json::object function{{"name", item_text(*t, "name", "tools")}};
      for (const char* name : {"description", "parameters"})
        if (const json::value* member = find(*t, name)) function[name] = *member;
      tools.push_back(json::object{{"type", "function"}, {"function", std::move(function)}});
    }
  }
  r.input.tools = read_tools(tools);
  json::value choice = p.tool_choice;
  if (const json::object* o = choice.if_object(); o != nullptr && find(*o, "name") != nullptr)
    choice = json::object{{"type", "function"}, {"function", {{"name", *find(*o, "name")}}}};
  r.tool_choice = read_tool_choice(choice);
  if (!p.reasoning.is_null()) {
    if (!p.reasoning.is_object()) bad_request("'reasoning': expected an object", "reasoning");
    for (const auto& member : p.reasoning.get_object()) {
      const bool known = member.key() == "effort" ||
                         // The reasoning itself is there, so no summary is made of it.
                         (member.key() == "summary" && member.value() == json::value("auto"));
      if (!known && !member.value().is_null())
        bad_request("'reasoning." + std::string(member.key()) + "': this server does not support it",
                    "reasoning." + std::string(member.key()));
    }
    if (const json::value* effort = find(p.reasoning.get_object(), "effort"))
      r.thinking =
          read_effort(service, effort->is_string() ? std::string(text_of(*effort)) : "?", "reasoning.effort");
  }
  // "text": {"format": {...}}
  if (!p.response_format.is_null()) {
    if (!p.response_format.is_object()) bad_request("'text': expected an object", "text");
    for (const auto& member : p.response_format.get_object())
      if (member.key() != "format" && member.key() != "verbosity")
        bad_request("'text." + std::string(member.key()) + "': there is no such thing", "text");
    const json::value* format = find(p.response_format.get_object(), "format");
    if (find(p.response_format.get_object(), "verbosity") != nullptr &&
        *find(p.response_format.get_object(), "verbosity") != json::value("medium"))
      bad_request("'text.verbosity' is not supported by this server", "text.verbosity");
    p.response_format = format != nullptr ? json::value(*format) : json::value(nullptr);
  }
  return r;
}

// ---- Answers ----

class ResponseFormat : public Format {
 public:
  ResponseFormat(Service& service, const Params& p)
      : service_(service), p_(p), id_(make_id(service, "resp_")), created_(now_seconds()) {}

  json::value whole(const Job& job) override {
    const Answer& a = job.answers()[0];
    json::array output;
    if (!a.reasoning.empty())
      output.push_back(reasoning_item(make_id(service_, "rs_"), a.reasoning, "completed"));
    if (!a.content.empty() || a.calls.empty())
      output.push_back(message_item(make_id(service_, "msg_"), a.content, "completed"));
    for (const Answer::Call& c : a.calls)
      output.push_back(call_item(make_id(service_, "fc_"), c, "completed"));
    return response(job, status_of(a), std::move(output));
  }

  std::string begin(const Job& job) override {
    std::string out = event("response.created", {{"response", response(job, "in_progress", {})}});
    return out += event("response.in_progress", {{"response", response(job, "in_progress", {})}});
  }

  std::string piece(const Job&, std::size_t, const Piece& piece) override {
    std::string out;
    if (!piece.reasoning.empty()) {
      out += enter(Item::kReasoning);
      text_ += piece.reasoning;
      out += event("response.reasoning_text.delta",
                   place({{"content_index", 0}, {"delta", text_value(piece.reasoning)}}));
    }
    if (!piece.content.empty()) {
      out += enter(Item::kMessage);
      text_ += piece.content;
      out += event(
          "response.output_text.delta",
          place({{"content_index", 0}, {"delta", text_value(piece.content)}, {"logprobs", json::array()}}));
    }
    for (const CallPiece& c : piece.calls) {
      if (c.begins) {
        out += leave();
        call_ = {c.id, c.name, ""};
        out += enter(Item::kCall);
      }
      if (c.arguments.empty()) continue;
      call_.arguments += c.arguments;
      out += event("response.function_call_arguments.delta", place({{"delta", text_value(c.arguments)}}));
    }
    return out;
  }

  std::string ended(const Job& job, std::size_t) override {
    std::string out;
    if (output_.empty() && item_ == Item::kNone) out += enter(Item::kMessage);
    out += leave();
    const char* status = status_of(job.answers()[0]);
    return out + event(status == std::string_view("completed") ? "response.completed" : "response.incomplete",
                       {{"response", response(job, status, output_)}});
  }
  std::string finish(const Job&) override { return {}; }
  std::string failed(const ApiError& error) override {
    return event("error", {{"code", error.type}, {"message", text_value(error.message)}, {"param", nullptr}});
  }

 private:
  enum class Item { kNone, kReasoning, kMessage, kCall };

  static const char* status_of(const Answer& a) {
    return std::string_view(finish_reason(a)) == "length" ? "incomplete" : "completed";
  }
  static json::object text_part(const std::string& text) {
    return {{"type", "output_text"},
            {"text", text_value(text)},
            {"annotations", json::array()},
            {"logprobs", json::array()}};
  }
  static json::object message_item(const std::string& id, const std::string& text, const char* status) {
    json::object o{{"id", id}, {"type", "message"}, {"role", "assistant"}, {"status", status}};
    o["content"] = json::array();
    if (std::string_view(status) == "completed") o["content"].get_array().push_back(text_part(text));
    return o;
  }
  static json::object reasoning_item(const std::string& id, const std::string& text, const char* status) {
    json::object o{{"id", id}, {"type", "reasoning"}, {"summary", json::array()}, {"status", status}};
    o["content"] = json::array();
    if (std::string_view(status) == "completed")
      o["content"].get_array().push_back(
          json::object{{"type", "reasoning_text"}, {"text", text_value(text)}});
    return o;
  }
  static json::object call_item(const std::string& id, const Answer::Call& c, const char* status) {
    return {{"id", id},        {"type", "function_call"}, {"status", status},
            {"call_id", c.id}, {"name", c.name},          {"arguments", text_value(c.arguments)}};
  }

  json::object response(const Job& job, const char* status, json::array output) const {
    const Answer& a = job.answers()[0];
    json::object o{{"id", id_}, {"object", "response"}, {"created_at", created_}, {"status", status}};
    o["error"] = nullptr;
    o["incomplete_details"] = std::string_view(status) == "incomplete"
                                  ? json::value(json::object{{"reason", "max_output_tokens"}})
                                  : json::value(nullptr);
    o["instructions"] = p_.instructions.empty() ? json::value(nullptr) : json::value(p_.instructions);
    o["max_output_tokens"] = p_.max_tokens >= 0 ? json::value(p_.max_tokens) : json::value(nullptr);
    o["model"] = service_.options.model;
    o["output"] = std::move(output);
    o["parallel_tool_calls"] = p_.parallel_tool_calls;
    o["previous_response_id"] = nullptr;
    o["store"] = false;
    o["temperature"] = p_.temperature;
    o["top_p"] = p_.top_p;
    o["tool_choice"] = p_.tool_choice.is_null() ? json::value("auto") : p_.tool_choice;
    o["tools"] = p_.tools.is_null() ? json::value(json::array()) : p_.tools;
    o["metadata"] = p_.metadata.is_null() ? json::value(json::object()) : p_.metadata;
    if (!a.ended) {
      o["usage"] = nullptr;
      return o;
    }
    const TokenCounts n = count_tokens(job);
    o["usage"] = {{"input_tokens", n.prompt},
                  {"input_tokens_details", {{"cached_tokens", n.cached}}},
                  {"output_tokens", n.completion},
                  {"output_tokens_details", {{"reasoning_tokens", n.reasoning}}},
                  {"total_tokens", n.prompt + n.completion}};
    return o;
  }

  std::string event(const char* type, json::object members) {
    json::object o{{"type", type}, {"sequence_number", sequence_++}};
    for (auto& member : members) o[member.key()] = std::move(member.value());
    return sse(type, o);
  }
  json::object place(json::object members) const {
    members["item_id"] = item_id_;
    members["output_index"] = output_.size();
    return members;
  }
  json::object item(const char* status) const {
    switch (item_) {
      case Item::kReasoning:
        return reasoning_item(item_id_, text_, status);
      case Item::kCall:
        return call_item(item_id_, call_, status);
      case Item::kMessage:
      case Item::kNone:
        break;
    }
    return message_item(item_id_, text_, status);
  }
  std::string enter(Item kind) {
    if (item_ == kind) return {};
    std::string out = leave();
    item_ = kind;
    text_.clear();
    item_id_ = make_id(service_, kind == Item::kReasoning ? "rs_" : kind == Item::kCall ? "fc_" : "msg_");
    out += event("response.output_item.added",
                 {{"output_index", output_.size()}, {"item", item("in_progress")}});
    if (kind == Item::kMessage)
      out += event("response.content_part.added", place({{"content_index", 0}, {"part", text_part("")}}));
    return out;
  }
  std::string leave() {
    std::string out;
    if (item_ == Item::kNone) return out;
    if (item_ == Item::kMessage) {
      out += event("response.output_text.done",
                   place({{"content_index", 0}, {"text", text_value(text_)}, {"logprobs", json::array()}}));
      out += event("response.content_part.done", place({{"content_index", 0}, {"part", text_part(text_)}}));
    } else if (item_ == Item::kReasoning) {
      out +=
          event("response.reasoning_text.done", place({{"content_index", 0}, {"text", text_value(text_)}}));
    } else {
      out += event("response.function_call_arguments.done",
                   place({{"name", call_.name}, {"arguments", text_value(call_.arguments)}}));
    }
    json::object done = item("completed");
    out += event("response.output_item.done", {{"output_index", output_.size()}, {"item", done}});
    output_.push_back(std::move(done));
    item_ = Item::kNone;
    return out;
  }

  Service& service_;
  Params p_;
  std::string id_;
  std::int64_t created_;
  std::uint64_t sequence_ = 0;
  Item item_ = Item::kNone;
  std::string item_id_, text_;
  Answer::Call call_;
  json::array output_;
};

}  // namespace

namespace {

// What is asked and cannot be done is refused before anything is read.
Params read_request(Service& service, const std::shared_ptr<Exchange>& exchange) {
  Params p = read_params(parse_json(exchange->request().body), kResponses, service.options.sampling);
  if (p.top_logprobs > 0) bad_request("'top_logprobs' is not supported by this route", "top_logprobs");
  p.top_logprobs = -1;
  (void)wants_usage(p);  // it is always there
  if (!p.metadata.is_null() && !p.metadata.is_object())
    bad_request("'metadata': expected an object", "metadata");
  for (const std::string& what : p.include)
    if (what != "reasoning.encrypted_content") bad_request("'include': there is no " + what, "include");
  return p;
}

}  // namespace

void route_response_tokens(Service& service, const std::shared_ptr<Exchange>& exchange) {
  Params p = read_request(service, exchange);
  ChatRequest request = request_of(service, p);
  const std::size_t n = make_chat_plan(service, p, std::move(request))->prompt.ids.size();
  exchange->respond(200, "application/json",
                    dump(json::object{{"object", "response.input_tokens"}, {"input_tokens", n}}));
}

void route_responses(Service& service, const std::shared_ptr<Exchange>& exchange) {
  Params p = read_request(service, exchange);
  must_generate(service);
  ChatRequest request = request_of(service, p);
  const std::shared_ptr<Plan> plan = make_chat_plan(service, p, std::move(request));
  auto job = std::make_shared<Job>(service, exchange, std::make_unique<ResponseFormat>(service, p), p.stream);
  job->add(plan, 0);
  job->ping_every(p.ping_seconds);
  job->start();
}

}  // namespace gcrt::serve
