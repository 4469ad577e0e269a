"""The container: counts, lengths, dimensions, alignment, truncation, duplicates, versions, shards."""
import os
import struct

import tiny
from check import Case, accepts, expect, refuses, run
from gguf_file import (ARRAY, BOOL, F32, F64, FORMAT, I32, STRING, TYPE_F32, TYPE_I32, TYPE_Q8_0, U8, U16, U32, U64,
                       Array, File, Raw, Tensor, string, value)

COUNTS = [2**64 - 1, 2**63, 2**62, 2**60, 2**64 // 368 + 1, 2**40, 2**32, 2**31, 2**20]
BLOCKS = {2: 32, 3: 32, 6: 32, 7: 32, 8: 32, 10: 256, 11: 256, 12: 256, 13: 256, 14: 256, 16: 256, 17: 256, 18: 256,
          19: 256, 20: 32, 21: 256, 22: 256, 23: 256, 29: 256, 34: 256, 35: 256, 39: 32, 40: 64}


def small():
    return tiny.empty(2)


def with_tensor(dims=(4, 2), kind=TYPE_F32, name="x.weight", data=bytes(4096)):
    f = small()
    f.tensors = [Tensor(name, dims, data, kind)]
    return f


def counts():
    """C01: counts and lengths far beyond the file, within an address space of 600 MB."""
    def case(name, data, pattern):
        return refuses("C01", name, data, pattern, address_space=600_000 * 1024)

    for n in COUNTS + [4]:
        yield case(f"{n} keys", small().bytes(n_keys=n), "number of keys|ends|shorter|key number 3")
    for n in COUNTS + [1]:
        yield case(f"{n} tensors", small().bytes(n_tensors=n), "number of tensors|ends|shorter")
    for n in COUNTS + [200]:
        f = small()
        f.keys.append((Raw(struct.pack("<Q", n) + b"key"), U32, 1))
        yield case(f"a key's name of {n} bytes", f, "key")
        f = small()
        f.keys.append(("k", STRING, Raw(struct.pack("<Q", n) + b"abc")))
        yield case(f"a string of {n} bytes", f, "key 'k'")
        yield case(f"a tensor's name of {n} bytes", with_tensor(name=Raw(struct.pack("<Q", n) + b"abc")).head(), "tensor")
        f = small().set_array("k", STRING, ["abc", "d"], n)
        yield case(f"an array of {n} strings", f, "key 'k'")
        for kind in FORMAT:
            yield case(f"an array of {n} values of type {kind}", small().set_array("k", kind, [1], n), "key 'k'")
    f = small()
    f.keys.append(("k", ARRAY, Raw(struct.pack("<IQ", ARRAY, 1) + value(ARRAY, Array(U8, [1])))))
    yield case("an array of arrays", f, "key 'k'.*array")
    for kind in (13, 14, 255, 2**31, 2**32 - 1):
        f = small()
        f.keys.append(("k", kind, Raw(b"\1")))
        yield case(f"a value of type {kind}", f, f"type {kind}")
        f = small()
        f.keys.append(("k", ARRAY, Raw(struct.pack("<IQ", kind, 1) + b"\1")))
        yield case(f"an array of type {kind}", f, f"type {kind}")
    for b in (2, 128, 255):
        f = small()
        f.keys.append(("k", BOOL, Raw(bytes([b]))))
        yield case(f"a bool that is {b}", f, "bool")

    def large_vocabulary(c):
        keys = [("tokenizer.ggml.model", STRING, "llama"),
                ("tokenizer.ggml.tokens", ARRAY, Array(STRING, ["<unk>", *(f"token{i}" for i in range(262143))])),
                ("tokenizer.ggml.unknown_token_id", U32, 0)]
        ran = run([c.compiler, "inspect", c.write("large.gguf", tiny.vocabulary_alone(keys))])
        expect(ran.code == 0, ran.said())
        expect(c.sanitized or ran.seconds < 0.5, f"a vocabulary of 262144 tokens took {ran.seconds:.2f} s to read")
        return "accepted"

    yield Case("C01", "a vocabulary of 262144 tokens is read in half a second", large_vocabulary)


def dimensions():
    """C03: dimensions, products, blocks, types and names of tensors."""
    case = lambda name, data, pattern="tensor 'x.weight'": refuses("C03", name, data, pattern)
    for dims in ([0], [4, 0], [0, 4], [4, 2, 0], [0, 0, 0, 0], [-4], [4, -2], [2**63, 2], [2**32, 2**32], [2**62, 4],
                 [2**31, 2**31, 4], [2**16, 2**16, 2**16, 2**16], [2**40], [3, 2**64 // 3], [2**61 + 1, 8]):
        yield case(f"dimensions {dims}", with_tensor(dims))
    for n in (5, 6, 255, 2**31, 2**32 - 1):
        f = with_tensor()
        f.tensors[0].n_dims = n
        yield case(f"{n} dimensions", f)
    for kind, block in BLOCKS.items():
        for width in {1, block - 1, block + 1, block // 2}:
            yield case(f"rows of {width} values in type {kind}", with_tensor([width, 4], kind, data=bytes(8192)))
    for kind in (4, 5, 31, 32, 33, 36, 37, 38, 41, 200, 255, 2**31, 2**32 - 1):
        if kind == 41:  # used since
            continue
        yield case(f"type {kind}", with_tensor([256, 4], kind))
    for kind in (TYPE_I32, 24, 25, 27, 28):
        f = tiny.llama()
        f.tensor("blk.0.attn_q.weight").kind = kind
        yield refuses("C03", f"a matrix of type {kind}", f, r"blk\.0\.attn_q\.weight|beyond|past|short|overlap")
    yield refuses("C03", "an empty key", small().set("", U32, 1), "key")
    yield refuses("C03", "an empty name of a tensor", with_tensor(name=""), "name")
    yield refuses("C03", "a key of 65536 bytes", small().set("k" * 65536, U32, 1), "key|architecture|llama")
    for n in (63, 64, 65, 127, 128, 1000):
        name = "n" * n
        yield refuses("C03", f"a name of {n} bytes, whole in the message or refused", with_tensor([5, 0], name=name),
                      name if n < 65 else "n{40}")


def offsets_and_alignment():
    """C04: alignments that are none, offsets that lead astray."""
    for n in (0, 3, 5, 6, 7, 33, 2**20 + 1, 2**21, 2**31, 2**32 - 1):
        yield refuses("C04", f"alignment {n}", with_tensor().set("general.alignment", U32, n), "general.alignment")
    for name, kind, v in (("i32", I32, 32), ("f32", F32, 32.0), ("string", STRING, "32"), ("u64", U64, 2**40),
                          ("array", ARRAY, Array(U32, [32]))):
        yield refuses("C04", f"alignment of type {name}", with_tensor().set("general.alignment", kind, v), "general.alignment")
    for n in (1, 2, 8, 64, 4096):
        def same_as_32(c, program, n=n):
            expect(c.logits(program) == c.logits(c.program(tiny.gemma3(), name="other")), f"alignment {n} changes logits")

        f = tiny.gemma3().set("general.alignment", U32, n)
        f.alignment = n
        yield accepts("C04", f"alignment {n}", f, same_as_32)
    for n in (1, 4, 31, 2**32, 2**40, 2**63, 2**64 - 32, 2**64 - 1, 4096):
        f = with_tensor()
        f.tensors[0].offset = n
        yield refuses("C04", f"an offset of {n}", f, "tensor 'x.weight'")
    f = tiny.gemma3()
    f.tensor("blk.1.attn_q.weight").offset = 0
    yield refuses("C04", "two tensors in one place", f, "blk|token_embd")


def prefixes():
    """C05: every prefix of a file."""
    whole = tiny.llama(layers=1)
    data, head = whole.bytes(), len(whole.head())
    lengths = [1, 3, 4, 8, 23, 24, 25, *range(97, head, 97), *range(head, len(data), 4801), len(data) - 33, len(data) - 1]
    yield refuses("C05", "0 bytes", b"", "empty")
    for n in lengths:
        cut = len(data) - n < 32 and whole.tensors[-1].data
        if cut and n >= len(data) - (-len(whole.tensors[-1].data) % 32):
            continue  # only the padding at the end is missing
        yield refuses("C05", f"{n} bytes of {len(data)}", data[:n], r"model\.gguf")

    def same_without(c, program):
        expect(c.logits(program) == c.logits(c.program(whole, name="other")), "bytes past the end change logits")

    yield accepts("C05", "100 bytes past the end", data + bytes(100), same_without)


def duplicates():
    """C07: names that are there twice."""
    for kind, v in ((U32, 1), (STRING, "llama"), (F64, 1.0), (ARRAY, Array(U32, [1]))):
        f = small()
        f.keys += [("again", kind, v), ("other", U32, 1), ("again", kind, v)]
        yield refuses("C07", f"a key twice, type {kind}", f, "duplicate.*'again'|'again'.*(twice|duplicate)")
    f = small()
    f.keys.append(("general.architecture", STRING, "gemma3"))
    yield refuses("C07", "two architectures", f, "general.architecture.*(twice|duplicate)|duplicate.*general.architecture")
    for name in ("token_embd.weight", "blk.1.ffn_down.weight"):
        f = tiny.llama()
        f.tensors.append(f.tensor(name))
        yield refuses("C07", f"{name} twice", f, f"duplicate.*{name}|{name}.*(twice|duplicate)")
    f = tiny.llama().set("Again", U32, 1).set("again", U32, 2)
    yield accepts("C07", "keys that differ by case", f)


def versions():
    """C09: versions, byte orders, and files that are something else."""
    for n in (0, 1, 4, 5, 255, 65536 * 7, 2**31):
        f = tiny.llama(layers=1)
        f.version = n
        yield refuses("C09", f"version {n}", f, "version")
    for n in (1, 2, 3):
        f = tiny.llama(layers=1)
        f.version = int.from_bytes(n.to_bytes(4, "little"), "big")
        yield refuses("C09", f"version {n} in the other byte order", f, "endian")
    whole = tiny.llama(layers=1).bytes()
    others = {"GGML": b"GGML", "GGJT": b"tjgg", "small letters": b"gguf", "backwards": b"FUGG", "zip": b"PK\3\4",
              "gzip": b"\x1f\x8b\x08\0", "safetensors": b"\x80\0\0\0\0\0\0\0{\"", "a program": b"\x7fELF", "text": b"#!/bin/sh\n"}
    for name, magic in others.items():
        yield refuses("C09", f"the magic of {name}", magic + whole[len(magic):], "GGUF|magic")
    yield refuses("C09", "a magic alone", b"GGUF", r"model\.gguf")
    for name, path in (("a device", "/dev/null"), ("an endless device", "/dev/zero"), ("a folder", "/tmp"),
                       ("nothing", "/no/such/file"), ("below a file", "/etc/passwd/model"), ("an empty name", "")):
        yield refuses("C09", name, lambda c, path=path: path, "device|directory|No such|Not a directory|no model|empty")

    def fifo(c):
        os.mkfifo(c.path("fifo"))
        return c.path("fifo")

    def loop(c):
        os.symlink("loop", c.path("loop"))
        return c.path("loop")

    yield refuses("C09", "a pipe", fifo, "pipe")
    yield refuses("C09", "a link to itself", loop, "symbolic links")

    def same_as_3(c, program):
        expect(c.logits(program) == c.logits(c.program(tiny.gemma3(), name="other")), "version 2 changes logits")

    f = tiny.gemma3()
    f.version = 2
    yield accepts("C09", "version 2", f, same_as_3)


def in_shards(f, n=3):
    """The file's tensors in n files; the first has the keys."""
    parts = []
    each = -(-len(f.tensors) // n)
    for i in range(n):
        part = File(f.keys if i == 0 else ())
        part.set("split.no", U16, i).set("split.count", U16, n).set("split.tensors.count", I32, len(f.tensors))
        part.tensors = f.tensors[i * each : (i + 1) * each]
        parts.append(part)
    return parts


def shards():
    """C12: models in several files."""
    def write(c, change=lambda parts: None, first=0, names="model-{:05d}-of-{:05d}.gguf", leave_out=()):
        parts = in_shards(tiny.gemma3())
        change(parts)
        for i, part in enumerate(parts):
            if i not in leave_out:
                c.write(names.format(i + 1, len(parts)), part)
        return c.path(names.format(first + 1, len(parts)))

    def same_as_one(c, program):
        expect(c.logits(program) == c.logits(c.program(tiny.gemma3(), name="other")), "shards change logits")

    yield accepts("C12", "the first of three", write, same_as_one)
    yield accepts("C12", "the second of three", lambda c: write(c, first=1), same_as_one)

    def change(f):
        return lambda c: write(c, f)

    def with_key(i, *key):
        return change(lambda parts: parts[i].set(*key))

    case = lambda name, model, pattern: refuses("C12", name, model, pattern)
    for i in (1, 2):
        yield case(f"number {i + 1} is missing", lambda c, i=i: write(c, leave_out=[i]), f"0000{i + 1}-of-00003")
    yield case("the first is missing", lambda c: write(c, first=1, leave_out=[0]), "00001-of-00003")
    yield case("names off the pattern", lambda c: write(c, names="part{}of{}.gguf"), "name")
    for count in (0, 2, 4, 65535):
        yield case(f"the second says there are {count}", with_key(1, "split.count", U16, count), "split.count|00002")
    for no in (0, 2, 3, 65535):
        yield case(f"the second says it is {no}", with_key(1, "split.no", U16, no), "split.no")
    yield case("all say there are 65535", change(lambda p: [x.set("split.count", U16, 65535) for x in p]), "split|name")
    for n in (0, 1, -1, 2**31 - 1):
        yield case(f"{n} tensors in all", with_key(0, "split.tensors.count", I32, n), "tensors")
    yield case("a string as number", with_key(1, "split.no", STRING, "1"), "split.no")

    def twice(parts):
        parts[2].tensors.append(parts[0].tensors[3])
        for part in parts:
            part.set("split.tensors.count", I32, 1 + part.get("split.tensors.count"))

    yield case("one tensor in two", change(twice), "00003-of-00003.*(twice|duplicate)|duplicate.*blk")
    yield case("a tensor in none", change(lambda p: p[2].tensors.pop()), "tensor")
    yield case("other alignments", with_key(1, "general.alignment", U32, 3), "general.alignment")

    def cut(c):
        path = write(c)
        with open(c.path("model-00003-of-00003.gguf"), "r+b") as file:
            file.truncate(os.path.getsize(file.name) - 4096)
        return path

    def pipe(c):
        path = write(c, leave_out=[1])
        os.mkfifo(c.path("model-00002-of-00003.gguf"))
        return path

    def folder(c):
        path = write(c, leave_out=[1])
        os.mkdir(c.path("model-00002-of-00003.gguf"))
        return path

    yield case("the third is cut", cut, "00003-of-00003")
    yield case("the second is a pipe", pipe, "00002-of-00003.*pipe")
    yield case("the second is a folder", folder, "00002-of-00003.*directory")


CASES = [counts, dimensions, offsets_and_alignment, prefixes, duplicates, versions, shards]
