// Runs a model's graph by the interpreter: the f32 answer that compiled code is measured against, and every value on
// the way. Slow (about a second a token for a model of 100M weights, more for the first).
//
//   gir_run MODEL.gguf --tokens 1,2,3 -o LOGITS.f32      raw little-endian f32[T, n_vocab]
//   gir_run MODEL.gguf --tokens 1,2,3 --dump 'blk\.0\.'  values whose names match: shape, sum, first ones
//   gir_run MODEL.gguf --print                           the graph's text
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <regex>
#include <string>
#include <vector>

#include "compiler/base/error.h"
#include "compiler/ir/interpret.h"
#include "compiler/ir/print.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/arch/read_rows.h"
#include "frontends/gguf/reader.h"

namespace gc {
namespace {

struct Options {
  std::string model, output, dump;
  std::vector<std::int32_t> tokens;
  std::int64_t chunk = 0;  // rows a step, 0: all at once
  bool print = false;
};

void show(std::string_view name, const ir::Tensor& value) {
  double sum = 0;
  for (float v : value.data) sum += v;
  std::printf("%-28s [%s] sum %+.6e first", std::string(name).c_str(), join(value.dims, ", ").c_str(), sum);
  for (std::size_t i = 0; i < std::min<std::size_t>(4, value.data.size()); ++i)
    std::printf(" %.6g", value.data[i]);
  std::printf("\n");
}

// Logits of every token, in steps of `chunk` rows: [T, n_vocab].
std::vector<float> run(const gguf::File& file, const gguf::LoadedModel& model, const Options& options) {
  const std::regex wanted(options.dump);
  const ir::See see = [&](std::string_view name, const ir::Tensor& value) {
    if (std::regex_search(name.begin(), name.end(), wanted)) show(name, value);
  };
  std::vector<ir::Row> rows;
  for (std::size_t i = 0; i < options.tokens.size(); ++i) {
    const std::int32_t token = options.tokens[i];
    if (token < 0 || token >= model.info.n_vocab) {
      throw_user("--tokens: expected 0 to ", model.info.n_vocab - 1, ", found ", token);
    }
    rows.push_back({.token = token, .position = static_cast<std::int64_t>(i)});
  }
  ir::Interpreter interpreter(model.graph, gguf::read_rows(file));
  const std::size_t chunk = options.chunk > 0 ? static_cast<std::size_t>(options.chunk) : rows.size();
  std::vector<float> logits;
  for (std::size_t i = 0; i < rows.size(); i += chunk) {
    const std::span<const ir::Row> step = std::span(rows).subspan(i, std::min(chunk, rows.size() - i));
    const std::vector<ir::Tensor> out = interpreter.run(step, options.dump.empty() ? nullptr : see);
    logits.insert(logits.end(), out[0].data.begin(), out[0].data.end());
  }
  return logits;
}

void write(const std::string& path, const std::vector<float>& values) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(float)));
  if (!file.flush()) throw_user(path, ": cannot write");
}

void run_main(const Options& options) {
  const gguf::File file = gguf::File::open(options.model);
  const gguf::LoadedModel model = gguf::load_model(file);
  for (const std::string& warning : model.warnings) std::cerr << "gir_run: warning: " << warning << "\n";
  if (options.print) std::cout << ir::print(model.graph);
  if (options.tokens.empty()) return;
  const std::vector<float> logits = run(file, model, options);
  if (!options.output.empty()) write(options.output, logits);
}

}  // namespace
}  // namespace gc

int main(int argc, char** argv) {
  gc::Options options;
  CLI::App app("Runs a model's graph by the interpreter.");
  app.add_option("model", options.model, "GGUF file")->required();
  app.add_option("--tokens", options.tokens, "token ids, by commas")->delimiter(',');
  app.add_option("-o,--output", options.output, "logits of all tokens, raw f32");
  app.add_option("--dump", options.dump, "print the values whose names match this regular expression");
  app.add_option("--chunk", options.chunk, "tokens a step (default: all in one)");
  app.add_flag("--print", options.print, "print the graph");
  CLI11_PARSE(app, argc, argv);
  try {
    gc::run_main(options);
  } catch (const std::exception& error) {
    std::cerr << "gir_run: error: " << error.what() << "\n";
    return 1;
  }
}
