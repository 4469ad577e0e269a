#include "compiler/text/builtin_templates.h"

#include <vector>

#include "compiler/base/error.h"

namespace gc::text {
namespace {

// What all of them begin with: text(content), and the system message taken off: `system` and `turns`.
constexpr std::string_view kPrelude = R"(
{%- macro text(c) -%}
  {%- if c is string -%}{{ c }}
  {%- elif c -%}{% for part in c if part.type == 'text' %}{{ part.text }}{% endfor %}
  {%- endif -%}
{%- endmacro -%}
{%- set system = '' -%}
{%- set turns = messages -%}
{%- if messages and messages[0].role == 'system' -%}
  {%- set system = text(messages[0].content)|trim -%}
  {%- set turns = messages[1:] -%}
{%- endif -%}
)";

constexpr BuiltinTemplate kTemplates[] = {
    {"bailing",
     R"({% for m in messages %}{{ '<role>' + ('HUMAN' if m.role == 'user' else m.role|upper) + '</role>' + text(m.content) }}{% endfor %}
{%- if add_generation_prompt %}{{ '<role>ASSISTANT</role>' }}{% endif %})"},
    {"bailing-think",
     R"({% for m in messages %}{{ '<role>' + ('HUMAN' if m.role == 'user' else m.role|upper) + '</role>' + text(m.content) }}{% endfor %}
{%- if add_generation_prompt %}{{ '<role>ASSISTANT</role><think>' }}{% endif %})"},
    {"bailing2",
     R"({{ '<role>SYSTEM</role>detailed thinking off<|role_end|>' if not system else '' }}
{%- for m in messages -%}
{{ '<role>' + ('HUMAN' if m.role == 'user' else m.role|upper) + '</role>' + text(m.content) + '<|role_end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<role>ASSISTANT</role>' }}{% endif %})"},
    {"chatglm3",
     R"({{ '[gMASK]sop' }}{% for m in messages %}{{ '<|' + m.role + '|>\n ' + text(m.content) }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %})"},
    {"chatglm4",
     R"({{ '[gMASK]<sop>' }}{% for m in messages %}{{ '<|' + m.role + '|>\n' + text(m.content) }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %})"},
    {"chatml",
     R"({% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + text(m.content) + '<|im_end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})"},
    {"command-r",
     R"({% for m in messages -%}
{{ '<|START_OF_TURN_TOKEN|>' + {'system': '<|SYSTEM_TOKEN|>', 'user': '<|USER_TOKEN|>'}.get(m.role, '<|CHATBOT_TOKEN|>') + text(m.content)|trim + '<|END_OF_TURN_TOKEN|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %})"},
    {"deepseek",
     R"({{ system }}
{%- for m in turns -%}
{{ '### Instruction:\n' + text(m.content) + '\n' if m.role == 'user' else '### Response:\n' + text(m.content) + '\n<|EOT|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '### Response:\n' }}{% endif %})"},
    {"deepseek-ocr", R"({% for m in messages %}{{ text(m.content) }}{% endfor %})"},
    {"deepseek2",
     R"({{ system + '\n\n' if system else '' }}
{%- for m in turns -%}
{{ 'User: ' + text(m.content) + '\n\n' if m.role == 'user' else 'Assistant: ' + text(m.content) + '<｜end▁of▁sentence｜>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'Assistant:' }}{% endif %})"},
    {"deepseek3",
     R"({{ system }}
{%- for m in turns -%}
{{ '<｜User｜>' + text(m.content) if m.role == 'user' else '<｜Assistant｜>' + text(m.content) + '<｜end▁of▁sentence｜>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %})"},
    {"exaone-moe",
     R"({% for m in messages %}{{ '<|' + m.role + '|>\n' + text(m.content)|trim + '<|endofturn|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %})"},
    {"exaone3",
     R"({% for m in messages %}{{ '[|' + m.role + '|]' + text(m.content)|trim + ('\n' if m.role == 'user' else '[|endofturn|]\n') }}{% endfor %}
{%- if add_generation_prompt %}{{ '[|assistant|]' }}{% endif %})"},
    {"exaone4",
     R"({% for m in messages %}{{ '[|' + m.role + '|]' + text(m.content)|trim + ('\n' if m.role == 'user' else '[|endofturn|]\n') }}{% endfor %}
{%- if add_generation_prompt %}{{ '[|assistant|]' }}{% endif %})"},
    {"falcon3",
     R"({% for m in messages %}{{ '<|' + m.role + '|>\n' + text(m.content) + '\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %})"},
    {"gemma",
     R"({% for m in turns -%}
{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' }}
{{- system + '\n\n' if loop.first and system else '' }}{{ text(m.content)|trim }}{{ '<end_of_turn>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %})"},
    {"gigachat",
     R"({{ system + '<|message_sep|>' if system else '' }}
{%- for m in turns -%}
{{ m.role + '<|role_sep|>' + text(m.content) + '<|message_sep|>' }}
{{- 'available functions<|role_sep|>[]<|message_sep|>' if m.role == 'user' else '' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'assistant<|role_sep|>' }}{% endif %})"},
    {"glmedge",
     R"({% for m in messages %}{{ '<|' + m.role + '|>\n' + text(m.content) }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %})"},
    {"gpt-oss",
     R"({% for m in messages -%}
{{ '<|start|>' + m.role + ('<|channel|>final' if m.role == 'assistant' else '') + '<|message|>' + text(m.content) + '<|end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %})"},
    {"granite",
     R"({% for m in messages -%}
{{ '<|start_of_role|>' + m.role + '<|end_of_role|>' + text(m.content) + '<|end_of_text|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_of_role|>assistant<|end_of_role|>' }}{% endif %})"},
    {"granite-4.0",
     R"({% for m in messages -%}
{{ '<|start_of_role|>' + m.role + '<|end_of_role|>' + text(m.content) + '<|end_of_text|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_of_role|>assistant<|end_of_role|>' }}{% endif %})"},
    {"granite-4.1",
     R"({% for m in messages -%}
{{ '<|start_of_role|>' + m.role + '<|end_of_role|>' + text(m.content) + '<|end_of_text|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_of_role|>assistant<|end_of_role|>' }}{% endif %})"},
    {"grok-2",
     R"({% for m in messages -%}
{{ {'system': 'System: ', 'user': 'Human: '}.get(m.role, 'Assistant: ') + text(m.content)|trim + '<|separator|>\n\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'Assistant:' }}{% endif %})"},
    {"hunyuan-dense",
     R"({{ system + '<｜hy_place▁holder▁no▁3｜>' if system else '' }}
{%- for m in turns -%}
{{ '<｜hy_User｜>' + text(m.content) if m.role == 'user' else '<｜hy_Assistant｜>' + text(m.content) + '<｜hy_place▁holder▁no▁2｜>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<｜hy_Assistant｜>' }}{% endif %})"},
    {"hunyuan-moe",
     R"({{ '<|startoftext|>' + system + '<|extra_4|>' if system else '' }}
{%- for m in turns -%}
{{ text(m.content) + '<|eos|>' if m.role == 'assistant' else '<|startoftext|>' + text(m.content) + '<|extra_0|>' }}
{%- endfor %})"},
    {"hunyuan-vl",
     R"({{ '<｜hy_begin▁of▁sentence｜>' }}{{ system + '<｜hy_place▁holder▁no▁3｜>' if system else '' }}
{%- for m in turns %}{{ text(m.content) + ('<｜hy_User｜>' if m.role == 'user' else '<｜hy_Assistant｜>') }}{% endfor %})"},
    {"kimi-k2",
     R"({% for m in messages -%}
{{ '<|im_' + (m.role if m.role in ['user', 'assistant'] else 'system') + '|>' + m.role + '<|im_middle|>' + text(m.content) + '<|im_end|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_assistant|>assistant<|im_middle|>' }}{% endif %})"},
    {"llama2",
     R"({% for m in turns -%}
{%- if m.role == 'user' -%}
{{ (bos_token if not loop.first else '') + '[INST] ' + ('<<SYS>>\n' + system + '\n<</SYS>>\n\n' if loop.first and system else '') + text(m.content)|trim + ' [/INST]' }}
{%- else -%}
{{ ' ' + text(m.content)|trim + ' ' + eos_token }}
{%- endif %}
{%- endfor %})"},
    {"llama2-sys",
     R"({% for m in turns -%}
{{ '[INST] ' + ('<<SYS>>\n' + system + '\n<</SYS>>\n\n' if loop.first and system else '') + text(m.content) + ' [/INST]' if m.role == 'user' else text(m.content) + eos_token }}
{%- endfor %})"},
    {"llama2-sys-bos",
     R"({% for m in turns -%}
{{ (bos_token if not loop.first else '') + '[INST] ' + ('<<SYS>>\n' + system + '\n<</SYS>>\n\n' if loop.first and system else '') + text(m.content) + ' [/INST]' if m.role == 'user' else text(m.content) + eos_token }}
{%- endfor %})"},
    {"llama2-sys-strip",
     R"({% for m in turns -%}
{{ '[INST] ' + ('<<SYS>>\n' + system + '\n<</SYS>>\n\n' if loop.first and system else '') + text(m.content)|trim + ' [/INST]' if m.role == 'user' else text(m.content)|trim + eos_token }}
{%- endfor %})"},
    {"llama3",
     R"({% for m in messages -%}
{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + text(m.content)|trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %})"},
    {"llama4",
     R"({% for m in messages -%}
{{ '<|header_start|>' + m.role + '<|header_end|>\n\n' + text(m.content)|trim + '<|eot|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|header_start|>assistant<|header_end|>\n\n' }}{% endif %})"},
    {"megrez",
     R"({% for m in messages %}{{ '<|role_start|>' + m.role + '<|role_end|>' + text(m.content) + '<|turn_end|>' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|role_start|>assistant<|role_end|>' }}{% endif %})"},
    {"minicpm",
     R"({% for m in messages %}{{ '<用户>' + text(m.content)|trim + '<AI>' if m.role == 'user' else text(m.content)|trim }}{% endfor %})"},
    {"mistral-v1",
     R"({% for m in turns -%}
{{ ' [INST] ' + (system + '\n\n' if loop.first and system else '') + text(m.content) + ' [/INST]' if m.role == 'user' else ' ' + text(m.content) + eos_token }}
{%- endfor %})"},
    {"mistral-v3",
     R"({% for m in turns -%}
{{ '[INST] ' + (system + '\n\n' if loop.first and system else '') + text(m.content) + '[/INST]' if m.role == 'user' else ' ' + text(m.content)|trim + eos_token }}
{%- endfor %})"},
    {"mistral-v3-tekken",
     R"({% for m in turns -%}
{{ '[INST]' + (system + '\n\n' if loop.first and system else '') + text(m.content) + '[/INST]' if m.role == 'user' else text(m.content)|trim + eos_token }}
{%- endfor %})"},
    {"mistral-v7",
     R"({{ '[SYSTEM_PROMPT] ' + system + '[/SYSTEM_PROMPT]' if system else '' }}
{%- for m in turns -%}
{{ '[INST] ' + text(m.content) + '[/INST]' if m.role == 'user' else ' ' + text(m.content) + eos_token }}
{%- endfor %})"},
    {"mistral-v7-tekken",
     R"({{ '[SYSTEM_PROMPT]' + system + '[/SYSTEM_PROMPT]' if system else '' }}
{%- for m in turns -%}
{{ '[INST]' + text(m.content) + '[/INST]' if m.role == 'user' else text(m.content) + eos_token }}
{%- endfor %})"},
    {"monarch",
     R"({% for m in messages %}{{ (bos_token if not loop.first else '') + m.role + '\n' + text(m.content) + eos_token + '\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ bos_token + 'assistant\n' }}{% endif %})"},
    {"openchat",
     R"({{ system + '<|end_of_turn|>' if system else '' }}
{%- for m in turns -%}
{{ 'GPT4 Correct ' + m.role|title + ': ' + text(m.content) + '<|end_of_turn|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'GPT4 Correct Assistant:' }}{% endif %})"},
    {"orion",
     R"({% for m in turns -%}
{{ 'Human: ' + (system + '\n\n' if loop.first and system else '') + text(m.content) + '\n\nAssistant: ' + eos_token if m.role == 'user' else text(m.content) + eos_token }}
{%- endfor %})"},
    {"pangu-embedded",
     R"({{ '[unused9]系统：' + system + '[unused10]' }}
{%- for m in turns -%}
{{ '[unused9]' + {'user': '用户', 'tool': '工具', 'function': '方法'}.get(m.role, '助手') + '：' + text(m.content) + '[unused10]' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '[unused9]助手：' }}{% endif %})"},
    {"phi3",
     R"({% for m in messages %}{{ '<|' + m.role + '|>\n' + text(m.content) + '<|end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %})"},
    {"phi4",
     R"({% for m in messages %}{{ '<|im_start|>' + m.role + '<|im_sep|>' + text(m.content) + '<|im_end|>' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %})"},
    {"rwkv-world",
     R"({% for m in messages -%}
{{ {'system': 'System: ', 'user': 'User: '}.get(m.role, 'Assistant: ') + text(m.content)|trim + '\n\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'Assistant:' }}{% endif %})"},
    {"seed_oss",
     R"({% for m in messages -%}
{{ '<seed:bos>' + m.role + '\n' + (text(m.content)|trim if m.role == 'assistant' else text(m.content)) + '<seed:eos>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<seed:bos>assistant\n' }}{% endif %})"},
    {"smolvlm",
     R"({{ '<|im_start|>' }}{{ system + '\n\n' if system else '' }}
{%- for m in turns %}{{ ('User: ' if m.role == 'user' else 'Assistant: ') + text(m.content) + '<end_of_utterance>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ 'Assistant:' }}{% endif %})"},
    {"solar-open",
     R"({% for m in messages %}{{ '<|begin|>' + m.role + '<|content|>' + text(m.content) + '<|end|>' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|begin|>assistant' }}{% endif %})"},
    {"vicuna",
     R"({{ system + '\n\n' if system else '' }}
{%- for m in turns -%}
{{ 'USER: ' + text(m.content) + '\n' if m.role == 'user' else 'ASSISTANT: ' + text(m.content) + eos_token + '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %})"},
    {"vicuna-orca",
     R"({{ 'SYSTEM: ' + system + '\n' if system else '' }}
{%- for m in turns -%}
{{ 'USER: ' + text(m.content) + '\n' if m.role == 'user' else 'ASSISTANT: ' + text(m.content) + eos_token + '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %})"},
    {"yandex",
     R"({% for m in turns -%}
{{ ' Пользователь: ' + (system + '\n\n' if loop.first and system else '') + text(m.content) + '\n\n' if m.role == 'user' else ' Ассистент: ' + text(m.content) + '\n\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ ' Ассистент:[SEP]' }}{% endif %})"},
    {"zephyr",
     R"({% for m in messages %}{{ '<|' + m.role + '|>\n' + text(m.content) + eos_token + '\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %})"},
};

}  // namespace

std::span<const BuiltinTemplate> builtin_templates() { return kTemplates; }

std::string builtin_template(std::string_view name) {
  std::vector<std::string_view> names;
  for (const BuiltinTemplate& t : kTemplates) {
    if (t.name == name) return cat(kPrelude, t.body);
    names.push_back(t.name);
  }
  throw_user("no chat template is named ", quote(name), ": there are ", join(names, ", "));
}

}  // namespace gc::text
