// Runs text tests of the IR and of passes. A file holds cases:
//
//   ; run: fuse_glu                     passes by name, separated by commas; or "all"; or "print"
//   graph @g(rows: row[T]) -> ... { ... }
//   ; expect:
//   ; graph @g(rows: row[T]) -> ...     what comes out, each line behind "; "
//
// A graph that must be refused says `; run: fails` and expects the error's text. --bless writes what came out into the
// file. Every graph that passes change is also run by the interpreter before and after, with weights from a seed: its
// outputs must mean the same.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "compiler/base/error.h"
#include "compiler/ir/interpret.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"
#include "compiler/ir/random_weights.h"
#include "compiler/ir/verify.h"
#include "compiler/passes/pass.h"
#include "compiler/tools/read_file.h"

namespace gc {
namespace {

struct Case {
  std::string before;  // comments of the file's head or between cases, as they stand
  std::string run, input, expected;
};

// Lines with their ends.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    end = end == std::string::npos ? text.size() : end + 1;
    out.push_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

std::vector<Case> split_cases(const std::string& text, const std::string& file) {
  std::vector<Case> cases;
  std::string between;
  enum { Between, Input, Expected } part = Between;
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with("; run: ")) {
      cases.push_back({between, line.substr(7, line.find('\n') - 7)});
      between.clear();
      part = Input;
    } else if (part == Input && line.starts_with("; expect:")) {
      part = Expected;
    } else if (part == Input) {
      cases.back().input += line;
    } else if (part == Expected && line.starts_with(";")) {
      cases.back().expected += line.size() > 2 && line[1] == ' ' ? line.substr(2) : line.substr(1);
    } else {
      part = Between;
      between += line;
    }
  }
  if (cases.empty()) throw_user(file, ": no line begins with '; run: '");
  return cases;
}

std::string joined(const std::vector<Case>& cases) {
  std::string out;
  for (const Case& c : cases) {
    out += c.before + "; run: " + c.run + "\n" + c.input + "; expect:\n";
    for (const std::string& line : lines_of(c.expected)) out += line == "\n" ? ";\n" : "; " + line;
  }
  return out;
}

std::vector<std::string> split_names(const std::string& list) {
  std::vector<std::string> out;
  std::string word;
  for (char c : list + ",") {
    if (c == ',') {
      if (!word.empty()) out.push_back(word);
      word.clear();
    } else if (c != ' ') {
      word += c;
    }
  }
  return out;
}

// Two sequences, in two steps, some rows without an output.
std::vector<ir::Tensor> outputs(const ir::Graph& g) {
  int64_t vocab = 1;
  for (const ir::Op& op : g.ops)
    if (op.kind == ir::OpKind::embed) vocab = g.weight(op.one("table")->weight).shape[0];
  ir::Interpreter interpreter(g, ir::random_weights(7));
  std::vector<ir::Tensor> out;
  for (int64_t step = 0; step < 2; step++) {
    std::vector<ir::Row> rows;
    rows.reserve(6);
    for (int64_t t = step * 5; t < (step + 1) * 5; t++)
      rows.push_back({int32_t(t * 3 % vocab), t, 0, t % 2 == 0});
    rows.push_back({int32_t(step % vocab), step, 1, true});
    for (ir::Tensor& t : interpreter.run(rows)) out.push_back(std::move(t));
  }
  return out;
}

void check_meaning(const ir::Graph& before, const ir::Graph& after) {
  auto a = outputs(before), b = outputs(after);
  for (size_t i = 0; i < a.size(); i++) {
    if (a[i].dims != b[i].dims) throw_internal("the passes change the shape of output ", i);
    double error = 0, size = 1e-30;
    for (size_t j = 0; j < a[i].data.size(); j++) {
      error += std::pow(double(a[i].data[j]) - b[i].data[j], 2);
      size += std::pow(double(a[i].data[j]), 2);
    }
    if (!(error <= 1e-7 * size))
      throw_internal("the passes change the meaning: nmse ", error / size, " of output ", i);
  }
}

std::string result_of(const Case& c, const std::string& file) {
  bool fails = c.run == "fails";
  try {
    ir::Graph g = ir::parse(c.input, file);
    ir::verify(g);
    if (fails) return "nothing is wrong with it\n";
    if (c.run == "print") return ir::print(g);
    ir::Graph before = g;
    if (c.run == "all") {
      g = passes::run_passes(std::move(g));
    } else {
      for (const std::string& name : split_names(c.run)) {
        g = passes::pass_named(name).run(std::move(g));
        ir::verify(g);
      }
    }
    check_meaning(before, g);
    return ir::print(g);
  } catch (const Error& e) {
    if (!fails) throw;
    // The place in our sources that a check names changes with every edit there.
    std::string what = e.what();
    if (size_t at = what.find(".cc:"); at != std::string::npos && what.find(": ", at) != std::string::npos)
      what = what.substr(what.find(": ", what.find(": ", at) + 2) + 2);
    return what + "\n";
  }
}

void show_difference(const std::string& expected, const std::string& got) {
  auto a = lines_of(expected), b = lines_of(got);
  size_t same = 0;
  while (same < a.size() && same < b.size() && a[same] == b[same]) same++;
  printf("  first difference, line %zu:\n  - %s  + %s", same + 1,
         same < a.size() ? a[same].c_str() : "(end)\n", same < b.size() ? b[same].c_str() : "(end)\n");
}

int run(int argc, char** argv) {
  CLI::App app("Runs text tests of the IR and of passes.");
  std::vector<std::string> files;
  bool bless = false;
  app.add_option("files", files, ".gir files with '; run:' lines")->required();
  app.add_flag("--bless", bless, "write what comes out into the files");
  CLI11_PARSE(app, argc, argv);
  int failed = 0, passed = 0;
  for (const std::string& file : files) {
    const std::string text = tools::read_file(file);
    std::vector<Case> cases = split_cases(text, file);
    int failed_here = 0;
    for (size_t i = 0; i < cases.size(); i++) {
      std::string got = with_context(cat(file, " case ", i + 1, " (", cases[i].run, ")"),
                                     [&] { return result_of(cases[i], file); });
      if (got == cases[i].expected || bless) {
        passed++;
      } else {
        failed_here++;
        printf("FAIL %s case %zu (%s)\n", file.c_str(), i + 1, cases[i].run.c_str());
        show_difference(cases[i].expected, got);
      }
      cases[i].expected = got;
    }
    if (bless && joined(cases) != text) std::ofstream(file, std::ios::binary) << joined(cases);
    if (failed_here)
      printf(
          "  to accept: bazel build //compiler/tools:gir_test && bazel-bin/compiler/tools/gir_test --bless "
          "%s\n",
          file.c_str());
    failed += failed_here;
  }
  printf("%d cases passed, %d failed\n", passed, failed);
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace gc

int main(int argc, char** argv) {
  return gc::tools::guarded("gir_test", [&] { return gc::run(argc, argv); });
}
