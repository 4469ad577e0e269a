// Samplers and generators.
#include "runtime/api/handles.h"

using namespace gcrt;

static_assert(sizeof(gcm_logit_bias) == sizeof(LogitBias) && alignof(gcm_logit_bias) == alignof(LogitBias));
static_assert(static_cast<int>(End::kEog) == GCM_END_TOKEN && static_cast<int>(End::kStop) == GCM_END_STOP &&
              static_cast<int>(End::kLength) == GCM_END_LENGTH &&
              static_cast<int>(End::kContext) == GCM_END_CONTEXT &&
              static_cast<int>(End::kCaller) == GCM_END_CALLBACK &&
              static_cast<int>(End::kAborted) == GCM_END_CANCELLED);

namespace {

float or_else(float of_file, float otherwise) { return of_file == of_file ? of_file : otherwise; }
int32_t or_else(int32_t of_file, int32_t otherwise) { return of_file != GC_UNSET ? of_file : otherwise; }

SamplerOptions sampler_options(const gcm_sampler_options& o) {
  SamplerOptions s;
  s.temperature = o.temperature;
  s.top_k = o.top_k;
  s.top_p = o.top_p;
  s.min_p = o.min_p;
  s.typ_p = o.typ_p;
  s.top_n_sigma = o.top_n_sigma;
  s.repeat_penalty = o.repeat_penalty;
  s.frequency_penalty = o.frequency_penalty;
  s.presence_penalty = o.presence_penalty;
  s.repeat_last_n = o.repeat_last_n;
  s.dynatemp_range = o.dynatemp_range;
  s.dynatemp_exponent = o.dynatemp_exponent;
  s.xtc_probability = o.xtc_probability;
  s.xtc_threshold = o.xtc_threshold;
  s.dry_multiplier = o.dry_multiplier;
  s.dry_base = o.dry_base;
  s.dry_allowed_length = o.dry_allowed_length;
  s.dry_last_n = o.dry_last_n;
  s.mirostat = o.mirostat;
  s.mirostat_tau = o.mirostat_tau;
  s.mirostat_eta = o.mirostat_eta;
  s.adaptive_target = o.adaptive_target;
  s.adaptive_decay = o.adaptive_decay;
  return s;
}

Status constrain(const gcm_generator_options& o, const Tokenizer& tokenizer, GrammarConstraint* grammar,
                 Span<char> message) {
  if (o.grammar == nullptr && o.json_schema == nullptr) return kOk;
  if (o.grammar != nullptr && o.json_schema != nullptr) {
    format_to(message, "a grammar or a JSON schema, not both");
    return kErrArgument;
  }
  if (!tokenizer.available()) {
    format_to(message, "a grammar needs a tokenizer, and the model has none");
    return kErrUnsupported;
  }
  const Status s =
      o.grammar != nullptr
          ? grammar->init(GrammarConstraint::Kind::kGbnf, o.grammar, tokenizer, message)
          : grammar->init(GrammarConstraint::Kind::kJsonSchema, o.json_schema, tokenizer, message);
  if (s == kErrMemory) format_to(message, "out of memory");
  return s;
}

struct Callback {
  gcm_on_token on_token;
  void* user;
  int32_t last = -1;

  static bool token(void* self, int32_t id, Str text) {
    Callback* c = static_cast<Callback*>(self);
    if (id >= 0) c->last = id;
    return c->on_token == nullptr || c->on_token(c->user, id, text.data(), text.size()) == 0;
  }
};

gcm_status generate(gcm_generator* g, Span<const int32_t> tokens, bool whole, gcm_on_token on_token,
                    void* user, gcm_generated* out) {
  if (g == nullptr || (tokens.data() == nullptr && tokens.size() != 0)) return GCM_ERR_ARGUMENT;
  gcm_session* session = g->session;
  session->n_logits = 0;
  session->error[0] = 0;
  Callback callback{on_token, user};
  End end = End::kEog;
  Generator& generator = g->generator;
  const Status s = whole ? generator.generate_whole(tokens, Callback::token, &callback, &end, session->error)
                         : generator.generate(tokens, Callback::token, &callback, &end, session->error);
  if (s != kOk) {
    if (session->error[0] == 0) format_to(session->error, gcm_status_text(s));
    return static_cast<gcm_status>(s);
  }
  if (out == nullptr) return GCM_OK;
  const GenerateTimes& times = g->generator.times();
  gcm_generated result = {};
  result.end = static_cast<int32_t>(end);
  result.last_token = end == End::kEog ? -1 : callback.last;
  result.prompt_tokens = times.prompt_tokens;
  result.tokens = times.tokens;
  result.prompt_ns = times.prompt_ns;
  result.generate_ns = times.generate_ns;
  if (give_result(result, out) == kOk) return GCM_OK;
  return fail(session->error, kErrArgument, "a result of an unknown size");
}

}  // namespace

