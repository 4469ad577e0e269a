"""The compiler where the machine or the user fails it: outputs, disks, signals, limits, names, flags."""
import os
import random
import resource
import signal
import stat
import subprocess
import time

import tiny
from check import Case, Failed, accepts, expect, run
from gguf_file import STRING

SLOW = ["--cpu", "portable"]  # some seconds of code generation, in which things can happen


def small():
    return tiny.llama(layers=1)


def sound(c, program):
    ran = run([program, "check"])
    expect(ran.code == 0, f"a broken program: {ran.said()}")


def refused_output(name, make, pattern, kind="C59"):
    """`make`: of the context and the model's path, the output's path. What was there stays as it is."""

    def check(c):
        model = c.write("model.gguf", small())
        out = make(c, model)
        before = open(model, "rb").read()
        ran = run([c.compiler, model, "-o", out])
        c.expect_clean(ran, pattern, longest=1500 + len(out))
        expect(open(model, "rb").read() == before, "the model was changed")
        left = [n for n in os.listdir(c.folder) if n.startswith(".gguf-compile")]
        expect(not left, f"left behind: {left}")
        return "refused"

    return Case(kind, name, check)


def outputs():
    """C59: outputs that can't be written, names of all kinds, full disks, signals, models that vanish or shrink."""

    def link(c, target):
        os.symlink(target, c.path("link"))
        return c.path("link")

    def hard(c, model):
        os.link(model, c.path("hard"))
        return c.path("hard")

    def made(c, model, mode=0o777):
        os.mkdir(c.path("folder"), mode)
        return c.path("folder")

    r = refused_output
    yield r("in a folder that is missing", lambda c, m: c.path("no/model"), "No such file")
    yield r("a folder", made, "[Dd]irectory")
    yield r("a folder by its slash", lambda c, m: made(c, m) + "/", "[Dd]irectory")
    yield r("below a file", lambda c, m: m + "/out", "[Dd]irectory")
    yield r("the full device", lambda c, m: "/dev/full", "not a regular file")
    yield r("the null device", lambda c, m: "/dev/null", "not a regular file")
    yield r("where nothing can be made", lambda c, m: "/proc/model", "cannot write")
    yield r("the model", lambda c, m: m, "model")
    yield r("the model by another path", lambda c, m: os.path.join(c.folder, ".", "model.gguf"), "model")
    yield r("a link to the model", link, "model")
    yield r("another name of the model", hard, "model")
    yield r("a link to itself", lambda c, m: link(c, "link"), "symbolic links")
    yield r("an empty name", lambda c, m: "", "no output|empty")
    yield r("a name of 300 bytes", lambda c, m: c.path("n" * 300), "too long")
    yield r("a path of 5000 bytes", lambda c, m: c.path("n/" * 2500), "too long")
    names = ["with blanks", "quote'quote\"", "line\nline", "-dash", "$(touch owned)", "a;b", "\u202eexe", "\u00e9\u4e2d", b"\xff\xfe",
             "back\\slash", "*?", "n" * 200, ".hidden", "%s%n", "a=b"]
    for name in names:
        def named(c, name=name):
            raw = os.fsencode(name)
            model = os.path.join(os.fsencode(c.folder), raw + b".gguf")
            with open(model, "wb") as f:
                f.write(small().bytes())
            ran = run([c.compiler, raw + b".gguf" if not raw.startswith(b"-") else b"./" + raw + b".gguf", b"-o", raw], cwd=c.folder)
            expect(ran.code == 0, f"exit code {ran.code}: {ran.said()}")
            expect(not [b for b in ran.err if b < 32 and b != 10], f"control characters: {ran.err!r}")
            sound(c, os.path.join(os.fsencode(c.folder), raw))
            expect(sorted(os.listdir(os.fsencode(c.folder))) == sorted([raw, raw + b".gguf", b"made"]), "more files than were asked for")
            return "accepted"

        yield Case("C59", f"named {name!r}", named)

    def replaced(c, mask=0o027):
        out = os.path.join(c.made, "model")
        with open(out, "w") as f:
            f.write("old")
        os.chmod(out, 0o600)
        old = os.umask(mask)
        try:
            c.program(small())
        finally:
            os.umask(old)
        mode = stat.S_IMODE(os.stat(out).st_mode)
        expect(mode == 0o777 & ~mask, f"mode {mode:o} under a mask of {mask:o}")
        sound(c, out)
        return "accepted"

    yield Case("C59", "an older file is replaced, its mode by the mask", replaced)

    def through_link(c):
        os.symlink("target", os.path.join(c.made, "model"))
        c.program(small())
        expect(os.path.islink(os.path.join(c.made, "model")), "the link is gone")
        sound(c, os.path.join(c.made, "target"))
        return "accepted"

    yield Case("C59", "a link to a name that is free", through_link)

    def read_only_model(c):
        model = c.write("model.gguf", small())
        os.chmod(model, 0o444)
        c.program(model)
        return "accepted"

    yield Case("C59", "a model that can't be written", read_only_model)
    for kib in (0, 1, 64, 1000, 4000):
        def limited(c, kib=kib):
            old = os.path.join(c.made, "model")
            with open(old, "w") as f:
                f.write("old")
            model = c.write("model.gguf", small())
            child = subprocess.run([c.compiler, model, "-o", old], capture_output=True, timeout=120,
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (kib * 1024, kib * 1024)))
            said = child.stderr.decode()
            if child.returncode == 0:
                sound(c, old)
                return "accepted"
            expect(child.returncode == 1 and said.count("error: ") == 1 and "too large" in said.lower(), f"exit code {child.returncode}: {said}")
            expect(open(old).read() == "old" and os.listdir(c.made) == ["model"], f"left: {os.listdir(c.made)}")
            return "refused"

        yield Case("C59", f"files of at most {kib} KiB", limited)

    def full_disk(c):
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", c.made], capture_output=True).returncode != 0:
            return "not tried (no right to mount)"
        try:
            out = os.path.join(c.made, "model")
            with open(out, "w") as f:
                f.write("old")
            ran = run([c.compiler, c.write("model.gguf", small()), "-o", out])
            expect(ran.code == 1 and "the disk has" in ran.said(), f"exit code {ran.code}: {ran.said()}")
            expect(os.listdir(c.made) == ["model"] and open(out).read() == "old", f"left: {os.listdir(c.made)}")
        finally:
            subprocess.run(["umount", c.made], check=True)
        return "refused"

    yield Case("C59", "a full disk", full_disk)

    def read_only_disk(c):
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", c.made], capture_output=True).returncode != 0:
            return "not tried (no right to mount)"
        try:
            ran = run([c.compiler, c.write("model.gguf", small()), "-o", os.path.join(c.made, "model")])
            c.expect_clean(ran, "Read-only file system")
        finally:
            subprocess.run(["umount", c.made], check=True)
        return "refused"

    yield Case("C59", "a read-only disk", read_only_disk)

    def start(c, model, out):
        return subprocess.Popen([c.compiler, model, "-o", out, *SLOW], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))

    chance = random.Random(1)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"):
        for _ in range(5):
            delay = chance.uniform(0, 2.5)

            def interrupted(c, name=name, delay=delay):
                out = os.path.join(c.made, "model")
                with open(out, "w") as f:
                    f.write("old")
                child = start(c, c.write("model.gguf", small()), out)
                time.sleep(delay)
                child.send_signal(getattr(signal, name))
                said = child.communicate()[1].decode()
                left = os.listdir(c.made)
                if child.returncode == 0 or open(out, "rb").read(3) != b"old":
                    sound(c, out)
                    word = "done before"
                else:
                    expect(child.returncode == -getattr(signal, name), f"exit code {child.returncode}: {said}")
                    word = "old file stays"
                if name != "SIGKILL":
                    expect(left == ["model"], f"left: {left}")
                return word

            yield Case("C59", f"{name} after {delay:.2f} s", interrupted)
    for delay in (0.0, 0.1, 0.3, 1.0, 2.0):
        for what, change in (("vanishes", os.unlink), ("shrinks", lambda p: os.truncate(p, 5000)), ("is emptied", lambda p: os.truncate(p, 0)),
                             ("is written to", lambda p: open(p, "r+b").write(b"GGUF\0\0\0\0"))):
            def changed(c, delay=delay, change=change, what=what):
                model, out = c.write("model.gguf", small()), os.path.join(c.made, "model")
                child = start(c, model, out)
                time.sleep(delay)
                change(model)
                said = child.communicate()[1].decode()
                if child.returncode == 0:
                    sound(c, out)
                    return "done before" if what != "vanishes" else "accepted"
                expect(child.returncode == 1 and said.count("error: ") == 1, f"exit code {child.returncode}: {said}")
                expect(not os.listdir(c.made), f"left: {os.listdir(c.made)}")
                return "refused"

            yield Case("C59", f"the model {what} after {delay} s", changed)

    def at_once(c):
        model, out = c.write("model.gguf", small()), os.path.join(c.made, "model")
        children = [subprocess.Popen([c.compiler, model, "-o", out, "-q"]) for _ in range(4)]
        expect([child.wait() for child in children] == [0] * 4, "one of them failed")
        sound(c, out)
        expect(os.listdir(c.made) == ["model"], f"left: {os.listdir(c.made)}")
        return "accepted"

    yield Case("C59", "four compiles to one output", at_once)


