#include "compiler/text/builtin_templates.h"

#include <gtest/gtest.h>

#include <sstream>

#include "compiler/base/error.h"
#include "compiler/text/template_tool.h"

namespace gc::text {
namespace {

std::string render(std::string_view name) {
  std::ostringstream out, err;
  apply_template(builtin_template(name),
                 R"([{"role": "system", "content": " S "}, {"role": "user", "content": "q"},
      {"role": "assistant", "content": "r"},
      {"role": "user", "content": [{"type": "text", "text": "t"}, {"type": "image"}, {"type": "text", "text": "u"}]}])",
                 {}, out, err);
  return out.str();
}

TEST(BuiltinTemplates, Render) {
  EXPECT_EQ(
      render("chatml"),
      "<|im_start|>system\n S <|im_end|>\n<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nr<|im_end|>\n"
      "<|im_start|>user\ntu<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(render("gemma"),
            "<start_of_turn>user\nS\n\nq<end_of_turn>\n<start_of_turn>model\nr<end_of_turn>\n<start_of_turn>"
            "user\ntu"
            "<end_of_turn>\n<start_of_turn>model\n");
  EXPECT_EQ(render("llama2"), "[INST] <<SYS>>\nS\n<</SYS>>\n\nq [/INST] r </s><s>[INST] tu [/INST]");
  EXPECT_EQ(
      render("llama3"),
      "<|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nq"
      "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nr<|eot_id|><|start_header_id|>user"
      "<|end_header_id|>\n\ntu<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(render("mistral-v1"), " [INST] S\n\nq [/INST] r</s> [INST] tu [/INST]");
  EXPECT_EQ(render("mistral-v3"), "[INST] S\n\nq[/INST] r</s>[INST] tu[/INST]");
  EXPECT_EQ(render("mistral-v7"), "[SYSTEM_PROMPT] S[/SYSTEM_PROMPT][INST] q[/INST] r</s>[INST] tu[/INST]");
  EXPECT_EQ(render("phi3"),
            "<|system|>\n S <|end|>\n<|user|>\nq<|end|>\n<|assistant|>\nr<|end|>\n<|user|>\ntu<|end|>\n"
            "<|assistant|>\n");
  EXPECT_EQ(render("vicuna"), "S\n\nUSER: q\nASSISTANT: r</s>\nUSER: tu\nASSISTANT:");
  EXPECT_EQ(render("deepseek3"),
            "S<｜User｜>q<｜Assistant｜>r<｜end▁of▁sentence｜><｜User｜>tu<｜Assistant｜>");
}

TEST(BuiltinTemplates, RenderOlderAndRarerOnes) {
  EXPECT_EQ(
      render("bailing2"),
      "<role>SYSTEM</role> S <|role_end|><role>HUMAN</role>q<|role_end|><role>ASSISTANT</role>r<|role_end|>"
      "<role>HUMAN</role>tu<|role_end|><role>ASSISTANT</role>");
  EXPECT_EQ(render("deepseek"),
            "S### Instruction:\nq\n### Response:\nr\n<|EOT|>\n### Instruction:\ntu\n### Response:\n");
  EXPECT_EQ(render("exaone4"),
            "[|system|]S[|endofturn|]\n[|user|]q\n[|assistant|]r[|endofturn|]\n[|user|]tu\n[|assistant|]");
  EXPECT_EQ(
      render("gigachat"),
      "S<|message_sep|>user<|role_sep|>q<|message_sep|>available functions<|role_sep|>[]<|message_sep|>"
      "assistant<|role_sep|>r<|message_sep|>user<|role_sep|>tu<|message_sep|>available functions<|role_sep|>"
      "[]<|message_sep|>assistant<|role_sep|>");
  EXPECT_EQ(
      render("gpt-oss"),
      "<|start|>system<|message|> S <|end|><|start|>user<|message|>q<|end|><|start|>assistant<|channel|>final"
      "<|message|>r<|end|><|start|>user<|message|>tu<|end|><|start|>assistant");
  EXPECT_EQ(
      render("kimi-k2"),
      "<|im_system|>system<|im_middle|> S <|im_end|><|im_user|>user<|im_middle|>q<|im_end|><|im_assistant|>"
      "assistant<|im_middle|>r<|im_end|><|im_user|>user<|im_middle|>tu<|im_end|><|im_assistant|>assistant"
      "<|im_middle|>");
  EXPECT_EQ(render("llama2-sys-bos"), "[INST] <<SYS>>\nS\n<</SYS>>\n\nq [/INST]r</s><s>[INST] tu [/INST]");
  EXPECT_EQ(render("orion"), "Human: S\n\nq\n\nAssistant: </s>r</s>Human: tu\n\nAssistant: </s>");
  EXPECT_EQ(render("rwkv-world"), "System: S\n\nUser: q\n\nAssistant: r\n\nUser: tu\n\nAssistant:");
  EXPECT_EQ(render("smolvlm"),
            "<|im_start|>S\n\nUser: q<end_of_utterance>\nAssistant: r<end_of_utterance>\n"
            "User: tu<end_of_utterance>\nAssistant:");
}

TEST(BuiltinTemplates, AllRender) {
  EXPECT_EQ(builtin_templates().size(), 54u);
  for (const BuiltinTemplate& t : builtin_templates()) {
    SCOPED_TRACE(t.name);
    const std::string text = render(t.name);
    EXPECT_NE(text.find("tu"), std::string::npos);
    EXPECT_NE(text.find("S"), std::string::npos);
  }
  EXPECT_THROW(builtin_template("nope"), UserError);
}

}  // namespace
}  // namespace gc::text
