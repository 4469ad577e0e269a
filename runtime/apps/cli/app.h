#pragma once
// What the commands share: the program's name, its outputs and errors, reading of inputs, opening of the model.
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "runtime/abi/image.h"
#include "runtime/apps/cli/options.h"
#include "runtime/apps/cli/output.h"
#include "runtime/apps/memory.h"
#include "runtime/base/vec.h"
#include "runtime/core/device.h"
#include "runtime/core/session.h"
#include "runtime/text/tokenizer.h"

namespace gcrt {

constexpr int kExitOk = 0, kExitError = 1, kExitInterrupted = 130;

int64_t now_ns();

struct App {
  Str name;  // as the program was called, without its path
  int64_t start_ns = 0;
  MemoryFailure failure;
  Allocator memory;
  Output out{1}, err{2};
  Device* device = nullptr;  // that the model is on
  char message[512] = "";    // of the function that failed last

  Span<char> note() { return message; }

  // "NAME: error: ..." on one line, whatever is in the parts. Returns the exit code.
  template <class... Parts>
  int fail(const Parts&... parts) {
    char text[1024];
    Writer w(text);
    format(w, parts...);
    return fail_text(w.text(), w.cut());
  }
  int fail_text(Str text, bool cut);
  // For a status whose message may be empty.
  int fail_status(Status status);
  // The exit code of a command whose output is complete: checks that it all could be written.
  int done(int code = kExitOk);
};

// ---- Input ----

// A whole file, "-" is standard input. False after a failure that has been reported.
bool read_input(App& app, const char* path, Vec<char>* out);
// Ids separated by commas and blanks.
bool parse_ids(App& app, Str text, Vec<int32_t>* out);
// The ids of --tokens or --tokens-file, one of which must be there.
bool read_tokens(App& app, const Options& options, Vec<int32_t>* ids);
// \n, \t, \r, \\, \", \', \xHH; anything else stays as it is.
bool unescape(Str text, Vec<char>* out);

// ---- The model ----

bool open_tokenizer(App& app, Tokenizer* tokenizer);
// The program for this CPU or for --isa.
bool open_model(App& app, const Options& options, Model* model);
// Fills what options say of sessions; the command sets outputs and sequences.
SessionOptions session_options(const Options& options);
// Fails for a model that reads whole texts alone.
bool must_generate(App& app, const Model& model);
bool start_session(App& app, const Model& model, const SessionOptions& options, Session* session);

// 32 hexadecimal digits, as `readelf -n` prints them; empty in a program that another linker made.
struct BuildId {
  BuildId();
  Str str() const { return {hex, n}; }
  char hex[2 * sizeof gc_build.id + 1];
  size_t n = 0;
};

// ---- Commands: each returns the exit code ----

#define COMMAND(kind, name, help) extern "C" int gc_command_##name(App& app, const Options& options);
#include "runtime/apps/cli/commands.def"
#undef COMMAND
int print_version(App& app);

// All of main: picks the command, reads its flags, runs it.
int run_cli(int argc, char** argv);

}  // namespace gcrt
