"""Compiled programs: prompts, contexts, samplers, biases, stops, faults of the machine, damaged files."""
import math
import os
import random
import resource
import shutil
import signal
import subprocess
import threading
import time

import tiny
from check import Case, Failed, expect, run
from gguf_file import STRING

SHARED = {}
LOCK = threading.Lock()


def program(c, name="gemma3", make=tiny.gemma3):
    """One program for all cases; the compiler's work is not what they are about."""
    with LOCK:
        if name not in SHARED:
            folder = os.path.join(os.path.dirname(c.folder), f"gguf-compile-cases.{os.getpid()}")
            os.makedirs(folder, exist_ok=True)
            out = os.path.join(folder, name)
            ran = run([c.compiler, c.write("shared.gguf", make()), "-o", out, "-q"])
            expect(ran.code == 0, ran.said())
            SHARED[name] = out
        return SHARED[name]


def forget():
    for path in SHARED.values():
        shutil.rmtree(os.path.dirname(path), ignore_errors=True)
    SHARED.clear()


def chatting():
    source = "{% for m in messages %}<start_of_turn>{{ m.content }}<end_of_turn>{% endfor %}"
    return tiny.gemma3().set("tokenizer.chat_template", STRING, source)


def one(kind, name, arguments, code, pattern="", then=None, stdin=b"", make=tiny.gemma3, model="gemma3", seconds=20):
    """`code`: what it may end with. One line of error where it is 1."""

    def check(c):
        ran = run([program(c, model, make), *arguments], stdin=stdin)
        said = ran.said()
        expect(ran.code in code, f"exit code {ran.code}: {said[:500]} {ran.out[:200]!r}")
        if ran.code == 1:
            errors = [line for line in said.split("\n") if ": error: " in line]
            expect(len(errors) == 1, f"no single line of error: {said[:1000]}")
            expect(not any(ord(ch) < 32 or 127 <= ord(ch) < 160 for ch in errors[0]), f"control characters: {errors[0]!r}")
        expect(pattern in said, f"'{said[:500]}' has no '{pattern}'")
        if then:
            then(ran)
        if not c.sanitized:
            expect(ran.kib < 512 * 1024, f"{ran.kib} KiB")
            expect(ran.seconds < seconds, f"{ran.seconds} s of CPU")
        return "answered" if ran.code == 0 else "refused"

    return Case(kind, name, check)


def samplers():
    """C35: parameters of samplers at and past their ends."""
    base = ["-p", "hi", "-n", "4", "--no-perf", "-s", "1"]
    reals = ["0", "-1", "1", "2", "1e-5", "1e-40", "1e38", "1e999", "nan", "-nan", "inf", "-inf", "", " ", "x", "0,5", "0x1p3", "1e", "--5", "0.5garbage", "9" * 400]
    for flag in ("--temp", "--top-p", "--min-p", "--repeat-penalty", "--presence-penalty", "--frequency-penalty", "--typical", "--top-nsigma",
                 "--xtc-probability", "--xtc-threshold", "--dynatemp-range", "--dynatemp-exp", "--dry-multiplier", "--dry-base", "--mirostat-lr", "--mirostat-ent"):
        for v in reals:
            more = ["--mirostat", "2"] if "mirostat" in flag else []
            yield one("C35", f"{flag} {v[:8]!r}", [*base, *more, flag, v], [0, 1])
    whole = ["0", "-1", "-2", "1", "2147483647", "2147483648", "-2147483648", "4294967296", "9223372036854775808", "1e3", "1.5", "", "x", "nan", "0x10"]
    for flag in ("--top-k", "--repeat-last-n", "--dry-allowed-length", "--dry-penalty-last-n", "--mirostat", "-s", "--keep"):
        for v in whole:
            yield one("C35", f"{flag} {v!r}", [*base, flag, v], [0, 1])
    for v in ("nosuch", "", ";", "top_k;top_k", "top_k;nosuch", "\x1b[2J", "temperature", "a" * 10000):
        yield one("C35", f"--samplers {v[:12]!r}", [*base, "--samplers", v], [0, 1])
        yield one("C35", f"--sampler-seq {v[:12]!r}", [*base, "--sampler-seq", v], [0, 1])

    def same_as_greedy(c):
        outs = {run([program(c), "-p", "hi", "-n", "8", "-s", "7", *flags]).out for flags in (["--temp", "0"], ["--top-k", "1"], ["--temp", "1e-5"], ["--temp", "-1"])}
        expect(len(outs) == 1, f"{outs}")
        return "answered"

    yield Case("C35", "no temperature, one candidate, a tiny temperature: one text", same_as_greedy)


