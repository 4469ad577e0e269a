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
#include "tests/support/tiny_cases.h"

namespace gc {
namespace {

using testing::Case;

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

INSTANTIATE_TEST_SUITE_P(Tiny, PassesKeepMeaning, ::testing::ValuesIn(testing::tiny_cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace gc
