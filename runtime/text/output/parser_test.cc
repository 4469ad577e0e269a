// Formats and corners that the published answers (tests/output) do not show.
#include "runtime/text/output/parser.h"

#include <gtest/gtest.h>

#include <string>

namespace gcrt {
namespace {

constexpr const char* kTools = R"([
  {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "$defs": {"T": {"type": "string"}},
   "properties": {
    "s": {"type": "string"}, "n": {"type": "integer"}, "b": {"type": "boolean"}, "o": {"type": "object"},
    "sn": {"type": ["string", "null"]}, "opt": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "mix": {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "e": {"enum": ["a", "b"]},
    "r": {"$ref": "#/$defs/T"}, "any": {}}}}},
  {"name": "now"}])";

OutputFormat format(const std::string& name) {
  uint16_t row = 0xFFFF;
  for (uint16_t i = 0; i < output_rows().size(); ++i)
    if (name == output_rows()[i].name) row = i;
  OutputFormat f;
  EXPECT_EQ(f.open(frozen_output(row, 0)), kOk) << name;
  return f;
}

std::string text(Str s) { return {s.data(), s.size()}; }

// "(reasoning)content|name#id arguments|...", an error as "! message".
std::string read(const std::string& row, const std::string& raw, OutputOptions options, size_t step,
                 Str offered) {
  const OutputFormat f = format(row);
  ToolSet tools;
  EXPECT_EQ(tools.open(offered), kOk);
  OutputParser p;
  EXPECT_EQ(p.begin(f, tools, options), kOk);
  Status s = kOk;
  for (size_t i = 0; i < raw.size() && s == kOk; i += step)
    s = p.push(Str(raw.data(), raw.size()).sub(i, step));
  if (s == kOk) s = p.finish();
  std::string out = p.reasoning().empty() ? "" : "(" + text(p.reasoning()) + ")";
  out += text(p.content());
  for (size_t i = 0; i < p.calls(); ++i) {
    const OutputCall& call = p.call(i);
    out += "|" + text(p.call_name(i)) + (call.id.empty() ? "" : "#" + text(str(call.id))) + " " +
           text(str(call.arguments)) + (call.complete ? "" : "...");
  }
  if (s != kOk) out += "! " + text(p.message()).substr(0, text(p.message()).find(':'));
  return out;
}

std::string read(const std::string& row, const std::string& raw, OutputOptions options = {},
                 Str offered = kTools) {
  const std::string whole = read(row, raw, options, SIZE_MAX / 2, offered);
  const std::string bytes = read(row, raw, options, 1, offered);
  // An error's message shows what follows, which may not have arrived.
  EXPECT_EQ(bytes.substr(0, bytes.find('!')), whole.substr(0, whole.find('!'))) << raw;
  return whole;
}

// With a tool that runs code.
std::string read_code(const std::string& row, const std::string& raw) {
  return read(row, raw, {}, R"([{"name": "ipython"}])");
}

