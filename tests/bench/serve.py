#!/usr/bin/env python3
"""Servers under equal load as one table: clients that each ask a question, read the streamed answer and ask the next.

  serve.py [MODEL.gguf] [--peer NAME=DIR ...] [--clients 1,4,16,64] [--words N] [--predict N] [--rounds N] [--temp T] [--json]

The model: by default SmolLM2, as samples/setup.sh brings it. DIR holds a peer's llama-server (tests/bench/llama_cpp.sh builds
llama.cpp's). Each server starts anew for each number of clients, with as many slots, answers one question of each client, and is
measured then: servers take turns on an otherwise idle machine. Questions differ from their first word on, so that none of them
is answered from another's states; answers end after N tokens and not before. The client is one thread that parses no more
than the last event: it runs on the same cores.

  tokens/s    generated tokens of all clients over the time from the first question to the last answer's end
  first       ms from a question to its first token: p50, p95
  between     ms between tokens of an answer, the mean: p50, p95 of answers
"""
import argparse
import json
import os
import pathlib
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "gguf-compile"
COMPILER = ROOT / "bazel-bin/compiler/gguf-compile"
WORDS = "river stone cloud green seven lantern music winter garden letter silver engine market yellow forest candle".split()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server on a free port, from start to its end."""

    def __init__(self, words, log):
        self.port = free_port()
        self.process = subprocess.Popen([*words, "--host", "127.0.0.1", "--port", str(self.port)], stdout=log, stderr=log)
        for _ in range(600):
            if self.process.poll() is not None:
                sys.exit(f"{' '.join(words)}: ended with {self.process.returncode}; see {log.name}")
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=5) as s:
                    s.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                    if b" 200 " in s.recv(100):
                        return
            except OSError:
                pass
            time.sleep(0.1)
        sys.exit(f"{' '.join(words)}: is not ready after a minute")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Client:
    """One question after another, each on a connection of its own: some servers end theirs with an answer."""

    def __init__(self, port, number, first, args, selector):
        self.port, self.selector = port, selector
        self.number, self.args, self.first_round, self.round = number, args, first, 0
        self.tokens, self.first, self.between = 0, [], []

    def ask(self):
        n = self.number * 1000 + self.first_round + self.round
        text = " ".join(WORDS[(n * 7 + k * (1 + n % 5)) % len(WORDS)] for k in range(self.args.words))
        body = json.dumps({"messages": [{"role": "user", "content": f"{n} {text}"}], "max_tokens": self.args.predict,
                           "ignore_eos": True, "temperature": self.args.temp, "seed": n, "stream": True,
                           "stream_options": {"include_usage": True}}).encode()
        self.round += 1
        self.tail, self.asked, self.heard = b"", time.perf_counter(), None
        self.socket = socket.create_connection(("127.0.0.1", self.port))
        self.selector.register(self.socket, selectors.EVENT_READ, self)
        self.socket.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                            b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def read(self):
        """True: the answer has ended."""
        data = self.socket.recv(1 << 16)
        if not data:
            sys.exit(f"client {self.number}: the server hung up after {self.tail!r}")
        now = time.perf_counter()
        if not self.tail and not data.startswith(b"HTTP/1.1 200"):
            sys.exit(f"client {self.number}: {data!r}")
        self.tail = (self.tail + data)[-4096:]
        # llama-server's first event has a role and `"content":null`, ours `"content":""`.
        if self.heard is None and b'"content":"' in self.tail.replace(b'"content":""', b""):
            self.heard = now
        if b"data: [DONE]" not in self.tail or not self.tail.endswith(b"0\r\n\r\n"):
            return False
        self.selector.unregister(self.socket)
        self.socket.close()
        usage = [e for e in self.tail.split(b"data: ") if b'"completion_tokens"' in e][-1]
        tokens = json.loads(usage.partition(b"\n")[0])["usage"]["completion_tokens"]
        if tokens != self.args.predict:
            sys.exit(f"client {self.number}: {tokens} tokens instead of {self.args.predict}")
        self.tokens += tokens
        self.first.append(1000 * (self.heard - self.asked))
        self.between.append(1000 * (now - self.heard) / max(1, tokens - 1))
        return True


def load(port, n, first, rounds, args):
    """Seconds, and the clients: each asks its questions [first, first + rounds)."""
    with selectors.DefaultSelector() as selector:
        clients = [Client(port, i, first, args, selector) for i in range(n)]
        begin = time.perf_counter()
        for c in clients:
            c.ask()
        open_answers = n
        while open_answers:
            for key, _ in selector.select():
                if not key.data.read():
                    continue
                if key.data.round < rounds:
                    key.data.ask()
                else:
                    open_answers -= 1
        return time.perf_counter() - begin, clients


def measure(words, n, args, log):
    server = Server(words, log)
    try:
        load(server.port, n, 0, 1, args)
        seconds, clients = load(server.port, n, 1, args.rounds, args)
    finally:
        server.end()

    def at(values, share):
        return sorted(values)[min(len(values) - 1, int(share * len(values)))]

    first, between = ([x for c in clients for x in getattr(c, name)] for name in ("first", "between"))
    return {"tokens/s": sum(c.tokens for c in clients) / seconds, "first p50": at(first, 0.5), "first p95": at(first, 0.95),
            "between p50": at(between, 0.5), "between p95": at(between, 0.95)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default=CACHE / "models/SmolLM2-135M-Instruct.Q4_1.gguf", type=pathlib.Path)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=DIR")
    parser.add_argument("--clients", default="1,4,16,64")
    parser.add_argument("--words", type=int, default=40, help="of a question")
    parser.add_argument("--predict", type=int, default=128, help="tokens of an answer")
    parser.add_argument("--rounds", type=int, default=3, help="questions of each client")
    parser.add_argument("--temp", type=float, default=0)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    context = args.words * 4 + args.predict + 128
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "model"
        subprocess.run([COMPILER, args.model, "-o", program, "-q", "--with", "serve"], check=True)
        for n in map(int, args.clients.split(",")):
            servers = {"ours": [program, "serve", "-np", n, "-c", context, "-t", args.threads]}
            for peer in args.peer:
                name, _, directory = peer.partition("=")
                servers[name] = [pathlib.Path(directory) / "llama-server", "-m", args.model, "-np", n, "-c", n * context, "-t",
                                 args.threads]
            for name, words in servers.items():
                with open(pathlib.Path(folder) / f"{name}.log", "w") as log:
                    rows.append({"server": name, "clients": n, **measure([str(w) for w in words], n, args, log)})
    if args.json:
        print(json.dumps(rows, indent=1))
        return
    columns = list(rows[0])
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for r in rows:
        print("| " + " | ".join(f"{v:.1f}" if isinstance(v, float) else str(v) for v in r.values()) + " |")
    for r in rows:
        if r["server"] == "ours":
            best = max((o["tokens/s"] for o in rows if o["clients"] == r["clients"] and o is not r), default=0)
            if best:
                print(f"{r['clients']} clients: {r['tokens/s'] / best:.2f} times the best peer's tokens/s")


main()