namespace gcrt {

Status set_up_sampler(const gcm_model& m, const gcm_sampler_options* given, SamplerSetup* setup,
                      Span<char> message) {
  gcm_sampler_options o;
  gcm_sampler_options_init(&m, &o);
  if (take_options(given, &o) != kOk || (o.bias == nullptr && o.n_bias != 0)) {
    format_to(message, "sampler options of an unknown size, or biases that are not there");
    return kErrArgument;
  }
  setup->seed = o.seed;
  setup->bias = {reinterpret_cast<const LogitBias*>(o.bias), o.n_bias};
  const SamplerOptions options = sampler_options(o);
  const char* names = o.chain != nullptr ? o.chain : m.model.facts->samplers;
  const Status s =
      *names ? named_chain(options, names, setup->chain, message) : default_chain(options, setup->chain);
  if (s == kErrMemory) format_to(message, "out of memory");
  return s;
}

}  // namespace gcrt

extern "C" {

void gcm_sampler_options_init(const gcm_model* m, gcm_sampler_options* out) {
  const gc_model& f = m != nullptr ? *m->model.facts : gc_the_model;
  const SamplerOptions d;
  *out = {};
  out->size = sizeof *out;
  out->temperature = or_else(f.temp, d.temperature);
  out->top_k = or_else(f.top_k, d.top_k);
  out->top_p = or_else(f.top_p, d.top_p);
  out->min_p = or_else(f.min_p, d.min_p);
  out->typ_p = d.typ_p;
  out->top_n_sigma = d.top_n_sigma;
  out->repeat_penalty = or_else(f.repeat_penalty, d.repeat_penalty);
  out->frequency_penalty = d.frequency_penalty;
  out->presence_penalty = d.presence_penalty;
  out->repeat_last_n = or_else(f.repeat_last_n, d.repeat_last_n);
  out->dynatemp_range = d.dynatemp_range;
  out->dynatemp_exponent = d.dynatemp_exponent;
  out->xtc_probability = or_else(f.xtc_probability, d.xtc_probability);
  out->xtc_threshold = or_else(f.xtc_threshold, d.xtc_threshold);
  out->dry_multiplier = d.dry_multiplier;
  out->dry_base = d.dry_base;
  out->dry_allowed_length = d.dry_allowed_length;
  out->dry_last_n = d.dry_last_n;
  out->mirostat = or_else(f.mirostat, d.mirostat);
  out->mirostat_tau = or_else(f.mirostat_tau, d.mirostat_tau);
  out->mirostat_eta = or_else(f.mirostat_eta, d.mirostat_eta);
  out->adaptive_target = d.adaptive_target;
  out->adaptive_decay = d.adaptive_decay;
}

gcm_status gcm_sampler_create(const gcm_model* m, const gcm_sampler_options* options, gcm_sampler** out,
                              char* text, size_t text_bytes) {
  const Span<char> message = message_span(text, text_bytes);
  if (m == nullptr || out == nullptr) return fail(message, kErrArgument, "no model, or nowhere to put it");
  *out = nullptr;
  SamplerSetup setup(m->memory);
  if (const Status s = set_up_sampler(*m, options, &setup, message); s != kOk)
    return static_cast<gcm_status>(s);
  const uint32_t n_vocab = m->model.program->n_vocab;
  gcm_sampler* sampler = create<gcm_sampler>(m->memory, n_vocab);
  if (sampler == nullptr) return fail(message, kErrMemory, "out of memory");
  Status s =
      sampler->sampler.init(static_cast<int32_t>(n_vocab), setup.chain, setup.bias, setup.seed, message);
  if (m->tokenizer.available()) sampler->sampler.set_texts(token_texts(m->tokenizer));
  bool dries = false;
  for (const SamplerStage& stage : setup.chain)
    dries |= stage.kind == SamplerKind::kDry && dry_works(stage.dry);
  if (s == kOk && dries && m->tokenizer.available()) {
    DryBreakers breakers(m->memory);
    s = add_breakers(m->tokenizer, {kDryBreakers, sizeof kDryBreakers / sizeof kDryBreakers[0]}, m->memory,
                     breakers);
    if (s == kOk) s = sampler->sampler.set_breakers(breakers);
  }
  if (s == kErrMemory) format_to(message, "out of memory");
  if (s != kOk) {
    gcm_sampler_free(sampler);
    return static_cast<gcm_status>(s);
  }
  *out = sampler;
  return GCM_OK;
}

void gcm_sampler_free(gcm_sampler* s) {
  if (s != nullptr) destroy(s);
}

gcm_status gcm_sample(gcm_sampler* s, const float* logits, int32_t* id) {
  if (s == nullptr || logits == nullptr || id == nullptr) return GCM_ERR_ARGUMENT;
  return static_cast<gcm_status>(s->sampler.sample({logits, s->n_vocab}, id));
}

gcm_status gcm_accept(gcm_sampler* s, int32_t id) {
  if (s == nullptr || id < 0 || static_cast<uint32_t>(id) >= s->n_vocab) return GCM_ERR_ARGUMENT;
  return static_cast<gcm_status>(s->sampler.accept(id));
}

void gcm_sampler_reset(gcm_sampler* s, uint64_t seed) {
  if (s != nullptr) s->sampler.reset(seed);
}

void gcm_generator_options_init(gcm_generator_options* options) {
  *options = {};
  options->size = sizeof *options;
  options->max_tokens = -1;
}

gcm_status gcm_generator_create(gcm_session* session, const gcm_sampler_options* sampling,
                                const gcm_generator_options* given, gcm_generator** out, char* text,
                                size_t text_bytes) {
  const Span<char> message = message_span(text, text_bytes);
  if (session == nullptr || out == nullptr)
    return fail(message, kErrArgument, "no session, or nowhere to put it");
  *out = nullptr;
  gcm_generator_options o;
  gcm_generator_options_init(&o);
  if (take_options(given, &o) != kOk || (o.stops == nullptr && o.n_stops != 0))
    return fail(message, kErrArgument, "generator options of an unknown size, or stops that are not there");
  if (o.seq >= session->session.options().n_seqs)
    return fail(message, kErrArgument, "the session has no sequence ", o.seq);
  const Allocator memory = session->memory;
  SamplerSetup setup(memory);
  if (const Status s = set_up_sampler(*session->model, sampling, &setup, message); s != kOk)
    return static_cast<gcm_status>(s);
  Vec<Str> stops(memory);
  bool ok = true;
  for (size_t i = 0; ok && i < o.n_stops; ++i) ok = stops.push(Str(o.stops[i]));
  gcm_generator* g = ok ? create<gcm_generator>(memory, session) : nullptr;
  if (g == nullptr) return fail(message, kErrMemory, "out of memory");
  GenerateOptions generate;
  generate.max_tokens = o.max_tokens;
  generate.ignore_eog = o.ignore_end != 0;
  generate.show_special = o.show_special != 0;
  generate.seed = setup.seed;
  generate.chain = setup.chain;
  generate.bias = setup.bias;
  generate.stops = stops;
  const Tokenizer* tokenizer = &session->model->tokenizer;
  Status s = constrain(o, *tokenizer, &g->grammar, message);
  generate.constraint = g->grammar.constraint();
  if (s == kOk) s = g->generator.init(&session->session, o.seq, tokenizer, generate, message);
  if (s != kOk) {
    gcm_generator_free(g);
    return static_cast<gcm_status>(s);
  }
  *out = g;
  return GCM_OK;
}

void gcm_generator_free(gcm_generator* g) {
  if (g != nullptr) destroy(g);
}

gcm_status gcm_generate(gcm_generator* g, const int32_t* prompt, size_t n, gcm_on_token on_token, void* user,
                        gcm_generated* out) {
  return generate(g, {prompt, n}, false, on_token, user, out);
}

gcm_status gcm_generate_whole(gcm_generator* g, const int32_t* whole, size_t n, gcm_on_token on_token,
                              void* user, gcm_generated* out) {
  return generate(g, {whole, n}, true, on_token, user, out);
}

}  // extern "C"
