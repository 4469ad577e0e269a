"""rank_client.py URL PROGRAM: /rerank gives the scores of `PROGRAM embed --query`, best first."""
import json
import subprocess
import sys
import urllib.error
import urllib.request

url, program = sys.argv[1:]
documents = ["hello", "a small cat", "zebra", "q", "the end of it all"]


def post(path, body):
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def score(document):
    said = subprocess.run([program, "embed", "--query", "what cat", "-p", document], capture_output=True, check=True, text=True)
    return json.loads(said.stdout)[0]


want = [score(d) for d in documents]
assert len(set(want)) == len(want), want
order = sorted(range(len(want)), key=lambda i: -want[i])
for path in ("/rerank", "/reranking", "/v1/rerank", "/v1/reranking"):
    status, answer = post(path, {"model": "any", "query": "what cat", "documents": documents})
    assert status == 200 and [r["index"] for r in answer["results"]] == order, (answer, want)
    assert all(abs(r["relevance_score"] - want[r["index"]]) < 1e-5 for r in answer["results"]), (answer, want)
    assert answer["usage"]["prompt_tokens"] > 20 and answer["object"] == "list", answer
status, answer = post("/rerank", {"query": "what cat", "documents": [{"text": d} for d in documents], "top_n": 2})
assert [r["index"] for r in answer["results"]] == order[:2], answer
status, answer = post("/rerank", {"query": "what cat", "texts": documents})
assert [r["index"] for r in answer] == order and set(answer[0]) == {"index", "score"}, answer
for wrong, param in (({"documents": documents}, "query"), ({"query": "x"}, "documents"), ({"query": "x", "documents": []}, "documents"), ({"query": "x", "documents": "y"}, "documents"),
                     ({"query": "x", "documents": [7]}, "documents"), ({"query": "x", "texts": [{}]}, "texts"), ({"query": "x", "documents": ["y"], "top_n": 0}, "top_n"),
                     ({"query": "x", "documents": ["y"], "texts": ["y"]}, "texts"), ({"query": 7, "documents": ["y"]}, "query"), ({"query": "x", "documents": ["y"] * 3000}, "documents")):
    status, answer = post("/rerank", wrong)
    assert status == 400 and answer["error"]["param"] == param, (status, answer, param)
status, answer = post("/v1/embeddings", {"input": "x"})
assert status == 501, answer
print("passed")
