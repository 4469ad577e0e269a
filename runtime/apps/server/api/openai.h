#pragma once
// What OpenAI's APIs have in common.
#include <string>

#include "runtime/apps/server/fields.h"
#include "runtime/apps/server/generation.h"

namespace gcrt::serve {

inline std::string sse(const json::value& v) { return "data: " + dump(v) + "\n\n"; }
inline std::string sse(std::string_view event, const json::value& v) {
  return "event: " + std::string(event) + "\ndata: " + dump(v) + "\n\n";
}

struct TokenCounts {
  std::uint64_t prompt = 0, cached = 0, completion = 0, reasoning = 0;
};
// A prompt of several choices counts once.
TokenCounts count_tokens(const Job& job);
json::object usage_of(const TokenCounts& counts);

// "stop", "length" or "tool_calls".
const char* finish_reason(const Answer& answer);

// {"token", "logprob", "bytes"}, and of `likeliest` "top_logprobs".
json::object prob_json(const TokenProbs& p, bool with_likeliest);
json::array probs_json(const std::vector<TokenProbs>& probs);
// JSON has no infinity: as OpenAI, -9999.
double logprob_number(float logprob);

json::array calls_json(const Answer& answer);

// llama-server's return_progress.
json::object prompt_progress(const Job& job, std::size_t choice, std::size_t done, std::size_t kept);

// "stream_options": {"include_usage": true}. Throws ApiError for options that are none, or without a stream.
bool wants_usage(const Params& params);

}  // namespace gcrt::serve
