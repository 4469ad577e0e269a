#!/usr/bin/env bash
# OUT serve with the official clients of OpenAI and Anthropic, SmolLM2 135M; keys, UNIX sockets, TLS, flags, its end.
source "$(dirname "$0")/../lib/e2e.sh"
source "$root/tests/lib/serve.sh"
tests="$root/tests/server"

compile "$smollm2_gguf" "$work/smollm2" --with all,tls
start_server "$work/smollm2" serve -c 8192
grep -q "MB of KV cache" "$work/serve.log" || fail "the memory is not said before: $(cat "$work/serve.log")"
python "$tests/openai_client.py" "$url" || fail "the openai client"
python "$tests/anthropic_client.py" "$url" || fail "the anthropic client"
# The command line and the server answer alike: the same prompt, greedily.
asked='{"messages": [{"role": "user", "content": "What is the capital of France?"}], "temperature": 0}'
curl -sf "$url/v1/chat/completions" -H 'Content-Type: application/json' -d "$asked" >"$work/answer.json" || fail "curl"
"$work/smollm2" chat -st --temp 0 -p "What is the capital of France?" >"$work/answer.txt"
python -c 'import json, sys; print(json.load(open(sys.argv[1]))["choices"][0]["message"]["content"])' "$work/answer.json" |
  cmp - "$work/answer.txt" || fail "chat answers $(cat "$work/answer.txt"), serve $(cat "$work/answer.json")"
# A web page that has its own name point here is refused; who listens elsewhere may be called anything.
[ "$(curl -s -o "$work/answer.json" -w '%{http_code}' -H 'Host: evil.example' "$url/v1/models")" = 403 ] || fail "any Host is taken"
grep -q permission_error "$work/answer.json" || fail "Host: $(cat "$work/answer.json")"
curl -sf "$url/metrics" | says "^llamacpp:tokens_predicted_total [1-9]" || fail "no metrics"
end_server

# A key; a folder for slots.
mkdir "$work/slots"
start_server "$work/smollm2" serve -c 1024 --api-key "a key" --slot-save-path "$work/slots" -np 2
[ "$(curl -s -o "$work/answer.json" -w '%{http_code}' "$url/v1/models")" = 401 ] || fail "no key, and it answers: $(cat "$work/answer.json")"
numbers="One, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve, thirteen, fourteen, fifteen, sixteen, seventeen,"
keyed() { curl -sf -H 'Authorization: Bearer a key' -H 'Content-Type: application/json' "$@"; }
keyed "$url/completion" -d '{"prompt": "'"$numbers"'", "n_predict": 8, "temperature": 0, "id_slot": 1}' >"$work/first.json" || fail "a slot by its number"
keyed "$url/slots/1?action=save" -d '{"filename": "numbers.bin"}' | says '"n_saved":[3-9][0-9]' || fail "a slot is not saved"
keyed -X POST "$url/slots/1?action=erase" | says '"n_erased":[3-9][0-9]' || fail "a slot is not erased"
keyed "$url/slots/0?action=restore" -d '{"filename": "numbers.bin"}' | says '"n_restored":[3-9][0-9]' || fail "a slot is not restored"
keyed "$url/completion" -d '{"prompt": "'"$numbers"'", "n_predict": 8, "temperature": 0}' >"$work/second.json" || fail "after restoring"
python - "$work/first.json" "$work/second.json" <<'PY' || fail "a restored slot answers otherwise, or is not used"
import json, sys
first, second = (json.load(open(name)) for name in sys.argv[1:])
assert first["content"] == second["content"] != "", (first, second)
assert first["id_slot"] == 1 and first["tokens_cached"] == 0 and second["tokens_cached"] > 15, (first, second)
PY
end_server

for where in "--host 0.0.0.0" "--allowed-host model.example"; do
  # shellcheck disable=SC2086
  start_server "$work/smollm2" serve -c 256 $where
  curl -sf -H 'Host: model.example' "http://127.0.0.1:${url##*:}/health" | says '"ok"' || fail "$where: another Host"
  end_server
