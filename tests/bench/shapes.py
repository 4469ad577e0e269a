#!/usr/bin/env python3
"""Models of real size with random weights, for speed alone.

  shapes.py list                            the shapes' names
  shapes.py make SHAPE OUT.gguf [--type T]  the model with the mix of types of a Q4_K_M file; T: every matrix of that type

What a token costs depends on shapes and types and not on the weights' values, but for one thing: how many rows of the head
survive its first stream, which trained weights alone can tell. The vocabulary is nameless ("none"): tokens go in by id.
"""
import argparse
import dataclasses
import pathlib
import sys

from gguf import GGUFWriter

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "zoo"))
import zoo  # noqa: E402: after the path that it is found by


@dataclasses.dataclass(frozen=True)
class Shape:
    arch: str
    n_layer: int
    n_embd: int
    n_head: int
    n_head_kv: int
    head_size: int
    n_ff: int
    n_vocab: int
    window: int  # 0: none slides
    embedding: str  # its type, which is the head's too
    has_qk_norm: bool = False
    has_post_norms: bool = False


SHAPES = {
    "gemma3-1b": Shape("gemma3", 26, 1152, 4, 1, 256, 6912, 262144, 512, "Q8_0", True, True),
    "gemma3-4b": Shape("gemma3", 34, 2560, 8, 4, 256, 10240, 262144, 1024, "Q6_K", True, True),
    "gemma3-12b": Shape("gemma3", 48, 3840, 16, 8, 256, 15360, 262144, 1024, "Q6_K", True, True),
    "llama3.2-1b": Shape("llama", 16, 2048, 32, 8, 64, 8192, 128256, 0, "Q6_K"),
    "llama3.1-8b": Shape("llama", 32, 4096, 32, 8, 128, 14336, 128256, 0, "Q6_K"),
    "qwen3-0.6b": Shape("qwen3", 28, 1024, 16, 8, 128, 3072, 151936, 0, "Q6_K", True),
    "qwen3-4b": Shape("qwen3", 36, 2560, 32, 8, 128, 9728, 151936, 0, "Q6_K", True),
}


def keys(shape):
    """(key, writer's method, value) of the GGUF header."""
    arch = shape.arch
    numbers = {
        "context_length": 32768, "embedding_length": shape.n_embd, "block_count": shape.n_layer,
        "feed_forward_length": shape.n_ff, "attention.head_count": shape.n_head,
        "attention.head_count_kv": shape.n_head_kv, "attention.key_length": shape.head_size,
        "attention.value_length": shape.head_size, "vocab_size": shape.n_vocab,
        "rope.dimension_count": shape.head_size,
    }
    if shape.window:
        numbers["attention.sliding_window"] = shape.window
    return ([(f"{arch}.{key}", "add_uint32", value) for key, value in numbers.items()] +
            [(f"{arch}.attention.layer_norm_rms_epsilon", "add_float32", 1e-6),
             (f"{arch}.rope.freq_base", "add_float32", 1e6), ("tokenizer.ggml.model", "add_string", "none")])


def tensors(shape):
    """(name, dimensions in GGUF's order, type) in a Q4_K_M file's mix: rows that aren't whole blocks of 256 take Q5_0 or
    Q8_0, and half of the layers (the first and last eighth, every third between) have V and down in the finer type."""
    d, q, kv = shape.n_embd, shape.n_head * shape.head_size, shape.n_head_kv * shape.head_size

    def mixed(n_in, k_quant, other):
        return k_quant if n_in % 256 == 0 else other

    yield "token_embd.weight", [d, shape.n_vocab], shape.embedding
    yield "output_norm.weight", [d], "F32"
    eighth = shape.n_layer // 8
    for i in range(shape.n_layer):
        fine = i < eighth or i >= 7 * shape.n_layer // 8 or (i - eighth) % 3 == 2
        finer = ("Q6_K", "Q8_0") if fine else ("Q4_K", "Q5_0")
        low = ("Q4_K", "Q5_0")
        matrices = [("attn_q", d, q, low), ("attn_k", d, kv, low), ("attn_v", d, kv, finer), ("attn_output", q, d, low),
                    ("ffn_gate", d, shape.n_ff, low), ("ffn_up", d, shape.n_ff, low), ("ffn_down", shape.n_ff, d, finer)]
        for name, n_in, n_out, types in matrices:
            yield f"blk.{i}.{name}.weight", [n_in, n_out], mixed(n_in, *types)
        norms = {"attn_norm": d, "ffn_norm": d}
        if shape.has_qk_norm:
            norms |= {"attn_q_norm": shape.head_size, "attn_k_norm": shape.head_size}
        if shape.has_post_norms:
            norms |= {"post_attention_norm": d, "post_ffw_norm": d}
        for name, width in norms.items():
            yield f"blk.{i}.{name}.weight", [width], "F32"


def make(name, path, weight_type=None, takes_type=zoo.takes_type, add_tensor=zoo.add_tensor):
    shape = SHAPES[name]
    writer = GGUFWriter(str(path), shape.arch)
    writer.add_name(name)
    for key, method, value in keys(shape):
        getattr(writer, method)(key, value)
    for tensor, dims, mixed in tensors(shape):
        kind = weight_type if weight_type and takes_type(tensor, dims, weight_type) else mixed
        add_tensor(writer, tensor, dims, kind, tied=True)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["list", "make"])
    parser.add_argument("shape", nargs="?", choices=SHAPES)
    parser.add_argument("out", nargs="?", type=pathlib.Path)
    parser.add_argument("--type", choices=["F32", *zoo.FLOAT_TYPES, *zoo.BLOCK_TYPES])
    a = parser.parse_args()
    if a.verb == "list":
        print("\n".join(SHAPES))
    elif a.out is None:
        parser.error("make: a shape and a file are missing")
    else:
        make(a.shape, a.out, a.type)


if __name__ == "__main__":
    main()
