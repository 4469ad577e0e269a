#!/usr/bin/env python3
"""Models of real size and mixed types, with random weights: for what only size shows (offsets past 4 GB, memory).

  large.py NAME OUT.gguf        names: llama3.1-8b (4.9 GB), gemma3-4b (2.5 GB)

Tensors of one shape and type are the same bytes in every layer, and large ones repeat a part, so that it takes no longer than
the disk; they are written one after the other, never all in memory. There is no tokenizer.
"""
import pathlib
import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter

import zoo

# width, layers, heads, KV heads, head size, feed-forward width, vocabulary, keys of its own
SHAPES = {
    "llama3.1-8b": ("llama", 4096, 32, 32, 8, 128, 14336, 128256, {"rope.dimension_count": 128}),
    "gemma3-4b": ("gemma3", 2560, 34, 8, 4, 256, 10240, 262144, {"attention.sliding_window": 1024}),
}
PART = 1 << 16  # rows of a repeated part


def keys_of(name):
    arch, d, layers, heads, kv_heads, head, ff, vocabulary, own = SHAPES[name]
    return arch, {"context_length": 32768, "embedding_length": d, "block_count": layers, "feed_forward_length": ff,
                  "attention.head_count": heads, "attention.head_count_kv": kv_heads, "attention.key_length": head,
                  "attention.value_length": head, "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 1e6,
                  "vocab_size": vocabulary, **own}


def tensors_of(name):
    """(name, dimensions, type), as files of the kind Q4_K_M have them: half of V and down in Q6_K."""
    arch, d, layers, heads, kv_heads, head, ff, vocabulary, _ = SHAPES[name]
    yield "token_embd.weight", [d, vocabulary], "Q6_K"
    yield "output_norm.weight", [d], "F32"
    if arch == "llama":
        yield "output.weight", [d, vocabulary], "Q6_K"
    for layer in range(layers):
        high = "Q6_K" if layer % 2 == 0 else "Q4_K"
        matrices = [("attn_q", d, heads * head, "Q4_K"), ("attn_k", d, kv_heads * head, "Q4_K"),
                    ("attn_v", d, kv_heads * head, high), ("attn_output", heads * head, d, "Q4_K"),
                    ("ffn_gate", d, ff, "Q4_K"), ("ffn_up", d, ff, "Q4_K"), ("ffn_down", ff, d, high)]
        norms = [("attn_norm", d), ("ffn_norm", d)]
        if arch == "gemma3":
            norms += [("attn_q_norm", head), ("attn_k_norm", head), ("post_attention_norm", d), ("post_ffw_norm", d)]
        for suffix, columns, rows, kind in matrices:
            yield f"blk.{layer}.{suffix}.weight", [columns, rows], kind
        for suffix, columns in norms:
            yield f"blk.{layer}.{suffix}.weight", [columns], "F32"


def bytes_of(name, dims, kind, made):
    """The tensor, from `made` when another layer had the same."""
    key = (name.split(".", 2)[-1], tuple(dims), kind)
    if kind == "F32":
        return zoo.float_weights(key[0], dims, True)
    if key not in made:
        rows = min(dims[1], PART)
        made[key] = zoo.random_blocks(key[0], [dims[0], rows], kind)
    part = made[key]
    return part if len(part) == dims[1] else np.resize(part, (dims[1], part.shape[1]))


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in SHAPES:
        sys.exit(__doc__.strip())
    name, path = sys.argv[1], pathlib.Path(sys.argv[2])
    arch, keys = keys_of(name)
    writer = GGUFWriter(str(path), arch)
    writer.add_name(name)
    for key, value in keys.items():
        add = writer.add_float32 if isinstance(value, float) else writer.add_uint32
        add(f"{arch}.{key}", value)
    writer.add_tokenizer_model("none")
    for tensor, dims, kind in tensors_of(name):
        if kind == "F32":
            writer.add_tensor_info(tensor, dims, np.dtype(np.float32), 4 * dims[0])
            continue
        per_block, block_bytes, _ = zoo.BLOCK_TYPES[kind]
        row = dims[0] // per_block * block_bytes
        writer.add_tensor_info(tensor, [dims[1], row], np.dtype(np.uint8), row * dims[1], GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    made = {}
    for tensor, dims, kind in tensors_of(name):
        writer.write_tensor_data(bytes_of(tensor, dims, kind, made))
    writer.close()


if __name__ == "__main__":
    main()
