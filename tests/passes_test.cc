// Passes keep what a graph means: tiny models of every architecture and form, interpreted as the architecture file
// made them and again after each pass, in one step and in several, with two sequences and outputs asked for here and
// there. Golden texts beside the passes say what each does; this says that it may.
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "compiler/base/error.h"
#include "compiler/ir/interpret.h"
#include "compiler/ir/print.h"
#include "compiler/passes/pass.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/arch/read_rows.h"
#include "frontends/gguf/reader.h"
#include "tests/support/tiny_model.h"

namespace gc {
namespace {

using testing::TinyModel;

struct Case {
  std::string name;
  TinyModel model;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> cases() {
  std::vector<Case> all = {
      {"gemma", {.architecture = "gemma"}},
      {"gemma2", {.architecture = "gemma2"}},
      {"gemma3", {.architecture = "gemma3", .n_layer = 7}},
      {"gemma3_untied", {.architecture = "gemma3", .tied = false}},
      {"gemma3_fused_qkv", {.architecture = "gemma3", .fused_qkv = true}},
      {"gemma3_biases", {.architecture = "gemma3", .biases = true}},
      {"llama", {.architecture = "llama"}},
      {"llama_biases", {.architecture = "llama", .tied = false, .biases = true}},
      {"llama_fused_qkv_biases", {.architecture = "llama", .biases = true, .fused_qkv = true}},
      {"llama_rope_freqs", {.architecture = "llama", .rope_freqs = true}},
      {"llama_one_layer_one_head", {.architecture = "llama", .n_layer = 1, .n_head = 1, .head_dim = 32}},
  };
  for (Format format : {Format::Q4_0, Format::Q5_1, Format::Q8_0, Format::F16, Format::BF16}) {
    all.push_back(
        {"llama_" + std::string(info(format).text_name), {.architecture = "llama", .format = format}});
    all.push_back(
        {"gemma3_" + std::string(info(format).text_name), {.architecture = "gemma3", .format = format}});
  }
  // Rows of whole K-quant blocks in all matrices but one.
  for (Format format : {Format::Q4_K, Format::Q6_K}) {
    const TinyModel wide{
        .architecture = "gemma3", .n_layer = 1, .n_embd = 256, .head_dim = 128, .n_ff = 64, .format = format};
    all.push_back({"gemma3_" + std::string(info(format).text_name), wide});
  }
  return all;
}

// Two sequences that take turns, past the window; a third of the outputs asked for, the last row's always.
std::vector<ir::Row> rows_of_two(std::int64_t n_vocab) {
  constexpr int kRows = 30;
  std::vector<ir::Row> rows;
  std::int64_t position[2] = {0, 0};
  for (int i = 0; i < kRows; ++i) {
    const int sequence = i % 5 < 3 ? 0 : 1;
    rows.push_back({.token = static_cast<std::int32_t>((i * i + 7) % n_vocab),
                    .position = position[sequence]++,
                    .sequence = sequence,
                    .output = i % 3 == 0 || i == kRows - 1});
  }
  return rows;
}

// The logits of the rows whose output is asked for, in steps of `chunk` rows.
std::vector<float> logits_of(const ir::Graph& graph, const ir::ReadRow& read, std::span<const ir::Row> rows,
                             std::size_t chunk) {
  ir::Interpreter interpreter(graph, read);
  std::vector<float> logits;
  for (std::size_t i = 0; i < rows.size(); i += chunk) {
    const auto out = interpreter.run(rows.subspan(i, std::min(chunk, rows.size() - i)));
    logits.insert(logits.end(), out[0].data.begin(), out[0].data.end());
  }
  return logits;
}

double nmse(const std::vector<float>& expected, const std::vector<float>& found) {
  if (expected.size() != found.size()) return INFINITY;
  double error = 0, power = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    error += (double(expected[i]) - found[i]) * (double(expected[i]) - found[i]);
    power += double(expected[i]) * expected[i];
  }
  return error / power;
}

class PassesKeepMeaning : public ::testing::TestWithParam<Case> {};

TEST_P(PassesKeepMeaning, AfterEach) {
  const std::string path = ::testing::TempDir() + GetParam().name + ".gguf";
  tiny_model(GetParam().model).write(path);
  const gguf::File file = gguf::File::open(path);
  const gguf::LoadedModel model = gguf::load_model(file);
  const ir::ReadRow read = gguf::read_rows(file);
  const std::vector<ir::Row> rows = rows_of_two(model.info.n_vocab);
  const std::vector<float> plain = logits_of(model.graph, read, rows, rows.size());
  ASSERT_GT(plain.size(), 0u);
  for (std::size_t chunk : {std::size_t{1}, std::size_t{4}}) {
    EXPECT_LT(nmse(plain, logits_of(model.graph, read, rows, chunk)), 1e-12) << "steps of " << chunk;
  }
  double bound = 1e-11;  // f32 in another order
  for (const passes::PassInfo& pass : passes::all_passes()) {
    // From here on activations are rounded to 16 bits where weights are in blocks.
    if (pass.name == std::string("quantize_activations")) bound = 1e-8;
    SCOPED_TRACE(pass.name);
    const ir::Graph graph = passes::run_passes(model.graph, {.stop_after = pass.name});
    EXPECT_LT(nmse(plain, logits_of(graph, read, rows, rows.size())), bound) << ir::print(graph);
    EXPECT_LT(nmse(plain, logits_of(graph, read, rows, 4)), bound);
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, PassesKeepMeaning, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace gc
