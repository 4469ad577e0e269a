#!/usr/bin/env bash
# OUT serve of other models: Gemma 3 with its template, calls of functions and reasoning with
# templates that have them, embeddings of an encoder.
source "$(dirname "$0")/../lib/e2e.sh"
source "$root/tests/lib/serve.sh"
tests="$root/tests/server"

compile "$gemma3_gguf" "$work/gemma3" --with complete,serve --chat-template-file "$root/tests/templates/gemma3.jinja"
start_server "$work/gemma3" serve -c 2048
goes_on="$("$work/gemma3" -p "The capital of France is" -n 24 --temp 0 --no-display-prompt --no-perf)"
python "$tests/gemma_client.py" "$url" "$goes_on" || fail "Gemma 3"
end_server

compile "$smollm2_gguf" "$work/tools" --with serve --chat-template-file "$tests/hermes.jinja"
start_server "$work/tools" serve -c 4096
python "$tests/tools_client.py" "$url" || fail "calls of functions"
end_server

# A template without tools, and one whose calls are no JSON.
sed 's#tool_call>#minimax:tool_call>#g' "$tests/hermes.jinja" >"$work/tagged.jinja"
compile "$smollm2_gguf" "$work/plain" --with serve
compile "$smollm2_gguf" "$work/tagged" --with serve --chat-template-file "$work/tagged.jinja"
for model in plain tagged; do
  start_server "$work/$model" serve -c 4096
  curl -sf "$url/props" | says "\"supports_tools\":$([ "$model" = tagged ] && echo true || echo false)" || fail "$model: what the template takes"
  python "$tests/tools_client.py" "$url" || fail "calls of functions, $model"
  end_server
done

compile "$smollm2_gguf" "$work/thinking" --with serve --chat-template-file "$tests/thinking.jinja"
start_server "$work/thinking" serve -c 4096
python "$tests/reasoning_client.py" "$url" || fail "reasoning"
end_server

# What has felled such servers.
start_server "$work/tools" serve -c 64 -np 1
small="$url" small_pid="$server_pid"
start_server "$work/tools" serve -c 2048
python "$tests/cases.py" "$url" "$small" || { kill -KILL "$small_pid"; fail "the cases"; }
end_server
server_pid="$small_pid"
end_server

# By token ids: the zoo's models have no words.
for model in bert-small qwen3-embedding; do
  zoo make "$model" "$work/$model.gguf"
  compile "$work/$model.gguf" "$work/$model" --with serve,embed
  tokens="$(zoo tokens "$model")"
  "$work/$model" embed --tokens "$tokens" -o "$work/$model.f32" || fail "$model: embed"
  start_server "$work/$model" serve
  python - "$url" "$tokens" "$work/$model.f32" <<'PY' || fail "$model: embeddings"
import sys
import numpy as np
import openai
url, tokens, path = sys.argv[1:]
client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
ids, want = [int(t) for t in tokens.split(",")], np.fromfile(path, "<f4")
got = client.embeddings.create(model="any", input=ids)  # as base64, which the client asks for by itself
assert got.usage.prompt_tokens == len(ids) and np.array_equal(np.float32(got.data[0].embedding), want), (got.data[0].embedding[:4], want[:4])
both = client.embeddings.create(model="any", input=[ids, ids[:5]], encoding_format="float")
assert [d.index for d in both.data] == [0, 1] and np.array_equal(np.float32(both.data[0].embedding), want)
assert not np.array_equal(np.float32(both.data[1].embedding), want)
import json, urllib.request
def native(**body):
    request = urllib.request.Request(url + "/embedding", json.dumps({"content": ids, **body}).encode(), {"Content-Type": "application/json"})
    return np.float32(json.load(urllib.request.urlopen(request))[0]["embedding"])
raw = native(embd_normalize=-1)
assert native().shape == (1, want.size) and np.array_equal(native()[0], want)
assert np.allclose(raw[0] / np.linalg.norm(raw), want, atol=1e-6) and np.isclose(np.abs(native(embd_normalize=0)).max(), 32760)
assert np.isclose(np.abs(native(embd_normalize=1)).sum(), 1, atol=1e-4) and np.isclose((np.abs(native(embd_normalize=3)) ** 3).sum(), 1, atol=1e-4)
for wrong in ({"input": []}, {"input": [10**9]}, {"input": ids, "dimensions": 3}, {"input": "words"}):
    try:
        client.embeddings.create(model="any", **wrong)
    except openai.BadRequestError:
        continue
    raise AssertionError(wrong)
try:
    client.chat.completions.create(model="any", messages=[{"role": "user", "content": "x"}])
except openai.InternalServerError as error:
    assert error.status_code == 501, error
else:
    raise AssertionError("an encoder chats")
print("passed")
PY
  end_server
done

# Documents by a query: the scores are those of the command line.
python "$tests/rank_model.py" "$work/rank.gguf" || fail "the model that ranks"
compile "$work/rank.gguf" "$work/rank" --with serve,embed
start_server "$work/rank" serve
python "$tests/rank_client.py" "$url" "$work/rank" || fail "rerank"
end_server

# The other target, where its emulator is.
if command -v qemu-aarch64-static >/dev/null; then
  compile "$smollm2_gguf" "$work/arm" --target aarch64-linux-gnu --with serve
  start_server qemu-aarch64-static "$work/arm" serve -c 256 -np 2
  curl -sf "$url/completion" -H 'Content-Type: application/json' -d '{"prompt": "The capital of France is", "n_predict": 3, "temperature": 0}' |
    says '" Paris.' || fail "aarch64: no answer"
  end_server
fi
