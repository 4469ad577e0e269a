"""Other users' files, quotas of CPU time, memory below the need, clocks that jump: for the compiler and for its programs."""
import contextlib
import datetime
import os
import re
import resource
import shutil
import struct
import subprocess
import time

import clock
import tiny
from check import CLOCK, PYTHON, Case, expect, run
from containers import in_shards
from faults import small, sound
from gguf_file import STRING
from programs import LOCK, SHARED, chatting, program

NOBODY = 65534


def others():
    """USR: another user's files and folders: what can't be read, what can't be written."""
    root = os.geteuid() == 0
    # Who isn't root has files that he may not read himself.
    as_user = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "--"] if root else []

    def compiler(c):
        """A copy where anybody may go."""
        program(c)
        with LOCK:
            if "compiler" not in SHARED:
                path = os.path.join(os.path.dirname(SHARED["gemma3"]), "compiler")
                shutil.copy(c.compiler, path)
                os.chmod(path, 0o755)
                SHARED["compiler"] = path
        return SHARED["compiler"]

    def case(name, check):
        def checked(c):
            os.chmod(c.folder, 0o755)
            if root and shutil.which("setpriv") is None:
                return "not tried (no setpriv)"
            return check(c)

        return Case("USR", name, checked)

    def unread(name, make, pattern, arguments=("MODEL", "-o", "OUT")):
        """`make`: of the context, the path of the model; what must not be read has no rights for anybody."""

        def check(c):
            model = make(c)
            os.chmod(c.made, 0o777)
            out = os.path.join(c.made, "model")
            ran = run([*as_user, compiler(c), *[{"MODEL": model, "OUT": out, "SECRET": c.path("secret")}.get(a, a) for a in arguments]])
            c.expect_clean(ran, pattern)
            return "refused"

        return case(name, check)

    def closed(c, name="model.gguf", data=None):
        path = c.write(name, data or small())
        os.chmod(path, 0)
        return path

    def one_closed(c):
        paths = [c.write(f"model-0000{i + 1}-of-00003.gguf", part) for i, part in enumerate(in_shards(tiny.llama()))]
        os.chmod(paths[1], 0)
        return paths[0]

    def in_closed(c):
        os.mkdir(c.path("closed"))
        path = c.write("closed/model.gguf", small())
        os.chmod(c.path("closed"), 0)
        return path

    def beside_secret(c):
        closed(c, "secret", b"x")
        return c.write("model.gguf", small())

    denied = "Permission denied"
    yield unread("a model", closed, f"model.gguf.*{denied}")
    yield unread("a model, inspected", closed, f"model.gguf.*{denied}", ("inspect", "MODEL"))
    yield unread("a model, tokenized", closed, f"model.gguf.*{denied}", ("tokenize", "MODEL", "hi"))
    yield unread("a model in a closed folder", in_closed, f"model.gguf.*{denied}")
    yield unread("the second of three shards", one_closed, f"00002-of-00003.*{denied}")
    yield unread("a template", beside_secret, f"secret.*{denied}", ("MODEL", "-o", "OUT", "--chat-template-file", "SECRET"))
    yield unread("a prompt to keep", beside_secret, f"secret.*{denied}", ("MODEL", "-o", "OUT", "--prompt-cache-file", "SECRET"))
    yield unread("a tuning", beside_secret, f"secret.*{denied}", ("MODEL", "-o", "OUT", "--tuning", "SECRET"))

    def unwritten(name, mode, old, sticky=False):
        def check(c):
            model, out = c.write("model.gguf", small()), os.path.join(c.made, "model")
            if old:
                with open(out, "w") as f:
                    f.write("old")
            os.chmod(c.made, mode)
            if sticky and not root:
                return "not tried (needs another user's folder)"
            ran = run([*as_user, compiler(c), model, "-o", out])
            os.chmod(c.made, 0o755)
            expect(ran.code == 1 and ran.said().count("error: ") == 1, f"exit code {ran.code}: {ran.said()}")
            expect(re.search("Permission denied|Operation not permitted", ran.said()), ran.said())
            expect(os.listdir(c.made) == (["model"] if old else []), f"left: {os.listdir(c.made)}")
            expect(not old or open(out).read() == "old", "the old file is gone")
            return "refused"

        return case(name, check)

    yield unwritten("an output folder", 0o555, old=False)
    yield unwritten("an output folder with an old file", 0o555, old=True)
    yield unwritten("an old file in a folder like /tmp", 0o1777, old=True, sticky=True)

    def executed(c):
        # May be executed, not read: its own file cannot be opened.
        path = c.path("program")
        shutil.copy(program(c, "chat", chatting), path)
        os.chmod(path, 0o711 if root else 0o100)
        for arguments in (["-p", "hi", "-n", "4"], ["info"], ["check"], ["chat", "-st", "-p", "hi", "-n", "2"], ["tokenize", "hi"], ["bench", "-p", "4", "-n", "2", "-r", "1"]):
            ran = run([*as_user, path, *arguments], stdin=b"")
            expect(ran.code == 0, f"{arguments}: exit code {ran.code}: {ran.said()}")
        return "answered"

    yield case("a program that may be executed and not read", executed)

    def weights_closed(c):
        model, out = c.write("model.gguf", small()), os.path.join(c.made, "model")
        ran = run([c.compiler, model, "-o", out, "-q", "--weights", "external"])
        expect(ran.code == 0, ran.said())
        beside = [os.path.join(c.made, n) for n in os.listdir(c.made) if n != "model"]
        expect(len(beside) == 1, f"{beside}")
        os.chmod(beside[0], 0)
        ran = run([*as_user, out, "-p", "hi", "-n", "2"])
        expect(ran.code == 1 and ran.said().count("error: ") == 1 and "permission denied" in ran.said() and os.path.basename(beside[0]) in ran.said(), f"exit code {ran.code}: {ran.said()}")
        return "refused"

    yield case("weights beside a program", weights_closed)
    for arguments in (["-f", "SECRET"], ["logits", "--tokens", "1,2", "-o", "FOLDER/x"], ["perplexity", "-f", "SECRET"], ["-p", "hi", "-n", "2", "--grammar-file", "SECRET"]):

        def used(c, arguments=arguments):
            closed(c, "secret", b"x")
            os.mkdir(c.path("closed"), 0o555)
            ran = run([*as_user, program(c), *[a.replace("SECRET", c.path("secret")).replace("FOLDER", c.path("closed")) for a in arguments]])
            expect(ran.code == 1 and ran.said().count("error: ") == 1 and denied in ran.said(), f"exit code {ran.code}: {ran.said()}")
            return "refused"

        yield case(f"a program's {arguments[0]} {arguments[1]}", used)