def biases():
    """C37: biases of tokens."""
    base = ["-p", "hi", "-n", "3", "--temp", "0", "--ids", "--no-perf", "--no-display-prompt"]
    for v in ("357+1", "-1+1", "abc+1", "5", "5+", "5+x", "5+nan", "5+inf", "5-inf", "+1", "", "99999999999+1", "5+1e999", "\x1b+1"):
        yield one("C37", f"a bias {v!r}", [*base, "-l", v], [0, 1])

    def forced(c):
        path = program(c)
        ids = lambda *flags: [int(t) for t in run([path, *base, *flags]).out.decode().strip().split(",") if t]
        first = ids()[0]
        expect(ids("-l", f"{first}-100")[0] != first, "a bias of -100 changes nothing")
        expect(ids("-l", f"{first}-inf")[0] != first, "a ban changes nothing")
        expect(ids("-l", "300+100")[0] == 300, "a bias of 100 does not choose")
        return "answered"

    yield Case("C37", "biases choose and ban", forced)
    many = [a for i in range(2000) for a in ("-l", f"{i % 357}+0.1")]
    yield one("C37", "2000 biases", [*base, *many], [0, 1])


def contexts():
    """C44: prompts up to and past the context, texts to its end, shifts."""
    ids = lambda n: ",".join(["2"] + ["300"] * (n - 1))
    c = ["-c", "64", "--no-perf", "--temp", "0", "--ids", "--no-display-prompt", "--ignore-eos"]

    def counts(n):
        def then(ran):
            got = len([t for t in ran.out.decode().strip().split(",") if t])
            expect(got == n, f"{got} tokens, expected {n}")

        return then

    for n in (1, 62, 63, 64):
        yield one("C44", f"a prompt of {n} of 64, to the end", ["--tokens", ids(n), *c], [0, 1])
        yield one("C44", f"a prompt of {n} of 64, 1000 tokens", ["--tokens", ids(n), *c, "-n", "1000"], [0, 1])
        yield one("C44", f"a prompt of {n} of 64, shifted", ["--tokens", ids(n), *c, "-n", "200", "--context-shift"], [0, 1])
    yield one("C44", "63 of 64 and one more", ["--tokens", ids(63), *c, "-n", "1"], [0], then=counts(1))
    for n in (65, 66, 1000, 20000):
        yield one("C44", f"a prompt of {n} of 64", ["--tokens", ids(n), *c, "-n", "1"], [1], "context 64")
    yield one("C44", "a prompt of a megabyte", ["-f", "-", *c], [1], "context 64", stdin=b"a" * 2**20)
    for keep in ("-1", "0", "1", "63", "64", "1000000000"):
        yield one("C44", f"--keep {keep}", ["--tokens", ids(30), *c, "-n", "100", "--context-shift", "--keep", keep], [0, 1])
    for size in ("0", "1", "2", "-1", "2147483647", "2147483648", "1048577", "x"):
        yield one("C44", f"a context of {size}", ["-p", "hi", "-n", "2", "-c", size], [0, 1])
    for flag in ("-b", "-ub", "-t", "-n"):
        for v in ("0", "-1", "-2", "-3", "1", "2147483647", "2147483648", "x", ""):
            yield one("C44", f"{flag} {v!r}", ["-p", "hi", "-c", "64", *(["-n", "2"] if flag != "-n" else []), flag, v], [0, 1])