TEST(OutputParser, FormatsWithoutPublishedCalls) {
  const OutputOptions thinking = {.in_reasoning = true};
  EXPECT_EQ(
      read(
          "kimi-k3",
          "Hm.<|close|>think<|sep|><|open|>response<|sep|>On it.<|close|>response<|sep|><|open|>tools<|sep|>"
          "<|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument key=\"s\" type=\"string\"<|sep|>12"
          "<|close|>argument<|sep|><|open|>argument key=\"n\" type=\"number\"<|sep|>3<|close|>argument<|sep|>"
          "<|close|>call<|sep|><|open|>call tool=\"now\" index=\"2\"<|sep|><|open|>json "
          "type=\"object\"<|sep|>"
          "{\"a\": 1}<|close|>json<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>",
          thinking),
      R"((Hm.)On it.|f#1 {"s":"12","n":3}|now#2 {"a": 1})");
  EXPECT_EQ(read("solar", "<|think|>Hm.<|end|><|begin|>assistant<|content|>Yes."), "(Hm.)Yes.");
  EXPECT_EQ(read("solar",
                 "<|think|>Hm.<|end|><|begin|>assistant<|tool_calls|><|tool_call:begin|>a1<|tool_call:name|>f"
                 "<|tool_call:args|>{\"n\": 1}<|tool_call:end|><|tool_call:begin|>a2<|tool_call:name|>now"
                 "<|tool_call:args|>{}<|tool_call:end|><|calls|>"),
            R"((Hm.)|f#a1 {"n": 1}|now#a2 {})");
  EXPECT_EQ(read("apriel", "1. Look.\n[BEGIN FINAL RESPONSE]\nHello.\n[END FINAL RESPONSE]", thinking),
            "(1. Look.)Hello.");
  EXPECT_EQ(read("apertus",
                 "<|inner_prefix|>Hm. <|tools_prefix|>[{\"f\": {\"n\": 1}}, {\"now\": {}}]<|tools_suffix|>"),
            R"((Hm.)|f {"n": 1}|now {})");
  EXPECT_EQ(read("apertus", "<|inner_prefix|>Hm.<|inner_suffix|>Yes."), "(Hm.)Yes.");
  EXPECT_EQ(read("phi4-mini", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"n\": 1}}]<|/tool_call|>"),
            R"(|f {"n": 1})");
  EXPECT_EQ(read("granite-3", "<think>a</think>\n<response>b</response>"), "(a)b");
  EXPECT_EQ(read("granite-3", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"now\"}]"),
            "|f {}|now {}");
  EXPECT_EQ(read("tool-calls-list",
                 "<think>a</think><answer>b</answer><tool_calls>[{\"name\": \"f\", \"arguments\": {}}]"
                 "</tool_calls>"),
            "(a)b|f {}");
  EXPECT_EQ(read("tool-calls-list",
                 "<tool_calls>\n{\"name\": \"f\", \"arguments\": {}}\n{\"name\": \"now\", "
                 "\"arguments\": {}}\n</tool_calls>"),
            "|f {}|now {}");
  EXPECT_EQ(read("ernie", "a\n</think>\n\n<response>\nb\n</response>\n", thinking), "(a)b");
  EXPECT_EQ(read("internlm2",
                 "Now.<|action_start|><|plugin|>{\"name\": \"f\", \"parameters\": {\"n\": 1}}<|action_end|>"),
            R"(Now.|f {"n": 1})");
  EXPECT_EQ(
      read("xlam", "[{\"name\": \"f\", \"arguments\": {\"n\": 1}}, {\"name\": \"now\", \"arguments\": {}}]"),
      R"(|f {"n": 1}|now {})");
  EXPECT_EQ(read("xlam", "[1, 2] is a list"), "[1, 2] is a list");
  EXPECT_EQ(read("llama4", "[f(n=1, s='x'), now()]"), R"(|f {"n":1,"s":"x"}|now {})");
  EXPECT_EQ(read("llama4", "[see f]"), "[see f]");
  EXPECT_EQ(read("olmo3", "<function_calls>\nf(n=1)\nnow()\n</function_calls>"), R"(|f {"n":1}|now {})");
  EXPECT_EQ(read("functionary-v3.2", "all\nSure >>> yes.>>>f\n{\"n\": 1}>>>now\n{}"),
            R"(Sure >>> yes.|f {"n": 1}|now {})");
  // Marks that overlap: each has its turn.
  EXPECT_EQ(read("functionary-v3.2", "all\nx >>>>> y"), "x >>>>> y");
  EXPECT_EQ(read("functionary-v3.2", "all\nx >>>>f\n{\"n\": 1}"), R"(x >|f {"n": 1})");
}