@contextlib.contextmanager
def group(controller, **values):
    """A control group's folder, or None where none can be made. Version 1's names of files; version 2's follow."""
    v1 = os.path.join("/sys/fs/cgroup", controller)
    path = os.path.join(v1 if os.path.isdir(v1) else "/sys/fs/cgroup", f"gguf-compile-cases.{os.getpid()}.{time.monotonic_ns()}")
    try:
        os.mkdir(path)
    except OSError:
        yield None
        return
    try:
        for name, value in values.items():
            with open(os.path.join(path, f"{controller}.{name}"), "w") as f:
                f.write(value)
        made = True
    except OSError:
        made = False
    try:
        yield path if made else None
    finally:
        for _ in range(100):
            try:
                os.rmdir(path)
                break
            except OSError:  # its last process is still ending
                time.sleep(0.05)


def inside(path):
    """What a command begins with to run there."""
    return ["bash", "-c", 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"', "bash", path]


def quotas():
    """CPU: a quota of CPU time below the number of CPUs."""

    def quota(percent):
        if os.path.isdir("/sys/fs/cgroup/cpu"):
            return group("cpu", cfs_period_us="20000", cfs_quota_us=str(200 * percent))
        return group("cpu", max=f"{200 * percent} 20000")

    def throttled(path):
        with open(os.path.join(path, "cpu.stat")) as f:
            return int(re.search(r"nr_throttled (\d+)", f.read()).group(1))

    for percent in (100, 30):
        for threads in ("1", "2", "16", ""):

            def answers(c, percent=percent, threads=threads):
                command = [program(c), "-p", "hi", "-n", "200", "-s", "1", "-c", "512", "--ignore-eos", "--no-perf"]
                free = run([*command, "-t", "1"])
                with quota(percent) as path:
                    if path is None:
                        return "not tried (no right to make a control group)"
                    ran = run([*inside(path), *command, *(["-t", threads] if threads else [])])
                expect((ran.code, ran.out) == (0, free.out), f"exit code {ran.code}: {ran.said()} {ran.out!r}, expected {free.out!r}")
                expect(ran.seconds < 20, f"{ran.seconds} s of CPU")
                return "answered"

            yield Case("CPU", f"{percent}% of a CPU, {threads or 'its own number of'} threads", answers)

    def compiles(c):
        with quota(10) as path:
            if path is None:
                return "not tried (no right to make a control group)"
            out = os.path.join(c.made, "model")
            ran = run([*inside(path), c.compiler, c.write("model.gguf", small()), "-o", out, "-q"])
            expect(ran.code == 0, ran.said())
            expect(throttled(path) > 0, "the quota was never felt")
        sound(c, out)
        return "accepted"

    yield Case("CPU", "the compiler, a tenth of a CPU", compiles)


def memory():
    """MEM: memory below the need: said before it is used, or the system's own end of a process."""

    def limited(c, kib, context):
        def check_limit():
            resource.setrlimit(resource.RLIMIT_AS, (kib * 1024, kib * 1024))

        child = subprocess.run([program(c, "llama", tiny.llama), "-p", "hi", "-n", "2", "-c", str(context)], capture_output=True, timeout=60, preexec_fn=check_limit)
        return child.returncode, child.stderr.decode("utf-8", "replace")

    for kib, context in ((10_000, 512), (8_000, 512), (20_000, 100_000), (100_000, 1_000_000), (1_000_000, 2**31 - 1)):

        def says(c, kib=kib, context=context):
            code, said = limited(c, kib, context)
            expect(code == 1 and said.count("error: ") == 1 and re.search(r"not enough memory: a context of \d+ needs \d+ MiB|context", said), f"exit code {code}: {said}")
            return "refused"

        yield Case("MEM", f"{kib} KiB of addresses for a context of {context}", says)

    def controlled(c):
        # A control group's limit is no answer to malloc: the kernel ends what passes it. What needs less lives.
        v1 = os.path.isdir("/sys/fs/cgroup/memory")
        with group("memory", **({"limit_in_bytes": "16M"} if v1 else {"max": "16M"})) as path:
            if path is None:
                return "not tried (no right to make a control group)"
            ran = run([*inside(path), program(c), "-p", "hi", "-n", "4", "-c", "512"])
            expect(ran.code == 0, f"exit code {ran.code}: {ran.said()}")
        return "answered"

    yield Case("MEM", "a control group of 16 MB", controlled)


def clocks():
    """CLK: a clock that jumps, to the past, by centuries, at every reading."""
    date = "{{ strftime_now('%Y') }}{% for m in messages %}<start_of_turn>{{ m.content }}<end_of_turn>{% endfor %}"
    dated = lambda: tiny.gemma3().set("tokenizer.chat_template", STRING, date)

    def traced(c, how, command, least):
        """The outcome, or None where nothing can be traced."""
        if os.uname().machine != "x86_64":
            return None
        told = c.path("told")
        ran = run(["bash", "-c", 'exec 9>"$1"; shift; exec "$@"', "bash", told, PYTHON, "-I", "-S", CLOCK, "9", how, *command])
        if b"PermissionError" in ran.err:
            return None
        with open(told, "rb") as f:
            got = f.read()
        expect(len(got) == 8 and struct.unpack("<q", got)[0] >= least, f"the clock was not read as often: {got}: {ran.said()}")
        return ran

    def same(title, how, arguments, least, **of):
        def check(c):
            command = [program(c, **of), *arguments]
            plain, ran = run(command), traced(c, how, command, least)
            if ran is None:
                return "not tried (no right to trace)"
            expect((ran.code, ran.out) == (0, plain.out), f"exit code {ran.code}: {ran.said()} {ran.out!r}, expected {plain.out!r}")
            expect(not re.search(r"\bnan\b|\binf\b|-\d+\.\d", ran.said()), f"times: {ran.said()}")
            return "answered"

        return Case("CLK", title, check)

    complete = ["-p", "hi", "-n", "20", "-s", "1", "--ignore-eos"]
    yield same("a completion, wall clock", "0", complete, 0)
    yield same("a completion, the monotonic clock leaps", "steady", complete, 10)
    yield same("the same by 8 threads", "steady", [*complete, "-t", "8"], 10)
    yield same("a chat, the monotonic clock leaps", "steady", ["chat", "-st", "-p", "hi", "-n", "8", "-s", "1"], 10, name="chat", make=chatting)
    yield same("with a grammar", "steady", [*complete[:-1], "--grammar", 'root ::= [a-z]{1,9} "."'], 10)

    def bench(c):
        ran = traced(c, "steady", [program(c), "bench", "-p", "8", "-n", "4", "-r", "3"], 10)
        if ran is None:
            return "not tried (no right to trace)"
        expect(ran.code == 0 and not re.search(rb"\bnan\b|\binf\b|-\d", ran.out.split(b"|: |")[-1]), f"exit code {ran.code}: {ran.out}")
        return "answered"

    yield Case("CLK", "bench", bench)
    for i in range(11):

        def dates(c, i=i):
            # The year that the template writes, by the ids of its digits; years past what a date can have are refused by name.
            ran = traced(c, str(i), [program(c, "dated", dated), "chat", "-st", "-p", "hi", "-n", "1", "--verbose-prompt"], 1)
            if ran is None:
                return "not tried (no right to trace)"
            then = time.time() + clock.JUMPS[i]
            if not -62135596800 <= then < 253402300800:  # the years 1 to 9999
                expect(ran.code == 1 and "year" in ran.said(), f"exit code {ran.code}: {ran.said()}")
                return "refused"
            expect(ran.code == 0, f"exit code {ran.code}: {ran.said()}")
            line = next(line for line in ran.said().split("\n") if re.fullmatch(r"[\d,]+", line.strip()))
            digits = "".join(chr(int(t) - 262 + 33) for t in line.strip().split(",")[1:] if 276 < int(t) < 287 or int(t) == 274)
            if 0 < then < 2**37:
                years = {datetime.datetime.fromtimestamp(then + d, datetime.timezone.utc).year for d in (-86400, 86400)}
                expect(digits and int(digits) in years, f"the year {digits}, expected {years}")
            return "answered"

        yield Case("CLK", f"a template's date, jump {i}", dates)

    def compiles(c):
        if c.sanitized:
            return "not tried (LeakSanitizer cannot be traced)"
        model, out = c.write("model.gguf", small()), os.path.join(c.made, "one")
        ran = run([c.compiler, model, "-o", out, "-q"])
        expect(ran.code == 0, ran.said())
        for how, other in (("3", "two"), ("steady", "three")):
            ran = traced(c, how, [c.compiler, model, "-o", os.path.join(c.made, other), "-q"], 0)
            if ran is None:
                return "not tried (no right to trace)"
            expect(ran.code == 0, f"exit code {ran.code}: {ran.said()}")
            expect(open(os.path.join(c.made, other), "rb").read() == open(out, "rb").read(), "another clock, another file")
        return "accepted"

    yield Case("CLK", "the compiler", compiles)


def locales():
    """LOC: locales with decimal commas, dotless i, other letters: programs, the compiler, a host of the shared library."""

    def made(c, name):
        """The surroundings of that locale, compiled for this test: a machine need not have any. None where it can't be."""
        if shutil.which("localedef") is None or not os.path.exists(f"/usr/share/i18n/locales/{name}"):
            return None
        os.makedirs(c.path("locales"), exist_ok=True)
        ran = run(["localedef", "-c", "-i", name, "-f", "UTF-8", c.path(f"locales/{name}.UTF-8")])
        expect(os.path.isdir(c.path(f"locales/{name}.UTF-8")), ran.said())
        return {**os.environ, "LOCPATH": c.path("locales"), "LC_ALL": f"{name}.UTF-8", "LANG": f"{name}.UTF-8"}

    def same(title, name, command, comma):
        def check(c):
            env = made(c, name)
            if env is None:
                return "not tried (no localedef)"
            outs = []
            for surroundings in ({**os.environ, "LC_ALL": "C"}, env):
                ran = run(command(c), env=surroundings)
                expect(ran.code == 0, f"exit code {ran.code}: {ran.said()}")
                outs.append(ran.out)
            expect(outs[0] == outs[1] != b"", f"{outs[1]!r}, expected {outs[0]!r}")
            felt = run([PYTHON, "-c", "import locale; locale.setlocale(locale.LC_ALL, ''); print(locale.localeconv()['decimal_point'])"], env=env)
            expect(felt.out == comma + b"\n", f"the locale is none: {felt}")
            return "answered"

        return Case("LOC", f"{title}, {name}", check)

    answers = lambda c: [program(c), "-p", "hi", "-n", "12", "-s", "1", "--temp", "0.7", "--top-p", "0.95", "--min-p", "0.01", "--no-perf"]

    def compiled(c):
        model, out = c.write("model.gguf", tiny.gemma3()), os.path.join(c.made, "model")
        return ["bash", "-c", '"$1" "$2" -o "$3" -q && exec sha256sum <"$3"', "bash", c.compiler, model, out]

    def hosted(c):
        library = os.path.join(os.path.dirname(program(c)), "chat.so")
        with LOCK:
            if not os.path.exists(library):
                expect(run([c.compiler, c.write("chat.gguf", chatting()), "-o", library, "-q", "--emit", "shared", "--prefix", "smollm2"]).code == 0, "no library")
        host = "import locale, runpy, sys; locale.setlocale(locale.LC_ALL, ''); sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
        return [PYTHON, "-c", host, str(c.root / "samples/embed_python/chat.py"), library, "1.5", "I i"]

    for name, comma in (("de_DE", b","), ("tr_TR", b",")):
        yield same("a program", name, answers, comma)
        yield same("info of a program", name, lambda c: [program(c), "info", "--json"], comma)
        yield same("the compiler", name, compiled, comma)
        yield same("the compiler's graph", name, lambda c: [c.compiler, c.write("model.gguf", small()), "--emit", "graph"], comma)
        yield same("a host of the shared library", name, hosted, comma)


CASES = [others, quotas, memory, clocks, locales]
