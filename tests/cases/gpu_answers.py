"""Programs for GPUs: drivers whose answers are strange, flags that contradict each other, the compiler's flags, damaged code.

A driver that answers otherwise is a library of a few functions in front of gpu.driver's, which are found first.
"""
import os
import random
import subprocess

import tiny
from check import Case, expect, run
from gpu import NVRTC, TOKENS, answer, driver, gpu_program, judged, tried
from programs import program

EITHER = ("cuda", "cpu,cuda")
NAME, BEHIND = b"libcuda.so.1", b"libgood.so.1"  # as long: the driver behind is a copy that has another name


def in_front(c, code):
    folder = c.path("front")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(driver(c), NAME.decode()), "rb") as f:
        good = f.read()
    behind = c.write(f"front/{BEHIND.decode()}", good.replace(NAME, BEHIND))
    source = c.write("front.c", b"#include <string.h>\n" + code.encode())
    made = ["clang-22", "-shared", "-fPIC", "-O1", "-w", source, "-fuse-ld=lld", "-Wl,--no-as-needed", behind, f"-Wl,-rpath,{folder}", f"-Wl,-soname,{NAME.decode()}"]
    subprocess.run([*made, "-o", os.path.join(folder, NAME.decode())], check=True)
    return folder


def looks(c, devices, folder, settings):
    """`info`, which says what devices are there, and `check`."""
    for command in ("info", "check"):
        ran = answer(c, devices, folder, settings, [command])
        expect(ran.code == 0 and not ran.err, f"{command}: exit code {ran.code}: {ran.said()[:500]}")
        text = ran.out.decode("utf-8", "replace")
        expect(not any(ord(ch) < 32 and ch != "\n" or 127 <= ord(ch) < 160 for ch in text), f"{command}: {text!r}")


def answers():
    """GPU: names, numbers and sizes that a driver gives"""

    def case(name, devices, code, pattern, settings=(), word=None):
        """`word`: what it must get, where that is known."""

        def check(c):
            folder = in_front(c, code)
            got = judged(c, devices, answer(c, devices, folder, settings), pattern)
            expect(word is None or got == word, f"it is {got}, expected {word}")
            looks(c, devices, folder, settings)
            return got

        return Case("GPU", f"{devices}: {name}", tried(check))

    texts = {"nothing": "", "a control sequence": r"\033[2J\033]0;owned\007", "lines": r"a\nb\r\nc", "bytes that are no text": r"\377\376\200", "a format": "%s%n%99999d"}
    count = lambda line: f"int cuDeviceGetCount(int* n) {{ {line}; }}\n"
    for devices in EITHER:
        fallen = "refused" if devices == "cuda" else "answered by the CPU"
        for name, text in texts.items():
            named = f'int cuDeviceGetName(char* name, int size, int device) {{ strcpy(name, "{text}"); return 0; }}\n'
            yield case(f"a device named {name}", devices, named, "", word="answered")
            yield case(f"a device named {name}, no code for it", devices, named, "compute capability 7.5", [("CC", 75)], word=fallen)
            said = f'int cuGetErrorString(int error, const char** to) {{ *to = "{text}"; return 0; }}\n'
            yield case(f"an error called {name}", devices, said + count("return 3"), "the CUDA driver can't count devices: ", word=fallen)
        endless = "int cuDeviceGetName(char* name, int size, int device) { memset(name, 65, size); return 0; }\n"
        yield case("a device whose name has no end", devices, endless, "", word="answered")
        yield case("a device whose name has no end, no code for it", devices, endless, "compute capability 7.5", [("CC", 75)], word=fallen)
        for name, said in (("fails", "return 1"), ("gives none", "*to = 0; return 0")):
            silent = f"int cuGetErrorString(int error, const char** to) {{ {said}; }}\n"
            yield case(f"an error whose text {name}", devices, silent + count("return 3"), "an error that the driver has no text for", word=fallen)
            no_room = "int cuMemAlloc_v2(unsigned long* at, unsigned long bytes) { return 2; }\n"
            yield case(f"no memory, whose text {name}", devices, silent + no_room, "not enough memory: the weights need", word=fallen)
        for n in (2, 16, 17, 2**31 - 1):
            yield case(f"it says {n} devices", devices, count(f"*n = {n}; return 0"), "", word="answered")
        for major, minor in ((-1, -1), (2**31 - 1, 2**31 - 1), (9, -1), (-9, 0), (0, 0)):
            kind = f"int cuDeviceGetAttribute(int* value, int what, int device) {{ *value = what == 75 ? {major} : {minor}; return 0; }}\n"
            yield case(f"compute capability {major}.{minor}", devices, kind, "is of compute capability", word=fallen)
        for attribute in (75, 76):
            kind = f"int cuDeviceGetAttribute(int* value, int what, int device) {{ *value = 9 * (what == 75); return what == {attribute} ? 2 : 0; }}\n"
            yield case(f"attribute {attribute} is not told", devices, kind, "doesn't say what it is: out of memory", word=fallen)
        for free in (0, 1, 2**64 - 1):
            sizes = f"int cuMemGetInfo_v2(unsigned long* free, unsigned long* total) {{ *free = *total = {free}UL; return 0; }}\n"
            yield case(f"{free} bytes free, it says", devices, sizes, "", word="answered")
            yield case(f"{free} bytes free, it says, and there are none", devices, sizes, f"has {free} bytes free", [("BYTES", 1)], word=fallen)
            total = f"int cuDeviceTotalMem_v2(unsigned long* bytes, int device) {{ *bytes = {free}UL; return 0; }}\n"
            yield case(f"a device of {free} bytes, it says", devices, total, "", word="answered")


