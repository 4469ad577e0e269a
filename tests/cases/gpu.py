"""Programs for GPUs on drivers that are none, lack something, or fail: the test driver is codegen_cuda/shim/driver.cc."""
import os
import re
import subprocess

import tiny
from check import Case, Failed, expect, run
from programs import LOCK, SHARED, cut, flipped, program

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "gguf-compile")
NVRTC = os.path.join(CACHE, "nvrtc-13.0.88", "libnvrtc.so.13")
TOKENS = ["--tokens", "2,50,60,70,80", "-n", "4", "--temp", "0", "--ids", "--no-perf", "--no-display-prompt", "--ignore-eos"]
NOT_TRIED = "not tried (no NVRTC: samples/setup.sh nvrtc)"


def functions():
    """The driver's functions that programs use."""
    with open(os.path.join(ROOT, "runtime", "core", "cuda", "driver.def")) as f:
        return re.findall(r"^DRIVER\(\w+, (cu\w+),", f.read(), re.M)


def gpu_program(c, devices):
    """One program for each list of devices."""
    folder = os.path.dirname(program(c))
    with LOCK:
        if devices not in SHARED:
            out = os.path.join(folder, devices.replace(",", "_"))
            ran = run([c.compiler, c.write("shared.gguf", tiny.gemma3()), "-o", out, "-q", "--device", devices, "--cuda-arch", "sm_90a", "--nvrtc", NVRTC])
            expect(ran.code == 0, ran.said())
            SHARED[devices] = out
        return SHARED[devices]


def library(folder, source, *more):
    """A folder with a libcuda.so.1 of this source."""
    os.makedirs(folder, exist_ok=True)
    subprocess.run(["clang++-22", "-std=c++17", "-O1", "-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1", *more, source, "-o", os.path.join(folder, "libcuda.so.1")], check=True)
    return folder


def driver(c):
    """The folder of the driver whose kernels are the program's."""
    folder = os.path.join(os.path.dirname(program(c)), "driver")
    with LOCK:
        if "driver" not in SHARED:
            source = c.path("program.cu")
            ran = run([c.compiler, c.write("shared.gguf", tiny.gemma3()), "--emit", "cuda", "-o", source, "-q"])
            expect(ran.code == 0, ran.said())
            shim = os.path.join(ROOT, "codegen_cuda", "shim")
            library(folder, source, "-march=native", "-ffp-contract=off", "-fvisibility=hidden", f"-I{ROOT}", "-DGC_SHIM", "-include",
                    os.path.join(shim, "shim.h"), "-x", "c++", os.path.join(shim, "shim.cc"), os.path.join(shim, "driver.cc"))
            SHARED["driver"] = os.path.join(folder, "libcuda.so.1")
        return folder


def answer(c, devices, folder, settings=(), arguments=TOKENS):
    env = {**os.environ, "LD_LIBRARY_PATH": folder, **{f"GC_FAKE_CUDA_{name}": str(value) for name, value in settings}}
    return run([gpu_program(c, devices), *arguments], env=env)


def one_line(ran, pattern):
    """Of a refusal: one line that matches."""
    said = ran.said()
    lines = [line for line in said.split("\n") if line]
    expect(len(lines) == 1, f"exit code {ran.code}, {len(lines)} lines: {said[:1000]}")
    expect(not any(ord(ch) < 32 or 127 <= ord(ch) < 160 for ch in lines[0]), f"control characters: {lines[0]!r}")
    expect(re.search(pattern, lines[0]), f"'{lines[0]}' does not match '{pattern}'")


def judged(c, devices, ran, pattern):
    """Refused in a line that names the device, or the CPU's or the device's answer."""
    if ran.code == 1:
        one_line(ran, pattern)
        return "refused"
    expect(ran.code == 0, f"exit code {ran.code}: {ran.said()[:1000]}")
    healthy = answer(c, devices, driver(c))
    expect(healthy.code == 0 and ran.out == healthy.out, f"{ran.out!r}, on a good driver {healthy.out!r}: {ran.said()[:500]}")
    if ran.err:
        expect(devices != "cuda", f"it says {ran.said()[:500]}")
        one_line(ran, "running on the CPU: ")
        return "answered by the CPU"
    return "answered"