def surroundings():
    """ENV: descriptors that are closed, limits, environments."""

    def shell(name, script, code, pattern=""):
        def check(c):
            if c.sanitized and "ulimit -v" in script:
                return "not tried (a sanitizer's own map is larger)"
            model = c.write("model.gguf", small())
            ran = run(["bash", "-c", script, "bash", c.compiler, model, os.path.join(c.made, "model")])
            said = ran.said()
            if ran.code not in code or said.count("error: ") > 1:
                raise Failed(f"exit code {ran.code}: {said}")
            if pattern and pattern not in said:
                raise Failed(f"'{said}' has no '{pattern}'")
            if ran.code == 0 and os.listdir(c.made):
                sound(c, os.path.join(c.made, "model"))
            elif os.listdir(c.made):
                raise Failed(f"left: {os.listdir(c.made)}")
            return "accepted" if ran.code == 0 else "refused"

        return Case("ENV", name, check)

    for name, closed in (("input", "<&-"), ("output", ">&-"), ("errors", "2>&-"), ("all", "<&- >&- 2>&-")):
        yield shell(f"standard {name} closed", f'"$1" "$2" -o "$3" {closed}', [0])
    for command in ("--emit graph", "--emit asm", "--emit html", "--list-architectures", "--help", "inspect"):
        line = '"$1" inspect "$2"' if command == "inspect" else f'"$1" "$2" {command}'
        yield shell(f"{command} to a full device", line + " >/dev/full", [1], "cannot write standard output")
        yield shell(f"{command} to a closed output", line + " >&-", [1], "cannot write standard output")
    yield shell("an output that nobody reads", '"$1" "$2" --emit asm 2>&3 3>&- | true; exit "${PIPESTATUS[0]}"', [0, 1])
    yield shell("no environment", 'env -i "$1" "$2" -o "$3"', [0])
    yield shell("no HOME, no TMPDIR", 'env -u HOME TMPDIR=/no/such "$1" "$2" -o "$3"', [0])
    for locale in ("C", "de_DE.UTF-8", "tr_TR.UTF-8", "none", "../../etc"):
        yield shell(f"locale {locale}", f'LC_ALL={locale} LANG={locale} "$1" "$2" -o "$3"', [0])
    for n in (3, 4, 5, 6, 8, 10, 16):
        yield shell(f"{n} open files", f'ulimit -n {n}; "$1" "$2" -o "$3"', [0, 1, 127])
    for kib in (1_000_000, 700_000, *range(500_000, 200_000, -10_000)):  # its end is somewhere else in each
        yield shell(f"an address space of {kib} KiB", f'ulimit -v {kib}; "$1" "$2" -o "$3"', [0, 1, 127])


