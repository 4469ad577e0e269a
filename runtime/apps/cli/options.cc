#include "runtime/apps/cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/apps/cli/output.h"
#include "runtime/base/format.h"

namespace gcrt {
namespace {

// How a value is read and what is stored at the row's offset.
enum class Kind : uint8_t {
  kOn,               // bool true, no value
  kOff,              // bool false, no value
  kText,             // const char*
  kTexts,            // TextList, appended
  kInt,              // int64_t in [low, high]
  kInts,             // IntList in [low, high]
  kReal,             // float, finite
  kSeed,             // uint64_t; -1 is "random"
  kKvType,           // uint32_t GC_KV_*
  kBench,            // uint32_t BenchFormat
  kColor,            // uint32_t Color
  kReasoning,        // uint32_t Reasoning
  kEffort,           // uint32_t Effort
  kReasoningFormat,  // uint32_t ReasoningFormat
};

constexpr uint32_t bit(Command c) { return 1u << static_cast<uint32_t>(c); }
constexpr uint32_t kRun = bit(Command::kComplete), kCha = bit(Command::kChat), kGen = kRun | kCha,
                   kTok = bit(Command::kTokenize), kLog = bit(Command::kLogits), kDum = bit(Command::kDump),
                   kBen = bit(Command::kBench), kInf = bit(Command::kInfo), kPpl = bit(Command::kPerplexity),
                   kAll = (1u << kCommandCount) - 1;
constexpr int64_t kMost = INT32_MAX;

struct Row {
  uint32_t commands;
  const char* names;  // as users write them, blanks between; the first one stands for the flag in messages
  const char* value;  // what help calls the value; null: none
  const char* help;
  Kind kind;
  size_t offset;  // in Options
  int64_t low = 0, high = 0;
};

// clang-format off
#define AT(field) offsetof(Options, field)
constexpr Row kRows[] = {
  // ---- input
  {kRun, "-p --prompt", "TEXT", "text to continue; without one it comes from standard input", Kind::kText, AT(prompt)},
  {kRun, "-f --file", "FILE", "text to continue, from a file (-: standard input); a last newline is left out", Kind::kText, AT(file)},
  {kCha, "-p --prompt", "TEXT", "the first message", Kind::kText, AT(prompt)},
  {kCha, "-f --file", "FILE", "the first message, from a file; a last newline is left out", Kind::kText, AT(file)},
  {kCha, "-sys --system-prompt", "TEXT", "the system's message", Kind::kText, AT(system)},
  {kCha, "-sysf --system-prompt-file", "FILE", "the system's message, from a file", Kind::kText, AT(system_file)},
  {kRun, "-bf --binary-file", "FILE", "the same, byte for byte and without escapes", Kind::kText, AT(binary_file)},
  {kRun | kLog | kDum, "--tokens", "IDS", "token ids, commas between", Kind::kText, AT(tokens)},
  {kLog | kDum, "--tokens-file", "FILE", "token ids from a file (-: standard input), commas or blanks between", Kind::kText, AT(tokens_file)},
  {kTok, "-p --prompt", "TEXT", "the text, which may also stand by itself", Kind::kText, AT(prompt)},
  {kTok, "-f --file", "FILE", "the text, from a file", Kind::kText, AT(file)},
  {kTok, "--stdin", nullptr, "the text, from standard input", Kind::kOn, AT(from_stdin)},
  {kTok, "--special", nullptr, "control tokens written in the text become tokens", Kind::kOn, AT(special)},
  {kTok, "--no-bos", nullptr, "no token for the beginning", Kind::kOff, AT(add_bos)},
  {kGen, "-e --escape", nullptr, "\\n \\t \\r \\\\ \\\" \\' \\xHH in the prompt are escapes (default)", Kind::kOn, AT(escape)},
  {kGen, "--no-escape", nullptr, "they are not", Kind::kOff, AT(escape)},
  // ---- generation
  {kGen, "-n --predict --n-predict", "N", "tokens to generate at most; -1: until the text or the context ends (default)", Kind::kInt, AT(n_predict), -2, kMost},
  {kGen, "--ignore-eos", nullptr, "never end the text", Kind::kOn, AT(ignore_eos)},
  {kGen, "--stop -r --reverse-prompt", "TEXT", "end before this text; may be repeated", Kind::kTexts, AT(stops)},
  {kRun, "--no-display-prompt", nullptr, "print only what is generated", Kind::kOff, AT(display_prompt)},
  {kGen, "-sp --special", nullptr, "print control tokens", Kind::kOn, AT(special)},
  {kRun | kTok, "--ids", nullptr, "print token ids, on one line, commas between", Kind::kOn, AT(ids)},
  {kRun, "-no-cnv --no-conversation", nullptr, "complete, don't chat", Kind::kOn, AT(no_chat)},
  {kCha, "-cnv --conversation", nullptr, "chat: what 'chat' does anyway", Kind::kOn, AT(chat)},
  {kCha, "-st --single-turn", nullptr, "one answer and no more; without -p or -f all of standard input is the message", Kind::kOn, AT(single_turn)},
  {kCha, "--chat-template-kwargs", "JSON", "more variables of the chat template, an object", Kind::kText, AT(template_variables)},
  {kCha, "-rea --reasoning", "WHEN", "on or off, by the template's own switch; auto: as it does by itself (default)", Kind::kReasoning, AT(reasoning)},
  {kCha, "--reasoning-effort", "HOW", "low, medium or high, where the template knows that", Kind::kEffort, AT(reasoning_effort)},
  {kCha, "--reasoning-budget", "N", "tokens of reasoning, then it is closed; -1: any (default)", Kind::kInt, AT(reasoning_budget), -1, kMost},
  {kCha, "--reasoning-format", "HOW", "none: reasoning is part of the answer; auto: it is apart, and only terminals show it (default)", Kind::kReasoningFormat, AT(reasoning_format)},
  {kGen, "--grammar", "TEXT", "what is generated follows this grammar (GBNF)", Kind::kText, AT(grammar)},
  {kGen, "--grammar-file", "FILE", "the same, from a file", Kind::kText, AT(grammar_file)},
  {kGen, "-j --json-schema", "JSON", "what is generated is JSON that fits this schema; {}: any JSON", Kind::kText, AT(json_schema)},
  {kGen, "-jf --json-schema-file", "FILE", "the same, from a file", Kind::kText, AT(json_schema_file)},
  {kGen, "--context-shift", nullptr, "go on when the context is full: the oldest half, in a chat the oldest turns, are forgotten", Kind::kOn, AT(context_shift)},
  {kGen, "--no-context-shift", nullptr, "end there (default)", Kind::kOff, AT(context_shift)},
  {kRun, "--keep", "N", "tokens of the prompt that are not forgotten then; -1: all (default 0)", Kind::kInt, AT(keep), -1, kMost},
  // ---- sampling
  {kGen, "-s --seed", "N", "the same seed gives the same text; -1: random (default)", Kind::kSeed, AT(seed)},
  {kGen, "--samplers", "NAMES", "stages in order (default 'penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature')", Kind::kText, AT(samplers)},
  {kGen, "--sampler-seq --sampling-seq", "LETTERS", "the same by letters (default edskypmxt)", Kind::kText, AT(sampler_letters)},
  {kGen, "-l --logit-bias", "ID+X", "added to a token's logit; ID-X takes off, ID-inf bans; may be repeated", Kind::kTexts, AT(logit_bias)},
  {kGen, "--temp --temperature", "X", "0: always the likeliest token (default 0.8)", Kind::kReal, AT(temp)},
  {kGen, "--top-k", "N", "choose among the N likeliest; 0: all (default 40)", Kind::kInt, AT(top_k), INT32_MIN, kMost},
  {kGen, "--top-p", "X", "choose among the likeliest that together have this probability (default 0.95)", Kind::kReal, AT(top_p)},
  {kGen, "--min-p", "X", "leave out what is less likely than X times the likeliest (default 0.05)", Kind::kReal, AT(min_p)},
  {kGen, "--repeat-penalty", "X", "above 1: repeated tokens become less likely (default 1)", Kind::kReal, AT(repeat_penalty)},
  {kGen, "--repeat-last-n", "N", "tokens that penalties look back on; -1: all (default 64)", Kind::kInt, AT(repeat_last_n), -1, kMost},
  {kGen, "--presence-penalty", "X", "taken off once for a token that was there (default 0)", Kind::kReal, AT(presence_penalty)},
  {kGen, "--frequency-penalty", "X", "taken off for each time that it was there (default 0)", Kind::kReal, AT(frequency_penalty)},
  {kGen, "--typical --typical-p", "X", "choose among tokens about as surprising as expected, together this likely; 1: all (default)", Kind::kReal, AT(typ_p)},
  {kGen, "--top-nsigma --top-n-sigma", "X", "leave out logits this many standard deviations below the greatest; -1: none (default)", Kind::kReal, AT(top_n_sigma)},
  {kGen, "--xtc-probability", "X", "of leaving out the likeliest tokens at a step (default 0)", Kind::kReal, AT(xtc_probability)},
  {kGen, "--xtc-threshold", "X", "what counts as likeliest then; above 0.5: never (default 0.1)", Kind::kReal, AT(xtc_threshold)},
  {kGen, "--dynatemp-range", "X", "temperatures from T-X to T+X, by how even the choice is (default 0)", Kind::kReal, AT(dynatemp_range)},
  {kGen, "--dynatemp-exp", "X", "exponent of that (default 1)", Kind::kReal, AT(dynatemp_exponent)},
  {kGen, "--dry-multiplier", "X", "above 0: tokens that go on with a repetition become less likely (default 0)", Kind::kReal, AT(dry_multiplier)},
  {kGen, "--dry-base", "X", "the longer it is, by a power of this (default 1.75)", Kind::kReal, AT(dry_base)},
  {kGen, "--dry-allowed-length", "N", "of a repetition that costs nothing (default 2)", Kind::kInt, AT(dry_allowed_length), 0, kMost},
  {kGen, "--dry-penalty-last-n", "N", "tokens looked back on; -1: all (default 64)", Kind::kInt, AT(dry_last_n), -1, kMost},
  {kGen, "--dry-sequence-breaker", "TEXT", "ends a repetition, instead of line ends, ':', '\"' and '*'; 'none'; may be repeated", Kind::kTexts, AT(dry_breakers)},
  {kGen, "--mirostat", "N", "1, 2: Mirostat instead of the stages; 0: not (default)", Kind::kInt, AT(mirostat), 0, 2},
  {kGen, "--mirostat-lr", "X", "its learning rate (default 0.1)", Kind::kReal, AT(mirostat_eta)},
  {kGen, "--mirostat-ent", "X", "its target, in bits (default 5)", Kind::kReal, AT(mirostat_tau)},
  {kGen, "--adaptive-target", "X", "of the stage adaptive_p: choose tokens near this probability; -1: any (default)", Kind::kReal, AT(adaptive_target)},
  {kGen, "--adaptive-decay", "X", "of its memory, 0 to 0.99 (default 0.9)", Kind::kReal, AT(adaptive_decay)},
  // ---- logits
  {kLog, "-o --output", "FILE", "where the logits go: little-endian f32 [tokens, vocabulary]", Kind::kText, AT(output)},
  {kLog | kPpl, "--decode", nullptr, "as generated tokens, one by one (default: as a prompt)", Kind::kOn, AT(decode)},
  // ---- dump
  {kDum, "--name", "REGEX", "only values whose name matches (POSIX extended)", Kind::kText, AT(name)},
  {kDum, "-o --output", "FILE", "their values go here too: little-endian f32, in the order of the lines", Kind::kText, AT(output)},
  // ---- perplexity
  {kPpl, "-f --file", "FILE", "the text (-: standard input)", Kind::kText, AT(file)},
  {kPpl, "-c --ctx-size", "N", "tokens of a chunk, of which the second half counts (default 512)", Kind::kInt, AT(n_ctx), 0, kMost},
  {kPpl, "--chunks", "N", "so many chunks at most; -1: all (default)", Kind::kInt, AT(chunks), -1, kMost},
  {kPpl, "--kl-divergence-base --save-all-logits", "FILE", "without --kl-divergence: keep the probabilities there; with it: compare with those", Kind::kText, AT(kl_base)},
  {kPpl, "--kl-divergence", nullptr, "distance from the probabilities in the base, over the tokens that it has", Kind::kOn, AT(kl)},
  // ---- bench
  {kBen, "-p --n-prompt", "N,N", "prompts of so many tokens; 0: none (default 512)", Kind::kInts, AT(bench_prompt), 0, kMost},
  {kBen, "-n --n-gen", "N,N", "generations of so many tokens; 0: none (default 128)", Kind::kInts, AT(bench_gen), 0, kMost},
  {kBen, "-d --n-depth", "N,N", "with so many tokens in the context before (default 0)", Kind::kInts, AT(bench_depth), 0, kMost},
  {kBen, "-npl", "N,N", "generate for so many sequences at once (default 1)", Kind::kInts, AT(bench_sequences), 1, 1024},
  {kBen, "-r --repetitions", "N", "runs of each test (default 5)", Kind::kInt, AT(repetitions), 1, 1000},
  {kBen, "-o --output", "FORMAT", "md, json or csv (default md)", Kind::kBench, AT(bench_format)},
  {kBen, "--no-warmup", nullptr, "no run before those that count", Kind::kOff, AT(warmup)},
  // ---- machine
  {kGen | kLog | kInf, "-c --ctx-size", "N", "tokens of context; 0: the model's own (default)", Kind::kInt, AT(n_ctx), 0, kMost},
  {kGen, "-b --batch-size", "N", "most tokens of a prompt at once; -ub is at most this (default 2048)", Kind::kInt, AT(n_batch), 1, kMost},
  {kGen | kLog | kBen | kInf | kPpl, "-ub --ubatch-size", "N", "tokens of a prompt that are computed together (default 512)", Kind::kInt, AT(n_ubatch), 1, kMost},
  {kGen | kLog | kDum | kBen | kInf | kPpl, "-t --threads", "N", "threads (default: the CPUs that this process may use)", Kind::kInt, AT(threads), -1, 4096},
  {kGen | kLog | kDum | kBen | kPpl, "-ctk --cache-type-k", "TYPE", "of the KV cache: f32, f16, bf16 or q8_0 (default: see info)", Kind::kKvType, AT(cache_k)},
  {kGen | kLog | kDum | kBen | kPpl, "-ctv --cache-type-v", "TYPE", "must be the same, and is unless given", Kind::kKvType, AT(cache_v)},
  {kGen | kLog | kDum | kBen | kInf | kPpl, "--isa", "NAME", "run the code for this instruction set; see info", Kind::kText, AT(isa)},
  {kRun, "--perf", nullptr, "print timings at the end, to standard error (default)", Kind::kOn, AT(perf)},
  {kRun, "--no-perf", nullptr, "don't", Kind::kOff, AT(perf)},
  // ---- the terminal
  {kCha, "-v --verbose --show-timings", nullptr, "tokens and their speed after each answer, to standard error", Kind::kOn, AT(verbose)},
  {kCha, "--verbose-prompt", nullptr, "the ids of each prompt, on one line, commas between, to standard error", Kind::kOn, AT(verbose_prompt)},
  {kCha, "-co --color", "WHEN", "on, off or auto: on a terminal, unless NO_COLOR is set (default)", Kind::kColor, AT(color)},
  {kCha, "-mli --multiline-input", nullptr, "Enter begins a new line, Alt-Enter sends", Kind::kOn, AT(multiline)},
  {kCha, "--simple-io", nullptr, "lines as the terminal gives them: no editing, no colours", Kind::kOn, AT(simple_io)},
  {kInf, "--json", nullptr, "as JSON", Kind::kOn, AT(json)},
  {kAll, "-h --help --usage", nullptr, "this text", Kind::kOn, AT(help)},
  {kGen, "--version", nullptr, "the compiler's version, and the instruction sets", Kind::kOn, AT(version)},
};
#undef AT
// clang-format on
constexpr int kRowCount = sizeof kRows / sizeof kRows[0];

struct CommandName {
  const char* name;
  const char* help;
};
constexpr CommandName kCommandNames[] = {
#define COMMAND(kind, name, help) {name, help},
#include "runtime/apps/cli/commands.def"
#undef COMMAND
};

constexpr const char* kKvNames[GC_KV_TYPES] = {"f32", "f16", "bf16", "q8_0"};
constexpr const char* kBenchFormats[] = {"md", "json", "csv"};
constexpr const char* kColors[] = {"auto", "on", "off"};
constexpr const char* kReasonings[] = {"auto", "on", "off"};
constexpr const char* kEfforts[] = {"default", "low", "medium", "high"};
constexpr const char* kReasoningFormats[] = {"auto", "none"};

// The next of a row's names, without its dashes; empty at the end.
Str next_name(const char** at) {
  while (**at == ' ' || **at == '-') ++*at;
  const char* begin = *at;
  while (**at != 0 && **at != ' ') ++*at;
  return {begin, static_cast<size_t>(*at - begin)};
}
Str first_name(const Row& row) { return {row.names, strcspn(row.names, " ")}; }

// getopt's view of the rows of one command.
struct Getopt {
  static constexpr int kFirst = 256;  // values above any letter
  option longs[3 * kRowCount + 1] = {};
  // "-": arguments come in their order, whatever the environment says; ":": getopt prints nothing.
  char shorts[2 * kRowCount + 3] = "-:";
  int row_of_letter[128] = {};
  char names[8192];

