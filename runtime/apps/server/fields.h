#pragma once
// What a request asks for, read by one table (fields.def).
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/apps/server/json.h"
#include "runtime/text/sampler.h"

namespace gcrt::serve {

// Whose request it is, as bits.
enum Api : std::uint32_t {
  kChat = 1,
  kCompletion = 2,  // /v1/completions
  kNative = 4,      // /completion
  kResponses = 8,
  kMessages = 16,  // Anthropic's
  kEmbedding = 32,
  kTokenize = 64,
  kDetokenize = 128,
  kTemplate = 256,
  kSlots = 512,
  kRerank = 1024,
  kInfill = 2048,  // beside kNative
  kTalk = kChat | kResponses | kMessages | kTemplate,
  kGenerate = kChat | kCompletion | kNative | kResponses | kMessages,
  kAll = ~0u,
};

struct Params {
  // JSON as it came; null: not there.
  json::value messages, prompt, system, tools, tool_choice, template_kwargs, stream_options, response_format,
      json_schema, reasoning, samplers, logit_bias, metadata, documents, texts, input_extra;
  std::string instructions, text, grammar, reasoning_effort,
      reasoning_format = "auto", encoding_format = "float", input_prefix, input_suffix;
  bool stream = false, logprobs = false, parallel_tool_calls = true, parse_tool_calls = true;
  bool add_generation_prompt = true, continue_final_message = false;
  bool return_tokens = false, timings_per_token = false, return_progress = false, cache_prompt = true;
  bool ignore_eos = false, add_special = false, parse_special = true, with_pieces = false;
  std::int64_t max_tokens = -1, n = 1, top_logprobs = -1, n_probs = -1, slot = -1, reasoning_budget = -1;
  std::int64_t dimensions = 0, normalize = 2, top_n = 0, n_indent = 0, ping_seconds = 30;
  std::int64_t most_predict_ms = 0, most_prompt_ms = 0;  // 0 or less: no limit
  std::vector<std::string> stops, dry_breakers, response_fields, include;
  bool has_dry_breakers = false;
  // Sampling: the server's defaults until a request says otherwise.
  std::int64_t seed = -1;  // -1: random
  double temperature = 0, top_p = 0, min_p = 0, typ_p = 0, top_n_sigma = 0, xtc_probability = 0,
         xtc_threshold = 0;
  double dynatemp_range = 0, dynatemp_exponent = 0, repeat_penalty = 0, presence_penalty = 0,
         frequency_penalty = 0;
  double dry_multiplier = 0, dry_base = 0, mirostat_tau = 0, mirostat_eta = 0, adaptive_target = 0,
         adaptive_decay = 0;
  std::int64_t top_k = 0, repeat_last_n = 0, dry_allowed_length = 0, dry_last_n = 0, mirostat = 0,
               min_keep = 0;
};

// `apis`: rows of any of them. `defaults`: of sampling. Throws ApiError naming the field.
Params read_params(const json::value& body, std::uint32_t apis, const SamplerOptions& defaults);
SamplerOptions sampler_options(const Params& params);

}  // namespace gcrt::serve
