"""The model: sizes, missing and contradictory keys, missing and extra tensors, per-layer arrays, NaN and infinite weights."""
import math

import numpy as np

import tiny
from check import accepts, expect, refuses, survives
from gguf_file import (ARRAY, BOOL, F32, I32, I64, STRING, U32, U64, Array, Tensor, blocks_q8_0, noise)

NUMBERS = [0, 1, 3, 2**15, 2**31, 2**32 - 1]
# Keys that a file must have; NUMBERS that each may well be.
REQUIRED = {"embedding_length": (), "block_count": (), "feed_forward_length": (), "attention.head_count": (),
            "attention.layer_norm_rms_epsilon": ()}
SIZES = {"embedding_length": (), "block_count": (1,), "feed_forward_length": (), "attention.head_count": (),
         "attention.head_count_kv": (1,), "attention.key_length": (), "attention.value_length": ()}


def hyperparameters():
    """C13: missing, nonsensical and contradictory keys."""
    case = lambda name, f, pattern: refuses("C13", name, f, pattern)
    f = tiny.gemma3()
    f.keys = f.keys[1:]
    yield case("no architecture", f, "general.architecture")
    for name in ("llamx", "", "Gemma3", "gemma3\n", "../gemma3", "gemma3\0", "\x1b]0;owned\x07", "g" * 10000, "unknown"):
        yield case(f"architecture {name[:20]!r}", tiny.gemma3().set("general.architecture", STRING, name), "general.architecture|architecture")
    for kind, v in ((U32, 1), (ARRAY, Array(STRING, ["gemma3"]))):
        yield case(f"architecture of type {kind}", tiny.gemma3().set("general.architecture", kind, v), "general.architecture")
    for arch, make in (("gemma3", tiny.gemma3), ("llama", tiny.llama)):
        for key in REQUIRED:
            yield case(f"{arch} without {key}", make().drop(f"{arch}.{key}"), f"{arch}.{key}|blk|tensor")
        for key, fine in SIZES.items():
            for n in NUMBERS:
                if n not in fine:
                    yield case(f"{arch}.{key} = {n}", make().set(f"{arch}.{key}", U32, n), rf"{arch}\.|tensor '")
            for kind, v in ((STRING, "2"), (F32, 2.0), (BOOL, True), (I32, -1), (I64, -(2**40)), (U64, 2**40)):
                yield case(f"{arch}.{key} of type {kind}", make().set(f"{arch}.{key}", kind, v), rf"{arch}\.{key}")
        for key in ("attention.layer_norm_rms_epsilon", "rope.freq_base"):
            for v in (-1.0, math.nan, math.inf, -math.inf):
                yield case(f"{arch}.{key} = {v}", make().set(f"{arch}.{key}", F32, v), rf"{arch}\.{key}")
        yield survives("C13", f"{arch}: an epsilon of 0", make().set(f"{arch}.attention.layer_norm_rms_epsilon", F32, 0.0))
        yield case(f"{arch}: a base of 0", make().set(f"{arch}.rope.freq_base", F32, 0.0), "rope.freq_base")
        for n in (0, 2**31, 2**32 - 1):
            yield survives("C13", f"{arch}: a context of {n}", make().set(f"{arch}.context_length", U32, n))
        for n in (31, 1, 33, 64, 2**31):
            yield case(f"{arch}: RoPE of {n} of 32", make().set(f"{arch}.rope.dimension_count", U32, n), rf"{arch}\.rope\.dimension_count")
        for kind in ("linear", "yarn", "longrope"):
            for v in (0.0, -1.0, math.nan, math.inf):
                f = make().set(f"{arch}.rope.scaling.type", STRING, kind).set(f"{arch}.rope.scaling.factor", F32, v)
                yield survives("C13", f"{arch}: RoPE scaled by {kind}, factor {v}", f)
        yield case(f"{arch}: RoPE scaled in an unknown way", make().set(f"{arch}.rope.scaling.type", STRING, "magic"), "rope.scaling")
    moe = lambda: tiny.llama().set("llama.expert_count", U32, 4)
    for used in (0, 5, 2**31, 2**32 - 1):
        yield case(f"{used} of 4 experts", moe().set("llama.expert_used_count", U32, used), r"llama\.expert|tensor")
    for n in (2**16, 2**31, 2**32 - 1):
        yield case(f"{n} experts", tiny.llama().set("llama.expert_count", U32, n).set("llama.expert_used_count", U32, 2), r"llama\.expert|tensor")
    for more in (-1, 1, 1000):
        keys = tiny.spm_keys(tiny.spm_tokens() + ["x"] * more if more > 0 else tiny.spm_tokens()[:more])
        f = tiny.gemma3()
        for name, kind, v in keys:
            f.set(name, kind, v)
        yield case(f"{more} tokens more than the embedding has rows", f, r"tokenizer\.ggml\.tokens|token_embd")


