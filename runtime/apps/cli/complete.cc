// `OUT -p TEXT`: continues a text. The prompt is shown before the model runs, so a long one doesn't look like a hang;
// what is generated is written token by token.
#include "runtime/apps/cli/app.h"
#include "runtime/apps/cli/sampling.h"
#include "runtime/apps/cli/terminal.h"
#include "runtime/generate/generator.h"

namespace gcrt {
namespace {

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
  if (prompt->text.empty() && options.file != nullptr && Str(options.file) == "-") {
    app.fail("nothing to do: -p TEXT continues a text; see '", app.name, " help'");
    return false;
  }
  const EncodeOptions encode{.add_special = true, .parse_special = true, .literal = {}};
  const Status s = tokenizer.encode(str(prompt->text), encode, prompt->ids);
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

void print_grammar(Output& err, const GrammarConstraint::Times& t) {
  const double mean = t.masks ? static_cast<double>(t.masks_ns) * 1e-3 / static_cast<double>(t.masks) : 0;
  err.print("grammar:     compiled in ", Fixed{ms(t.compile_ns), 1}, " ms, vocabulary sorted in ",
            Fixed{ms(t.vocab_ns), 1}, " ms; masks ", Fixed{mean, 1}, " us each, ",
            Fixed{static_cast<double>(t.worst_mask_ns) * 1e-3, 0}, " us at worst\n");
}

void print_times(App& app, const Generator& generator, const GrammarConstraint& grammar, const Stream& stream,
                 int64_t loaded_ns) {
  const GenerateTimes& t = generator.times();
  app.err.print("\nseed:        ", generator.seed(),
                "\nload:        ", Fixed{ms(loaded_ns - app.start_ns), 1}, " ms");
  if (stream.first_ns)
    app.err.print("; first token after ", Fixed{ms(stream.first_ns - app.start_ns), 1}, " ms");
  app.err.print("\n");
  if (t.kept_tokens != 0) app.err.print("from cache:  ", t.kept_tokens, " tokens of the prompt\n");
  print_rate(app.err, "prompt:      ", t.prompt_tokens, t.prompt_tokens, t.prompt_ns);
  print_rate(app.err, "generation:  ", t.tokens, t.steps, t.generate_ns);
  if (grammar.active()) print_grammar(app.err, grammar.times());
  app.err.print("total:       ", Fixed{ms(now_ns() - app.start_ns), 1}, " ms\n");
  app.err.flush();
}

}  // namespace

int gc_command_complete(App& app, const Options& options) {
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
  if (!must_generate(app, model) || !start_session(app, model, sizes, &session)) return kExitError;
  const size_t bos = tokenizer.available() && !prompt.ids.empty() && prompt.ids[0] == tokenizer.meta().bos;
  const int64_t whole = static_cast<int64_t>(prompt.ids.size());
  const int64_t keep = options.keep < 0 ? whole : max_of(options.keep, static_cast<int64_t>(bos));
  GrammarConstraint grammar(app.memory);
  if (!start_grammar(app, options, tokenizer, &grammar)) return kExitError;
  if (!start_generator(app, options, &session, tokenizer, {keep, options.special, grammar.constraint()},
                       &generator))
    return kExitError;
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
  const Status s = generator.generate_whole(prompt.ids, Stream::token, &stream, &end, app.note());
  release_interrupt();
  if (stream.line_open) app.out.print("\n");
  if (s != kOk)
    return s == kErrFull && app.message[0] ? app.fail(Str(app.message), " (-c)") : app.fail_status(s);
  app.out.flush();
  if (end == End::kContext)
    app.err.print(app.name, ": the context of ", session.options().n_ctx, " tokens is full (-c)\n");
  if (options.perf && app.out.ok()) print_times(app, generator, grammar, stream, loaded_ns);
  return app.done(end == End::kAborted ? kExitInterrupted : kExitOk);
}

}  // namespace gcrt
