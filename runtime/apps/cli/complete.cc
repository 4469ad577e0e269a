// `OUT -p TEXT`: continues a text. The prompt is shown before the model runs, so a long one doesn't look like a hang;
// what is generated is written token by token.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/random.h>

#include "runtime/apps/cli/app.h"
#include "runtime/generate/generator.h"

namespace gcrt {
namespace {

constexpr uint32_t kMostChosen = 256;  // candidates that the head may choose; beyond, all logits are stored

// A signal handler has no argument of ours, so what it stops lies here, for as long as a generation runs.
Session* volatile interruptible = nullptr;

void on_interrupt(int) {
  if (Session* session = interruptible) session->abort();
}

// Ctrl-C ends the generation, a second one the program.
void catch_interrupt(Session* session) {
  interruptible = session;
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

// The prompt as text and as ids.
struct Prompt {
  explicit Prompt(Allocator a) : text(a), ids(a) {}
  Vec<char> text;
  Vec<int32_t> ids;
};

bool read_text(App& app, const Options& options, Vec<char>* out) {
  Vec<char> raw(app.memory);
  const char* path = options.binary_file ? options.binary_file : options.file;
  if (path != nullptr) {
    if (!read_input(app, path, &raw)) return false;
    if (!options.binary_file && str(raw).ends_with("\n")) raw.pop();
  }
  const Str text = path ? str(raw) : Str(options.prompt);
  const bool ok = options.escape && !options.binary_file
                      ? unescape(text, out)
                      : out->append(Span<const char>(text.data(), text.size()));
  if (!ok) app.fail("not enough memory for the prompt");
  return ok;
}

bool read_prompt(App& app, const Options& options, const Tokenizer& tokenizer, Prompt* prompt) {
  const int sources = (options.prompt != nullptr) + (options.file != nullptr) +
                      (options.binary_file != nullptr) + (options.tokens != nullptr);
  if (sources > 1) {
    app.fail("more than one prompt: -p, -f, -bf and --tokens exclude each other");
    return false;
  }
  if (options.tokens) return parse_ids(app, options.tokens, &prompt->ids);
  if (!tokenizer.available()) {
    app.fail("this file has no tokenizer: give token ids with --tokens 1,2,3");
    return false;
  }
  if (!read_text(app, options, &prompt->text)) return false;
  const EncodeOptions encode{.add_special = true, .parse_special = true, .literal = {}};
  const Status s = tokenizer.encode(str(prompt->text), encode, prompt->ids);
  if (s != kOk) app.fail_status(s);
  return s == kOk;
}

float or_default(float given, float of_file, float otherwise) {
  return given == given ? given : of_file == of_file ? of_file : otherwise;
}

int32_t or_default(int64_t given, int32_t of_file, int32_t otherwise) {
  if (given != Options::kUnset) return static_cast<int32_t>(given);
  return of_file != GC_UNSET ? of_file : otherwise;
}

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

bool start_generator(App& app, const Options& options, Session* session, const Tokenizer& tokenizer,
                     Generator* generator) {
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
    generate.show_special = options.special;
    generate.seed = choose_seed(options);
    generate.chain = chain;
    generate.bias = {bias, options.logit_bias.n};
    if (options.dry_breakers.n != 0) generate.dry_breakers = {breakers, n_breakers};
    generate.stops = {stops, options.stops.n};
    s = generator->init(session, 0, &tokenizer, generate, app.note());
  }
  if (s != kOk) app.fail_status(s);
  return s == kOk;
}

// What the callback needs.
struct Stream {
  App* app;
  bool ids;
  bool first = true;       // of the ids on the line
  bool line_open = false;  // the last character was no newline
  int64_t first_ns = 0;    // when the first token came

  void put_id(int32_t id) {
    app->out.print(first ? "" : ",", id);
    first = false;
    line_open = true;
  }
  void put_text(Str text) {
    if (text.empty()) return;
    app->out.print(text);
    line_open = text[text.size() - 1] != '\n';
  }
  static bool token(void* self, int32_t id, Str text) {
    Stream* s = static_cast<Stream*>(self);
    if (s->first_ns == 0) s->first_ns = now_ns();
    if (s->ids && id >= 0) s->put_id(id);
    if (!s->ids) s->put_text(text);
    return s->app->out.flush();
  }
};

double ms(int64_t ns) { return static_cast<double>(ns) * 1e-6; }

void print_rate(Output& err, const char* what, uint64_t tokens, uint64_t steps, int64_t ns) {
  err.print(what, tokens, tokens == 1 ? " token in " : " tokens in ", Fixed{ms(ns), 1}, " ms");
  if (steps != 0 && ns > 0)
    err.print(", ", Fixed{static_cast<double>(steps) * 1e9 / static_cast<double>(ns), 1}, " tokens/s");
  err.print("\n");
}

void print_times(App& app, const Generator& generator, const Stream& stream, int64_t loaded_ns) {
  const GenerateTimes& t = generator.times();
  app.err.print("\nseed:        ", generator.seed(),
                "\nload:        ", Fixed{ms(loaded_ns - app.start_ns), 1}, " ms");
  if (stream.first_ns)
    app.err.print("; first token after ", Fixed{ms(stream.first_ns - app.start_ns), 1}, " ms");
  app.err.print("\n");
  print_rate(app.err, "prompt:      ", t.prompt_tokens, t.prompt_tokens, t.prompt_ns);
  print_rate(app.err, "generation:  ", t.tokens, t.steps, t.generate_ns);
  app.err.print("total:       ", Fixed{ms(now_ns() - app.start_ns), 1}, " ms\n");
  app.err.flush();
}

}  // namespace

int run_complete(App& app, const Options& options) {
  if (options.words.n != 0)
    return app.fail("unexpected argument '", options.words.values[0],
                    "': a prompt is given with -p; see 'help'");
  Model model;
  Tokenizer tokenizer;
  Prompt prompt(app.memory);
  if (!open_model(app, options, &model) || !open_tokenizer(app, &tokenizer)) return kExitError;
  if (!read_prompt(app, options, tokenizer, &prompt)) return kExitError;

  Session session;
  Generator generator(app.memory);
  SessionOptions sizes = session_options(options);
  sizes.most_k = kMostChosen;
  if (!start_session(app, model, sizes, &session)) return kExitError;
  if (!start_generator(app, options, &session, tokenizer, &generator)) return kExitError;
  const int64_t loaded_ns = now_ns();

  Stream stream{&app, options.ids || !tokenizer.available()};
  if (options.display_prompt) {
    if (stream.ids)
      for (int32_t id : prompt.ids) stream.put_id(id);
    else if (options.tokens && tokenizer.decode(prompt.ids, {.special = options.special}, prompt.text) != kOk)
      return app.fail("'--tokens' has an id that the vocabulary doesn't have");
    if (!stream.ids) stream.put_text(str(prompt.text));
    if (!app.out.flush()) return app.done();
  }
  catch_interrupt(&session);
  End end = End::kEog;
  const Status s = generator.generate(prompt.ids, Stream::token, &stream, &end, app.note());
  interruptible = nullptr;
  if (stream.line_open) app.out.print("\n");
  if (s != kOk)
    return s == kErrFull && app.message[0] ? app.fail(Str(app.message), " (-c)") : app.fail_status(s);
  app.out.flush();
  if (end == End::kContext)
    app.err.print(app.name, ": the context of ", session.options().n_ctx, " tokens is full (-c)\n");
  if (options.perf && app.out.ok()) print_times(app, generator, stream, loaded_ns);
  return app.done(end == End::kAborted ? kExitInterrupted : kExitOk);
}

}  // namespace gcrt
