"""load.py URL PID [--rounds N]: 64 clients at once, mixed lengths, some of whom leave or talk nonsense.

No error that a client did not cause; the answers are those of an idle server; the memory stays flat. Prints p50 and p95 of
the time to the first token, and tokens/s.
"""
import argparse
import http.client
import json
import random
import socket
import threading
import time
import urllib.parse

parser = argparse.ArgumentParser()
parser.add_argument("url")
parser.add_argument("pid", type=int)
parser.add_argument("--clients", type=int, default=64)
parser.add_argument("--rounds", type=int, default=3)
args = parser.parse_args()
address = urllib.parse.urlparse(args.url)
words = "one two three four five six seven eight nine ten eleven twelve".split()


def body(i):
    """Question i of 12: from 20 to 400 tokens of prompt, 4 to 48 of answer, greedy or drawn by a seed."""
    length = (12, 40, 90, 300)[i % 4]
    text = " ".join(words[(i + k * 5) % 12] for k in range(length))
    return {"messages": [{"role": "user", "content": f"Go on: {text}"}], "max_tokens": 4 + 4 * i,
            "temperature": 0 if i % 2 else 0.8, "seed": 7 + i, "stream": True, "stream_options": {"include_usage": True}}


def connect():
    return http.client.HTTPConnection(address.hostname, address.port, timeout=300)


def ask(i):
    """The text, seconds to its first token, tokens; or None where the server said to come later."""
    start, first, text, tokens = time.monotonic(), None, [], 0
    c = connect()
    c.request("POST", "/v1/chat/completions", json.dumps(body(i)), {"Content-Type": "application/json"})
    r = c.getresponse()
    if r.status == 429:
        assert int(r.getheader("Retry-After")) > 0
        r.read()
        return None
    assert r.status == 200, (r.status, r.read())
    done = False
    for line in r:
        if not line.startswith(b"data: "):
            continue
        if line.strip() == b"data: [DONE]":
            done = True
            continue
        event = json.loads(line[6:].decode("utf-8"))
        assert "error" not in event, event
        if event.get("usage"):
            tokens = event["usage"]["completion_tokens"]
        for choice in event["choices"]:
            if choice["delta"].get("content"):
                first = first or time.monotonic() - start
                text.append(choice["delta"]["content"])
    assert done
    c.close()
    return "".join(text), first or time.monotonic() - start, tokens


def leave(i):
    """Asks for a long answer and goes after its first bytes."""
    data = json.dumps({**body(i), "max_tokens": 2000}).encode()
    s = socket.create_connection((address.hostname, address.port), timeout=300)
    s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
    if i % 2:
        s.recv(200)
    s.close()


NONSENSE = [b"GARBAGE\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{:",
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"GET /" + b"x" * 70000,
            b"POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 30\r\n\r\n{\"prompt\": [-1], \"stream\": true}"]


def nonsense(i):
    s = socket.create_connection((address.hostname, address.port), timeout=60)
    try:
        s.sendall(NONSENSE[i % len(NONSENSE)])
        s.shutdown(socket.SHUT_WR)
        reply = s.recv(4096)
        assert not reply or reply.startswith(b"HTTP/1.1 4"), reply
    except (BrokenPipeError, ConnectionResetError):
        pass  # it hung up on us first
    s.close()


def memory():
    with open(f"/proc/{args.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("RssAnon:"))  # kB


idle = [ask(i)[0] for i in range(12)]
assert [ask(i)[0] for i in range(12)] == idle, "an idle server answers differently the second time"
failures, firsts, later, total = [], [], 0, 0
lock = threading.Lock()


def client(number, round_):
    global later, total
    draw = random.Random(number * 1000 + round_)
    try:
        for _ in range(2):
            kind = draw.random()
            i = draw.randrange(12)
            if kind < 0.15:
                leave(i)
            elif kind < 0.3:
                nonsense(draw.randrange(100))
            else:
                got = ask(i)
                with lock:
                    if got is None:
                        later += 1
                        continue
                    if got[0] != idle[i]:
                        failures.append(f"question {i}: {got[0]!r} is not the idle server's {idle[i]!r}")
                    firsts.append(got[1])
                    total += got[2]
    except Exception as error:  # what a client sees is a failure, whatever it is
        failures.append(repr(error))


sizes = []
start = time.monotonic()
for round_ in range(args.rounds):
    threads = [threading.Thread(target=client, args=(n, round_)) for n in range(args.clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    sizes.append(memory())
seconds = time.monotonic() - start
assert not failures, "\n".join(failures[:10])
assert later == 0, f"{later} requests were told to come later, with room for all of them"
c = connect()
c.request("GET", "/health")
assert c.getresponse().status == 200
firsts.sort()
print(f"{args.clients} clients, {len(firsts)} answers, {total / seconds:.0f} tokens/s; first token p50 {firsts[len(firsts) // 2]:.2f} s, "
      f"p95 {firsts[len(firsts) * 95 // 100]:.2f} s; memory {sizes} kB")
# The first round makes what stays: buffers, kept prompts.
assert sizes[-1] < sizes[0] + 10_000, f"the memory grows: {sizes}"