def libraries():
    """GPU: files and links of a driver's name"""

    def case(name, devices, make, pattern):
        def check(c):
            folder = c.path("strange")
            os.mkdir(folder)
            make(c, os.path.join(folder, NAME.decode()))
            got = judged(c, devices, answer(c, devices, folder), pattern)
            looks(c, devices, folder, ())
            return got

        return Case("GPU", f"{devices}: the driver is {name}", tried(check))

    def another(c, path):
        source = c.write("another.c", b"int another;\n")
        subprocess.run(["clang-22", "-shared", source, "-o", path], check=True)

    def changed(at, byte):
        def make(c, path):
            with open(os.path.join(driver(c), NAME.decode()), "rb") as f:
                data = bytearray(f.read())
            data[at] = byte
            with open(path, "wb") as f:
                f.write(data)

        return make

    makes = {"a link to nothing": lambda c, path: os.symlink("/no/such", path), "a link to itself": lambda c, path: os.symlink(path, path),
             "of 32 bits": changed(4, 1), "big-endian": changed(5, 2), "of no known version": changed(6, 9), "of RISC-V": changed(18, 243),
             "a program": lambda c, path: os.symlink(program(c), path)}
    for devices in EITHER:
        for name, make in makes.items():
            yield case(name, devices, make, "no CUDA driver: ")
        yield case("another library", devices, another, "too old: it has no cuInit$")


def flags():
    """GPU: flags of programs that contradict each other or the file"""

    def case(devices, arguments, code):
        def check(c):
            ran = answer(c, devices, driver(c), (), [*arguments, *TOKENS])
            expect(ran.code == code, f"exit code {ran.code}: {ran.said()[:500]}")
            return judged(c, devices, ran, "--(device|gpu|isa)|no code for|has no program")

        return Case("GPU", f"{devices}: {' '.join(arguments)}", tried(check))

    for devices, arguments, code in (
            ("cpu,cuda", "--device cuda --gpu 0", 0), ("cpu,cuda", "--gpu 0", 0), ("cpu,cuda", "--device cpu", 0), ("cpu,cuda", "--device cpu --gpu 0", 1), ("cpu,cuda", "--isa cuda", 1),
            ("cpu,cuda", "--isa nosuch", 1), ("cpu,cuda", "--isa nosuch --device cuda", 1), ("cpu,cuda", "--isa avx2 --gpu 0", 1), ("cpu,cuda", "--isa=", 1), ("cpu,cuda", "--device=", 1),
            ("cuda", "--device cuda", 0), ("cuda", "--device cpu", 1), ("cuda", "--isa avx2", 1), ("cuda", "--isa=", 1), ("cuda", "--device=", 1)):
        yield case(devices, arguments.split(), code)

    def for_the_cpu(arguments):
        def check(c):
            ran = run([program(c), *arguments, *TOKENS])
            return judged(c, "cpu", ran, "--device|--gpu|no code for cuda")

        return Case("GPU", f"cpu: {' '.join(arguments)}", tried(check))

    for arguments in ("--device cuda", "--gpu 0", "--gpu -1", "--device tpu", "--device=", "--gpu="):
        yield for_the_cpu(arguments.split())


