// POST /v1/completions, and llama-server's own /completion and /infill.
#include "runtime/apps/server/api/openai.h"
#include "runtime/apps/server/infill.h"
#include "runtime/apps/server/plan.h"
#include "runtime/apps/server/routes.h"

namespace gcrt::serve {
namespace {

// ---- OpenAI's ----

class CompletionFormat : public Format {
 public:
  CompletionFormat(Service& service, const Params& p, bool usage)
      : service_(service),
        usage_(usage),
        probs_(p.top_logprobs >= 0 || p.n_probs > 0),
        tokens_(p.return_tokens),
        timings_(p.timings_per_token),
        id_(make_id(service, "cmpl-")),
        created_(now_seconds()) {}

  json::value whole(const Job& job) override {
    json::array choices;
    for (std::size_t i = 0; i < job.answers().size(); ++i) {
      const Answer& a = job.answers()[i];
      std::size_t offset = 0;
      json::object choice{{"index", i}, {"text", text_value(a.content)}, {"finish_reason", finish_reason(a)}};
      choice["logprobs"] = probs_ ? json::value(logprobs(a.probs, &offset)) : json::value(nullptr);
      if (tokens_) choice["tokens"] = json::value_from(a.ids);
      choices.push_back(std::move(choice));
    }
    json::object o = envelope();
    o["choices"] = std::move(choices);
    o["usage"] = usage_of(count_tokens(job));
    o["timings"] = timings(job.answers()[0].ending.times);
    return o;
  }

  std::string piece(const Job& job, std::size_t i, const Piece& piece) override {
    if (offsets_.size() < job.answers().size()) offsets_.resize(job.answers().size());
    const bool probs = probs_ && !piece.probs.empty();
    if (piece.content.empty() && !probs && !tokens_) return {};
    return chunk(i, piece.content, nullptr,
                 probs ? json::value(logprobs(piece.probs, &offsets_[i])) : json::value(nullptr),
                 timings_ ? &piece.times : nullptr, tokens_ ? &piece.ids : nullptr);
  }
  std::string ended(const Job& job, std::size_t i) override {
    return chunk(i, "", finish_reason(job.answers()[i]), nullptr, &job.answers()[i].ending.times, nullptr);
  }
  std::string progress(const Job& job, std::size_t i, std::size_t done, std::size_t kept) override {
    json::object o = envelope();
    o["choices"] = json::array();
    o["prompt_progress"] = prompt_progress(job, i, done, kept);
    return sse(o);
  }
  std::string finish(const Job& job) override {
    std::string out;
    if (usage_) {
      json::object o = envelope();
      o["choices"] = json::array();
      o["usage"] = usage_of(count_tokens(job));
      out = sse(o);
    }
    return out + "data: [DONE]\n\n";
  }

 private:
  json::object envelope() const {
    return {{"id", id_},
            {"object", "text_completion"},
            {"created", created_},
            {"model", service_.options.model},
            {"system_fingerprint", service_.facts.compiler}};
  }
  std::string chunk(std::size_t i, std::string_view text, const char* finish, json::value probs,
                    const GenerateTimes* times, const std::vector<std::int32_t>* ids) const {
    json::object o = envelope();
    json::object choice{{"index", i}, {"text", text_value(text)}, {"logprobs", std::move(probs)}};
    choice["finish_reason"] = finish != nullptr ? json::value(finish) : json::value(nullptr);
    if (ids != nullptr) choice["tokens"] = json::value_from(*ids);
    o["choices"] = json::array{std::move(choice)};
    if (usage_) o["usage"] = nullptr;
    if (times != nullptr) o["timings"] = timings(*times);
    return sse(o);
  }
  static json::object logprobs(const std::vector<TokenProbs>& probs, std::size_t* offset) {
    json::array tokens, values, top, offsets;
    for (const TokenProbs& p : probs) {
      tokens.push_back(text_value(p.bytes));
      values.push_back(logprob_number(p.logprob));
      json::object likeliest;
      for (const TokenProbs& other : p.likeliest)
        likeliest[text_value(other.bytes)] = logprob_number(other.logprob);
      top.push_back(std::move(likeliest));
      offsets.push_back(*offset);
      *offset += p.bytes.size();
    }
    return {{"tokens", tokens}, {"token_logprobs", values}, {"top_logprobs", top}, {"text_offset", offsets}};
  }

