// gir_run (FILE.gir | MODEL.gguf) --tokens 1,2,3: runs a graph by the interpreter and prints its values, or writes the
// output as raw little-endian f32. Weights of a .gir file come from a seed.
//
//   --decode, --chunk N    tokens in steps of one, of N
//   --context N            positions that a sequence has room for, where RoPE depends on it
//   --passes               after the passes (--disable-pass, --stop-after as the compiler's)
//   --compare              before and after the passes: the first named value where the two part
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "compiler/base/error.h"
#include "compiler/ir/infer.h"
#include "compiler/ir/interpret.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/random_weights.h"
#include "compiler/ir/verify.h"
#include "compiler/passes/pass.h"
#include "compiler/tools/read_file.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/arch/read_rows.h"
#include "frontends/gguf/reader.h"

namespace gc {
namespace {

struct Args {
  std::string file, output, name;
  std::vector<int32_t> tokens;
  int64_t chunk = 0, cache_mib = 1024, context = 0;
  uint64_t seed = 1;
  bool decode = false, run_passes = false, compare = false;
  double tolerance = 1e-6;
  passes::PassOptions options;
};

// A graph and where its weights come from.
struct Source {
  std::unique_ptr<gguf::File> file;
  ir::Graph graph;
  ir::ReadRow weights;
};

Source open(const Args& args) {
  Source s;
  if (args.file.ends_with(".gir")) {
    s.graph = ir::parse(tools::read_file(args.file), args.file);
    s.weights = ir::random_weights(args.seed);
  } else {
    s.file = std::make_unique<gguf::File>(gguf::File::open(args.file));
    gguf::LoadedModel model = gguf::load_model(*s.file);
    for (const std::string& warning : model.warnings)
      fprintf(stderr, "gir_run: warning: %s\n", warning.c_str());
    s.graph = std::move(model.graph);
    s.weights = gguf::read_rows(*s.file);
  }
  ir::verify(s.graph);
  return s;
}

// The rows of all steps, all outputs asked for.
std::vector<std::vector<ir::Row>> steps_of(const Args& args) {
  size_t chunk = args.decode ? 1 : args.chunk > 0 ? size_t(args.chunk) : args.tokens.size();
  std::vector<std::vector<ir::Row>> steps;
  for (size_t t = 0; t < args.tokens.size(); t++) {
    if (t % chunk == 0) steps.emplace_back();
    steps.back().push_back({args.tokens[t], int64_t(t)});
  }
  return steps;
}

void print_value(std::string_view name, const ir::Tensor& t) {
  std::string dims;
  for (int64_t d : t.dims) dims += (dims.empty() ? "" : ", ") + std::to_string(d);
  double sum = 0;
  for (float v : t.data) sum += v;
  std::string first, last;
  size_t n = t.data.size();
  char number[32];
  for (size_t i = 0; i < std::min<size_t>(4, n); i++) {
    snprintf(number, sizeof number, " %.5g", t.data[i]);
    first += number;
    snprintf(number, sizeof number, " %.5g", t.data[n - std::min<size_t>(4, n) + i]);
    last += number;
  }
  printf("%-28.*s [%s] sum %+.6e  first%s  last%s\n", int(name.size()), name.data(), dims.c_str(), sum,
         first.c_str(), last.c_str());
}

// All steps; `see` gets every value. Returns the first output of all steps.
std::vector<float> run_all(const ir::Graph& g, const Source& s, const Args& args, const ir::See& see) {
  ir::Interpreter interpreter(g, s.weights, args.cache_mib << 20);
  interpreter.set_context(args.context);
  std::vector<float> out;
  for (const auto& step : steps_of(args)) {
    auto first = std::move(interpreter.run(step, see)[0].data);
    out.insert(out.end(), first.begin(), first.end());
  }
  return out;
}

double nmse(const std::vector<float>& a, const std::vector<float>& b) {
  double error = 0, size = 1e-30;
  for (size_t i = 0; i < a.size(); i++) {
    error += std::pow(double(a[i]) - b[i], 2);
    size += std::pow(double(a[i]), 2);
  }
  return error / size;
}

// Values of one name mean the same before and after the passes (where they survive and keep their shape).
int compare(const ir::Graph& before, const ir::Graph& after, const Source& s, const Args& args) {
  std::map<std::string, std::vector<std::vector<float>>, std::less<>> known;  // by name and step
  std::map<std::string, size_t, std::less<>> seen;
  std::vector<float> a = run_all(before, s, args, [&](std::string_view name, const ir::Tensor& t) {
    known[std::string(name)].push_back(t.data);
  });
  int common = 0, parted = 0;
  double worst = 0;
  std::vector<float> b = run_all(after, s, args, [&](std::string_view name, const ir::Tensor& t) {
    auto at = known.find(name);
    if (at == known.end()) return;
    const std::vector<float>& other = at->second[seen[std::string(name)]++];
    if (other.size() != t.data.size()) return;
    common++;
    double e = nmse(other, t.data);
    worst = std::max(worst, e);
    if (!(e <= args.tolerance) && parted++ == 0)
      printf("first to part: %.*s, nmse %.3e\n", int(name.size()), name.data(), e);
  });
  printf("%d values in common, %d part, largest nmse %.3e; output nmse %.3e\n", common, parted, worst,
         nmse(a, b));
  return parted ? 1 : 0;
}

int run(int argc, char** argv) {
  CLI::App app("Runs a graph by the interpreter.");
  Args args;
  app.add_option("file", args.file, "FILE.gir, or a GGUF model")->required();
  app.add_option("--tokens", args.tokens, "token ids")->delimiter(',')->required();
  app.add_option("-o,--output", args.output, "write the output as raw f32 of all tokens");
  app.add_option("--name", args.name, "print values whose name matches this expression");
  app.add_option("--chunk", args.chunk, "tokens in a step");
  app.add_option("--context", args.context, "positions of a sequence");
  app.add_flag("--decode", args.decode, "one token in a step");
  app.add_option("--seed", args.seed, "of the weights of a .gir file");
  app.add_option("--cache", args.cache_mib, "MiB of decoded weights to keep");
  app.add_flag("--passes", args.run_passes, "run the passes first");
  app.add_option("--disable-pass", args.options.disabled, "leave out")->delimiter(',');
  app.add_option("--stop-after", args.options.stop_after, "the last pass to run");
  app.add_flag("--compare", args.compare, "find the first value that the passes change");
  app.add_option("--tolerance", args.tolerance, "nmse allowed by --compare");
  CLI11_PARSE(app, argc, argv);

  Source s = open(args);
  ir::Graph g = s.graph;
  if (args.run_passes || args.compare) g = passes::run_passes(std::move(g), args.options);
  if (args.compare) return compare(s.graph, g, s, args);
  std::regex wanted(args.name);
  bool print = args.output.empty() || !args.name.empty();
  std::vector<float> out = run_all(g, s, args, [&](std::string_view name, const ir::Tensor& t) {
    if (print && std::regex_search(name.begin(), name.end(), wanted)) print_value(name, t);
  });
  if (args.output.empty()) return 0;
  std::ofstream file(args.output, std::ios::binary);
  file.write(reinterpret_cast<const char*>(out.data()), std::streamsize(out.size() * sizeof(float)));
  if (!file.flush()) throw_user("cannot write ", args.output);
  return 0;
}

}  // namespace
}  // namespace gc

int main(int argc, char** argv) {
  return gc::tools::guarded("gir_run", [&] { return gc::run(argc, argv); });
}
