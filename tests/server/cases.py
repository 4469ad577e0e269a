"""cases.py URL SMALL_URL: what servers of this kind have fallen over, asked of SmolLM2 135M; SMALL_URL has a context of 64.

After each group the server must still answer.
"""
import json
import re
import sys
import threading
import time
import urllib.error
import urllib.request

url, small = sys.argv[1:]


def post(path, body, server=url, content_type="application/json"):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(server + path, data, {"Content-Type": content_type})
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def complete(server=url, **body):
    return post("/completion", {"n_predict": 8, "temperature": 0, **body}, server)


def ok(server=url, **body):
    status, answer = complete(server, **body)
    assert status == 200, (status, answer, body)
    return answer


def refused(want=400, server=url, **body):
    status, answer = complete(server, **body)
    assert status == want and answer["error"]["message"], (status, answer, str(body)[:300])
    return answer["error"]


def alive():
    assert ok(prompt="The capital of France is", n_predict=1)["content"] == " Paris"


def samplers():
    greedy = ok(prompt="One, two,")["content"]
    for edge in ({"top_k": 1, "temperature": 0.8}, {"temperature": 1e-5}, {"min_p": 1, "temperature": 0.8}, {"top_p": 0, "temperature": 0.8}):
        assert ok(**{"prompt": "One, two,", **edge})["content"] == greedy, edge
    for fine in ({"temperature": 1e-40}, {"temperature": 1e6}, {"top_k": -1}, {"top_k": 0}, {"top_k": 10**9}, {"top_p": 1}, {"typical_p": 0}, {"repeat_penalty": 1e6},
                 {"repeat_last_n": -1}, {"repeat_last_n": 10**9}, {"mirostat": 2}, {"xtc_probability": 1, "xtc_threshold": 0.01}, {"dry_multiplier": 1},
                 {"samplers": ["top_k", "temperature"]}, {"samplers": "kt"}, {"dynatemp_range": 0.5}, {"top_n_sigma": 1}, {"adaptive_target": 0.5}):
        assert ok(**{"prompt": "One, two,", "temperature": 0.8, **fine})["tokens_predicted"] >= 1, fine
    for wrong in ({"temperature": -1}, {"top_p": 1.5}, {"top_p": -0.1}, {"min_p": 2}, {"repeat_penalty": 0}, {"mirostat": 3}, {"temperature": "0.5"}, {"seed": "x"}):
        refused(prompt="x", **wrong)
    assert post("/completion", b'{"prompt": "x", "temperature": NaN}')[0] == 400
    assert post("/completion", b'{"prompt": "x", "temperature": 1e999}')[0] == 400
    refused(prompt="x", logit_bias=[["Hello"]]), refused(prompt="x", logit_bias=[[107, "a"]]), refused(prompt="x", logit_bias={"49152": 1})
    assert ok(prompt="x", logit_bias=[["Hello", False], [107, -1.5]] + [[i, 0] for i in range(20000)])["content"]
    first = ok(prompt="The capital of France is", n_predict=1, n_probs=1)["completion_probabilities"][0]["id"]
    assert ok(prompt="The capital of France is", n_predict=1, logit_bias={str(first): -100})["content"] != " Paris"
    seeds = {ok(prompt="Once", temperature=1, seed=s, n_predict=12)["content"] for s in (0, 1, 4294967294)}
    assert len(seeds) == 3
    assert ok(prompt="Once", temperature=1, seed=2**40, n_predict=12)["generation_settings"]["seed"] == 2**40


def grammars():
    for grammar in ('root ::= root "a" | "b"', 'root ::= e\ne ::= (i | e "+" e)\ni ::= [0-9]+', "root ::= a\na ::= b\nb ::= a", "x ::= [a]", "root ::= y", 'root ::= "a"{5,0}',
                    'root ::= "a"{99999999999999999999}', "root ::= " + "(" * 60000 + '"a"' + ")" * 60000):
        start = time.monotonic()
        status, answer = complete(prompt="x", grammar=grammar, n_predict=20)
        assert time.monotonic() - start < 20 and status in (200, 400), (status, answer, grammar[:60])
        assert status == 400 or answer["tokens_predicted"] >= 0
    assert re.fullmatch("x*y", ok(prompt="y", grammar='root ::= ("" | "x")* "y"', n_predict=60, logit_bias=[["y", 5]])["content"])
    assert re.fullmatch("[a-z]{20}", ok(prompt="x", grammar="root ::= [a-z]{20}", n_predict=60)["content"])
    assert re.fullmatch("[а-я]{3}", ok(prompt="Привет", grammar="root ::= [а-я]{3}", n_predict=30)["content"])
    assert re.fullmatch("[^a]{4}", ok(prompt="aaaa", grammar="root ::= [^a]{4}", n_predict=30)["content"])
    # The text of a stop string that a grammar makes certain; streamed it is the same.
    fixed = {"prompt": "x", "grammar": 'root ::= "xx O P Q yy"', "stop": ["O P Q"], "n_predict": 30}
    answer = ok(**fixed)
    assert (answer["content"], answer["stop_type"], answer["stopping_word"]) == ("xx ", "word", "O P Q"), answer
    data = json.dumps({**fixed, "temperature": 0, "stream": True}).encode()
    with urllib.request.urlopen(urllib.request.Request(url + "/completion", data, {"Content-Type": "application/json"})) as response:
        events = [json.loads(line[6:].decode("utf-8")) for line in response if line.startswith(b"data: ")]
    assert "".join(e["content"] for e in events) == "xx " and events[-1]["stop"], events
    for schema in ({"$ref": "#"}, {"$ref": "#/nope"}, {"$ref": "http://example.org/x"}, {"uniqueItems": True, "type": "array"}, 7):
        refused(prompt="x", json_schema=schema)
    a, c = {"enum": ["x", "y"]}, {"type": "object", "properties": {"payload": {"$ref": "#/$defs/A"}}, "required": ["payload"]}
    for order in ({"A": a, "C": c}, {"C": c, "A": a}):
        text = ok(prompt="JSON:", json_schema={"$defs": order, "$ref": "#/$defs/C"}, n_predict=60)["content"]
        assert json.loads(text)["payload"] in ("x", "y"), text