def prompts():
    """C50: empty prompts, wrong tokens, what comes in by standard input."""
    quick = ["-n", "2", "-c", "512", "--no-perf"]
    yield one("C50", "an empty prompt of a model with a first token", ["-p", "", *quick], [0])
    yield one("C50", "a blank", ["-p", " ", *quick], [0])
    no_bos = dict(model="bpe", make=lambda: tiny.llama(vocabulary=tiny.bpe_keys()))
    yield one("C50", "an empty prompt of a model without one", ["-p", "", *quick], [1], **no_bos)
    yield one("C50", "no tokens to make", ["-p", "hi", "-n", "0"], [0], then=lambda r: expect(r.out.startswith(b"hi") and len(r.out) <= 3, f"{r.out!r}"))
    for ids in ("", ",", "1,", ",1", "-1", "357", "2147483648", "99999999999999999999", "1.5", "a", "1 2", "0x1", "\x1b", "1,-1", "nan", "2" + ",300" * 20000):
        yield one("C50", f"tokens {ids[:12]!r}", ["--tokens", ids, *quick], [0, 1])
        yield one("C50", f"tokens {ids[:12]!r} for logits", ["logits", "--tokens", ids, "-c", "512", "-o", "/dev/null"], [0, 1])
    texts = {"NUL bytes": b"a\0b\0", "invalid UTF-8": b"\xff\xfe\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80", "nothing": b"", "half a character": b"a\xf0\x9f",
             "escape sequences": b"\x1b[2J\x9b", "lines of CR": b"a\r\n\rb", "a kilobyte of blanks": b" " * 400}
    for name, data in texts.items():
        yield one("C50", f"standard input: {name}", ["-f", "-", *quick], [0, 1], stdin=data)
        yield one("C50", f"standard input, as it is: {name}", ["-bf", "/dev/stdin", *quick], [0, 1], stdin=data)
        yield one("C50", f"to the tokenizer: {name}", ["tokenize", "--ids", "--stdin"], [0, 1], stdin=data)
        yield one("C50", f"a message: {name}", ["chat", "-st", *quick[:-1]], [0, 1], stdin=data, model="chat", make=chatting)
    for name, arguments in (("a prompt", ["-f", "-", *quick]), ("the tokenizer", ["tokenize", "--ids", "--stdin"])):

        def large(c, arguments=arguments):
            ran = run([program(c), *arguments], stdin=b"word " * (20 * 2**20))
            expect(ran.code in (0, 1), f"exit code {ran.code}: {ran.said()[:500]}")
            expect(c.sanitized or ran.kib < 4 * 2**20, f"{ran.kib} KiB")
            return "answered" if ran.code == 0 else "refused"

        yield Case("C50", f"100 MB for {name}", large)
    for path in ("/no/such", "/tmp", "/dev/null", "", "/etc/shadow/x"):
        yield one("C50", f"-f {path!r}", ["-f", path, *quick], [0, 1])
    for arguments in (["--nosuch"], ["nosuch"], ["-p"], ["-n"], ["help", "nosuch"], ["info", "x"], ["check", "x"], ["chat", "--nosuch"], ["logits"], ["dump"],
                      ["bench", "-p", "x"], ["perplexity"], ["embed"], ["\x1b[2J"], ["--isa", "nosuch", "-p", "hi"], ["-ctk", "nosuch", "-p", "hi"],
                      ["dump", "--tokens", "1", "--name", "("], ["logits", "--tokens", "1", "-o", "/no/such/x"], ["logits", "--tokens", "1", "-o", "/tmp"]):
        yield one("C50", " ".join(arguments)[:30], arguments, [1])