def compiler():
    """GPU: the compiler's flags for them"""

    def refused(name, pattern, *options):
        def check(c):
            given = [option(c) if callable(option) else option for option in options]
            ran, _ = c.compile(tiny.gemma3(), *given, *([] if "--nvrtc" in given else ["--nvrtc", NVRTC]))
            c.expect_clean(ran, pattern)
            return "refused"

        return Case("GPU", f"the compiler, {name}", tried(check))

    def same(devices, device, arch):
        def check(c):
            other = c.program(tiny.gemma3(), "--device", device, "--cuda-arch", arch, "--nvrtc", NVRTC)
            with open(other, "rb") as f, open(gpu_program(c, devices), "rb") as g:
                expect(f.read() == g.read(), "another file")
            return "compiled"

        return Case("GPU", f"the compiler, --device {device!r} --cuda-arch {arch!r}", tried(check))

    for v in ("", " ", ",", "CUDA", "tpu", "cpu;cuda", "cuda:0", "cpu,cpu", "\x1b[2J", "cpu,\x1b[2J", "x" * 10000):
        yield refused(f"--device {v[:12]!r}", "--device", "--device", v)
    for v in ("", " ", ",", "sm_", "sm_0", "sm_12", "sm_999", "sm_90A", "sm_90b", "90a", "compute_90", "sm_80,sm_12", "\x1b[2J", "sm_" + "9" * 10000):
        yield refused(f"--cuda-arch {v[:12]!r}", "--cuda-arch", "--device", "cuda", "--cuda-arch", v)
    # What is empty in a list, or twice, changes nothing.
    for devices, device, arch in (("cuda", "cuda,", "sm_90a"), ("cuda", ",cuda", "sm_90a"), ("cuda", "cuda,cuda", "sm_90a"), ("cuda", "cuda", "sm_90a,"), ("cpu,cuda", "cpu,,cuda", ",sm_90a"),
                                  ("cpu,cuda", "cuda,cpu", "sm_90a")):
        yield same(devices, device, arch)

    def start(c):
        with open(NVRTC, "rb") as f:
            return c.write("cut", f.read(1000))

    paths = {"no such file": "/no/such", "no name": "", "a folder": lambda c: c.folder, "the null device": "/dev/null", "text": lambda c: c.write("text", b"text"), "empty": lambda c: c.write("none", b""),
             "its first bytes": start, "a driver": lambda c: os.path.join(driver(c), NAME.decode()), "a control sequence": "\x1b[2J"}
    for name, path in paths.items():
        yield refused(f"--nvrtc: {name}", "NVRTC|--nvrtc", "--device", "cpu,cuda", "--nvrtc", path)
    yield refused("an object", "--device cuda is for executables", "--device", "cuda", "--emit", "obj")
    yield refused("another CPU", "aarch64", "--device", "cpu,cuda", "--target", "aarch64-linux-gnu")


def code():
    """GPU: bits changed in the code for GPUs"""

    def case(devices, seed):
        def check(c):
            with open(gpu_program(c, devices), "rb") as f:
                data = bytearray(f.read())
            first = data.find(b"\x7fELF", 4)
            expect(first > 0, "no code for a GPU in it")
            data[first + random.Random(seed).randrange(50_000)] ^= 1 << seed % 8
            path = c.write("changed", bytes(data))
            os.chmod(path, 0o755)
            ran = run([path, "check"])
            expect(ran.code == 1, f"check: exit code {ran.code}: {ran.said()[:500]}")
            return "found by check"

        return Case("GPU", f"{devices}: one bit of the code for GPUs changed, {seed}", tried(check))

    for devices in EITHER:
        for seed in range(10):
            yield case(devices, seed)


CASES = [answers, libraries, flags, compiler, code]