  bool build(uint32_t commands) {
    size_t used = 0, n_long = 0, n_short = 2;
    for (int i = 0; i < kRowCount; ++i) {
      if (!(kRows[i].commands & commands)) continue;
      const char* at = kRows[i].names;
      for (Str name = next_name(&at); !name.empty(); name = next_name(&at)) {
        if (name.size() == 1) {
          shorts[n_short++] = name[0];
          if (kRows[i].value) shorts[n_short++] = ':';
          row_of_letter[static_cast<unsigned char>(name[0]) & 127] = i;
          continue;
        }
        if (has(name, n_long)) continue;
        if (used + name.size() + 1 > sizeof names) return false;
        memcpy(names + used, name.data(), name.size());
        names[used + name.size()] = 0;
        longs[n_long++] = {names + used, kRows[i].value ? required_argument : no_argument, nullptr,
                           kFirst + i};
        used += name.size() + 1;
      }
    }
    shorts[n_short] = 0;
    return true;
  }
  bool has(Str name, size_t n) const {
    for (size_t i = 0; i < n; ++i)
      if (name == longs[i].name) return true;
    return false;
  }
  const Row& row(int value) const {
    return kRows[value >= kFirst ? value - kFirst : row_of_letter[value & 127]];
  }
};

// ---- Near matches ----

constexpr size_t kMostCompared = 32;

size_t edit_distance(Str a, Str b) {
  size_t row[kMostCompared + 1] = {};
  if (a.size() > kMostCompared || b.size() > kMostCompared) return SIZE_MAX;
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t change = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = min_of(change, min_of(row[j], row[j + 1]) + 1);
    }
  }
  return row[b.size()];
}

