#pragma once
// The command line: one table (options.cc) with every flag's names, argument, help, commands, range and place in
// Options. Parsing, help and near matches all read it. Names are llama.cpp's where it has the flag.
#include <stdint.h>

#include "runtime/abi/program.h"
#include "runtime/base/span.h"
#include "runtime/base/status.h"

namespace gcrt {

enum class Command : uint8_t {
#define COMMAND(kind, name, help) kind,
#include "runtime/apps/cli/commands.def"
#undef COMMAND
};
constexpr Command kCommands[] = {
#define COMMAND(kind, name, help) Command::kind,
#include "runtime/apps/cli/commands.def"
#undef COMMAND
};
constexpr uint32_t kCommandCount = sizeof kCommands / sizeof kCommands[0];
const char* command_name(Command command);
const char* command_help(Command command);
// False when no command is called so.
bool find_command(Str name, Command* command);

struct IntList {
  static constexpr uint32_t kMost = 32;
  int64_t values[kMost] = {};
  uint32_t n = 0;
};
struct TextList {
  static constexpr uint32_t kMost = 32;
  const char* values[kMost] = {};
  uint32_t n = 0;
};

enum class BenchFormat : uint32_t { kMarkdown, kJson, kCsv };
enum class Color : uint32_t { kAuto, kOn, kOff };
enum class Reasoning : uint32_t { kAuto, kOn, kOff };
enum class Effort : uint32_t { kUnset, kLow, kMedium, kHigh };
enum class ReasoningFormat : uint32_t { kAuto, kNone };

struct Options {
  // Input. Null: not given.
  const char* prompt = nullptr;
  const char* file = nullptr;
  const char* binary_file = nullptr;
  const char* tokens = nullptr;
  const char* tokens_file = nullptr;
  TextList words;  // arguments that are no flags
  bool from_stdin = false;
  bool escape = true;
  // Output.
  const char* output = nullptr;
  const char* name = nullptr;  // a regular expression
  bool display_prompt = true;
  bool special = false;
  bool add_bos = true;
  bool ids = false;
  bool perf = true;
  bool json = false;
  uint32_t bench_format = 0;  // BenchFormat
  // Machine.
  const char* isa = "";
  const char* device = "";  // empty: the file's own choice
  int64_t gpu = -1;         // -1: not said
  int64_t threads = -1;
  int64_t n_ctx = 0;
  int64_t n_batch = 2048;
  int64_t n_ubatch = 0;                                   // 0: the command's own
  uint32_t cache_k = GC_KV_TYPES, cache_v = GC_KV_TYPES;  // GC_KV_TYPES: as the other, or the program's own
  bool decode = false;
  const char* pooling = nullptr;  // of embeddings; null: the model's own
  const char* query = nullptr;
  const char* weights = nullptr;  // a section of the image
  int64_t normalize = 2;
  // Generation.
  int64_t n_predict = -1;
  bool ignore_eos = false;
  TextList stops;
  const char* grammar = nullptr;
  const char* grammar_file = nullptr;
  const char* json_schema = nullptr;
  const char* json_schema_file = nullptr;
  bool context_shift = false;
  int64_t keep = 0;
  // Chat.
  bool chat = false, no_chat = false;
  const char* system = nullptr;
  const char* system_file = nullptr;
  const char* template_variables = nullptr;  // JSON
  uint32_t reasoning = 0;                    // Reasoning
  uint32_t reasoning_effort = 0;             // Effort
  uint32_t reasoning_format = 0;             // ReasoningFormat
  int64_t reasoning_budget = -1;
  bool single_turn = false;
  bool multiline = false;
  bool simple_io = false;
  bool verbose = false;
  bool verbose_prompt = false;
  uint32_t color = 0;  // Color
  // Sampling. NaN or kUnset: the model's own default, or else the sampler's.
  static constexpr int64_t kUnset = INT64_MIN;
  uint64_t seed = 0;
  bool random_seed = true;
  const char* samplers = nullptr;
  const char* sampler_letters = nullptr;
  TextList logit_bias;
  float temp = __builtin_nanf("");
  float top_p = __builtin_nanf("");
  float min_p = __builtin_nanf("");
  float repeat_penalty = __builtin_nanf("");
  float presence_penalty = 0;
  float frequency_penalty = 0;
  int64_t top_k = kUnset;
  int64_t repeat_last_n = kUnset;
  float dynatemp_range = 0;
  float dynatemp_exponent = 1;
  float typ_p = 1;
  float top_n_sigma = -1;
  float xtc_probability = __builtin_nanf("");
  float xtc_threshold = __builtin_nanf("");
  float dry_multiplier = 0;
  float dry_base = 1.75f;
  int64_t dry_allowed_length = 2;
  int64_t dry_last_n = 64;
  TextList dry_breakers;  // none: the usual ones
  int64_t mirostat = kUnset;
  float mirostat_tau = __builtin_nanf("");
  float mirostat_eta = __builtin_nanf("");
  float adaptive_target = -1;
  float adaptive_decay = 0.9f;
  // Bench.
  IntList bench_prompt, bench_gen, bench_depth, bench_sequences;
  int64_t repetitions = 5;
  int64_t bench_requests = 0, bench_probs = -1;
  bool cache_prompt = true;
  bool warmup = true;
  // Perplexity.
  int64_t chunks = -1;
  const char* kl_base = nullptr;
  bool kl = false;
  // Server.
  const char* host = "127.0.0.1";
  int64_t port = 8080;
  TextList api_keys;
  const char* api_key_file = nullptr;
  int64_t parallel = 4;
  int64_t queue = 256;
  const char* alias = nullptr;
  const char* ssl_certificate = nullptr;
  const char* ssl_key = nullptr;
  TextList cors_origins;
  TextList allowed_hosts;
  const char* slot_save_path = nullptr;
  // Instead of the command.
  bool help = false;
  bool version = false;
};

// argv[0] is skipped. kErrInput: `message` says in one line which argument is wrong and why. `or_chat`: flags of chat are
// taken too; which of the two it is follows from the options.
Status parse_options(Command command, int argc, char** argv, Options* options, Span<char> message,
                     bool or_chat = false);

class Output;
// The flags of a command, in the order of the table.
void print_flags(Command command, Output& out);

const char* kv_type_name(uint32_t type);

}  // namespace gcrt
