// POST /v1/chat/completions
#include "runtime/apps/server/api/openai.h"
#include "runtime/apps/server/plan.h"
#include "runtime/apps/server/routes.h"

namespace gcrt::serve {
namespace {

class ChatFormat : public Format {
 public:
  ChatFormat(Service& service, const Params& p, bool usage)
      : service_(service),
        usage_(usage),
        probs_(p.logprobs),
        tokens_(p.return_tokens),
        timings_(p.timings_per_token),
        id_(make_id(service, "chatcmpl-")),
        created_(now_seconds()) {}

  json::value whole(const Job& job) override {
    json::array choices;
    for (std::size_t i = 0; i < job.answers().size(); ++i) {
      const Answer& a = job.answers()[i];
      json::object message{{"role", "assistant"}};
      message["content"] =
          a.content.empty() && !a.calls.empty() ? json::value(nullptr) : json::value(text_value(a.content));
      if (!a.reasoning.empty()) message["reasoning_content"] = text_value(a.reasoning);
      if (!a.calls.empty()) message["tool_calls"] = calls_json(a);
      message["refusal"] = nullptr;
      json::object choice{{"index", i},
                          {"message", std::move(message)},
                          {"logprobs", nullptr},
                          {"finish_reason", finish_reason(a)}};
      if (probs_) choice["logprobs"] = logprobs(a.probs);
      if (tokens_) choice["tokens"] = json::value_from(a.ids);
      choices.push_back(std::move(choice));
    }
    json::object o = envelope("chat.completion");
    o["choices"] = std::move(choices);
    o["usage"] = usage_of(count_tokens(job));
    o["timings"] = timings(job.answers()[0].ending.times);
    return o;
  }

  std::string begin(const Job& job) override {
    std::string out;
    for (std::size_t i = 0; i < job.answers().size(); ++i)
      out += chunk(i, {{"role", "assistant"}, {"content", ""}}, nullptr);
    return out;
  }

  std::string piece(const Job& job, std::size_t i, const Piece& piece) override {
    json::object delta;
    if (!piece.reasoning.empty()) delta["reasoning_content"] = text_value(piece.reasoning);
    if (!piece.content.empty()) delta["content"] = text_value(piece.content);
    json::array calls;
    for (const CallPiece& c : piece.calls) {
      json::object call{{"index", c.call}};
      if (c.begins) call["id"] = c.id, call["type"] = "function";
      json::object function;
      if (c.begins) function["name"] = c.name;
      function["arguments"] = text_value(c.arguments);
      call["function"] = std::move(function);
      calls.push_back(std::move(call));
    }
    if (!calls.empty()) delta["tool_calls"] = std::move(calls);
    const bool probs = probs_ && !piece.probs.empty();
    if (delta.empty() && !probs && !tokens_) return {};
    return chunk(i, std::move(delta), nullptr, probs ? &piece.probs : nullptr, tokens_ ? &piece.ids : nullptr,
                 timings_ ? &piece.times : nullptr);
  }

  std::string ended(const Job& job, std::size_t i) override {
    const Answer& a = job.answers()[i];
    return chunk(i, json::object(), finish_reason(a), nullptr, nullptr, &a.ending.times);
  }

  std::string finish(const Job& job) override {
    std::string out;
    if (usage_) {
      json::object o = envelope("chat.completion.chunk");
      o["choices"] = json::array();
      o["usage"] = usage_of(count_tokens(job));
      out = sse(o);
    }
    return out + "data: [DONE]\n\n";
  }

  std::string progress(const Job& job, std::size_t i, std::size_t done, std::size_t kept) override {
    json::object o = envelope("chat.completion.chunk");
    o["choices"] = json::array();
    o["prompt_progress"] = prompt_progress(job, i, done, kept);
    return sse(o);
  }

 private:
  json::object envelope(const char* object) const {
    return {{"id", id_},
            {"object", object},
            {"created", created_},
            {"model", service_.options.model},
            {"system_fingerprint", service_.facts.compiler}};
  }
  static json::object logprobs(const std::vector<TokenProbs>& probs) {
    return {{"content", probs_json(probs)}, {"refusal", nullptr}};
  }
  std::string chunk(std::size_t i, json::object delta, const char* finish,
                    const std::vector<TokenProbs>* probs = nullptr,
                    const std::vector<std::int32_t>* ids = nullptr,
                    const GenerateTimes* times = nullptr) const {
    json::object choice{{"index", i}, {"delta", std::move(delta)}};
    choice["logprobs"] = probs != nullptr ? json::value(logprobs(*probs)) : json::value(nullptr);
    choice["finish_reason"] = finish != nullptr ? json::value(finish) : json::value(nullptr);
    if (ids != nullptr) choice["tokens"] = json::value_from(*ids);
    json::object o = envelope("chat.completion.chunk");
    o["choices"] = json::array{std::move(choice)};
    if (usage_) o["usage"] = nullptr;
    if (times != nullptr) o["timings"] = timings(*times);
    return sse(o);
  }

  Service& service_;
  bool usage_, probs_, tokens_, timings_;
  std::string id_;
  std::int64_t created_;
};

ChatRequest chat_request(const Service& service, const Params& p) {
  ChatRequest r;
  r.input.messages = read_messages(service, p.messages);
  r.input.tools = read_tools(p.tools);
  r.tool_choice = read_tool_choice(p.tool_choice);
  r.parallel_calls = p.parallel_tool_calls;
  r.parse_calls = p.parse_tool_calls;
  r.thinking = read_effort(service, p.reasoning_effort, "reasoning_effort");
  r.reasoning_budget = p.reasoning_budget;
  if (p.reasoning_format != "auto" && p.reasoning_format != "deepseek" && p.reasoning_format != "none")
    bad_request("'reasoning_format': expected auto, deepseek or none", "reasoning_format");
  r.reasoning_apart = p.reasoning_format != "none";
  return r;
}

}  // namespace

void route_chat(Service& service, const std::shared_ptr<Exchange>& exchange) {
  Params p = read_params(parse_json(exchange->request().body), kChat, service.options.sampling);
  must_generate(service);
  if (p.top_logprobs >= 0 && !p.logprobs)
    bad_request("'top_logprobs' needs 'logprobs': true", "top_logprobs");
  if (p.logprobs && p.top_logprobs < 0) p.top_logprobs = 0;
  if (p.n_probs > 0) p.logprobs = true;
  const bool usage = wants_usage(p);
  const std::shared_ptr<Plan> plan = make_chat_plan(service, p, chat_request(service, p));
  auto job =
      std::make_shared<Job>(service, exchange, std::make_unique<ChatFormat>(service, p, usage), p.stream);
  for (std::int64_t i = 0; i < p.n; ++i) job->add(plan, 0);
  if (p.return_progress) job->report_progress();
  job->ping_every(p.ping_seconds);
  job->start();
}

void route_chat_tokens(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Params p = read_params(parse_json(exchange->request().body), kChat, service.options.sampling);
  const std::shared_ptr<Plan> plan = make_chat_plan(service, p, chat_request(service, p));
  exchange->respond(200, "application/json", dump(json::object{{"input_tokens", plan->prompt.ids.size()}}));
}

void route_apply_template(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Params p = read_params(parse_json(exchange->request().body), kTemplate, service.options.sampling);
  const std::shared_ptr<Plan> plan = make_chat_plan(service, p, chat_request(service, p));
  exchange->respond(200, "application/json", dump(json::object{{"prompt", text_value(plan->prompt.text)}}));
}

}  // namespace gcrt::serve