// Says of an unknown flag what it may have meant: another command's, or this command's nearest name.
void explain_unknown(uint32_t commands, const char* argument, Span<char> message) {
  const Str word(argument, strcspn(argument, "="));
  Str bare = word;
  while (bare.starts_with("-")) bare = bare.sub(1);
  Writer w(message.data(), message.size());
  format(w, "unknown flag '", word, "'");
  Str nearest;
  size_t distance = bare.size() < 4 ? 2 : 3;  // less than this is near
  for (const Row& row : kRows) {
    const char* at = row.names;
    for (Str name = next_name(&at); !name.empty(); name = next_name(&at)) {
      const bool ours = row.commands & commands;
      if (!ours && name == bare) {
        const Command other = static_cast<Command>(__builtin_ctz(row.commands));
        format(w, ": it belongs to '", command_name(other), "'");
        return;
      }
      if (!ours || name.size() < 2) continue;
      const size_t d = edit_distance(bare, name);
      if (d >= distance) continue;
      distance = d;
      nearest = name;
    }
  }
  if (!nearest.empty()) format(w, "; did you mean ", nearest.size() > 3 ? "--" : "-", nearest, "?");
}

// ---- Values ----

bool read_int(const char* text, int64_t* out, const char** rest) {
  char* end = nullptr;
  errno = 0;
  *out = strtoll(text, &end, 10);
  *rest = end;
  return end != text && errno == 0 && !isspace(static_cast<unsigned char>(text[0]));
}