TEST(OutputParser, Objects) {
  auto call = [](const std::string& object) {
    return read("hermes", "<tool_call>\n" + object + "\n</tool_call>");
  };
  EXPECT_EQ(call(R"({"arguments": {"n": 1}, "name": "f"})"), R"(|f {"n": 1})");
  EXPECT_EQ(call(R"({"id": "x", "name": "f", "arguments": {}})"), "|f#x {}");
  EXPECT_EQ(call(R"({"name": "f", "arguments": {}, "id": "x"})"), "|f#x {}");
  EXPECT_EQ(call(R"({"type": "function", "function": {"name": "f", "arguments": {"n": 1}}})"),
            R"(|f {"n": 1})");
  EXPECT_EQ(call(R"({"name": "f", "arguments": "{\"n\": 1, \"s\": \"\\u00e9 \\\"q\\\" \\n\"}"})"),
            R"(|f {"n": 1, "s": "\u00e9 \"q\" \n"})");
  EXPECT_EQ(call(R"({"name": "f", "arguments": null})"), "|f {}");
  EXPECT_EQ(call(R"({"name": "now"})"), "|now {}");
  EXPECT_EQ(call(R"([{"name": "now"}, {"name": "f", "arguments": {}}])"), "|now {}|f {}");
  EXPECT_EQ(call("{\"name\": \"f\", \"arguments\": {\"s\": \"two\nlines\"}}"), R"(|f {"s": "two\nlines"})");
  EXPECT_EQ(call(R"({"name": "f", "arguments": [1]})"), "|f {...! arguments that are no JSON object, at");
  EXPECT_EQ(call(R"({"name": "f", "arguments": {"n": 01}})"),
            R"(|f {"n": 0...! arguments that are no JSON object, at)");
  EXPECT_EQ(call(R"({"arguments": {}})"), "<tool_call>\n{\"arguments\": {}}\n</tool_call>");
  EXPECT_EQ(call(R"({"name": "g", "arguments": {}})"), "! a call of a tool that was not offered");
  // Text about calls is text.
  EXPECT_EQ(read("hermes", "Write <tool_call> and then {\"name\": ...}"),
            "Write <tool_call> and then {\"name\": ...}");
  EXPECT_EQ(read("hermes", "<tool_call>{\"a\": 1}</tool_call>"), "<tool_call>{\"a\": 1}</tool_call>");
  EXPECT_EQ(read("llama3", R"({"name": "Bob", "age": 3})"), R"({"name": "Bob", "age": 3})");
  EXPECT_EQ(read("llama3", R"({"answer": 42})"), R"({"answer": 42})");
  EXPECT_EQ(read("llama3", "{not JSON"), "{not JSON");
  EXPECT_EQ(read("llama3", R"({"name": "g", "parameters": {}})"), "! a call of a tool that was not offered");
  EXPECT_EQ(read("llama3", R"(<|python_tag|>{"name": "f", "parameters": {}})"), "|f {}");
  // Built-in tools of Llama 3.1, and code for a tool that runs it.
  EXPECT_EQ(read("llama3", R"(<|python_tag|>f.call(s="6\"2 é", n=2))"), R"(|f {"s":"6\"2 é","n":2})");
  EXPECT_EQ(read("llama3", "<|python_tag|>now.call()"), "|now {}");
  EXPECT_EQ(read("llama3", "<|python_tag|>f.call(s=\"6"), R"(|f {"s":"6...)");
  EXPECT_EQ(read("llama3", "<|python_tag|>g.call(q=1)"), "! a call of a tool that was not offered");
  EXPECT_EQ(read("llama3", "<|python_tag|>print(6)"), "<|python_tag|>print(6)");
  EXPECT_EQ(read_code("llama3", "<|python_tag|>print(\"6\")\nx = 1"),
            R"_(|ipython {"code":"print(\"6\")\nx = 1"})_");
  EXPECT_EQ(read_code("llama3", "<|python_tag|>x.call(1)"), R"_(|ipython {"code":"x.call(1)"})_");
  EXPECT_EQ(read_code("functionary-v3.1", "See: <|python_tag|>é = 1"), R"(See:|ipython {"code":"é = 1"})");
  EXPECT_EQ(read("llama3", R"({"name": "f", "parameters": {"n": 1}}; {"name": "now", "parameters": {}})"),
            R"(|f {"n": 1}|now {})");
  EXPECT_EQ(read("llama3", R"(See: {"name": "f", "parameters": {}})"),
            R"(See: {"name": "f", "parameters": {}})");
}

