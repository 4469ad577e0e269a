#include "runtime/apps/server/api/openai.h"

#include <algorithm>

namespace gcrt::serve {

TokenCounts count_tokens(const Job& job) {
  TokenCounts n;
  std::size_t next = 0;
  for (const Answer& a : job.answers()) {
    if (a.prompt >= next)
      n.prompt += a.prompt_tokens(), n.cached += a.ending.times.kept_tokens, next = a.prompt + 1;
    n.completion += a.ending.times.tokens;
    n.reasoning += a.ending.reasoning_tokens;
  }
  return n;
}

json::object usage_of(const TokenCounts& n) {
  return {{"prompt_tokens", n.prompt},
          {"completion_tokens", n.completion},
          {"total_tokens", n.prompt + n.completion},
          {"prompt_tokens_details", {{"cached_tokens", n.cached}}},
          {"completion_tokens_details", {{"reasoning_tokens", n.reasoning}}}};
}

const char* finish_reason(const Answer& answer) {
  switch (answer.ending.end) {
    case End::kLength:
    case End::kContext:
      return "length";
    case End::kEog:
    case End::kStop:
    case End::kCaller:
    case End::kAborted:
      break;
  }
  return answer.calls.empty() ? "stop" : "tool_calls";
}

double logprob_number(float logprob) { return std::max(static_cast<double>(logprob), -9999.0); }

json::object prob_json(const TokenProbs& p, bool with_likeliest) {
  json::array bytes;
  for (const char c : p.bytes) bytes.push_back(static_cast<unsigned char>(c));
  json::object o{
      {"token", text_value(p.bytes)}, {"logprob", logprob_number(p.logprob)}, {"bytes", std::move(bytes)}};
  if (!with_likeliest) return o;
  json::array likeliest;
  for (const TokenProbs& other : p.likeliest) likeliest.push_back(prob_json(other, false));
  o["top_logprobs"] = std::move(likeliest);
  return o;
}

json::array probs_json(const std::vector<TokenProbs>& probs) {
  json::array out;
  for (const TokenProbs& p : probs) out.push_back(prob_json(p, true));
  return out;
}

json::array calls_json(const Answer& answer) {
  json::array out;
  for (const Answer::Call& call : answer.calls)
    out.push_back(
        json::object{{"id", call.id},
                     {"type", "function"},
                     {"function", {{"name", call.name}, {"arguments", text_value(call.arguments)}}}});
  return out;
}

json::object prompt_progress(const Job& job, std::size_t choice, std::size_t done, std::size_t kept) {
  return {{"total", job.plan(choice).prompt.ids.size()}, {"cache", kept}, {"processed", done}};
}

bool wants_usage(const Params& params) {
  const json::value& stream_options = params.stream_options;
  if (stream_options.is_null()) return false;
  if (!params.stream) bad_request("'stream_options' needs 'stream': true", "stream_options");
  const json::object* o = stream_options.if_object();
  if (o == nullptr) bad_request("'stream_options': expected an object", "stream_options");
  bool usage = false;
  for (const auto& member : *o) {
    if (member.key() != "include_usage" && member.key() != "include_obfuscation")
      bad_request("'stream_options': there is no '" + std::string(member.key()) + "'", "stream_options");
    if (!member.value().is_bool()) bad_request("'stream_options': expected true or false", "stream_options");
    if (member.key() == "include_usage") usage = member.value().get_bool();
  }
  return usage;
}

}  // namespace gcrt::serve