// Stores one value; false with a message when it can't be one.
class Setter {
 public:
  Setter(const Row& row, const char* text, Options* options, Span<char> message)
      : row_(row), text_(text), options_(options), message_(message) {}

  bool set() {
    switch (row_.kind) {
      case Kind::kOn:
        *place<bool>() = true;
        return true;
      case Kind::kOff:
        *place<bool>() = false;
        return true;
      case Kind::kText:
        *place<const char*>() = text_;
        return true;
      case Kind::kTexts:
        return add_text(place<TextList>());
      case Kind::kInt:
        return set_int();
      case Kind::kInts:
        return set_ints(place<IntList>());
      case Kind::kReal:
        return set_real();
      case Kind::kSeed:
        return set_seed();
      case Kind::kKvType:
        return set_name(kKvNames, place<uint32_t>());
      case Kind::kBench:
        return set_name(kBenchFormats, place<uint32_t>());
      case Kind::kColor:
        return set_name(kColors, place<uint32_t>());
      case Kind::kReasoning:
        return set_name(kReasonings, place<uint32_t>());
      case Kind::kEffort:
        return set_name(kEfforts, place<uint32_t>());
      case Kind::kReasoningFormat:
        return set_name(kReasoningFormats, place<uint32_t>());
    }
    return false;
  }

