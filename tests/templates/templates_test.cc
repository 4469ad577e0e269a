// Chat templates against jinja2, byte for byte; provenance of the output; damaged templates, contexts and programs.
#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "compiler/base/error.h"
#include "compiler/text/jinja_freeze.h"
#include "compiler/text/template_tool.h"
#include "runtime/text/chat_template.h"

namespace gc::text {
namespace {

using Json = nlohmann::ordered_json;

Json read(const char* name) {
  std::ifstream in(std::string("tests/templates/") + name);
  EXPECT_TRUE(in) << name;
  return Json::parse(in);
}

struct Outcome {
  bool ok;
  std::string text;  // or the error
};

Outcome outcome_of(const std::string& source, const std::string& context) {
  std::ostringstream out, err;
  ApplyTemplateOptions options;
  options.now = 1767323045;  // 2026-01-02 03:04:05
  try {
    apply_template(source, context, options, out, err);
    return {true, out.str()};
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    return {false, error.what()};
  }
}

TEST(Templates, PublishedOnesMatchJinja) {
  const Json references = read("references.json"), conversations = read("conversations.json");
  int prompts = 0, errors = 0;
  for (const auto& [name, entry] : references.items()) {
    for (const auto& [conversation, result] : entry["results"].items()) {
      const Outcome got = outcome_of(entry["template"], conversations[conversation].dump());
      SCOPED_TRACE(name + " " + conversation);
      if (result.contains("prompt")) {
        EXPECT_EQ(got.text, result["prompt"].get<std::string>());
        prompts += got.ok;
        continue;
      }
      // "TypeError: text" there, "line N: text" here.
      const std::string error = result["error"];
      EXPECT_FALSE(got.ok);
      EXPECT_TRUE(got.text.ends_with(error.substr(error.find(": ")))) << got.text << "\n" << error;
      errors += !got.ok;
    }
  }
  EXPECT_EQ(prompts, 628);
  EXPECT_EQ(errors, 72);
}

TEST(Templates, FeaturesMatchJinja) {
  const Json features = read("features.json");
  const std::string context = features["context"].dump();
  for (const Json& c : features["cases"]) {
    const std::string source = c["template"];
    const Outcome got = outcome_of(source, context);
    SCOPED_TRACE(source);
    EXPECT_EQ(got.ok, c.contains("prompt")) << got.text;
    if (c.contains("prompt")) EXPECT_EQ(got.text, c["prompt"].get<std::string>());
    EXPECT_EQ(got.text.find('\n') != std::string::npos && !got.ok, false) << "an error of more than one line";
  }
}

// Gemma 3's template has no system's turn; what it makes of conversations that models' users really send.
TEST(Templates, Gemma3) {
  std::ifstream in("tests/templates/gemma3.jinja");
  std::stringstream source;
  source << in.rdbuf();
  auto prompt = [&](const Json& messages) {
    const Json context = {{"messages", messages}, {"bos_token", "<bos>"}, {"add_generation_prompt", true}};
    return outcome_of(source.str(), context.dump());
  };
  auto said = [](const char* role, const Json& content) {
    return Json{{"role", role}, {"content", content}};
  };
  const std::string user = "<start_of_turn>user\n", end = "<end_of_turn>\n", model = "<start_of_turn>model\n";
  EXPECT_EQ(prompt(Json::array({said("system", " Be brief. "), said("user", " Hi ")})).text,
            "<bos>" + user + " Be brief. \n\nHi" + end + model);
  EXPECT_EQ(prompt(Json::array({said("system", "x")})).text, "<bos>" + model);
  EXPECT_EQ(prompt(Json::array({said("user", "q"), said("assistant", "r"), said("user", "s")})).text,
            "<bos>" + user + "q" + end + model + "r" + end + user + "s" + end + model);
  const Json parts =
      Json::parse(R"([{"type": "text", "text": " p1 "}, {"type": "image"}, {"type": "text", "text": "p2"}])");
  EXPECT_EQ(prompt(Json::array({said("user", parts)})).text,
            "<bos>" + user + "p1<start_of_image>p2" + end + model);
  EXPECT_EQ(prompt(Json::array({said("user", Json::array())})).text, "<bos>" + user + end + model);
  const char* const alternate = "Conversation roles must alternate user/assistant/user/assistant/...";
  const struct {
    Json messages;
    const char* error;
  } wrong[] = {
      {Json::array({said("user", "a"), said("user", "b")}), alternate},
      {Json::array({said("assistant", "a")}), alternate},
      {Json::array({said("developer", "a")}), alternate},
      {Json::array({said("user", nullptr)}), "Invalid content type"},
      {Json::array({said("user", 5)}), "Invalid content type"},
      {Json::array(), "list object has no element 0"},
      {nullptr, "None has no element 0"},
  };
  for (const auto& w : wrong) {
    const Outcome got = prompt(w.messages);
    EXPECT_FALSE(got.ok) << got.text;
    EXPECT_NE(got.text.find(w.error), std::string::npos) << got.text << ", expected " << w.error;
  }
}

// ---- where the output comes from ----

// The output with what people wrote in [].
std::string marked(const std::string& source, const std::string& context) {
  const FrozenTemplate frozen = freeze_template(source);
  gcrt::ChatTemplate chat;
  EXPECT_EQ(chat.open({frozen.program.data(), frozen.program.size()}), gcrt::kOk);
  gcrt::Rendered prompt;
  char message[512] = {};
  EXPECT_EQ(chat.render({context.data(), context.size()}, {}, prompt, message), gcrt::kOk) << message;
  std::string out;
  std::size_t at = 0;
  for (const gcrt::TextRange& r : prompt.literal) {
    out.append(prompt.text.data() + at, r.begin - at);
    out += '[';
    out.append(prompt.text.data() + r.begin, r.end - r.begin);
    out += ']';
    at = r.end;
  }
  return out.append(prompt.text.data() + at, prompt.text.size() - at);
}

TEST(Templates, ContentIsToldFromMarkup) {
  const std::string context = R"({"messages": [{"role": "user", "content": " <end>\né "}], "bos_token": "<s>",
      "tools": [{"name": "f<end>"}]})";
  auto check = [&](const std::string& expression, const std::string& expected) {
    EXPECT_EQ(marked("{% set c = messages[0].content %}{{ " + expression + " }}", context), expected)
        << expression;
  };
  check("bos_token + c + '<end>'", "<s>[ <end>\né ]<end>");
  check("'<|' + messages[0].role + '|>' + c|trim", "<|user|>[<end>\né]");
  check("c[1:3] ~ '<e'", "[<e]<e");
  check("c|trim|upper", "[<END>\nÉ]");
  check("(c|trim).split('\\n')|join('<end>')", "[<end>]<end>[é]");
  check("(c ~ '<x>')|replace('<end>', '<y>')", "[ ]<y>[\né ]<x>");
  check("'%s<end>' % c|trim", "[<end>\né]<end>");
  check("'{}<end>'.format(c|trim)", "[<end>\né]<end>");
  check("c|trim|tojson", "\"[<end>\\né]\"");
  check("tools|tojson", "[{\"[name]\": \"[f<end>]\"}]");
  check("(c|tojson|from_json)|trim", "[<end>\né]");
  check("c|e|trim", "[&lt;end&gt;\né]");
  check("c.strip().center(9, '-')", "-[<end>\né]-");
  check("c|list|join|trim", "[<end>\né]");
  EXPECT_EQ(marked("{% set x %}<a>{{ messages[0].content }}{% endset %}{{ x|indent }}", context),
            "<a>[ <end>]\n    [é ]");
  EXPECT_EQ(marked("{% macro m(x) %}<m>{{ x }}{% endmacro %}{{ m(messages[0].content)|trim }}", context),
            "<m>[ <end>\né]");
  EXPECT_EQ(marked("{{ messages[0].content }}", R"([{"role": "user", "content": "<end>"}])"), "[<end>]");
  // A role that could spell markup is content.
  EXPECT_EQ(marked("<|{{ messages[0].role }}|>", R"([{"role": "a|><|b"}])"), "<|[a|><|b]|>");
}

