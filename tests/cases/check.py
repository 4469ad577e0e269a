"""What a case is, how commands are run, and what a clean refusal is.

A case is one input of a kind and what it must get:
  refuses(...)   clean: exit code 1 within 5 s of CPU and 512 MB, one line of error that is safe to print on a terminal
                 and matches a pattern, no file left
  accepts(...)   compiled; `then` may look at the program
  survives(...)  either of both: what the file says is strange and harmless
  Case(...)      anything else, a function that raises Failed
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field

from gguf_file import File

PYTHON = os.path.realpath(sys.executable)
HERE = os.path.dirname(os.path.abspath(__file__))
LAUNCH, CLOCK = os.path.join(HERE, "launch.py"), os.path.join(HERE, "clock.py")
SECONDS, KIB, ADDRESS_SPACE = 5, 512 * 1024, 600_000 * 1024
WALL = 120  # a busy machine's clock says little: CPU time is what is bounded


class Failed(Exception):
    pass


@dataclass
class Outcome:
    code: int
    out: bytes
    err: bytes
    seconds: float  # of CPU
    kib: int  # most memory at once

    def said(self):
        return self.err.decode("utf-8", "backslashreplace")[:20000]


def run(command, stdin=b"", address_space=None, cwd=None, env=None, wall=WALL, stdout=subprocess.PIPE):
    """OSError when the kernel refuses the command."""
    reports, report = os.pipe()
    launcher = [PYTHON, "-I", "-S", LAUNCH, str(report), str(address_space or 0), *command]
    child = subprocess.Popen(launcher, stdin=subprocess.PIPE, stdout=stdout, stderr=subprocess.PIPE, cwd=cwd, env=env,
                             pass_fds=[report], process_group=0)
    os.close(report)
    killed = threading.Timer(wall, os.killpg, (child.pid, signal.SIGKILL))
    killed.start()
    texts = [b"", b""]

    def drain(i, stream):
        texts[i] = stream.read()

    def feed():
        try:
            child.stdin.write(stdin)
            child.stdin.close()
        except BrokenPipeError:
            pass

    pipes = [s for s in enumerate((child.stdout, child.stderr)) if s[1]]
    threads = [threading.Thread(target=drain, args=pipe) for pipe in pipes] + [threading.Thread(target=feed)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    child.wait()
    if not killed.is_alive():
        raise Failed(f"not done after {wall} s: {command}")
    killed.cancel()
    for _, stream in pipes:
        stream.close()
    with os.fdopen(reports) as told:
        error, status, seconds, kib = told.read().split()
    if int(error):
        raise OSError(int(error), os.strerror(int(error)))
    return Outcome(os.waitstatus_to_exitcode(int(status)), *texts, float(seconds), int(kib))


@dataclass
class Case:
    kind: str
    name: str
    check: object  # of a Context; returns "refused", "accepted" or another word to count it by
    seconds: float = field(default=0, compare=False)
    model: object = None  # of cases that compile one: it, and the options
    options: tuple = ()


class Context:
    def __init__(self, compiler, root, models, sanitized):
        self.compiler, self.root, self.models, self.sanitized = compiler, root, models, sanitized
        self.folder = tempfile.mkdtemp(prefix="gguf-compile-case.")
        self.made = os.path.join(self.folder, "made")
        os.mkdir(self.made)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        path = self.path(name)
        with open(path, "wb") as f:
            f.write(data.bytes() if isinstance(data, File) else data)
        return path

    def compile(self, model, *options, name="model", **how):
        """`model`: a path, bytes or a File. The outcome and the program's path."""
        if not isinstance(model, str):
            model = self.write("model.gguf", model)
        out = os.path.join(self.made, name)
        return run([self.compiler, model, "-o", out, "-q", *options], **how), out

    def program(self, model, *options, name="model"):
        outcome, out = self.compile(model, *options, name=name)
        if outcome.code != 0:
            raise Failed(f"exit code {outcome.code}: {outcome.said()}")
        return out

    def logits(self, program, tokens=(2, 50, 60, 70, 80, 90, 100, 50, 60, 70, 80, 90)):
        path = program + ".f32"
        ran = run([program, "logits", "--tokens", ",".join(map(str, tokens)), "-ctk", "f32", "-o", path])
        if ran.code != 0:
            raise Failed(f"logits: exit code {ran.code}: {ran.said()}")
        with open(path, "rb") as f:
            return f.read()

    def expect_clean(self, outcome, pattern, longest=1500):
        said = outcome.said()
        lines = [line for line in said.split("\n") if line and not line.startswith("gguf-compile: warning: ")]
        if outcome.code != 1:
            raise Failed(f"exit code {outcome.code}, expected 1: {said}")
        if len(lines) != 1:
            raise Failed(f"{len(lines)} lines: {said}")
        if any(ord(c) < 32 or 127 <= ord(c) < 160 for c in lines[0]):
            raise Failed(f"control characters: {said!r}")
        if len(lines[0]) > longest:
            raise Failed(f"a line of {len(lines[0])} characters: {said}")
        if not re.search(pattern, lines[0]):
            raise Failed(f"'{lines[0]}' does not match '{pattern}'")
        self.expect_small(outcome)
        if left := os.listdir(self.made):
            raise Failed(f"left behind: {left}")

    def expect_small(self, outcome):
        if self.sanitized:
            return
        if outcome.seconds > SECONDS:
            raise Failed(f"{outcome.seconds:.1f} s of CPU")
        if outcome.kib > KIB:
            raise Failed(f"{outcome.kib} KiB")


def expect(condition, what):
    if not condition:
        raise Failed(what)


def refuses(kind, name, model, pattern, options=(), address_space=None):
    """`model`: bytes, a File, or a function of the context that gives either or a path."""

    def check(c):
        made = model(c) if callable(model) else model
        outcome, _ = c.compile(made, *options, address_space=None if c.sanitized else address_space)
        c.expect_clean(outcome, pattern)
        return "refused"

    return Case(kind, name, check, model=model, options=tuple(options))


def accepts(kind, name, model, then=None, options=(), warning=None):
    """`then`: of the context and the program's path. `warning`: a pattern that a warning must match."""

    def check(c):
        made = model(c) if callable(model) else model
        outcome, program = c.compile(made, *options)
        if outcome.code != 0:
            raise Failed(f"exit code {outcome.code}: {outcome.said()}")
        said = outcome.said()
        if warning and not re.search(f"gguf-compile: warning: .*{warning}", said):
            raise Failed(f"no warning like '{warning}': {said}")
        if any(ord(ch) < 32 and ch != "\n" or 127 <= ord(ch) < 160 for ch in said):
            raise Failed(f"control characters: {said!r}")
        if then:
            then(c, program)
        return "accepted"

    return Case(kind, name, check, model=model, options=tuple(options))


def survives(kind, name, model, options=()):
    def check(c):
        made = model(c) if callable(model) else model
        outcome, program = c.compile(made, *options)
        if outcome.code == 0:
            ran = run([program, "logits", "--tokens", "2,50,60", "-o", c.path("out")])
            expect(ran.code in (0, 1), f"the program: exit code {ran.code}: {ran.said()}")
            return "accepted"
        c.expect_clean(outcome, "")
        return "refused"

    return Case(kind, name, check, model=model, options=tuple(options))


class Timed:
    def __enter__(self):
        self.start = time.monotonic()
        return self

    def __exit__(self, *_):
        self.seconds = time.monotonic() - self.start
