// The command line of gguf-compile (CLI11) and the three ways out: success, the user's error (exit 1), our bug (70).
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <new>
#include <string_view>

#include "compiler/base/error.h"
#include "compiler/base/temp_file.h"
#include "compiler/commands.h"
#include "compiler/options.h"
#include "compiler/pipeline.h"
#include "compiler/version.h"
#include "llvm/Support/ErrorHandling.h"

namespace gc {
namespace {

constexpr int kUserError = 1;
constexpr int kBug = 70;

// Temporaries go, the signal does what it does.
void on_signal(int signal) {
  unlink_live_temp_files();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// Ends the process from where nothing can be thrown or allocated. The text is a whole line.
[[noreturn]] void end_with(std::string_view line) {
  unlink_live_temp_files();
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) _exit(kUserError);
  _exit(kUserError);
}

// The input file lost pages that it had.
void on_bus_error(int) { end_with("gguf-compile: error: the model file shrank while it was read\n"); }

// Not by std::bad_alloc: LLVM's frames are compiled without exceptions, to throw through them is to abort.
void on_no_memory() { end_with("gguf-compile: error: out of memory\n"); }

void install_handlers() {
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, on_signal);
  std::signal(SIGBUS, on_bus_error);
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit becomes a write error
  std::signal(SIGPIPE, SIG_IGN);
  std::set_new_handler(on_no_memory);
  llvm::install_bad_alloc_error_handler([](void*, const char*, bool) { on_no_memory(); });  // its malloc
}

const std::map<std::string, Emit> kEmits = {
    {"exe", Emit::kExecutable}, {"obj", Emit::kObject},  {"archive", Emit::kArchive},
    {"shared", Emit::kShared},  {"graph", Emit::kGraph}, {"dot", Emit::kDot},
    {"html", Emit::kHtml},      {"plan", Emit::kPlan},   {"llvm-ir", Emit::kLlvmIr},
    {"asm", Emit::kAssembly},   {"cuda", Emit::kCuda}};

const std::map<std::string, Weights> kWeights = {
    {"auto", Weights::kAuto}, {"embed", Weights::kEmbed}, {"external", Weights::kExternal}};

const std::map<std::string, HeadLayout> kHeadLayouts = {
    {"auto", HeadLayout::kAuto}, {"one", HeadLayout::kOne}, {"two", HeadLayout::kTwo}};

void add_compile_options(CLI::App& app, Options& o, std::vector<std::string>& devices) {
  app.add_option("MODEL.gguf", o.model, "the model (any shard of a split one)");
  app.add_option("-o,--output", o.output, "what to make; for the text kinds of --emit default stdout");
  app.add_option(
         "--emit", o.emit,
         "exe (default); a part of your program: obj, archive, shared; or what is inside: graph, dot, "
         "html, plan, llvm-ir, asm, cuda")
      ->transform(CLI::CheckedTransformer(kEmits).description(""))
      ->type_name("KIND");
  app.add_option("--cpu", o.cpus,
                 "native (default), portable (default for another --target), or names of ISAs or of machines "
                 "(haswell, "
                 "icelake-server, znver4, ...): one file for several, chosen at start")
      ->delimiter(',');
  app.add_option(
         "--device", devices,
         "what an executable has code for: cpu (default), cuda, or cpu,cuda: the GPU where there is one "
         "when it starts, unless its own --device says otherwise")
      ->delimiter(',');
  app.add_option(
         "--cuda-arch", o.cuda_archs,
         "of --device cuda: sm_80, sm_90a, ... (default all); of --emit cuda: cubins and what ptxas says of "
         "each kernel go to --save-temps")
      ->delimiter(',');
  app.add_option("--nvrtc", o.nvrtc, "the library that compiles CUDA, libnvrtc.so.13; default: looked for")
      ->type_name("FILE");
  app.add_flag(
      "--fast-int8", o.fast_int8,
      "multiply prompts in 8 bits on machines without matrix units, for speed: mean KL from the f32 "
      "model 0.0043 instead of 0.0003 or less (Gemma 3 270M), 0.0028 instead of 0.0002 or less (SmolLM2)");
  app.add_option("--target", o.target,
                 target_names(" or ") + ": what the output runs on; default this machine");
  app.add_option("--weights", o.weights,
                 "embed, external (in OUT.weights beside OUT), or auto (default): external for objects and "
                 "archives of 2 GB and more")
      ->transform(CLI::CheckedTransformer(kWeights).description(""))
      ->type_name("KIND");
  app.add_option("--header", o.header, "the C header of an object, archive or shared library; default OUT.h");
  app.add_option("--prefix", o.prefix, "what its functions' names begin with; default from OUT");
  app.add_option("--with", o.with,
                 "the commands that an executable has, commas between (default all; OUT help lists them); "
                 "all,tls: serve "
                 "with TLS too")
      ->delimiter(',');
  app.add_flag("--no-tokenizer", o.no_tokenizer, "leave the tokenizer out: the program runs by token ids");
  app.add_option(
      "--chat-template", o.chat_template,
      "a chat template by name instead of the file's own: chatml, llama3, ... or one of the file's");
  app.add_option("--chat-template-file", o.chat_template_file,
                 "a Jinja chat template instead of the file's own");
  app.add_option(
      "--prompt-cache-file", o.prompt_cache_file,
      "a system's message (of a model without a chat template the beginning of a text): the model computes "
      "its states here, and the output starts from them at once, with the same instruction set and type of "
      "KV cache");
  app.add_flag("--no-template", o.no_template, "no chat template: the program completes texts");
  app.add_option(
         "--head-streams", o.head_layout,
         "a Q8_0 head's upper and lower bits: one stream, or two, of which greedy and top-k tokens need "
         "little of the second; auto (default): two for heads past the caches")
      ->transform(CLI::CheckedTransformer(kHeadLayouts).description(""))
      ->type_name("KIND");
  app.add_option(
      "--tune", o.tune,
      "measure block shapes of this model's products on this machine into a file (a second or two "
      "each), and compile with them if there is an -o; results keep their bits, only speed changes");
  app.add_option("--tuning", o.tuning, "take block shapes from a file that --tune wrote for this model");
  app.add_option("--dump-after", o.dump_after, "print the graph after a pass (or all)")->delimiter(',');
  app.add_option("--disable-pass", o.disabled_passes, "leave a pass out")->delimiter(',');
  app.add_option("--stop-after", o.stop_after, "print the graph after this pass and stop");
  app.add_flag("--time-passes", o.time_passes, "print how long each step took");
  app.add_flag("--verify-ir", o.verify_ir, "check the graph's invariants after every pass");
  app.add_flag("--debug-values", o.debug_values, "nothing is fused: OUT dump shows every value of the graph");
  app.add_flag("--keep-symbols", o.keep_symbols, "for debuggers and profilers");
  app.add_option("--save-temps", o.save_temps,
                 "leave objects and the linker's map, or cubins, in this directory");
  app.add_flag("-q,--quiet", o.quiet, "no progress, no report");
}

// An empty value is a script's variable that was not set, never what someone means.
void check_not_empty(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    for (const std::string& value : option->results())
      if (value.empty()) throw_user(option->get_name(), ": its value is empty");
}

void choose_devices(const std::vector<std::string>& names, Options& o) {
  if (names.empty()) return;
  o.cpu = o.cuda = false;
  for (const std::string& name : names) {
    if (name != "cpu" && name != "cuda")
      throw_user("--device ", quote(name), ": expected cpu, cuda or cpu,cuda");
    (name == "cpu" ? o.cpu : o.cuda) = true;
  }
}

void check_compile_options(const Options& o) {
  if (o.model.empty()) throw_user("no model given; usage: gguf-compile MODEL.gguf -o OUT (see --help)");
  if (!o.tune.empty() && !o.tuning.empty()) throw_user("--tune measures what --tuning would bring");
  if (makes_artifact(o.emit) && o.stop_after.empty() && o.output.empty() && o.tune.empty())
    throw_user("no output given; usage: gguf-compile MODEL.gguf -o OUT");
  if (!makes_library(o.emit) && (!o.header.empty() || !o.prefix.empty()))
    throw_user(o.header.empty() ? "--prefix" : "--header", " is for --emit obj, archive and shared");
  if (o.cuda && o.emit != Emit::kExecutable) throw_user("--device cuda is for executables");
  if (o.emit != Emit::kCuda && !o.cuda && !(o.cuda_archs.empty() && o.nvrtc.empty()))
    throw_user(o.nvrtc.empty() ? "--cuda-arch" : "--nvrtc", " is for --device cuda and --emit cuda");
  if (o.cuda && o.head_layout == HeadLayout::kTwo)
    throw_user("--head-streams two: the kernels of --device cuda read one");
  if (!o.cpu && !(o.tune.empty() && o.tuning.empty() && o.prompt_cache_file.empty() && !o.fast_int8))
    throw_user(
        "--tune, --tuning, --prompt-cache-file and --fast-int8 are for code of the CPU: --device cpu,cuda");
  if (o.emit == Emit::kCuda && !o.cuda_archs.empty() && o.save_temps.empty())
    throw_user("--cuda-arch: the cubins need a directory, --save-temps DIR");
  if (o.emit != Emit::kExecutable && !o.with.empty()) throw_user("--with is for executables");
}

int run(int argc, char** argv) {
  CLI::App app("Compiles a GGUF language model into a program that needs nothing else.");
  app.set_version_flag("--version", kCompiler);
  Options options;
  bool architectures = false, formats = false, costs = false;
  std::vector<std::string> devices;
  add_compile_options(app, options, devices);
  app.add_flag("--list-architectures", architectures, "what general.architecture may be");
  app.add_flag("--list-formats", formats, "tensor types, and which have kernels");
  app.add_flag("--list-costs", costs,
               "measured costs of ways to multiply, and the steps that follow from them");
  Commands commands(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    throw_user(e.what(), " (see --help)");
  }
  check_not_empty(app);
  if (architectures) return list_architectures(std::cout);
  if (formats) return list_formats(std::cout);
  if (costs) return list_costs(std::cout);
  if (const auto code = commands.run(std::cin, std::cout)) return *code;
  choose_devices(devices, options);
  check_compile_options(options);
  compile(options, std::cout, std::cerr);
  return 0;
}

}  // namespace
}  // namespace gc

int main(int argc, char** argv) {
  gc::install_handlers();
  try {
    const int code = gc::run(argc, argv);
    errno = 0;
    std::cout.flush();
    if (std::cout) return code;
    // What failed earlier has left no reason.
    std::cerr << "gguf-compile: error: cannot write standard output"
              << (errno != 0 ? gc::cat(": ", std::strerror(errno)) : "") << "\n";
    return gc::kUserError;
  } catch (const gc::InternalError& e) {
    std::cerr << "gguf-compile: bug: " << e.what()
              << "\nThis is a fault of the compiler; please report it.\n";
    return gc::kBug;
  } catch (const gc::Error& e) {
    std::cerr << "gguf-compile: error: " << e.what() << "\n";
  } catch (const std::bad_alloc&) {  // a length that no allocation was tried for
    gc::on_no_memory();
  }
  return gc::kUserError;
}