def tensors():
    """C15: tied, missing, extra and misshapen tensors."""
    for arch, make in (("gemma3", tiny.gemma3), ("llama", tiny.llama)):
        names = [t.name for t in make().tensors]
        for name in names:
            yield refuses("C15", f"{arch} without {name}", make().drop_tensor(name), name)
            t = make()
            dims = t.tensor(name).dims
            if len(dims) == 2 and dims[0] != dims[1] and "token_embd" not in name:
                t.tensor(name).dims = dims[::-1]
                yield refuses("C15", f"{arch}: {name} transposed", t, f"{name}.*expected")
            f = make()
            f.tensor(name).dims = [1, *dims]
            yield refuses("C15", f"{arch}: {name} with a dimension more", f, name)
            f = make()
            f.tensor(name).dims = [dims[0] // 2, 2, *dims[1:]]
            yield refuses("C15", f"{arch}: {name} folded", f, name)
        for name in ("blk.0.foo.weight", "blk.2.attn_q.weight", "blk.99.attn_q.weight", "blk.-1.attn_q.weight", "foo", "blk.0.attn_q.bias.x"):
            f = make()
            f.tensors.append(Tensor.of(name, tiny.zeros((4,))))
            yield accepts("C15", f"{arch} with {name!r}, which is left out", f, warning=f"left out: '{name}'")

    def one_embedding(c, program):
        import os

        other = c.program(tiny.untied(tiny.gemma3()), name="untied")
        expect(c.logits(program) == c.logits(other), "a head with the embedding's values changes logits")
        packed = tiny.n_tokens(tiny.spm_keys()) * tiny.WIDTH * 4
        expect(os.path.getsize(other) - os.path.getsize(program) > packed // 2, "a tied embedding is in the program twice")

    yield accepts("C15", "tied and with an equal head", tiny.gemma3(), one_embedding)

    def factors(values):
        f = tiny.llama()
        f.tensors.append(Tensor.of("rope_freqs.weight", np.array(values, np.float32)))
        return f

    half = tiny.HEAD_DIM // 2

    def other_logits(c, program):
        expect(c.logits(program) != c.logits(c.program(tiny.llama(), name="plain")), "rope_freqs changes nothing")

    yield accepts("C15", "frequencies divided by 1 to 16", factors(range(1, half + 1)), other_logits)
    yield refuses("C15", "too few divisors of frequencies", factors(range(1, half)), "rope_freqs")
    for v in (0.0, math.nan, math.inf):
        yield refuses("C15", f"a divisor of {v}", factors([v] * half), "rope_freqs.weight")
    yield survives("C15", "divisors of -1", factors([-1.0] * half))


def windows():
    """C17: periods of sliding windows, as a number and by layer."""
    make = lambda: tiny.gemma3(layers=7)
    key = "gemma3.attention.sliding_window_pattern"
    flags = [True, False] * 3 + [True]

    def same_as_period(c, program):
        period = c.program(make().set(key, U32, 2), name="period")
        expect(c.logits(program) == c.logits(period), "a period of 2 and its flags differ")
        expect(c.logits(program) != c.logits(c.program(make(), name="plain")), "the period changes nothing")

    yield accepts("C17", "flags of layers and their period", make().set_array(key, BOOL, flags), same_as_period)
    yield survives("C17", "flags as i32", make().set_array(key, I32, [int(f) for f in flags]))
    for n in (0, 1, 6, 8, 1000):
        yield refuses("C17", f"{n} flags for 7 layers", make().set_array(key, BOOL, [True] * n), "sliding_window_pattern")
    for n in (0, 1, 7, 2**31, 2**32 - 1):
        yield survives("C17", f"a period of {n}", make().set(key, U32, n))
    for n in (0, 1, 511, 512, 513, 2**31, 2**32 - 1):
        yield survives("C17", f"a window of {n}", tiny.gemma3().set("gemma3.attention.sliding_window", U32, n))
    yield refuses("C17", "a window as text", tiny.gemma3().set("gemma3.attention.sliding_window", STRING, "8"), "sliding_window")


def per_layer():
    """C18: sizes that differ by layer."""
    key = "attention.head_count_kv"

    def same_as_number(c, program):
        expect(c.logits(program) == c.logits(c.program(tiny.gemma3(), name="plain")), "an array of equal numbers changes logits")

    for kind in (I32, U32):
        f = tiny.gemma3().set_array(f"gemma3.{key}", kind, [1, 1])
        yield accepts("C18", f"the same for all layers, type {kind}", f, same_as_number)
    yield accepts("C18", "KV heads by layer", tiny.llama(layers=3, kv_heads=[2, 1, 2]))
    yield accepts("C18", "widths of feed-forward networks by layer", tiny.llama(layers=3, ff=[128, 64, 96]))
    for name in (key, "attention.head_count", "feed_forward_length"):
        whole = 2 if name != "feed_forward_length" else tiny.FF
        for items in ([whole], [whole] * 3, [], [whole] * 100000, [whole, 0], [0, 0], [whole, -1], [whole, 2**31 - 1], [whole, 3]):
            if name == key and items == [whole, 3]:
                continue
            f = tiny.llama(kv_heads=2).set_array(f"llama.{name}", I32, items)
            yield refuses("C18", f"{name} = {str(items)[:30]}", f, rf"llama\.{name}|blk\.\d|llama\.attention")
        yield refuses("C18", f"{name}: strings", tiny.llama().set_array(f"llama.{name}", STRING, ["2", "2"]), rf"llama\.{name}")


def rows():
    """C20: rows that are no whole blocks."""
    for kind, width in ((14, 8), (12, 640), (8, 33), (10, 128), (39, 48)):
        f = tiny.llama()
        f.tensor("blk.0.ffn_down.weight").dims = [width, 64]
        f.tensor("blk.0.ffn_down.weight").kind = kind
        yield refuses("C20", f"rows of {width} in type {kind}", f, f"blk.0.ffn_down.weight.*{width}.*multiple")

    def mixed(c, program):
        expect(len(c.logits(program)) > 0, "no logits")

    f = tiny.llama()
    for t in f.tensors:
        if len(t.dims) == 2 and "ffn" in t.name:
            t.kind, t.data = 8, blocks_q8_0(np.frombuffer(t.data, "<f4"))
    yield accepts("C20", "types mixed in a layer", f, mixed)


def weights():
    """NaN: weights that are NaN or infinite, by tensor and by type; the tensor and the row are named."""
    for arch, make in (("gemma3", tiny.gemma3), ("llama", tiny.llama)):
        names = [t.name for t in make().tensors if not t.name.startswith("blk.1")]
        for i, name in enumerate(names):
            for what, v in ([("NaN", math.nan)], [("infinity", math.inf)])[i % 2]:
                f = make()
                data = np.frombuffer(f.tensor(name).data, "<f4").copy()
                data[len(data) // 2] = v
                f.tensor(name).data = data.tobytes()
                yield refuses("NaN", f"{arch}: {what} in {name}", f, rf"{name}.*row \d+.*NaN or infinite")
    for bits in (0x7E00, 0x7C00, 0xFC00):
        f = tiny.llama()
        t = f.tensor("blk.0.ffn_up.weight")
        data = bytearray(blocks_q8_0(np.frombuffer(t.data, "<f4")))
        data[34:36] = bits.to_bytes(2, "little")
        t.kind, t.data = 8, bytes(data)
        yield refuses("NaN", f"a scale of {bits:#06x} in Q8_0", f, r"ffn_up.*row 0.*NaN or infinite")
    for kind in (1, 30):
        f = tiny.llama()
        t = f.tensor("blk.0.ffn_up.weight")
        t.kind, t.data = kind, b"\xff\x7f" * (len(t.data) // 4)
        yield refuses("NaN", f"a matrix of NaN in type {kind}", f, r"ffn_up.*row 0.*NaN or infinite")


def large_activations():
    """C47: activations past what f16 holds."""
    def finite(c, program):
        logits = np.frombuffer(c.logits(program), "<f4")
        expect(np.isfinite(logits).all(), "logits that are not finite")
        expect(len(set(logits.tolist())) > 100, "logits are all alike")

    f = tiny.gemma3()
    for t in f.tensors:
        factor = 300 if "norm" in t.name and "_q_" not in t.name and "_k_" not in t.name else 50 if "embd" in t.name else 1
        t.data = (factor * np.frombuffer(t.data, "<f4")).astype("<f4").tobytes()
    yield accepts("C47", "norms of 300, embeddings of 50", f, finite)


CASES = [hyperparameters, tensors, windows, per_layer, rows, weights, large_activations]