// ---- bounds ----

TEST(Templates, TimeAndMemoryAreBounded) {
  const std::string hostile[] = {
      "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
      "{% set ns = namespace(x='a') %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
      "{% set ns = namespace(x=1) %}{% for i in range(100) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ "
      "ns.x == ns.x }}{{ ns.x|tojson }}",
      "{% set ns = namespace(x=1) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x "
      "}}",
      "{% set ns = namespace(x=1) %}{% for i in range(50000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
      "{{ 'a' * 1000000000000 }}",
      "{{ '%1000000000d' % 1 }}",
      "{{ 'a'.center(10000000000) }}",
      "{{ [0] * 1000000000 }}",
      "{{ 9 ** 9 ** 9 ** 9 }}",
      "{{ 10 ** 100 }}",
      "{{ 'a'|indent(1000000000000) }}",
      "{{ [1]|tojson(indent=100000000000) }}",
      "{% for n in [[1]] recursive %}{{ loop([n]) }}{% endfor %}",
      "{% set a = 'a' * 1000000 %}{{ a.rfind('b' ~ a[1:]) }}{{ a.strip(a) }}{{ a.replace('', a) }}",
      "{% set l = range(100000)|list %}{% for i in l %}{{ i in l }}{% endfor %}",
  };
  // A tenth of the usual bounds, as the build may not be optimised.
  gcrt::RenderOptions options;
  options.max_steps /= 10, options.max_memory /= 10;
  for (const std::string& source : hostile) {
    SCOPED_TRACE(source);
    const FrozenTemplate frozen = freeze_template(source);
    gcrt::ChatTemplate chat;
    ASSERT_EQ(chat.open({frozen.program.data(), frozen.program.size()}), gcrt::kOk);
    gcrt::Rendered prompt;
    char message[256] = {};
    const std::clock_t start = std::clock();
    if (chat.render("{}", options, prompt, message) != gcrt::kOk) EXPECT_NE(std::string(message), "");
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC,
              30);  // of CPU; far more than it takes
  }
  std::string deep = "{{ ";
  for (int i = 0; i < 100000; ++i) deep += "(";
  EXPECT_FALSE(outcome_of(deep + "1", "{}").ok);
  EXPECT_FALSE(outcome_of("{{ x }}", "{\"x\": " + std::string(100000, '[')).ok);
  EXPECT_FALSE(outcome_of("{{ x }}", "{\"x\": 1").ok);
  EXPECT_FALSE(outcome_of("{{ x }}", "{\"x\": \"\xFF\"}").ok);
  EXPECT_FALSE(outcome_of("{{ x }}", "7").ok);
}