def stops():
    """C51: texts that end an answer, over several tokens and inside of one."""
    forced = ["-p", "hi", "-n", "40", "--temp", "0", "--no-perf", "--no-display-prompt", "--grammar", 'root ::= "xx O P Q yy abaabab z"']
    for stop, expected in ((["O P Q"], "xx "), (["Q y"], "xx O P "), (["abab"], "xx O P Q yy aba"), (["x"], ""), (["zz"], "xx O P Q yy abaabab z"),
                           (["nope", "P"], "xx O "), (["\u4e2d"], "xx O P Q yy abaabab z"), (["z"], "xx O P Q yy abaabab "), (["y"] * 32, "xx O P Q ")):
        flags = [a for s in stop for a in ("--stop", s)]

        def then(ran, expected=expected):
            expect(ran.out.decode().rstrip("\n") == expected.rstrip("\n"), f"{ran.out!r}, expected {expected!r}")

        yield one("C51", f"{stop[0]!r} x {len(stop)}", [*forced, *flags], [0], then=then)
    yield one("C51", "more stops than 32", [*forced, *["--stop", "y"] * 33], [1], "32 times")
    yield one("C51", "an empty stop", [*forced, "--stop", ""], [0, 1])
    for text in ("\U0001f999", "\u00e9\u4e2d\U0001f468\u200d\U0001f469"):
        yield one("C51", f"C29: {text!r} byte by byte", ["-p", "hi", "-n", "60", "--no-perf", "--no-display-prompt", "--grammar", f'root ::= "{text}"'], [0],
                  then=lambda r, t=text: expect(r.out.decode().strip() == t, f"{r.out!r}"))