  Service& service_;
  bool usage_, probs_, tokens_, timings_;
  std::string id_;
  std::int64_t created_;
  std::vector<std::size_t> offsets_;  // of the next token, in bytes
};

// ---- llama-server's ----

// "timings/prompt_n": a member of a member.
const json::value* member_at(const json::object& o, std::string_view path) {
  const std::size_t slash = path.find('/');
  const json::value* v = o.if_contains(path.substr(0, slash));
  if (v == nullptr || slash == path.npos) return v;
  return v->is_object() ? member_at(v->get_object(), path.substr(slash + 1)) : nullptr;
}

const char* stop_type(const Answer& a) {
  switch (a.ending.end) {
    case End::kStop:
      return "word";
    case End::kLength:
    case End::kContext:
      return "limit";
    case End::kEog:
      return "eos";
    case End::kCaller:
    case End::kAborted:
      break;
  }
  return "none";
}

class NativeFormat : public Format {
 public:
  NativeFormat(Service& service, const Params& p) : service_(service), p_(p) {}

  json::value whole(const Job& job) override {
    if (job.answers().size() == 1) return result(job, 0, false);
    json::array all;
    for (std::size_t i = 0; i < job.answers().size(); ++i) all.push_back(result(job, i, false));
    return all;
  }
  std::string piece(const Job& job, std::size_t i, const Piece& piece) override {
    json::object o{{"index", i},
                   {"content", text_value(piece.content)},
                   {"tokens", json::value_from(piece.ids)},
                   {"stop", false}};
    if (p_.n_probs > 0 && !piece.probs.empty()) o["completion_probabilities"] = probabilities(piece.probs);
    if (p_.timings_per_token) o["timings"] = timings(piece.times);
    return sse(o);
  }
  std::string ended(const Job& job, std::size_t i) override { return sse(result(job, i, true)); }
  std::string finish(const Job& job) override { return {}; }
  std::string progress(const Job& job, std::size_t i, std::size_t done, std::size_t kept) override {
    return sse(json::object{{"index", i},
                            {"content", ""},
                            {"stop", false},
                            {"prompt_progress", prompt_progress(job, i, done, kept)}});
  }