def tried(kind_of):
    return lambda c: kind_of(c) if os.path.exists(NVRTC) else NOT_TRIED


def failing_drivers():
    """GPU: programs for GPUs: drivers that are none or lack something, functions that fail at each call, devices of all kinds, files cut and changed."""
    names = [name for name in functions() if name != "cuGetErrorString"]
    expect(len(names) > 25, "runtime/core/cuda/driver.def has no functions")

    def fails(devices, setting):
        return tried(lambda c: judged(c, devices, answer(c, devices, driver(c), [("FAIL", setting)]), r"GPU 0|CUDA driver|not enough memory"))

    for devices in ("cuda", "cpu,cuda"):
        for name in names:
            for call in (1, 2, 7, 40):
                yield Case("GPU", f"{devices}: {name} fails from call {call} on", fails(devices, f"{name}:{call}"))
        for name in ("cuMemAlloc_v2", "cuMemHostAlloc", "cuInit"):
            yield Case("GPU", f"{devices}: {name} is out of memory", fails(devices, f"{name}:1:2"))

    def without(name):
        def check(c):
            source = c.write("driver.cc", "".join(f'extern "C" int {f}() {{ return 100; }}\n' for f in functions() if f != name).encode())
            return judged(c, "cuda", answer(c, "cuda", library(c.path("lacks"), source)), f"too old: it has no {name}$" if name else "doesn't start|can't count devices")

        return tried(check)

    for name in ("", *functions()):
        yield Case("GPU", f"a driver without {name or 'a device'}", without(name))


def strange_libraries():
    """GPU: libraries of that name that are none"""
    def strange(content):
        def check(c):
            os.mkdir(c.path("strange"))
            path = os.path.join(c.path("strange"), "libcuda.so.1")
            if content is None:
                os.mkdir(path)
            else:
                with open(path, "wb") as f:
                    f.write(content)
            words = [judged(c, devices, answer(c, devices, c.path("strange")), "no CUDA driver: ") for devices in ("cuda", "cpu,cuda")]
            return words[0]

        return tried(check)

    elf = b"\x7fELF\x02\x01\x01" + bytes(9)
    for name, content in (("empty", b""), ("text", b"INPUT(libc.so.6)\n"), ("half a header", elf), ("a folder", None), ("zeros", bytes(4096)),
                          ("of another machine", elf + b"\x03\x00\xb7\x00\x01" + bytes(43))):
        yield Case("GPU", f"libcuda.so.1 is {name}", strange(content))


def strange_devices():
    """GPU: numbers and kinds of devices, flags"""
    def device(settings, pattern, arguments=()):
        return tried(lambda c: judged(c, "cuda", answer(c, "cuda", driver(c), settings, [*TOKENS, *arguments]), pattern))

    for count in (0, -1, -2147483648):
        yield Case("GPU", f"{count} devices", device([("DEVICES", count)], "has no device|can't count"))
    for cc in (0, 10, 80, 89, 91, 100, 120, 999, -90):
        yield Case("GPU", f"compute capability {cc}", device([("CC", cc)], "compute capability"))
    for bytes_free in (0, 1, 4096, 100_000, 400_000, 1_000_000, 3_000_000, 6_000_000):
        yield Case("GPU", f"{bytes_free} bytes of memory", device([("BYTES", bytes_free)], r"not enough memory: .*GPU 0 \(Fake GPU 0\) has \d+ bytes free"))
    for number in ("-1", "1", "4294967295", "4294967296", "x", "", "0x0", "1e0", "\x1b[2J"):
        yield Case("GPU", f"--gpu {number!r}", device([], "--gpu", ["--gpu", number]))
    for name in ("", "gpu", "CUDA", "cuda,cpu", "cpu,cuda", "cpu", "rocm", "\x1b[2J", "a" * 5000):
        yield Case("GPU", f"--device {name[:12]!r}", device([], "--device", ["--device", name]))


def damaged():
    """GPU: files cut and changed"""
    made = lambda c: gpu_program(c, "cuda")
    for share in (0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99):
        yield Case("GPU", f"a program cut to {share}", tried(cut(share, made, TOKENS)))
    for seed in range(100, 130):
        yield Case("GPU", f"a program with one bit changed, {seed}", tried(flipped(seed, made)))


CASES = [failing_drivers, strange_libraries, strange_devices, damaged]