TEST(OutputParser, ValuesByTheirTypes) {
  auto value = [](const std::string& key, const std::string& v) {
    return read("glm", "<tool_call>f\n<arg_key>" + key + "</arg_key>\n<arg_value>" + v +
                           "</arg_value>\n</tool_call>");
  };
  EXPECT_EQ(value("s", "12"), R"(|f {"s":"12"})");
  EXPECT_EQ(value("s", ""), R"(|f {"s":""})");
  EXPECT_EQ(value("r", "null"), R"(|f {"r":"null"})");
  EXPECT_EQ(value("e", "true"), R"(|f {"e":"true"})");
  EXPECT_EQ(value("sn", "null"), R"(|f {"sn":null})");
  EXPECT_EQ(value("sn", "12"), R"(|f {"sn":"12"})");
  EXPECT_EQ(value("opt", "None"), R"(|f {"opt":null})");
  EXPECT_EQ(value("mix", "12"), R"(|f {"mix":12})");
  EXPECT_EQ(value("mix", "twelve"), R"(|f {"mix":"twelve"})");
  EXPECT_EQ(value("any", "[1, 'a']"), R"(|f {"any":[1, "a"]})");
  EXPECT_EQ(value("any", "a <b> c"), R"(|f {"any":"a <b> c"})");
  EXPECT_EQ(value("unheard-of", "{\"a\": 1}"), R"(|f {"unheard-of":{"a": 1}})");
  EXPECT_EQ(value("b", "True"), R"(|f {"b":true})");
  EXPECT_EQ(value("n", " 7 "), R"(|f {"n":7})");
  EXPECT_EQ(value("o", "{'k': (1, None, \"it's\")}"), R"(|f {"o":{"k": [1, null, "it's"]}})");
  EXPECT_EQ(value("n", "seven").substr(0, 10), R"(|f {"n":..)");
  EXPECT_EQ(value("n", "1 2").substr(0, 12), R"(|f {"n":1...)");
  EXPECT_EQ(
      read("minicpm5", "<function name=\"f\"><param name=\"s\"><![CDATA[a</param><b>]]></param></function>"),
      R"(|f {"s":"a</param><b>"})");
  // A tag that is missing, and one that belongs to the text.
  EXPECT_EQ(read("qwen3-coder", "<tool_call>\n<function=f>\n<parameter=s>\na\n</parameter>\n</tool_call>"),
            R"(|f {"s":"a"})");
  EXPECT_EQ(read("qwen3-coder",
                 "<tool_call>\n<function=f>\n<parameter=s>\n</parameter> b\n\n</parameter>\n</function>"),
            R"(|f {"s":"</parameter> b\n"})");
  EXPECT_EQ(read("gemma4", "<|tool_call>call:f{s:<|\"|>a \"b\" {}\n<|\"|>,o:{k:[1,null]}}<tool_call|>"),
            R"(|f {"s":"a \"b\" {}\n","o":{"k":[1,null]}})");
}

TEST(OutputParser, ReasoningAndContent) {
  EXPECT_EQ(read("generic", "Use <think> tags."), "Use <think> tags.");
  EXPECT_EQ(read("generic", "\n<think>\na\n</think>\n\nb\n"), "(a)b\n");
  EXPECT_EQ(read("generic", "</think>b", {}), "b");
  EXPECT_EQ(read("generic", "a</think>\nb </think> c", {.in_reasoning = true}), "(a)b </think> c");
  EXPECT_EQ(read("generic", " a\n\n b "), " a\n\n b ");
  EXPECT_EQ(read("generic", "<thin"), "<thin");
  EXPECT_EQ(read("harmony", "Hello."), "Hello.");
  EXPECT_EQ(read("harmony",
                 "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary<|message|>b"
                 "<|end|><|start|>assistant<|channel|>final<|message|>c<|return|>"),
            "(a)b\nc");
  EXPECT_EQ(read("hermes", "a <tool_call>{\"name\": \"now\"}</tool_call>\n b"), "a\nb|now {}");
  EXPECT_EQ(
      read("hermes", "<tool_call>{\"name\": \"now\"}</tool_call><tool_call>{\"name\": \"f\"}</tool_call>",
           {.parallel_calls = false}),
      "|now {}");
  EXPECT_EQ(read("mistral-list",
                 "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}, \"id\": \"a1\"}, {\"name\": \"f\"}]",
                 {.parallel_calls = false}),
            "|now#a1 {}");
}

