#include "compiler/text/chosen_template.h"

#include <gtest/gtest.h>

#include <fstream>

#include "compiler/base/error.h"
#include "runtime/text/output/format.h"

namespace gc::text {
namespace {

Vocab vocab() {
  Vocab v;
  v.chat_template = "{{ messages[0].content }}";
  v.named_templates = {{"tool_use", "{{ tools }}"}};
  return v;
}

std::string error_of(const Vocab& v, const TemplateOptions& options) {
  try {
    choose_and_freeze_template(v, options);
  } catch (const InternalError&) {
    throw;
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

gcrt::OutputFormat format_of(const Vocab& v) {
  gcrt::OutputFormat format;
  EXPECT_EQ(format.open(choose_and_freeze_template(v, {}).output), gcrt::kOk);
  return format;
}

TEST(ChosenTemplate, TheFilesOwn) {
  const ChosenTemplate chosen = choose_and_freeze_template(vocab(), {});
  EXPECT_EQ(chosen.source, "{{ messages[0].content }}");
  EXPECT_EQ(chosen.origin, "the model's own");
  EXPECT_FALSE(chosen.program.empty());
}

TEST(ChosenTemplate, KnowsHowToThink) {
  EXPECT_FALSE(format_of(vocab()).has_switch());
  Vocab v = vocab();
  v.chat_template = "{% if enable_thinking %}<think>{% endif %}{{ messages[0].content.split('</think>') }}";
  EXPECT_TRUE(format_of(v).has_switch());
  EXPECT_TRUE(format_of(v).opens_reasoning("<think>\n"));
}

TEST(ChosenTemplate, None) {
  EXPECT_TRUE(choose_and_freeze_template(Vocab(), {}).program.empty());
  EXPECT_TRUE(choose_and_freeze_template(vocab(), {.none = true}).program.empty());
}

TEST(ChosenTemplate, ByName) {
  EXPECT_EQ(choose_template(vocab(), {.name = "tool_use"}).source, "{{ tools }}");
  EXPECT_EQ(choose_template(vocab(), {.name = "tool_use"}).origin, "the model's 'tool_use'");
  const ChosenTemplate chatml = choose_and_freeze_template(Vocab(), {.name = "chatml"});
  EXPECT_EQ(chatml.origin, "built in: chatml");
  EXPECT_FALSE(chatml.program.empty());
  EXPECT_NE(error_of(vocab(), {.name = "nope"}).find("no chat template is named 'nope'"), std::string::npos);
}

TEST(ChosenTemplate, FromAFile) {
  const std::string path = testing::TempDir() + "chosen_template.jinja";
  std::ofstream(path) << "{% for m in messages %}{{ m.content }}{% endfor %}";
  const ChosenTemplate chosen = choose_and_freeze_template(vocab(), {.file = path});
  EXPECT_TRUE(chosen.source.starts_with("{% for"));
  EXPECT_EQ(chosen.origin, "given to the compiler");
  std::ofstream(path, std::ios::trunc).close();
  EXPECT_NE(error_of(vocab(), {.file = path}).find("is empty"), std::string::npos);
  EXPECT_NE(error_of(vocab(), {.file = path + ".none"}), "");
}

TEST(ChosenTemplate, WrongOnesSayWhatHelps) {
  Vocab v = vocab();
  v.chat_template = "\n{% if %}";
  const std::string error = error_of(v, {});
  EXPECT_TRUE(error.starts_with("chat template, the model's own: line 2: ")) << error;
  EXPECT_NE(error.find("--no-template"), std::string::npos) << error;
  EXPECT_EQ(error_of(v, {.none = true}), "");
  EXPECT_EQ(error_of(v, {.name = "chatml"}), "");
}

TEST(ChosenTemplate, OptionsExcludeEachOther) {
  EXPECT_NE(error_of(vocab(), {.name = "chatml", .none = true}).find("exclude"), std::string::npos);
  EXPECT_NE(error_of(vocab(), {.name = "chatml", .file = "x"}).find("exclude"), std::string::npos);
}

}  // namespace
}  // namespace gc::text