 private:
  static json::array probabilities(const std::vector<TokenProbs>& probs) {
    json::array out;
    for (const TokenProbs& p : probs) {
      json::object o = prob_json(p, true);
      o["id"] = p.id;
      for (std::size_t i = 0; i < p.likeliest.size(); ++i)
        o["top_logprobs"].get_array()[i].get_object()["id"] = p.likeliest[i].id;
      out.push_back(std::move(o));
    }
    return out;
  }
  json::object settings(const Job& job, std::size_t i) const {
    const SamplerOptions s = sampler_options(p_);
    return {{"seed", job.answers()[i].ending.seed},
            {"temperature", float_value(s.temperature)},
            {"dynatemp_range", float_value(s.dynatemp_range)},
            {"dynatemp_exponent", float_value(s.dynatemp_exponent)},
            {"top_k", s.top_k},
            {"top_p", float_value(s.top_p)},
            {"min_p", float_value(s.min_p)},
            {"top_n_sigma", float_value(s.top_n_sigma)},
            {"xtc_probability", float_value(s.xtc_probability)},
            {"xtc_threshold", float_value(s.xtc_threshold)},
            {"typical_p", float_value(s.typ_p)},
            {"repeat_last_n", s.repeat_last_n},
            {"repeat_penalty", float_value(s.repeat_penalty)},
            {"presence_penalty", float_value(s.presence_penalty)},
            {"frequency_penalty", float_value(s.frequency_penalty)},
            {"dry_multiplier", float_value(s.dry_multiplier)},
            {"dry_base", float_value(s.dry_base)},
            {"dry_allowed_length", s.dry_allowed_length},
            {"dry_penalty_last_n", s.dry_last_n},
            {"mirostat", s.mirostat},
            {"mirostat_tau", float_value(s.mirostat_tau)},
            {"mirostat_eta", float_value(s.mirostat_eta)},
            {"max_tokens", job.plan(i).max_tokens},
            {"n_predict", job.plan(i).max_tokens},
            {"n_probs", p_.n_probs},
            {"stop", json::value_from(p_.stops)},
            {"stream", p_.stream},
            {"ignore_eos", p_.ignore_eos},
            {"grammar", p_.grammar}};
  }
  json::object result(const Job& job, std::size_t i, bool streamed) const {
    const Answer& a = job.answers()[i];
    json::object o{{"index", i}, {"content", streamed ? json::string() : text_value(a.content)}};
    o["tokens"] = p_.return_tokens && !streamed ? json::value_from(a.ids) : json::value(json::array());
    o["id_slot"] = a.ending.slot;
    o["stop"] = true;
    o["model"] = service_.options.model;
    o["tokens_predicted"] = a.ending.times.tokens;
    o["tokens_evaluated"] = a.prompt_tokens();
    o["tokens_cached"] = a.ending.times.kept_tokens;
    o["generation_settings"] = settings(job, i);
    o["prompt"] = text_value(job.plan(i).prompt.text);
    o["has_new_line"] = a.content.find('\n') != a.content.npos;
    o["truncated"] = a.ending.end == End::kContext;
    o["stop_type"] = stop_type(a);
    const auto& stops = job.plan(i).stops;
    const bool known = a.ending.end == End::kStop && a.ending.stop >= 0 &&
                       static_cast<std::size_t>(a.ending.stop) < stops.size();
    o["stopping_word"] = known ? text_value(stops[static_cast<std::size_t>(a.ending.stop)]) : json::string();
    if (p_.n_probs > 0 && !streamed) o["completion_probabilities"] = probabilities(a.probs);
    o["timings"] = timings(a.ending.times);
    if (p_.response_fields.empty()) return o;
    json::object chosen;
    for (const std::string& path : p_.response_fields)
      if (const json::value* v = member_at(o, path)) chosen[path] = *v;
    return chosen;
  }

  Service& service_;
  Params p_;
};

void start(Service& service, const std::shared_ptr<Exchange>& exchange, const Params& p,
           std::vector<Prompt> prompts, std::unique_ptr<Format> format) {
  constexpr std::size_t kMostChoices = 256;
  const std::shared_ptr<Plan> plan = make_plan(service, p);
  if (prompts.size() * static_cast<std::size_t>(p.n) > kMostChoices)
    bad_request("at most " + std::to_string(kMostChoices) + " choices at once", "prompt");
  auto job = std::make_shared<Job>(service, exchange, std::move(format), p.stream);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    auto own = i == 0 ? plan : make_plan(service, p);
    own->seed = plan->seed;
    own->prompt = std::move(prompts[i]);
    for (std::int64_t n = 0; n < p.n; ++n) job->add(own, i);
  }
  if (p.return_progress) job->report_progress();
  job->ping_every(p.ping_seconds);
  job->start();
}

}  // namespace

void route_completions(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Params p = read_params(parse_json(exchange->request().body), kCompletion, service.options.sampling);
  must_generate(service);
  const bool usage = wants_usage(p);
  start(service, exchange, p, read_prompts(service, p.prompt, "prompt"),
        std::make_unique<CompletionFormat>(service, p, usage));
}

void route_completion(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Params p = read_params(parse_json(exchange->request().body), kNative, service.options.sampling);
  must_generate(service);
  (void)wants_usage(p);  // it is always there
  start(service, exchange, p, read_prompts(service, p.prompt, "prompt"),
        std::make_unique<NativeFormat>(service, p));
}

void route_infill(Service& service, const std::shared_ptr<Exchange>& exchange) {
  Params p = read_params(parse_json(exchange->request().body), kNative | kInfill, service.options.sampling);
  must_generate(service);
  (void)wants_usage(p);
  std::vector<Prompt> prompts;
  prompts.push_back(infill_prompt(service, p));
  start(service, exchange, p, std::move(prompts), std::make_unique<NativeFormat>(service, p));
}

}  // namespace gcrt::serve
