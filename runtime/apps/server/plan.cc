#include "runtime/apps/server/plan.h"

#include <sys/random.h>

#include <cmath>
#include <limits>
#include <new>

#include "runtime/apps/server/forced_call.h"
#include "runtime/apps/server/plain_tools.h"
#include "runtime/core/prompt_cache.h"

namespace gcrt::serve {
namespace {

std::string_view text_of(const json::value& v) { return {v.get_string().data(), v.get_string().size()}; }

std::uint64_t choose_seed(std::int64_t asked) {
  if (asked >= 0) return static_cast<std::uint64_t>(asked);
  std::uint32_t seed = 0;  // 32 bits: short enough to be given again
  if (getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = static_cast<std::uint32_t>(now_seconds());
  return seed;
}

std::vector<SamplerStage> make_chain(const Service& service, const Params& p) {
  const SamplerOptions options = sampler_options(p);
  Vec<SamplerStage> chain;
  char message[256] = "";
  std::string names = service.options.samplers;
  bool letters = false;
  if (p.samplers.is_array()) {
    names.clear();
    for (const json::value& name : p.samplers.get_array()) {
      if (!name.is_string()) bad_request("'samplers': expected names", "samplers");
      names += (names.empty() ? "" : ";") + std::string(text_of(name));
    }
  } else if (p.samplers.is_string()) {
    names = text_of(p.samplers);
    letters = true;
  } else if (!p.samplers.is_null()) {
    bad_request("'samplers': expected a list of names, or letters", "samplers");
  }
  const Status s = letters          ? letter_chain(options, str(names), chain, message)
                   : !names.empty() ? named_chain(options, str(names), chain, message)
                                    : default_chain(options, chain);
  if (s == kErrMemory) throw std::bad_alloc();
  if (s != kOk) bad_request(std::string("'samplers': ") + message, "samplers");
  return {chain.begin(), chain.end()};
}

// An id, as a number or in quotes; -1: it is none.
std::int64_t bias_id(const json::value& v) {
  if (v.is_int64()) return v.get_int64();
  if (!v.is_string() || v.get_string().empty() || v.get_string().size() > 9) return -1;
  std::int64_t n = 0;
  for (const char c : v.get_string()) {
    if (c < '0' || c > '9') return -1;
    n = 10 * n + (c - '0');
  }
  return n;
}

// {"15043": -100}, or [[15043, 1.5], ["text", false]]: a text is all its tokens, false bans.
std::vector<LogitBias> read_bias(const Service& service, const json::value& v) {
  std::vector<LogitBias> out;
  const auto wrong = [](const std::string& what) { bad_request("'logit_bias': " + what, "logit_bias"); };
  const auto add = [&](const json::value& key, const json::value& amount, bool may_be_text) {
    float value = -std::numeric_limits<float>::infinity();
    if (amount.is_number() && std::isfinite(amount.to_number<double>()))
      value = static_cast<float>(amount.to_number<double>());
    else if (amount != json::value(false))
      wrong("expected a number, found " + dump(amount));
    const std::int64_t id = bias_id(key);
    if (id >= 0 && id < static_cast<std::int64_t>(service.facts.n_vocab)) {
      out.push_back({static_cast<std::int32_t>(id), value});
    } else if (may_be_text && key.is_string()) {
      for (const std::int32_t token : tokenize(service, text_of(key), false, true))
        out.push_back({token, value});
    } else {
      wrong("invalid token " + dump(key));
    }
  };
  if (const json::object* object = v.if_object()) {
    for (const auto& member : *object) add(json::value(member.key()), member.value(), false);
  } else if (const json::array* list = v.if_array()) {
    for (const json::value& item : *list) {
      const json::array* pair = item.if_array();
      if (pair == nullptr || pair->size() != 2) wrong("expected [id, number], found " + dump(item));
      add((*pair)[0], (*pair)[1], true);
    }
  } else if (!v.is_null()) {
    wrong("expected an object or a list");
  }
  return out;
}

std::optional<GrammarText> read_grammar(const Params& p) {
  std::optional<GrammarText> grammar = read_response_format(p.response_format, "response_format");
  const int given = grammar.has_value() + !p.grammar.empty() + !p.json_schema.is_null();
  if (given > 1)
    bad_request("more than one of 'grammar', 'json_schema' and 'response_format': they exclude each other",
                "grammar");
  if (!p.grammar.empty()) grammar = {Grammars::Kind::kGbnf, p.grammar, "grammar"};
  if (!p.json_schema.is_null()) grammar = {Grammars::Kind::kJsonSchema, dump(p.json_schema), "json_schema"};
  return grammar;
}

void read_reasoning(Service& service, const ChatRequest& request, Plan& plan, ChatInput& input) {
  Vec<char> switches;
  if (!service.format.append_switches(request.thinking, switches)) throw std::bad_alloc();
  input.switches.assign(switches.begin(), switches.end());
  plan.reasoning_budget = request.reasoning_budget;
  // Where the template cannot be told, reasoning that it opens is closed at once.
  if (request.thinking == Thinking::kOff && !service.format.has_switch()) plan.reasoning_budget = 0;
  const std::string_view close = view(service.format.reasoning_close());
  if (request.reasoning_budget >= 0 && close.empty())
    bad_request("'reasoning_budget': this model's reasoning has no end that could be put in",
                "reasoning_budget");
  plan.reasoning_close = tokenize(service, close, false, true);
}

// The budget of 0 is in the prompt: the engine forces only what follows a token.
void close_reasoning(const Service& service, Plan& plan) {
  const std::string_view close = view(service.format.reasoning_close());
  plan.prompt.ids.insert(plan.prompt.ids.end(), plan.reasoning_close.begin(), plan.reasoning_close.end());
  plan.prompt.text += close;
  plan.output.in_reasoning = false;
}

// What other prompts of this conversation will begin with: found by asking something else.
std::size_t fixed_tokens(const Service& service, const ChatInput& input, const Prompt& prompt) {
  ChatInput other = input;
  const bool system =
      !input.messages.empty() && input.messages[0].get_object().at("role") == json::value("system");
  if (!system && input.tools.empty()) return 0;
  other.messages.clear();
  if (system) other.messages.push_back(input.messages[0]);
  other.messages.push_back(json::object{{"role", "user"}, {"content", "?"}});
  try {
    const Prompt p = render_chat(service, other);
    return common_prefix({p.ids.data(), p.ids.size()}, {prompt.ids.data(), prompt.ids.size()});
  } catch (const ApiError&) {
    return 0;  // a template that refuses the question
  }
}

}  // namespace

std::shared_ptr<Plan> make_plan(Service& service, const Params& p) {
  auto plan = std::make_shared<Plan>();
  plan->chain = make_chain(service, p);
  plan->bias = read_bias(service, p.logit_bias);
  for (const std::string& stop : p.stops)
    if (stop.empty()) bad_request("'stop': a stop string is empty", "stop");
  plan->stops = p.stops;
  plan->breakers = p.dry_breakers;
  plan->own_breakers = p.has_dry_breakers;
  plan->max_tokens = p.max_tokens >= 0 ? p.max_tokens : service.options.n_predict;
  plan->seed = choose_seed(p.seed);
  plan->ignore_eog = p.ignore_eos;
  plan->cache_prompt = p.cache_prompt;
  plan->most_prompt_ms = p.most_prompt_ms;
  plan->most_predict_ms = p.most_predict_ms;
  plan->n_indent = p.n_indent;
  if (p.slot >= static_cast<std::int64_t>(service.engine->slots()))
    bad_request("'id_slot': there are " + std::to_string(service.engine->slots()) + " slots", "id_slot");
  plan->slot = static_cast<std::int32_t>(p.slot);
  plan->n_probs = static_cast<std::int32_t>(std::max(p.top_logprobs, p.n_probs > 0 ? p.n_probs : -1));
  plan->grammar = read_grammar(p);
  return plan;
}

ToolChoice read_tool_choice(const json::value& choice) {
  if (choice.is_null()) return {};
  if (choice.is_string()) {
    const std::string_view kind = text_of(choice);
    if (kind == "auto") return {};
    if (kind == "none") return {ToolChoice::kNone, ""};
    if (kind == "required") return {ToolChoice::kRequired, ""};
  } else if (const json::object* o = choice.if_object()) {
    const json::value* function = find(*o, "function");
    const json::value* name =
        function != nullptr && function->is_object() ? find(function->get_object(), "name") : nullptr;
    if (name != nullptr && name->is_string()) return {ToolChoice::kNamed, std::string(text_of(*name))};
  }
  bad_request(
      "'tool_choice': expected none, auto, required, or {\"type\": \"function\", \"function\": {\"name\": "
      "...}}",
      "tool_choice");
}

std::shared_ptr<Plan> make_chat_plan(Service& service, const Params& p, ChatRequest request) {
  std::shared_ptr<Plan> plan = make_plan(service, p);
  ChatInput& input = request.input;
  if (request.tool_choice.kind == ToolChoice::kNone) input.tools.clear();
  if (!input.tools.empty() && plan->grammar)
    bad_request("a grammar or response format and tools exclude each other", plan->grammar->param);
  const bool forced =
      request.tool_choice.kind == ToolChoice::kRequired || request.tool_choice.kind == ToolChoice::kNamed;
  if (forced && input.tools.empty()) bad_request("'tool_choice': there are no 'tools'", "tool_choice");
  if (!p.template_kwargs.is_null()) {
    if (!p.template_kwargs.is_object())
      bad_request("'chat_template_kwargs': expected an object", "chat_template_kwargs");
    for (const auto& member : p.template_kwargs.get_object()) input.variables[member.key()] = member.value();
  }
  read_reasoning(service, request, *plan, input);
  const json::value& last = input.messages[input.messages.size() - 1];
  // An answer that was begun goes on, as llama-server has it.
  input.continue_final = (p.continue_final_message || p.add_generation_prompt) &&
                         last.get_object().at("role") == json::value("assistant") &&
                         last.get_object().if_contains("tool_calls") == nullptr &&
                         last.get_object().at("content") != json::value("");
  if (p.continue_final_message && !input.continue_final)
    bad_request("'continue_final_message': the last message is no assistant's with a text",
                "continue_final_message");
  input.add_generation_prompt = p.add_generation_prompt;
  const json::array tools = input.tools;
  if (service.writes_tools) write_tools(service, input);
  plan->prompt = render_chat(service, input);
  plan->prompt.fixed = fixed_tokens(service, input, plan->prompt);
  plan->show_special = true;  // marks are special tokens in many formats
  if (!request.reasoning_apart && !forced && tools.empty()) return plan;
  plan->format = service.writes_tools && !tools.empty() ? &service.plain_tools : &service.format;
  plan->output.in_reasoning = !input.continue_final && service.format.opens_reasoning(str(plan->prompt.text));
  plan->output.parallel_calls = request.parallel_calls;
  if (plan->output.in_reasoning && (plan->reasoning_budget == 0 || forced)) close_reasoning(service, *plan);
  if (tools.empty() || !request.parse_calls) return plan;
  const std::string text = dump(tools);
  if (plan->tools.open(str(text)) != kOk) bad_request("'tools': malformed", "tools");
  if (forced) force_call(service, tools, request.tool_choice, *plan);
  return plan;
}

Thinking read_effort(const Service& service, const std::string& effort, const std::string& param) {
  if (effort.empty()) return Thinking::kDefault;
  static constexpr std::pair<std::string_view, Thinking> kEfforts[] = {
      {"none", Thinking::kOff},      {"minimal", Thinking::kLow}, {"low", Thinking::kLow},
      {"medium", Thinking::kMedium}, {"high", Thinking::kHigh},   {"xhigh", Thinking::kHigh}};
  for (const auto& [name, thinking] : kEfforts) {
    if (name != effort) continue;
    if (thinking != Thinking::kOff && !service.format.has_switch())
      bad_request("'" + param + "': this model's template knows no such thing", param);
    return thinking;
  }
  bad_request("'" + param + "': expected none, minimal, low, medium or high", param);
}

std::optional<GrammarText> read_response_format(const json::value& format, const std::string& param) {
  if (format.is_null()) return std::nullopt;
  const json::object* o = format.if_object();
  const json::value* type = o != nullptr ? find(*o, "type") : nullptr;
  const std::string_view kind = type != nullptr && type->is_string() ? text_of(*type) : std::string_view();
  if (kind == "text") return std::nullopt;
  const json::value* schema = nullptr;
  if (kind == "json_object") {
    schema = find(*o, "schema");
    if (schema == nullptr) return GrammarText{Grammars::Kind::kJsonSchema, "{\"type\": \"object\"}", param};
  } else if (kind == "json_schema") {
    const json::value* inner = find(*o, "json_schema");
    schema =
        inner != nullptr && inner->is_object() ? find(inner->get_object(), "schema") : find(*o, "schema");
    if (schema == nullptr) bad_request("'" + param + "': there is no schema", param);
  } else {
    bad_request("'" + param + "': expected a type of text, json_object or json_schema", param);
  }
  return GrammarText{Grammars::Kind::kJsonSchema, dump(*schema), param};
}

}  // namespace gcrt::serve