def machine():
    """RUN: closed outputs, no /proc, no /tmp, one CPU, little memory, locales."""

    def shell(name, script, code, pattern="", make=tiny.gemma3, model="gemma3"):
        def check(c):
            ran = run(["bash", "-c", script, "bash", program(c, model, make), c.folder])
            expect(ran.code in code, f"exit code {ran.code}: {ran.said()[:500]}")
            expect(pattern in ran.said(), f"'{ran.said()[:500]}' has no '{pattern}'")
            return "answered" if ran.code == 0 else "refused"

        return Case("RUN", name, check)

    go = '"$1" -p hi -n 4 --temp 0'
    for name, closed, codes in (("input", "<&-", [0]), ("output", ">&-", [1]), ("errors", "2>&-", [0]), ("all", "<&- >&- 2>&-", [1])):
        yield shell(f"standard {name} closed", f"{go} {closed}", codes)
    for command in ("-p hi -n 4", "info", "info --json", "help", "--version", "check", "tokenize hi", "bench -p 0 -n 1 -r 1", "logits --tokens 1,2 -o /dev/full"):
        yield shell(f"{command}, a full output", f'"$1" {command} >/dev/full', [1], "cannot write")
    yield shell("an output that closes", f'{go.replace("4", "200")} 2>&3 3>&2 | head -c 1 >/dev/null; exit "${{PIPESTATUS[0]}}"', [0, 1])
    yield shell("no terminal, chat", '"$1" chat -st -p hi -n 2 </dev/null', [0], model="chat", make=chatting)
    yield shell("chat without lines", '"$1" chat -n 2 </dev/null', [0, 1], model="chat", make=chatting)
    yield shell("one CPU", f"taskset -c 0 {go}", [0])
    yield shell("no environment", f"env -i {go}", [0])
    for t in (1, 2, 64, 512, 100000):
        yield shell(f"{t} threads", f"{go} -t {t}", [0, 1])
    for locale in ("C", "de_DE.UTF-8", "tr_TR.UTF-8", "none", "../../etc"):
        yield shell(f"locale {locale}", f"LC_ALL={locale} LANG={locale} LANGUAGE={locale} {go} --temp 0.5 --top-p 0.9", [0])
    for n in (3, 4, 6):
        yield shell(f"{n} open files", f"ulimit -n {n}; {go}", [0, 1, 127])
    yield shell("files of no bytes", f'ulimit -f 0; "$1" logits --tokens 1,2 -o "$2/x"', [1], "cannot write")
    for kib in (200_000, 100_000, 50_000, 20_000, 10_000, 6_000):
        yield shell(f"an address space of {kib} KiB", f"ulimit -v {kib}; {go} -c 512", [0, 1, 127, 137, 139])

    def empty_root(c):
        if os.geteuid() != 0:
            return "not tried (no right to change the root)"
        root = c.path("root")
        os.mkdir(root)
        shutil.copy(program(c, "chat", chatting), os.path.join(root, "m"))
        for arguments in (["-p", "hi", "-n", "4"], ["chat", "-st", "-p", "hi", "-n", "2"], ["info"], ["check"], ["bench", "-p", "8", "-n", "2", "-r", "1"],
                          ["tokenize", "hi"], ["logits", "--tokens", "1,2", "-o", "/dev/stdout"], ["--version"], ["help"]):
            ran = run(["chroot", root, "/m", *arguments])
            expect(ran.code == (1 if arguments[0] == "logits" else 0), f"{arguments}: exit code {ran.code}: {ran.said()[:300]}")
        expect(os.listdir(root) == ["m"], f"it left {os.listdir(root)}")
        return "answered"

    yield Case("RUN", "a root folder without /proc, /tmp, /dev, /etc", empty_root)

    def read_only_root(c):
        root = c.path("root")
        os.mkdir(root)
        mount = lambda *arguments: subprocess.run(["mount", *arguments], capture_output=True).returncode == 0
        if not mount("-t", "tmpfs", "-o", "size=32m", "tmpfs", root):
            return "not tried (no right to mount)"
        try:
            shutil.copy(program(c, "chat", chatting), os.path.join(root, "m"))
            expect(mount("-o", "remount,ro", root), "the disk stays writable")
            for arguments in (["-p", "hi", "-n", "4"], ["chat", "-st", "-p", "hi", "-n", "2"], ["check"], ["bench", "-p", "8", "-n", "2", "-r", "1"]):
                ran = run(["chroot", root, "/m", *arguments])
                expect(ran.code == 0, f"{arguments}: exit code {ran.code}: {ran.said()[:300]}")
            ran = run(["chroot", root, "/m", "logits", "--tokens", "1,2", "-o", "/x"])
            expect(ran.code == 1 and "Read-only file system" in ran.said(), f"exit code {ran.code}: {ran.said()[:300]}")
        finally:
            subprocess.run(["umount", root], check=True)
        return "answered"

    yield Case("RUN", "a read-only root", read_only_root)

    def signals(c):
        for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"):
            child = subprocess.Popen([program(c), "-p", "hi", "--ignore-eos", "-n", "-1", "-c", "100000"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                     preexec_fn=lambda: (signal.signal(signal.SIGINT, signal.SIG_DFL), signal.signal(signal.SIGQUIT, signal.SIG_DFL),
                                                         resource.setrlimit(resource.RLIMIT_CORE, (0, 0))))
            time.sleep(0.3)
            child.send_signal(getattr(signal, name))
            try:
                child.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                child.kill()
                raise Failed(f"{name} does not end it") from None
        return "answered"

    yield Case("RUN", "signals end it", signals)

    def no_write(c):
        # What it may open and for what: nothing but itself is read, nothing is written or executed.
        strace = shutil.which("strace")
        if not strace:
            return "not tried (no strace)"
        run([strace, "-f", "-o", c.path("trace"), "-e", "trace=openat,open,execve,connect,socket,creat,unlink,rename", program(c), "-p", "hi", "-n", "4"])
        calls = [line for line in open(c.path("trace"), errors="replace") if "(" in line and "exited" not in line]
        bad = [line for line in calls if "O_WRONLY" in line or "O_RDWR" in line or "socket" in line or "connect" in line or "creat(" in line]
        expect(not bad and sum("execve" in line for line in calls) == 1, f"{bad}")
        return "answered"

    yield Case("RUN", "nothing is written, executed or connected", no_write)


def cut(share, made=program, arguments=("-p", "hi", "-n", "2")):
    """A check of the first part of a program; `made`: of the context, its path."""

    def check(c):
        data = open(made(c), "rb").read()
        path = c.path("cut")
        with open(path, "wb") as f:
            f.write(data[: int(len(data) * share)])
        os.chmod(path, 0o755)
        try:
            ran = run([path, *arguments])
        except OSError as error:
            return f"refused by the kernel ({error.strerror})"
        # Cut in its code or its libraries the kernel can only kill it; cut in its weights it says so.
        expect(ran.code != 0, "it ran")
        return "refused" if ran.code == 1 else "killed"

    return check


def flipped(seed, made=program):
    """A check of a program with one bit changed."""

    def check(c):
        data = bytearray(open(made(c), "rb").read())
        at = random.Random(seed).randrange(4096, len(data))
        data[at] ^= 1 << seed % 8
        path = c.path("flipped")
        with open(path, "wb") as f:
            f.write(data)
        os.chmod(path, 0o755)
        ran = run([path, "check"], wall=30)
        if ran.code == 0:
            # Nothing that is mapped: section names, padding, the room between.
            return "a byte that nothing reads"
        return "found by check" if ran.code == 1 else "killed"

    return check


def damaged():
    """DMG: programs that are cut off or changed: said at the start or by `check`, and weights are never read past the end."""
    for share in (0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99):
        yield Case("DMG", f"cut to {share}", cut(share))

    def cut_weights(c):
        data = open(program(c), "rb").read()
        # The weights are the last segment: all that is in their place, to the file's end or nearly.
        for lost in (1, 4096, 100000, 300000):
            path = c.path(f"cut{lost}")
            with open(path, "wb") as f:
                f.write(data[: len(data) - lost])
            os.chmod(path, 0o755)
            ran = run([path, "-p", "hi", "-n", "2"])
            expect(ran.code in (0, 1), f"{lost} bytes lost: exit code {ran.code}: {ran.said()}")
            checked = run([path, "check"])
            expect(checked.code in (0, 1) and (ran.code == 0 or checked.code == 1), f"{lost} bytes lost: check: {checked.code}")
        return "refused"

    yield Case("DMG", "cut in its weights", cut_weights)

    for seed in range(40):
        yield Case("DMG", f"one bit changed, {seed}", flipped(seed))


def executables():
    """ELF: weights read-only, no data that can be executed, position-independent, RELRO, no path, user, host or time inside."""

    def check(c):
        path = program(c)
        text = lambda *a: subprocess.run(["readelf", "-W", *a, path], capture_output=True, text=True, check=True).stdout
        segments = [line.split() for line in text("-l").split("\n") if line.strip().startswith(("LOAD", "GNU_"))]
        expect("DYN" in text("-h").split("Type:")[1].split("\n")[0], "not position-independent")
        kinds = {s[0] for s in segments}
        expect("GNU_RELRO" in kinds, "no RELRO")
        flags = lambda s: "".join(s[6:-1])
        for s in segments:
            expect(not ("W" in flags(s) and "E" in flags(s)), f"a segment that is writable and executable: {s}")
            if s[0] == "GNU_STACK":
                expect("E" not in flags(s), "the stack is executable")
        loads = [s for s in segments if s[0] == "LOAD"]
        largest = max(loads, key=lambda s: int(s[4], 16) if "E" not in flags(s) else 0)
        expect(flags(largest) == "R" and int(largest[4], 16) >= 300_000, f"the weights are not read-only data: {loads}")
        # All that is executable is smaller than what a program's code takes: no data is in there.
        notes = text("-d")
        expect("TEXTREL" not in notes, "relocations in code")
        return "answered"

    def clean(c):
        folder = c.path("a secret folder")
        os.mkdir(folder)
        model = os.path.join(folder, "secretname.gguf")
        with open(model, "wb") as f:
            f.write(tiny.gemma3().bytes())
        outs = []
        for out, user, zone in (("one", "alice", "UTC"), ("two", "bob", "Asia/Tokyo")):
            env = {**os.environ, "USER": user, "LOGNAME": user, "HOME": f"/home/{user}", "TZ": zone, "HOSTNAME": user}
            made = os.path.join(folder, out)
            ran = run([c.compiler, model, "-o", made, "-q"], env=env)
            expect(ran.code == 0, ran.said())
            outs.append(open(made, "rb").read())
            time.sleep(1.1)
        expect(outs[0] == outs[1], "another user, zone, time and name make another file")
        import getpass
        import socket

        words = {b"secret", b"/tmp/", str(c.root).encode(), b"/home/", socket.gethostname().encode(), os.fsencode(os.path.dirname(c.compiler)), b"bazel-out", b"execroot", b"alice"}
        found = sorted(w for w in words if len(w) > 4 and w in outs[0])
        expect(not found, f"inside are {found}")
        return "answered"

    yield Case("ELF", "segments", check)
    yield Case("ELF", "no trace of who made it", clean)


CASES = [samplers, biases, contexts, prompts, stops, machine, damaged, executables]