std::string mutate(std::string s, std::mt19937& random) {
  const std::string bits[] = {"{{", "}}", "{%",   "%}", "(", ")",    "[", "]", "|", "'",
                              "\"", "-",  " if ", "0",  ".", "\xF0", "{", "}", ":"};
  switch (random() % 4) {
    case 0:
      return s.substr(0, random() % (s.size() + 1));
    case 1:
      for (int i = 0; i < 3 && !s.empty(); ++i) s[random() % s.size()] = static_cast<char>(random());
      return s;
    case 2:
      for (int i = 0; i < 3; ++i) s.insert(random() % (s.size() + 1), bits[random() % std::size(bits)]);
      return s;
    default: {
      if (s.empty()) return s;
      const std::size_t from = random() % s.size();
      return s.erase(from, random() % 40);
    }
  }
}

TEST(Templates, DamagedTemplatesAndContexts) {
  const Json references = read("references.json"), conversations = read("conversations.json");
  std::mt19937 random(7);
  for (const auto& [name, entry] : references.items()) {
    const std::string context = conversations["tool_call_and_result"].dump();
    for (int i = 0; i < 6; ++i) outcome_of(mutate(entry["template"], random), context);
    for (int i = 0; i < 2; ++i) outcome_of(entry["template"], mutate(context, random));
  }
}

TEST(Templates, DamagedPrograms) {
  const Json references = read("references.json"), conversations = read("conversations.json");
  const std::string context = conversations["tool_call_and_result"].dump();
  std::mt19937 random(8);
  int opened = 0;
  for (const auto& [name, entry] : references.items()) {
    const FrozenTemplate frozen = freeze_template(entry["template"].get<std::string>());
    for (int i = 0; i < 20; ++i) {
      std::vector<std::uint8_t> program = frozen.program;
      for (int k = 0; k < 3; ++k) program[random() % program.size()] = static_cast<std::uint8_t>(random());
      if (i % 5 == 0) program.resize(random() % program.size());
      gcrt::ChatTemplate chat;
      if (chat.open({program.data(), program.size()}) != gcrt::kOk) continue;
      ++opened;
      gcrt::Rendered prompt;
      char message[256];
      gcrt::RenderOptions options;
      options.max_steps = 1'000'000;
      chat.render({context.data(), context.size()}, options, prompt, message);
    }
  }
  EXPECT_GT(opened, 100);
}

TEST(Templates, RefusedByName) {
  auto error = [](const std::string& source) { return outcome_of(source, "{}").text; };
  EXPECT_NE(error("\n\n{{ x|nope }}").find("line 3: No filter named 'nope'"), std::string::npos);
  EXPECT_NE(error("{% include 'x' %}").find("line 1: the tag 'include'"), std::string::npos);
  EXPECT_NE(error("{{ 'x'.translate(1) }}").find("line 1: the method 'translate'"), std::string::npos);
  EXPECT_NE(error("{% if x %}\n").find("'{% endif %}'"), std::string::npos);
  EXPECT_NE(error("a\n{{ raise_exception('b\nc') }}").find("line 2: b c"), std::string::npos);
  EXPECT_EQ(error("{{ x|tojson(indnt=2) }}").find("line 1: the filter 'tojson' has no argument 'indnt'"), 0u);
}

TEST(Templates, FreezingIsReproducible) {
  const std::string source = "{% macro m(a=1.5) %}{{ a }}{% endmacro %}{{ m() }}";
  EXPECT_EQ(freeze_template(source).program, freeze_template(source).program);
}

}  // namespace
}  // namespace gc::text
