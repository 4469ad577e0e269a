#include "runtime/apps/cli/sampling.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

namespace gcrt {
namespace {

float or_default(float given, float of_file, float otherwise) {
  return given == given ? given : of_file == of_file ? of_file : otherwise;
}

int32_t or_default(int64_t given, int32_t of_file, int32_t otherwise) {
  if (given != Options::kUnset) return static_cast<int32_t>(given);
  return of_file != GC_UNSET ? of_file : otherwise;
}

// The stages that were asked for, or the model's, or the usual ones.
Status make_chain(App& app, const Options& o, const gc_model& model, Vec<SamplerStage>& chain) {
  const SamplerOptions sampling = sampler_options(o, model);
  if (o.samplers) return named_chain(sampling, o.samplers, chain, app.note());
  if (o.sampler_letters) return letter_chain(sampling, o.sampler_letters, chain, app.note());
  return *model.samplers ? named_chain(sampling, model.samplers, chain, app.note())
                         : default_chain(sampling, chain);
}

// "ID+X", "ID-X", "ID-inf".
bool read_bias(App& app, const char* text, LogitBias* bias) {
  char* sign = nullptr;
  char* end = nullptr;
  errno = 0;
  const int64_t id = strtoll(text, &sign, 10);
  const bool has_id = sign != text && errno == 0 && id >= 0 && id <= INT32_MAX;
  const bool has_sign = *sign == '+' || *sign == '-';
  const float value = has_sign ? strtof(sign + 1, &end) : 0;
  if (!has_id || !has_sign || end == sign + 1 || *end != 0 || value != value) {
    app.fail("--logit-bias: '", text, "' is not a token id, + or -, and a number");
    return false;
  }
  *bias = {static_cast<int32_t>(id), *sign == '-' ? -value : value};
  return true;
}

uint64_t choose_seed(const Options& options) {
  uint32_t seed = 0;  // 32 bits: short enough to be typed again
  if (!options.random_seed) return options.seed;
  if (getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = static_cast<uint32_t>(now_ns());
  return seed;
}

}  // namespace

SamplerOptions sampler_options(const Options& o, const gc_model& model) {
  SamplerOptions s;
  s.temperature = or_default(o.temp, model.temp, s.temperature);
  s.top_p = or_default(o.top_p, model.top_p, s.top_p);
  s.min_p = or_default(o.min_p, model.min_p, s.min_p);
  s.repeat_penalty = or_default(o.repeat_penalty, model.repeat_penalty, s.repeat_penalty);
  s.frequency_penalty = o.frequency_penalty;
  s.presence_penalty = o.presence_penalty;
  s.repeat_last_n = or_default(o.repeat_last_n, model.repeat_last_n, s.repeat_last_n);
  s.top_k = or_default(o.top_k, model.top_k, s.top_k);
  s.dynatemp_range = o.dynatemp_range;
  s.dynatemp_exponent = o.dynatemp_exponent;
  s.typ_p = o.typ_p;
  s.top_n_sigma = o.top_n_sigma;
  s.xtc_probability = or_default(o.xtc_probability, model.xtc_probability, s.xtc_probability);
  s.xtc_threshold = or_default(o.xtc_threshold, model.xtc_threshold, s.xtc_threshold);
  s.dry_multiplier = o.dry_multiplier;
  s.dry_base = o.dry_base;
  s.dry_allowed_length = static_cast<int32_t>(o.dry_allowed_length);
  s.dry_last_n = static_cast<int32_t>(o.dry_last_n);
  s.mirostat = or_default(o.mirostat, model.mirostat, s.mirostat);
  s.mirostat_tau = or_default(o.mirostat_tau, model.mirostat_tau, s.mirostat_tau);
  s.mirostat_eta = or_default(o.mirostat_eta, model.mirostat_eta, s.mirostat_eta);
  s.adaptive_target = o.adaptive_target;
  s.adaptive_decay = o.adaptive_decay;
  return s;
}

bool start_grammar(App& app, const Options& options, const Tokenizer& tokenizer, GrammarConstraint* grammar) {
  const char* const texts[] = {options.grammar, options.json_schema};
  const char* const files[] = {options.grammar_file, options.json_schema_file};
  const int given =
      (texts[0] != nullptr) + (texts[1] != nullptr) + (files[0] != nullptr) + (files[1] != nullptr);
  if (given == 0) return true;
  if (given > 1) {
    app.fail("more than one grammar: --grammar, --grammar-file, -j and -jf exclude each other");
    return false;
  }
  if (!tokenizer.available()) {
    app.fail("this file has no tokenizer, which a grammar needs");
    return false;
  }
  const bool schema = texts[1] != nullptr || files[1] != nullptr;
  Vec<char> text(app.memory);
  const char* const path = files[schema];
  if (path != nullptr && !read_input(app, path, &text)) return false;
  app.message[0] = 0;
  const Status s =
      grammar->init(schema ? GrammarConstraint::Kind::kJsonSchema : GrammarConstraint::Kind::kGbnf,
                    path != nullptr ? str(text) : Str(texts[schema]), tokenizer, app.note());
  if (s == kOk) return true;
  if (app.message[0] != 0)
    app.fail(schema ? "the JSON schema: " : "the grammar: ", Str(app.message));
  else
    app.fail_status(s);
  return false;
}

bool start_generator(App& app, const Options& options, Session* session, const Tokenizer& tokenizer,
                     const GeneratorNeeds& needs, Generator* generator) {
  Vec<SamplerStage> chain(app.memory);
  Status s = make_chain(app, options, *session->model().facts, chain);
  LogitBias bias[TextList::kMost];
  for (uint32_t i = 0; i < options.logit_bias.n; ++i)
    if (!read_bias(app, options.logit_bias.values[i], &bias[i])) return false;
  Str breakers[TextList::kMost];
  uint32_t n_breakers = 0;
  for (uint32_t i = 0; i < options.dry_breakers.n; ++i) {
    const Str text = options.dry_breakers.values[i];
    if (text == "none")
      n_breakers = 0;
    else
      breakers[n_breakers++] = text;
  }
  Str stops[TextList::kMost];
  for (uint32_t i = 0; i < options.stops.n; ++i) stops[i] = options.stops.values[i];
  if (s == kOk) {
    GenerateOptions generate;
    generate.max_tokens = options.n_predict;
    generate.ignore_eog = options.ignore_eos;
    generate.show_special = needs.show_special;
    generate.seed = choose_seed(options);
    generate.context_shift = options.context_shift;
    generate.keep = needs.keep;
    generate.constraint = needs.constraint;
    generate.chain = chain;
    generate.bias = {bias, options.logit_bias.n};
    if (options.dry_breakers.n != 0) generate.dry_breakers = {breakers, n_breakers};
    generate.stops = {stops, options.stops.n};
    s = generator->init(session, 0, &tokenizer, generate, app.note());
  }
  if (s != kOk) app.fail_status(s);
  return s == kOk;
}

}  // namespace gcrt