 private:
  template <class T>
  T* place() {
    return reinterpret_cast<T*>(reinterpret_cast<char*>(options_) + row_.offset);
  }
  template <class... Parts>
  bool wrong(const Parts&... parts) {
    format_to(message_, first_name(row_), ": ", parts...);
    return false;
  }
  bool in_range(int64_t v) {
    if (v >= row_.low && v <= row_.high) return true;
    return wrong(v, " is out of range: ", row_.low, " to ", row_.high);
  }
  bool add_text(TextList* list) {
    if (list->n == TextList::kMost) return wrong("given more than ", TextList::kMost, " times");
    if (*text_ == 0) return wrong("the text is empty");
    list->values[list->n++] = text_;
    return true;
  }
  bool set_int() {
    const char* rest = nullptr;
    int64_t v = 0;
    if (!read_int(text_, &v, &rest) || *rest) return wrong("'", text_, "' is not a whole number");
    *place<int64_t>() = v;
    return in_range(v);
  }
  bool set_ints(IntList* list) {
    list->n = 0;
    for (const char* at = text_;; ++at) {
      int64_t v = 0;
      if (!read_int(at, &v, &at) || (*at && *at != ','))
        return wrong("'", text_, "' is not a list of whole numbers");
      if (list->n == IntList::kMost) return wrong("more than ", IntList::kMost, " numbers");
      if (!in_range(v)) return false;
      list->values[list->n++] = v;
      if (*at == 0) return true;
    }
  }
  bool set_real() {
    char* end = nullptr;
    const float v = strtof(text_, &end);
    if (end == text_ || *end || !isfinite(v) || isspace(static_cast<unsigned char>(text_[0])))
      return wrong("'", text_, "' is not a number");
    *place<float>() = v;
    return true;
  }
  bool set_seed() {
    options_->random_seed = Str(text_) == "-1";
    if (options_->random_seed) return true;
    char* end = nullptr;
    errno = 0;
    options_->seed = strtoull(text_, &end, 10);
    if (isdigit(static_cast<unsigned char>(text_[0])) && *end == 0 && errno == 0) return true;
    return wrong("'", text_, "' is not a seed: a whole number from 0, or -1");
  }
  template <size_t N>
  bool set_name(const char* const (&names)[N], uint32_t* out) {
    for (uint32_t i = 0; i < N; ++i)
      if (Str(names[i]) == text_) {
        *out = i;
        return true;
      }
    Writer w(message_.data(), message_.size());
    format(w, first_name(row_), ": '", text_, "' is none of");
    for (uint32_t i = 0; i < N; ++i) format(w, i ? ", " : " ", names[i]);
    return false;
  }

