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
    {"chatml",
     R"({% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + text(m.content) + '<|im_end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})"},
    {"command-r",
     R"({% for m in messages -%}
{{ '<|START_OF_TURN_TOKEN|>' + {'system': '<|SYSTEM_TOKEN|>', 'user': '<|USER_TOKEN|>'}.get(m.role, '<|CHATBOT_TOKEN|>') + text(m.content)|trim + '<|END_OF_TURN_TOKEN|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %})"},
    {"deepseek3",
     R"({{ system }}
{%- for m in turns -%}
{{ '<｜User｜>' + text(m.content) if m.role == 'user' else '<｜Assistant｜>' + text(m.content) + '<｜end▁of▁sentence｜>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %})"},
    {"falcon3",
     R"({% for m in messages %}{{ '<|' + m.role + '|>\n' + text(m.content) + '\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %})"},
    {"gemma",
     R"({% for m in turns -%}
{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' }}
{{- system + '\n\n' if loop.first and system else '' }}{{ text(m.content)|trim }}{{ '<end_of_turn>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %})"},
    {"granite",
     R"({% for m in messages -%}
{{ '<|start_of_role|>' + m.role + '<|end_of_role|>' + text(m.content) + '<|end_of_text|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_of_role|>assistant<|end_of_role|>' }}{% endif %})"},
    {"llama2",
     R"({% for m in turns -%}
{%- if m.role == 'user' -%}
{{ (bos_token if not loop.first else '') + '[INST] ' + ('<<SYS>>\n' + system + '\n<</SYS>>\n\n' if loop.first and system else '') + text(m.content)|trim + ' [/INST]' }}
{%- else -%}
{{ ' ' + text(m.content)|trim + ' ' + eos_token }}
{%- endif %}
{%- endfor %})"},
    {"llama3",
     R"({% for m in messages -%}
{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + text(m.content)|trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %})"},
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
    {"openchat",
     R"({{ system + '<|end_of_turn|>' if system else '' }}
{%- for m in turns -%}
{{ 'GPT4 Correct ' + m.role|title + ': ' + text(m.content) + '<|end_of_turn|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'GPT4 Correct Assistant:' }}{% endif %})"},
    {"phi3",
     R"({% for m in messages %}{{ '<|' + m.role + '|>\n' + text(m.content) + '<|end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %})"},
    {"phi4",
     R"({% for m in messages %}{{ '<|im_start|>' + m.role + '<|im_sep|>' + text(m.content) + '<|im_end|>' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %})"},
    {"vicuna",
     R"({{ system + '\n\n' if system else '' }}
{%- for m in turns -%}
{{ 'USER: ' + text(m.content) + '\n' if m.role == 'user' else 'ASSISTANT: ' + text(m.content) + eos_token + '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %})"},
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
