#include <signal.h>
#include <unistd.h>

#include "runtime/apps/cli/app.h"
#include "runtime/core/cpu_features.h"

namespace gcrt {

// References that alone link nothing: where nobody asked the linker for a command its function is null, and what only it
// uses stays out with it. The compiler asks for those of --with.
#define COMMAND(kind, name, help) \
  extern "C" [[gnu::weak]] int gc_command_##name(App& app, const Options& options);
#include "runtime/apps/cli/commands.def"
#undef COMMAND

namespace {

Str base_name(const char* path) {
  Str name(path);
  for (size_t i = 0; i < name.size(); ++i)
    if (path[i] == '/') return base_name(path + i + 1);
  return name;
}

using Run = int (*)(App&, const Options&);

// Null: not linked.
Run function_of(Command command) {
  switch (command) {
#define COMMAND(kind, name, help) \
  case Command::kind:             \
    return gc_command_##name;
#include "runtime/apps/cli/commands.def"
#undef COMMAND
  }
  return nullptr;
}

int run(App& app, Command command, const Options& options) {
  if (const Run run = function_of(command)) return run(app, options);
  return app.fail("this file was made without '", command_name(command), "': the compiler's --with adds it");
}

bool can_chat() { return gc_the_model.chat_program != nullptr && function_of(Command::kChat) != nullptr; }

void print_help(App& app, Command command) {
  Output& out = app.out;
  if (command == Command::kComplete || command == Command::kHelp) {
    out.print("usage: ", app.name, " -p TEXT [-n N] [flags]\n       ", app.name, " COMMAND [flags]\n");
    if (can_chat()) out.print("       ", app.name, "      (chats, on a terminal)\n");
    out.print("\ncommands:\n");
    for (const Command each : kCommands)
      if (function_of(each)) out.print("  ", Left{command_name(each), 12}, command_help(each), "\n");
    out.print("\nflags of complete ('", app.name, " help COMMAND' for those of others):\n");
    print_flags(Command::kComplete, out);
    return;
  }
  out.print("usage: ", app.name, " ", command_name(command), command == Command::kTokenize ? " TEXT" : "",
            " [flags]\n", command_help(command), "\n\n");
  print_flags(command, out);
}

bool has_prompt(const Options& o) { return o.prompt || o.file || o.binary_file || o.tokens; }

// What is meant when no command is named.
Command choose_command(const Options& o) {
  if (o.no_chat) return Command::kComplete;
  const bool flags_of_chat = o.system || o.system_file || o.single_turn || o.template_variables;
  if (o.chat || flags_of_chat) return Command::kChat;
  const bool terminal = isatty(0) != 0 && isatty(1) != 0;
  return terminal && !has_prompt(o) && o.words.n == 0 && can_chat() ? Command::kChat : Command::kComplete;
}

}  // namespace

int gc_command_help(App& app, const Options& options) {
  Command command = Command::kComplete;
  if (options.words.n > 1 || (options.words.n == 1 && !find_command(options.words.values[0], &command)))
    return app.fail("there is no command '", options.words.values[options.words.n - 1], "'");
  print_help(app, command);
  return app.done();
}

int print_version(App& app) {
  const char* model = gc_the_model.name[0] ? gc_the_model.name : gc_the_model.architecture;
  app.out.print(gc_the_model.compiler, "\n", Line{model}, ":");
  for (uint32_t i = 0; i < gc_n_programs; ++i) app.out.print(" ", gc_programs[i]->isa);
  app.out.print("\n");
  const BuildId build;
  if (build.n != 0) app.out.print("build ", build.str(), "\n");
  return app.done();
}

int run_cli(int argc, char** argv) {
  App app;
  app.start_ns = now_ns();
  app.memory = app_allocator(&app.failure);
  app.name = argc > 0 ? base_name(argv[0]) : Str("model");
  signal(SIGPIPE, SIG_IGN);  // a closed stdout is an error of write()
  signal(SIGXFSZ, SIG_IGN);  // and so is a file past the limit on its size

  Command command = Command::kComplete;
  const bool named = argc > 1 && find_command(argv[1], &command);
  Options options;
  if (argc > 0 && parse_options(command, argc - named, argv + named, &options, app.note(), !named) != kOk)
    return app.fail(Str(app.message));
  if (options.version) return print_version(app);
  if (options.help) {
    print_help(app, command);
    return app.done();
  }
  if (!named) command = choose_command(options);
  if (command == Command::kComplete && options.words.n == 0 && !has_prompt(options)) {
    if (isatty(0) != 0) return app.fail("nothing to do: -p TEXT continues a text; see '", app.name, " help'");
    options.file = "-";
  }
  return run(app, command, options);
}

}  // namespace gcrt