  const Row& row_;
  const char* text_;
  Options* options_;
  Span<char> message_;
};

}  // namespace

const char* command_name(Command command) { return kCommandNames[static_cast<uint32_t>(command)].name; }
const char* command_help(Command command) { return kCommandNames[static_cast<uint32_t>(command)].help; }
const char* kv_type_name(uint32_t type) { return type < GC_KV_TYPES ? kKvNames[type] : "?"; }

bool find_command(Str name, Command* command) {
  for (const Command each : kCommands) {
    if (name != command_name(each)) continue;
    *command = each;
    return true;
  }
  return false;
}

Status parse_options(Command command, int argc, char** argv, Options* options, Span<char> message,
                     bool or_chat) {
  const uint32_t commands = bit(command) | (or_chat ? kCha : 0);
  Getopt table;
  if (!table.build(commands)) return kErrArgument;
  auto add_word = [&](const char* word) {
    if (options->words.n == TextList::kMost) {
      format_to(message, "too many arguments");
      return false;
    }
    options->words.values[options->words.n++] = word;
    return true;
  };
  optind = 0;  // a fresh start, whatever was parsed before
  opterr = 0;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread yet
  for (int c = 0; (c = getopt_long_only(argc, argv, table.shorts, table.longs, nullptr)) != -1;) {
    if (c == 1) {
      if (!add_word(optarg)) return kErrInput;
    } else if (c == ':') {
      format_to(message, "'", argv[optind - 1], "' needs a value");
      return kErrInput;
    } else if (c == '?') {
      if (optopt >= Getopt::kFirst)
        format_to(message, first_name(table.row(optopt)), " takes no value");
      else
        explain_unknown(commands, argv[optind - 1], message);
      return kErrInput;
    } else if (!Setter(table.row(c), optarg, options, message).set()) {
      return kErrInput;
    }
  }
  for (; optind < argc; ++optind)
    if (!add_word(argv[optind])) return kErrInput;
  if (options->cache_v == GC_KV_TYPES) options->cache_v = options->cache_k;
  if (options->cache_k == GC_KV_TYPES) options->cache_k = options->cache_v;
  if (options->cache_k == options->cache_v) return kOk;
  format_to(message, "-ctk ", kv_type_name(options->cache_k), " and -ctv ", kv_type_name(options->cache_v),
            ": keys and values have the same type");
  return kErrInput;
}

void print_flags(Command command, Output& out) {
  constexpr size_t kColumn = 32;
  for (const Row& row : kRows) {
    if (!(row.commands & bit(command))) continue;
    char text[64];
    Writer w(text);
    for (const char* at = row.names; *at;) {
      const size_t n = strcspn(at, " ");
      format(w, at == row.names ? "" : ", ", Str(at, n));
      at += n + (at[n] == ' ');
    }
    if (row.value) format(w, " ", row.value);
    out.print("  ", Left{w.text(), kColumn});
    if (w.text().size() > kColumn) out.print("\n  ", Left{"", kColumn});
    out.print("  ", row.help, "\n");
  }
}

}  // namespace gcrt