done

# A UNIX socket.
"$work/smollm2" serve -c 1024 --host "$work/model.sock" 2>"$work/serve.log" &
server_pid=$!
for _ in $(seq 100); do [ -S "$work/model.sock" ] && break; sleep 0.1; done
curl -sf --unix-socket "$work/model.sock" http://model/health | says '"ok"' || fail "a UNIX socket: $(cat "$work/serve.log")"
end_server
[ ! -e "$work/model.sock" ] || fail "the socket is left behind"

# TLS.
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$work/key.pem" -out "$work/cert.pem" -days 2 -subj /CN=localhost \
  -addext 'subjectAltName=IP:127.0.0.1' 2>/dev/null
start_server "$work/smollm2" serve -c 1024 --ssl-cert-file "$work/cert.pem" --ssl-key-file "$work/key.pem"
[[ "$url" == https://* ]] || fail "TLS: $url"
curl -sf --cacert "$work/cert.pem" "$url/v1/chat/completions" -H 'Content-Type: application/json' -d "$asked" | says "Paris" || fail "TLS: no answer"
if curl -sf "http://${url#https://}/health" >/dev/null; then fail "plain HTTP on a TLS port"; fi
SSL_CERT_FILE="$work/cert.pem" python "$tests/anthropic_client.py" "$url" || fail "the anthropic client over TLS"
end_server

# What is refused at the start, in one line.
refuse() {
  local want="$1" status=0
  shift
  timeout 20 "$@" 2>"$work/stderr" || status=$?
  [ "$status" = 1 ] && [ "$(wc -l <"$work/stderr")" = 1 ] && grep -q -- "$want" "$work/stderr" || fail "$*: $status, $(cat "$work/stderr")"
}
refuse "by number" "$work/smollm2" serve --host localhost.example
refuse "out of range" "$work/smollm2" serve --port 70000
refuse "come together" "$work/smollm2" serve --ssl-cert-file "$work/cert.pem"
refuse "'$work/none.pem'" "$work/smollm2" serve --ssl-cert-file "$work/none.pem" --ssl-key-file "$work/key.pem"
refuse "is empty" "$work/smollm2" serve --api-key ""
refuse "positions that this file was compiled for" "$work/smollm2" serve -c 100000000
compile "$smollm2_gguf" "$work/plain" --with serve
refuse "made without TLS" "$work/plain" serve --ssl-cert-file "$work/cert.pem" --ssl-key-file "$work/key.pem"
compile "$smollm2_gguf" "$work/bare" --with complete,info
refuse "made without 'serve'" "$work/bare" serve
# What it costs: design.md's 2 MB, and 5.5 MB of TLS.
compile "$smollm2_gguf" "$work/served" --with complete,info,serve
compile "$smollm2_gguf" "$work/served_tls" --with complete,info,serve,tls
python - "$work/bare" "$work/served" "$work/served_tls" <<'PY' || fail "the sizes"
import json, subprocess, sys
def size(program):
    file = json.loads(subprocess.run([program, "info", "--json"], capture_output=True, check=True).stdout)["file"]
    return file["runtime_bytes"] + file["system_bytes"]
bare, served, tls = map(size, sys.argv[1:])
print(f"serve: {(served - bare) / 1e6:.2f} MB more, TLS: {(tls - served) / 1e6:.2f} MB more")
assert served - bare < 2e6 and tls - served < 5.5e6
PY
# A part needs its command; for aarch64 there is no TLS library to link.
for wrong in "--with complete,tls" "--with serve,tls --target aarch64-linux-gnu"; do
  # shellcheck disable=SC2086
  if "$compiler" "$smollm2_gguf" -o "$work/no" $wrong 2>"$work/stderr"; then fail "$wrong is taken"; fi
  grep -q "tls" "$work/stderr" || fail "$wrong: $(cat "$work/stderr")"
done