def flags():
    """CLI: flags of the compiler that are wrong."""

    def wrong(name, *arguments, pattern=""):
        def check(c):
            model = c.write("model.gguf", small())
            full = [model if a == "MODEL" else os.path.join(c.made, "model") if a == "OUT" else a for a in arguments]
            c.expect_clean(run([c.compiler, *full]), pattern)
            return "refused"

        return Case("CLI", name, check)

    for flag in ("--emit", "--cpu", "--target", "--weights", "--head-streams", "--with", "--chat-template", "--tuning", "--stop-after",
                 "--dump-after", "--disable-pass", "--chat-template-file", "--prompt-cache-file"):
        for v in ("nosuch", "", "\x1b[2J", "a" * 600, b"\xff\xfe", "../../x", "exe,exe"):
            shown = v[:12]
            yield wrong(f"{flag} {shown!r}", "MODEL", "-o", "OUT", flag, v)
        yield wrong(f"{flag} without a value", "MODEL", "-o", "OUT", flag)
    for arguments in ((), ("MODEL",), ("-o", "OUT"), ("MODEL", "-o"), ("MODEL", "MODEL", "-o", "OUT"), ("MODEL", "-o", "OUT", "--nosuch"),
                      ("MODEL", "-o", "OUT", "-o", "OUT"), ("MODEL", "-o", "OUT", "-x"), ("--", "MODEL"), ("inspect",), ("inspect", "/no"),
                      ("tokenize",), ("tokenize", "/no", "a"), ("apply-template", "MODEL", "/no"), ("check-grammar", "x"),
                      ("parse-output", "--template", "/no", "x"), ("nosuch", "MODEL"), ("MODEL", "-o", "OUT", "--prefix", "a"),
                      ("MODEL", "-o", "OUT", "--header", "a"), ("MODEL", "-o", "OUT", "--emit", "obj", "--prefix", "1 a"),
                      ("MODEL", "-o", "OUT", "--emit", "obj", "--prefix", "a(b)"), ("MODEL", "-o", "OUT", "--emit", "obj", "--with", "chat"),
                      ("MODEL", "-o", "OUT", "--tune", "a", "--tuning", "b"), ("\x1b]0;x\x07", "-o", "OUT"), (b"\xff", "-o", "OUT")):
        yield wrong(" ".join(repr(a)[:20] for a in arguments) or "nothing", *arguments)


CASES = [outputs, surroundings, flags]
