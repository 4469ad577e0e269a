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
  kName,             // const char*, not empty
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
                   kEmb = bit(Command::kEmbed), kPre = bit(Command::kPrefill), kSrv = bit(Command::kServe),
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

#define AT(field) offsetof(Options, field)
constexpr Row kRows[] = {
#include "runtime/apps/cli/options.def"
};
#undef AT
constexpr int kRowCount = sizeof kRows / sizeof kRows[0];

struct CommandName {
  const char* name;
  const char* help;
};
constexpr CommandName kCommandNames[] = {
#define COMMAND(kind, name, help) {#name, help},
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
      case Kind::kName:
        if (*text_ == 0) return wrong("the name is empty");
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
