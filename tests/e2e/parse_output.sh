# What a model said, taken apart on the command line: a call, an error, a template that is a model's own.
source "$(dirname "${BASH_SOURCE[0]}")/../lib/e2e.sh"

cat >"$work/hermes.jinja" <<'T'
{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{# calls: <tool_call>{"name": ..., "arguments": ...}</tool_call> #}<|im_start|>assistant
{% if enable_thinking %}<think>
{% endif %}
T
parse() { "$compiler" parse-output --template "$work/hermes.jinja" "$@"; }
tools='[{"type":"function","function":{"name":"roll","parameters":{"properties":{"n":{"type":"integer"}}}}}]'
messages='[{"role":"user","content":"Roll."}]'

printf '{"messages": %s, "tools": %s, "raw": "Dice.</think>Here: <tool_call>{\\"name\\": \\"roll\\", \\"arguments\\": {\\"n\\": 2}}</tool_call>"}' \
  "$messages" "$tools" >"$work/case.json"
want='{"content":"Here:","reasoning_content":"Dice.","tool_calls":[{"id":"","name":"roll","arguments":"{\"n\": 2}"}]}'
[ "$(parse "$work/case.json")" = "$want" ] || fail "a call: $(parse "$work/case.json")"
[ "$(parse - <"$work/case.json")" = "$want" ] || fail "a case from stdin"

sed 's/\\"roll\\"/\\"fly\\"/' "$work/case.json" >"$work/unknown.json"
code=0
parse "$work/unknown.json" >"$work/out" 2>"$work/err" || code=$?
[ "$code" = 1 ] && [ ! -s "$work/out" ] && [ "$(wc -l <"$work/err")" = 1 ] && grep -q "not offered: 'fly'" "$work/err" ||
  fail "an unknown tool: code $code, $(cat "$work/out" "$work/err")"

# While it streams, nothing is shown that may yet be a marker.
printf '{"messages": %s, "enable_thinking": false, "partial": true, "tools": %s, "raw": "One <tool_ca"}' "$messages" "$tools" \
  >"$work/partial.json"
[ "$(parse "$work/partial.json")" = '{"content":"One","reasoning_content":"","tool_calls":[]}' ] ||
  fail "a prefix: $(parse "$work/partial.json")"

printf '{"messages": %s, "raw": "Paris."}' "$messages" >"$work/plain.json"
"$compiler" parse-output --template "$smollm2_gguf" "$work/plain.json" | says '"content":"Paris."' || fail "a model's template"
