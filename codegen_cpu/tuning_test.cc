#include "codegen_cpu/tuning.h"

#include <gtest/gtest.h>

#include "compiler/base/error.h"

namespace gc::cpu {
namespace {

constexpr char kCompiler[] = "gguf-compile 9.9";
constexpr char kHead[] = "gguf-compile 9.9 tuning 1\n";

std::string refusal(const std::string& text) {
  try {
    parse_tuning(kCompiler, text);
  } catch (const UserError& e) {
    return e.message();
  }
  return "none";
}

std::vector<Tuning> some() {
  return {{"sapphirerapids", {{Format::Q8_0, 640, {4, 4096, 3, 3}}, {Format::Q4_K, 2560, {2, 0, 17, 1}}}},
          {"x86-64-v3", {{Format::Q8_0, 640, {8, 65536, 2, 4}}}}};
}

TEST(Tuning, IsReadAsItWasPrinted) {
  const std::string text = print_tuning(kCompiler, some());
  const auto back = parse_tuning(kCompiler, text);
  ASSERT_EQ(back.size(), 2u);
  EXPECT_EQ(back[0].isa, "sapphirerapids");
  EXPECT_EQ(back[0].products[1].k, 2560);
  EXPECT_EQ(back[0].products[1].shapes, some()[0].products[1].shapes);
  EXPECT_EQ(print_tuning(kCompiler, back), text);
}

TEST(Tuning, SaysWhatIsWrongInOneLine) {
  const auto with = [](const std::string& lines) { return refusal(kHead + lines); };
  EXPECT_EQ(refusal(""), "the tuning file is empty");
  EXPECT_EQ(
      refusal("gguf-compile 9.8 tuning 1\n"),
      "line 1: expected 'gguf-compile 9.9 tuning 1', found 'gguf-compile 9.8 tuning 1'; measure again with "
      "--tune");
  EXPECT_EQ(refusal(std::string("\x7f"
                                "ELF\0\1",
                                6))
                .substr(0, 16),
            "line 1: expected");
  const std::string product = "q8_0 640 row_panels=4 ahead=4096 tile_rows=3 chunk_groups=3\n";
  EXPECT_EQ(with(product), "line 2: a product before the first 'isa' line");
  EXPECT_EQ(with("isa a\nisa a\n"), "line 3: a second 'isa a'");
  EXPECT_EQ(with("isa a\n" + product + product), "line 4: a second 'q8_0 640'");
  EXPECT_EQ(with("isa a\nq8_0 640\n"), "line 3: expected FORMAT COLUMNS and 4 shapes");
  EXPECT_EQ(with("isa a\nq9 640 a b c d\n"), "line 3: format 'q9' is not known");
  EXPECT_EQ(with("isa a\nq8_0 -1 a b c d\n"), "line 3: columns '-1' is not a positive number");
  EXPECT_EQ(with("isa a\nq8_0 640 row_panels=9 ahead=4096 tile_rows=3 chunk_groups=3\n"),
            "line 3: expected row_panels=N, N from 1 to 8, found 'row_panels=9'");
  EXPECT_EQ(with("isa a\nq8_0 640 row_panels=4 ahead=4096 tile_rows=99999999999999999999 chunk_groups=3\n"),
            "line 3: expected tile_rows=N, N from 2 to 17, found 'tile_rows=99999999999999999999'");
}

TEST(Tuning, MustBeOfTheIsaAndTheModel) {
  const auto refuse = [](std::string_view isa, std::vector<TunedProduct> products) -> std::string {
    try {
      tuning_for(some(), *isa_by_name(isa), products);
    } catch (const UserError& e) {
      return e.message();
    }
    return "none";
  };
  EXPECT_EQ(refuse("sapphirerapids", {{Format::Q8_0, 640, {}}}), "none");
  EXPECT_EQ(refuse("x86-64-v4", {}), "no shapes for x86-64-v4; the file has them for sapphirerapids");
  EXPECT_EQ(refuse("x86-64-v3", {{Format::Q4_K, 2560, {}}}),
            "no shapes for q4_k with 2560 columns on x86-64-v3: the file was measured for another model");
}

}  // namespace
}  // namespace gc::cpu
