// The table of formats, from the most telling markers to the least: the first row whose markers a template shows is
// the one. A row is what the template's own text says of the assistant's turn, so that a new model is a new row and no
// new code, unless its calls have a shape that none had before.
#include <string.h>

#include "runtime/text/output/format.h"
#include "runtime/text/output/scan.h"

namespace gcrt {
namespace {

constexpr OutputRow kRows[] = {
    {.name = "generic", .about = "content alone", .think_open = "<think>", .think_close = "</think>"},
    {.name = "gemma4",
     .about = "Gemma 4",
     .all = {"<|tool_call>call:"},
     .think_open = "<|channel>thought",
     .think_close = "<channel|>",
     .shape = CallShape::kDict,
     .flags = kThinkAnywhere,
     .head = "<|tool_call>call:%n",
     .tail = "<tool_call|>"},
    {.name = "harmony",
     .about = "gpt-oss: messages to channels and recipients",
     .all = {"<|channel|>", "<|message|>", "functions."},
     .skip = {"<|end|>", "<|call|>", "<|return|>"},
     .shape = CallShape::kJson,
     .flags = kHeaders | kOneCall,
     .header_open = "<|start|>assistant",
     .header_close = "<|message|>",
     .reasoning_to = "analysis",
     .content_to = {"final", "commentary"}},
    {.name = "atem",
     .about = "Muse: messages to recipients, calls in tags",
     .all = {"<atem:function_calls>", "<|message|>"},
     .skip = {"<|eom|>", "<|eot|>"},
     .shape = CallShape::kTagged,
     .flags = kHeaders,
     .section_open = "<atem:function_calls>",
     .section_close = "~</atem:function_calls>",
     .head = "~<atem:invoke name=\"%n\">",
     .tail = "~</atem:invoke>",
     .param_open = "~<atem:parameter name=\"%k\">",
     .param_close = "</atem:parameter>",
     .header_open = "<|start|>assistant",
     .header_close = "<|message|>",
     .reasoning_to = "self",
     .content_to = {"user"}},
    {.name = "functionary-v3.2",
     .about = "Functionary 3.2: >>>recipient, then its text",
     .all = {">>>all", "recipient"},
     .shape = CallShape::kJson,
     .flags = kHeaders,
     .header_open = ">>>",
     .header_close = "\n",
     .content_to = {"all"}},
    {.name = "kimi-k3",
     .about = "Kimi K3: tags of special tokens",
     .all = {"'<|open|>'", "'<|close|>'", "'argument'"},
     .think_open = "<|open|>think<|sep|>",
     .think_close = "<|close|>think<|sep|>",
     .skip = {"<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>",
              "<|end_of_msg|>"},
     .shape = CallShape::kTagged,
     .flags = kThinkAnywhere,
     .section_open = "<|open|>tools<|sep|>",
     .section_close = "~<|close|>tools<|sep|>",
     .head = "~<|open|>call tool=\"%n\" index=\"%i\"<|sep|>",
     .tail = "~<|close|>call<|sep|>",
     .param_open = "~<|open|>argument key=\"%k\" type=\"%t\"<|sep|>",
     .param_close = "<|close|>argument<|sep|>",
     .json_open = "~<|open|>json type=\"object\"<|sep|>",
     .json_close = "~<|close|>json<|sep|>"},
    {.name = "dsml-function-calls",
     .about = "DeepSeek V3.2",
     .all = {"｜DSML｜", "function_calls>"},
     .think_open = "<think>",
     .think_close = "</think>",
     .shape = CallShape::kTagged,
     .section_open = "<｜DSML｜function_calls>",
     .section_close = "~</｜DSML｜function_calls>",
     .head = "~<｜DSML｜invoke name=\"%n\">",
     .tail = "~</｜DSML｜invoke>",
     .param_open = "~<｜DSML｜parameter name=\"%k\" string=\"%t\">",
     .param_close = "</｜DSML｜parameter>"},
    {.name = "dsml-tool-calls",
     .about = "DeepSeek V4",
     .all = {"｜DSML｜", "tool_calls>"},
     .think_open = "<think>",
     .think_close = "</think>",
     .shape = CallShape::kTagged,
     .section_open = "<｜DSML｜tool_calls>",
     .section_close = "~</｜DSML｜tool_calls>",
     .head = "~<｜DSML｜invoke name=\"%n\">",
     .tail = "~</｜DSML｜invoke>",
     .param_open = "~<｜DSML｜parameter name=\"%k\" string=\"%t\">",
     .param_close = "</｜DSML｜parameter>"},
    {.name = "deepseek-r1",
     .about = "DeepSeek R1, V3: arguments in a fence",
     .all = {"<｜tool▁calls▁begin｜>", "```json"},
     .think_open = "<think>",
     .think_close = "</think>",
     .shape = CallShape::kJson,
     .section_open = "<｜tool▁calls▁begin｜>",
     .section_close = "~<｜tool▁calls▁end｜>",
     .head = "~<｜tool▁call▁begin｜>function<｜tool▁sep｜>%n~```json~",
     .tail = "~```~<｜tool▁call▁end｜>"},
    {.name = "deepseek-v3.1",
     .about = "DeepSeek V3.1",
     .all = {"<｜tool▁calls▁begin｜>"},
     .think_open = "<think>",
     .think_close = "</think>",
     .shape = CallShape::kJson,
     .section_open = "<｜tool▁calls▁begin｜>",
     .section_close = "~<｜tool▁calls▁end｜>",
     .head = "~<｜tool▁call▁begin｜>%n<｜tool▁sep｜>~",
     .tail = "~<｜tool▁call▁end｜>"},
    {.name = "kimi-k2",
     .about = "Kimi K2",
     .all = {"<|tool_calls_section_begin|>"},
     .think_open = "<think>",
     .think_close = "</think>",
     .shape = CallShape::kJson,
     .flags = kNameInId,
     .section_open = "<|tool_calls_section_begin|>",
     .section_close = "~<|tool_calls_section_end|>",
     .head = "~<|tool_call_begin|>~%i<|tool_call_argument_begin|>~",
     .tail = "~<|tool_call_end|>"},
    {.name = "minimax-m3",
     .about = "MiniMax M3: tags within tags",
     .all = {"]<]minimax[>["},
     .think_open = "<mm:think>",
     .think_close = "</mm:think>",
     .shape = CallShape::kNested,
     .section_open = "]<]minimax[>[<tool_call>",
     .section_close = "~]<]minimax[>[</tool_call>",
     .head = "~]<]minimax[>[<invoke name=\"%n\">",
     .tail = "~]<]minimax[>[</invoke>",
     .param_open = "]<]minimax[>["},
    {.name = "minimax-m2",
     .about = "MiniMax M2",
     .all = {"<minimax:tool_call>"},
     .think_open = "<think>",
     .think_close = "</think>",
     .shape = CallShape::kTagged,
     .section_open = "<minimax:tool_call>",
     .section_close = "~</minimax:tool_call>",
     .head = "~<invoke name=\"%n\">",
     .tail = "~</invoke>",
     .param_open = "~<parameter name=\"%k\">",
     .param_close = "</parameter>"},
    {.name = "hunyuan-v3",
     .about = "Hy3: GLM's tags with a suffix",
     .all = {"'<tool_sep{}>'", "':opensource'"},
     .think_open = "<think:opensource>",
     .think_close = "</think:opensource>",
     .shape = CallShape::kTagged,
     .section_open = "<tool_calls:opensource>",
     .section_close = "~</tool_calls:opensource>",
     .head = "~<tool_call:opensource>%n<tool_sep:opensource>",
     .tail = "~</tool_call:opensource>",
     .param_open = "~<arg_key:opensource>%k</arg_key:opensource>~<arg_value:opensource>",
     .param_close = "</arg_value:opensource>",
     .efforts = {"high", "no_think", "low", "high", "high"}},
    {.name = "glm",
     .about = "GLM 4.5 and on, Laguna, Spark, Ling 3: pairs of keys and values",
     .all = {"<arg_key>"},
     .think_open = "<think>",
     .think_close = "</think>",
     .shape = CallShape::kTagged,
     .head = "<tool_call>~%n~",
     .tail = "~</tool_call>",
     .param_open = "~<arg_key>%k</arg_key>~<arg_value>",
     .param_close = "</arg_value>"},
    {.name = "seed-oss",
     .about = "Seed-OSS",
     .all = {"seed:tool_call"},
     .think_open = "<seed:think>",
     .think_close = "</seed:think>",
     .shape = CallShape::kTagged,
     .section_open = "<seed:tool_call>",
     .section_close = "~</seed:tool_call>",
     .head = "~<function=%n>",
     .tail = "~</function>",
     .param_open = "~<parameter=%k>",
     .param_close = "</parameter>"},
    {.name = "minicpm5",
     .about = "MiniCPM 5",
     .all = {"<function name=\"", "<param name=\""},
     .think_open = "<think>",
     .think_close = "</think>",
     .shape = CallShape::kTagged,
     .flags = kCdataValues,
     .head = "<function name=\"%n\">",
     .tail = "~</function>",
     .param_open = "~<param name=\"%k\">",
     .param_close = "</param>"},
    {.name = "qwen3-coder",
     .about = "Qwen3-Coder, Qwen 3.5, Nemotron 3, StepFun 3.5",
     .all = {"<function=", "<parameter="},
     .think_open = "<think>",
     .think_close = "</think>",
     .shape = CallShape::kTagged,
     .flags = kBareCall | kPaddedValues,
     .section_open = "<tool_call>",
     .section_close = "~</tool_call>",
     .head = "~<function=%n>",
     .tail = "~</function>",
     .param_open = "~<parameter=%k>",
     .param_close = "</parameter>"},
    {.name = "functionary-v3.1",
     .about = "Functionary 3.1: a tag named as the tool around JSON",
     .all = {"<function=", "</function>"},
     .think_open = "<think>",
     .think_close = "</think>",
     .shape = CallShape::kJson,
     .head = "<function=%n>",
     .tail = "~</function>"},
    {.name = "firefunction",
     .about = "Firefunction 2",
     .all = {"functools["},
     .shape = CallShape::kObject,
     .section_open = "functools~["},
    {.name = "command-r7b",
     .about = "Command R7B, Command A, Cohere 2 MoE",
     .all = {"<|START_ACTION|>"},
     .think_open = "<|START_THINKING|>",
     .think_close = "<|END_THINKING|>",
     .skip = {"<|START_TEXT|>", "<|END_TEXT|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"},
     .shape = CallShape::kObject,
     .flags = kThinkAnywhere,
     .section_open = "<|START_ACTION|>",
     .section_close = "~<|END_ACTION|>"},
    {.name = "command-r-plus",
     .about = "Command R+: a plan, then a list in a fence",
     .all = {"Action:", "```json", "\"tool_name\""},
     .shape = CallShape::kObject,
     .section_open = "Action:~```json~[",
     .section_close = "~```"},
    {.name = "apertus",
     .about = "Apertus: a list of objects with the tool's name as key",
     .all = {"<|tools_prefix|>"},
     .think_open = "<|inner_prefix|>",
     .think_close = "<|inner_suffix|>",
     .shape = CallShape::kKeyed,
     .flags = kThinkAnywhere,
     .section_open = "<|tools_prefix|>",
     .section_close = "~<|tools_suffix|>"},
    {.name = "lfm2",
     .about = "LFM2: a list of Python calls",
     .all = {"List of tools: "},
     .think_open = "<think>",
     .think_close = "</think>",
     .shape = CallShape::kPython,
     .section_open = "<|tool_call_start|>",
     .section_close = "~<|tool_call_end|>"},
    {.name = "olmo3",
     .about = "Olmo 3: lines of Python calls",
     .all = {"<function_calls>", "<functions>"},
     .think_open = "<think>",
     .think_close = "</think>",
     .shape = CallShape::kPython,
     .section_open = "<function_calls>",
     .section_close = "~</function_calls>"},
    {.name = "nemotron-v2",
     .about = "Nemotron Nano 2",
     .all = {"<TOOLCALL>"},
     .think_open = "<think>",
     .think_close = "</think>",
     .shape = CallShape::kObject,
     .section_open = "<TOOLCALL>",
     .section_close = "~</TOOLCALL>"},
    {.name = "mistral-call-id",
     .about = "Mistral Small 3.2: name, id and arguments",
     .all = {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"},
     .think_open = "[THINK]",
     .think_close = "[/THINK]",
     .shape = CallShape::kJson,
     .flags = kThinkAnywhere,
     .head = "[TOOL_CALLS]%n[CALL_ID]%i[ARGS]",
     .tail = "~"},
    {.name = "mistral-args",
     .about = "Devstral, Magistral, Ministral 3: name and arguments",
     .all = {"[TOOL_CALLS]", "[ARGS]"},
     .think_open = "[THINK]",
     .think_close = "[/THINK]",
     .shape = CallShape::kJson,
     .flags = kThinkAnywhere,
     .head = "[TOOL_CALLS]%n[ARGS]",
     .tail = "~"},
    {.name = "mistral-list",
     .about = "Mistral Nemo and before: a list of objects",
     .all = {"[TOOL_CALLS]"},
     .think_open = "[THINK]",
     .think_close = "[/THINK]",
     .shape = CallShape::kObject,
     .flags = kThinkAnywhere,
     .section_open = "[TOOL_CALLS]"},
    {.name = "gigachat-3.1",
     .about = "GigaChat 3.1",
     .all = {"<|function_call|>"},
     .shape = CallShape::kObject,
     .flags = kOneCall,
     .section_open = "<|function_call|>"},
    {.name = "gigachat-3",
     .about = "GigaChat 3: the call is a message of its own",
     .all = {"<|role_sep|>", "<|message_sep|>", "'function call'"},
     .shape = CallShape::kObject,
     .flags = kOneCall,
     .section_open = "<|message_sep|>~function call<|role_sep|>"},
    {.name = "apriel",
     .about = "Apriel 1.5, 1.6: reasoning until a line that says so",
     .all = {"<tool_calls>[", "[BEGIN FINAL RESPONSE]"},
     .think_open = "Here are my reasoning steps:",
     .think_close = "[BEGIN FINAL RESPONSE]",
     .skip = {"[END FINAL RESPONSE]"},
     .shape = CallShape::kObject,
     .section_open = "<tool_calls>",
     .section_close = "~</tool_calls>"},
    {.name = "solar",
     .about = "Solar Open: messages with a mark for what they are",
     .all = {"<|tool_call:begin|>"},
     .think_open = "<|think|>",
     .think_close = "<|end|>",
     .skip = {"<|begin|>assistant", "<|content|>", "<|tool_calls|>", "<|calls|>", "<|end|>"},
     .shape = CallShape::kJson,
     .flags = kThinkAnywhere,
     .head = "<|tool_call:begin|>%i<|tool_call:name|>%n<|tool_call:args|>",
     .tail = "~<|tool_call:end|>"},
    {.name = "internlm2",
     .about = "InternLM 2 and 3",
     .all = {"<|action_start|>"},
     .think_open = "<think>",
     .think_close = "</think>",
     .shape = CallShape::kObject,
     .section_open = "<|action_start|>~<|plugin|>",
     .section_close = "~<|action_end|>"},
    {.name = "phi4-mini",
     .about = "Phi-4 mini: a list between special tokens",
     .all = {"<|tool_call|>", "<|/tool_call|>"},
     .think_open = "<think>",
     .think_close = "</think>",
     .shape = CallShape::kObject,
     .section_open = "<|tool_call|>",
     .section_close = "~<|/tool_call|>"},
    {.name = "granite-3",
     .about = "Granite 3: a list after a special token",
     .all = {"<|tool_call|>"},
     .think_open = "<think>",
     .think_close = "</think>",
     .wrap_open = "<response>",
     .wrap_close = "</response>",
     .shape = CallShape::kObject,
     .section_open = "<|tool_call|>"},
    {.name = "tool-calls-list",
     .about = "Hunyuan A13B, MiniMax M1: objects or a list in <tool_calls>",
     .all = {"<tool_calls>"},
     .think_open = "<think>",
     .think_close = "</think>",
     .wrap_open = "<answer>",
     .wrap_close = "</answer>",
     .shape = CallShape::kObject,
     .section_open = "<tool_calls>",
     .section_close = "~</tool_calls>"},
    {.name = "ernie",
     .about = "ERNIE 4.5: as Hermes, the answer in <response>",
     .all = {"<tool_call>", "<response>"},
     .none = {"<tool_response>"},
     .think_open = "<think>",
     .think_close = "</think>",
     .wrap_open = "<response>",
     .wrap_close = "</response>",
     .shape = CallShape::kObject,
     .section_open = "<tool_call>",
     .section_close = "~</tool_call>"},
    {.name = "hermes",
     .about = "Hermes, Qwen 2.5 and 3, QwQ, MiMo, Granite 4, Bielik, Reka: an object in <tool_call>",
     .all = {"<tool_call>"},
     .think_open = "<think>",
     .think_close = "</think>",
     .shape = CallShape::kObject,
     .section_open = "<tool_call>",
     .section_close = "~</tool_call>"},
    {.name = "llama3",
     .about = "Llama 3.1 to 3.3: the answer is one object",
     .all = {"<|start_header_id|>", "\"parameters\": "},
     .shape = CallShape::kObject,
     .flags = kBareCall | kOneCall,
     .section_open = "<|python_tag|>"},
    {.name = "llama4",
     .about = "Llama 4 and Llama 3.2's other way: the answer is a list of Python calls",
     .all = {"[func_name1("},
     .shape = CallShape::kPython,
     .flags = kBareList,
     .section_open = "<|python_start|>",
     .section_close = "~<|python_end|>"},
    {.name = "xlam",
     .about = "xLAM 2: the answer is a list of objects",
     .all = {"[{\"name\":"},
     .think_open = "<think>",
     .think_close = "</think>",
     .shape = CallShape::kObject,
     .flags = kBareList},
};
constexpr uint16_t kRowCount = sizeof kRows / sizeof kRows[0];

struct Switch {
  const char* name;
  const char* values[5];  // on, off, low, medium, high
};
constexpr Switch kSwitches[] = {
#define OUTPUT_SWITCH(id, name, on, off, low, medium, high) {name, {on, off, low, medium, high}},
#include "runtime/text/output/switches.def"
#undef OUTPUT_SWITCH
};
constexpr uint32_t kSwitchCount = static_cast<uint32_t>(ThinkSwitch::kCount);

bool shows(Str text, const OutputRow& row) {
  for (const char* marker : row.all)
    if (marker && output::find(text, marker) == output::kNowhere) return false;
  for (const char* marker : row.none)
    if (marker && output::find(text, marker) != output::kNowhere) return false;
  return row.all[0] != nullptr;
}

}  // namespace

Span<const OutputRow> output_rows() { return {kRows, kRowCount}; }

uint16_t recognise_output(Str text) {
  for (uint16_t i = 1; i < kRowCount; ++i)
    if (shows(text, kRows[i])) return i;
  return 0;
}

Str switch_name(ThinkSwitch s) {
  const uint32_t i = static_cast<uint32_t>(s);
  return i < kSwitchCount ? Str(kSwitches[i].name) : Str();
}

OutputFormat::OutputFormat() : row_(&kRows[0]) {}

Status OutputFormat::open(Span<const uint8_t> frozen) {
  FrozenOutput f;
  if (frozen.size() != sizeof f) return kErrImage;
  memcpy(&f, frozen.data(), sizeof f);
  if (f.magic != FrozenOutput::kMagic || f.version != FrozenOutput::kVersion || f.row >= kRowCount ||
      f.switches >> kSwitchCount || f.reserved)
    return kErrImage;
  row_ = &kRows[f.row];
  switches_ = f.switches;
  return kOk;
}

bool OutputFormat::opens_reasoning(Str prompt) const {
  if (!row_->think_open) return false;
  while (!prompt.empty() && (prompt[prompt.size() - 1] == '\n' || prompt[prompt.size() - 1] == ' '))
    prompt = prompt.sub(0, prompt.size() - 1);
  return prompt.ends_with(row_->think_open);
}

Str OutputFormat::reasoning_close() const { return row_->think_close ? Str(row_->think_close) : Str(); }

Str OutputFormat::call_trigger() const {
  if ((row_->flags & kBareList) || ((row_->flags & kBareCall) && !row_->head)) return {};
  return output::literal_head(row_->section_open ? row_->section_open : row_->head ? row_->head : "");
}

bool OutputFormat::append_switches(Thinking thinking, Vec<char>& json) const {
  if (thinking == Thinking::kDefault) return true;
  const int column = thinking == Thinking::kOn       ? 0
                     : thinking == Thinking::kOff    ? 1
                     : thinking == Thinking::kLow    ? 2
                     : thinking == Thinking::kMedium ? 3
                                                     : 4;
  for (uint32_t i = 0; i < kSwitchCount; ++i) {
    if (!(switches_ >> i & 1)) continue;
    const bool own = static_cast<ThinkSwitch>(i) == ThinkSwitch::kReasoningEffort && row_->efforts[0];
    const Str value = own ? row_->efforts[column] : kSwitches[i].values[column];
    if (value.empty()) continue;
    const Str quote = own ? "\"" : "";
    if (!append(json, ",\"") || !append(json, kSwitches[i].name) || !append(json, "\":") ||
        !append(json, quote) || !append(json, value) || !append(json, quote))
      return false;
  }
  return true;
}

}  // namespace gcrt