TEST(OutputParser, CutCallsAreNotComplete) {
  EXPECT_EQ(read("hermes", "a\n<tool_call>\n{\"name\": \"no"), "a");
  EXPECT_EQ(read("hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"x"), R"(|f {"s": "x...)");
  EXPECT_EQ(read("hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"x\"}"),
            R"(|f {"s": "x"})");
  EXPECT_EQ(read("glm", "<tool_call>f\n<arg_key>n</arg_key>\n<arg_value>12"), R"(|f {"n":12...)");
  EXPECT_EQ(read("glm", "<tool_call>f\n<arg_key>n</arg_key>\n<arg_value>12</arg_value>\n"),
            R"(|f {"n":12...)");
  EXPECT_EQ(read("llama4", "[f(n=1"), R"(|f {"n":1...)");
}

// Long answers are linear: what waits is looked at again only while it waits.
TEST(OutputParser, LongAnswers) {
  std::string value(1'000'000, 'a');
  for (size_t i = 0; i < value.size(); i += 7) value[i] = "<\n /"[i % 4];
  const std::string raw = "<think>" + value + "</think>" + value +
                          "<tool_call>f\n<arg_key>s</arg_key><arg_value>" + value +
                          "</arg_value></tool_call>";
  const OutputFormat f = format("glm");
  ToolSet tools;
  ASSERT_EQ(tools.open(kTools), kOk);
  OutputParser p;
  ASSERT_EQ(p.begin(f, tools, {}), kOk);
  for (size_t i = 0; i < raw.size(); i += 3) ASSERT_EQ(p.push(Str(raw.data(), raw.size()).sub(i, 3)), kOk);
  ASSERT_EQ(p.finish(), kOk);
  ASSERT_EQ(p.calls(), 1u);
  EXPECT_TRUE(p.call(0).complete);
}

TEST(ToolSet, RefusesWhatIsNone) {
  ToolSet t;
  EXPECT_EQ(t.open(""), kOk);
  EXPECT_EQ(t.open("null"), kOk);
  EXPECT_EQ(t.open("[]"), kOk);
  EXPECT_EQ(t.size(), 0u);
  for (const char* bad :
       {"{}", "[1]", "[{}]", "[{\"name\": 1}]", "[{\"name\": \"f\"}", "[{\"name\": \"f\"}] x"})
    EXPECT_EQ(t.open(bad), kErrInput) << bad;
  EXPECT_EQ(t.open(R"([{"name": "\u0066\n", "parameters": {"properties": {"a\"b": {"type": "integer"}}}}])"),
            kOk);
  EXPECT_EQ(text(t.name(0)), "f\n");
  EXPECT_EQ(schema_types(schema_property(t.parameters(0), t.parameters(0), "a\"b"), t.parameters(0)),
            kTypeNumber);
}

// Schemas come from clients: choices within choices and references in circles end.
TEST(ToolSet, SchemasThatGoInCircles) {
  std::string choices = "{\"$ref\": \"#\"}";
  for (int i = 0; i < 20; ++i) choices += ", {\"$ref\": \"#\"}";
  const std::string schema = "{\"anyOf\": [" + choices + "], \"r\": {\"$ref\": \"#/r\"}}";
  EXPECT_EQ(schema_types(schema.c_str(), schema.c_str()), kTypeAny);
  EXPECT_EQ(schema_types("{\"$ref\": \"#/r\"}", schema.c_str()), kTypeAny);
  EXPECT_TRUE(schema_property(schema.c_str(), schema.c_str(), "x").empty());
}

TEST(OutputFormat, Frozen) {
  OutputFormat f;
  ASSERT_EQ(f.open(frozen_output(0, 1u << static_cast<int>(ThinkSwitch::kEnableThinking) |
                                        1u << static_cast<int>(ThinkSwitch::kReasoningEffort))),
            kOk);
  auto switches = [&f](Thinking t) {
    Vec<char> json;
    EXPECT_TRUE(f.append_switches(t, json));
    return text(str(json));
  };
  EXPECT_EQ(switches(Thinking::kDefault), "");
  EXPECT_EQ(switches(Thinking::kOff), ",\"enable_thinking\":false");
  EXPECT_EQ(switches(Thinking::kMedium), ",\"enable_thinking\":true,\"reasoning_effort\":\"medium\"");
  EXPECT_TRUE(f.opens_reasoning("user\n<think>\n"));
  EXPECT_FALSE(f.opens_reasoning("user\n<think>\n\n</think>\n\n"));
  EXPECT_EQ(text(f.reasoning_close()), "</think>");
  EXPECT_EQ(text(format("qwen3-coder").call_trigger()), "<tool_call>");
  EXPECT_EQ(text(format("mistral-args").call_trigger()), "[TOOL_CALLS]");
  EXPECT_EQ(text(format("llama3").call_trigger()), "");
  EXPECT_EQ(f.open(static_cast<uint32_t>(output_rows().size())), kErrImage);
  EXPECT_EQ(f.open(1u << (kSwitchShift + static_cast<uint32_t>(ThinkSwitch::kCount))), kErrImage);
}

}  // namespace
}  // namespace gcrt
