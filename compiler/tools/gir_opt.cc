// gir_opt FILE.gir [--run pass,pass]: reads a graph, runs passes, prints it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "compiler/base/error.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"
#include "compiler/ir/verify.h"
#include "compiler/passes/pass.h"
#include "compiler/tools/read_file.h"

namespace gc {
namespace {

int run(int argc, char** argv) {
  CLI::App app("Reads a graph of the text IR, runs passes and prints it.");
  std::string file;
  std::vector<std::string> run;
  passes::PassOptions options;
  bool time = false, roles = false, list = false;
  app.add_option("file", file, "a .gir file");
  app.add_option("--run", run, "passes by name, in this order (default: all)")->delimiter(',');
  app.add_option("--dump-after", options.dump_after, "print the graph after these passes, or 'all'")
      ->delimiter(',');
  app.add_option("--disable-pass", options.disabled, "leave out")->delimiter(',');
  app.add_option("--stop-after", options.stop_after, "the last pass to run");
  app.add_flag("--time-passes", time, "seconds of each pass, on stderr");
  app.add_flag("--roles", roles, "print the graph of each role");
  app.add_flag("--list", list, "print the passes");
  CLI11_PARSE(app, argc, argv);
  if (list) {
    for (const passes::PassInfo& pass : passes::all_passes()) printf("%-22s %s\n", pass.name, pass.purpose);
    return 0;
  }
  if (file.empty()) throw_user("a file is needed; see --help");

  ir::Graph g = ir::parse(tools::read_file(file), file);
  ir::verify(g);
  std::vector<Timing> timings;
  options.timings = &timings;
  options.dump = [](std::string_view pass, std::string_view text) {
    printf("; after %.*s\n%.*s\n", int(pass.size()), pass.data(), int(text.size()), text.data());
  };
  if (run.empty()) {
    g = passes::run_passes(std::move(g), options);
  } else {
    for (const std::string& name : run) {
      g = passes::pass_named(name).run(std::move(g));
      ir::verify(g);
    }
  }
  if (roles) {
    for (const ir::Graph& role : passes::split_roles(g)) fputs(ir::print(role).c_str(), stdout);
  } else {
    fputs(ir::print(g).c_str(), stdout);
  }
  if (time)
    for (const Timing& t : timings) fprintf(stderr, "%10.6f s  %s\n", t.seconds, t.name.c_str());
  return 0;
}

}  // namespace
}  // namespace gc

int main(int argc, char** argv) {
  return gc::tools::guarded("gir_opt", [&] { return gc::run(argc, argv); });
}