def prompts():
    for prompt in (None, [], [[]], [-1], [49152], [1.5], [["a"], 5], {}, 7, ""):
        refused(prompt=prompt)  # "" too: this model has no token for the beginning
    refused()
    assert ok(prompt=["a", 5])["content"] is not None
    nothing = ok(prompt="x", n_predict=0)
    assert (nothing["content"], nothing["tokens_predicted"], nothing["stop_type"]) == ("", 0, "limit"), nothing
    refused(prompt="x", n_predict=-2), refused(prompt="x", n_keep=10**9), refused(prompt="x", n_discard=5)
    assert ok(prompt="x", n_discard=-2147483648)
    refused(prompt="x", stop=[""])
    assert ok(prompt="x", stop=["zzz" + str(i) for i in range(1000)])
    refused(prompt="x", stop=["z"] * 1001)


def contexts():
    error = refused(server=small, prompt=[5] * 65)
    assert (error["type"], error["n_prompt_tokens"], error["n_ctx"]) == ("exceed_context_size_error", 65, 64), error
    refused(server=small, prompt=[5] * 1000000)
    for n in (62, 63, 64):
        answer = ok(server=small, prompt=[5] * n, n_predict=-1, ignore_eos=True)
        assert answer["tokens_evaluated"] == n and answer["stop_type"] == "limit" and n + answer["tokens_predicted"] <= 65, answer
    status, answer = post("/v1/completions", {"prompt": "x", "max_tokens": 1000, "ignore_eos": True}, small)
    assert status == 200 and answer["choices"][0]["finish_reason"] == "length" and answer["usage"]["total_tokens"] <= 65, answer


def limits():
    """llama-server's limits of time; a stream that is silent while it waits gets comments."""
    prompt = "one two three four five six seven eight nine ten " * 120
    cut = ok(prompt=prompt, t_max_prompt_ms=1, cache_prompt=False)
    assert (cut["content"], cut["stop_type"], cut["tokens_predicted"]) == ("", "limit", 0), cut
    assert ok(prompt=prompt, t_max_prompt_ms=600000, cache_prompt=False)["tokens_predicted"] == 8
    lines = {"prompt": "x", "grammar": 'root ::= ("a" "\\n")+', "n_predict": 1000}
    cut = ok(**lines, t_max_predict_ms=1)
    assert cut["stop_type"] == "limit" and 1 <= cut["tokens_predicted"] < 100, cut
    silent = urllib.request.Request(url + "/completion", json.dumps({"prompt": "x", "n_predict": 4, "stream": True, "sse_ping_interval": 1}).encode(), {"Content-Type": "application/json"})
    busy = [threading.Thread(target=lambda: ok(prompt="x", n_predict=1000, ignore_eos=True)) for _ in range(8)]
    for thread in busy:
        thread.start()
    time.sleep(0.3)
    with urllib.request.urlopen(silent) as response:
        said = response.read()
    for thread in busy:
        thread.join()
    assert said.startswith(b":\n\n") and b'"stop":true' in said, said[:200]


def bodies():
    for body in (b"", b"{:", b"[]", b'"x"', b"[" * 100000, b'{"prompt": "\xff"}', b'{"prompt": "x", "prompt": "y"}', b'{"prompt": "x"} {}', b'{"prompt": "\\ud800"}'):
        status, answer = post("/completion", body)
        assert status == 400 and answer["error"]["type"] == "invalid_request_error", (status, answer, body[:40])
    assert post("/completion", b"a=b", content_type="application/x-www-form-urlencoded")[0] == 415
    try:
        status = post("/completion", b'{"prompt": "' + b"x" * 100_000_000 + b'"}')[0]
    except (ConnectionError, urllib.error.URLError):
        status = 413  # it stopped listening to us
    assert status == 413


for group in (samplers, grammars, prompts, contexts, limits, bodies):
    group()
    alive()
    print("passed", group.__name__)
