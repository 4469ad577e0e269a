// The public JSON Schema Test Suite, draft 2020-12 (json-schema/, its licence beside it). Each schema is taken or refused by
// name; of those that are taken no invalid instance may be accepted, and of the valid ones few are refused, each for
// a reason that runtime/text/grammar/schema.h tells.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/base/mapped_file.h"
#include "runtime/text/grammar.h"

namespace {

using nlohmann::ordered_json;

struct Counts {
  int schemas = 0, taken_schemas = 0, tests = 0, taken = 0, valid = 0, refused_valid = 0,
      accepted_invalid = 0;
};

bool accepts(gcrt::GrammarState& state, const std::string& text) {
  state.reset();
  return state.accept_bytes({text.data(), text.size()}) == gcrt::kOk && state.can_end();
}

TEST(JsonSchemaSuite, TakesMostAndAcceptsNothingInvalid) {
  Counts all;
  std::map<std::string, int> refusals;
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator("tests/grammars/json-schema"))
    if (entry.path().extension() == ".json") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  ASSERT_GT(paths.size(), 40u);
  for (const std::string& path : paths) {
    Counts file;
    for (const ordered_json& group : ordered_json::parse(gc::read_text_file(path))) {
      const std::string schema = group["schema"].dump();
      gcrt::Grammar grammar;
      char message[512] = {};
      const gcrt::Status s = grammar.compile_json_schema({schema.data(), schema.size()}, message);
      const int n = static_cast<int>(group["tests"].size());
      ++file.schemas;
      file.tests += n;
      if (s != gcrt::kOk) {
        EXPECT_TRUE(s == gcrt::kErrUnsupported || s == gcrt::kErrInput)
            << path << " " << group["description"] << ": " << s;
        std::printf("  %-28s refused (%d tests): %s\n", path.substr(path.rfind('/') + 1).c_str(), n, message);
        continue;
      }
      ++file.taken_schemas;
      file.taken += n;
      gcrt::GrammarState state;
      ASSERT_EQ(state.init(&grammar, nullptr), gcrt::kOk);
      for (const ordered_json& test : group["tests"]) {
        const std::string text = test["data"].dump();
        const bool accepted = accepts(state, text);
        if (test["valid"] && ++file.valid && !accepted) {
          ++file.refused_valid;
          std::printf("  %-28s valid but refused: %s: %s: %.80s\n", path.substr(path.rfind('/') + 1).c_str(),
                      group["description"].get<std::string>().c_str(),
                      test["description"].get<std::string>().c_str(), text.c_str());
        }
        if (!test["valid"] && accepted) {
          ++file.accepted_invalid;
          ADD_FAILURE() << path << ": " << group["description"] << ": " << test["description"]
                        << ": accepted " << text;
        }
      }
    }
    std::printf("%-36s %3d of %3d schemas, %3d of %3d tests; %d of %d valid refused\n",
                path.substr(path.rfind('/') + 1).c_str(), file.taken_schemas, file.schemas, file.taken,
                file.tests, file.refused_valid, file.valid);
    all.schemas += file.schemas, all.taken_schemas += file.taken_schemas, all.tests += file.tests,
        all.taken += file.taken;
    all.valid += file.valid, all.refused_valid += file.refused_valid,
        all.accepted_invalid += file.accepted_invalid;
  }
  std::printf(
      "%d of %d schemas taken, with %d of %d tests (%.1f %%); %d of %d valid instances refused (%.1f %% of "
      "the tests); %d invalid accepted\n",
      all.taken_schemas, all.schemas, all.taken, all.tests, 100.0 * all.taken / all.tests, all.refused_valid,
      all.valid, 100.0 * all.refused_valid / all.taken, all.accepted_invalid);
  EXPECT_EQ(all.accepted_invalid, 0);
  EXPECT_GE(all.taken, all.tests * 70 / 100);
  EXPECT_LE(all.refused_valid, all.taken * 5 / 100);
}

}  // namespace
