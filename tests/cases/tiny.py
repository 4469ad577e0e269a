"""Small models with a vocabulary: SentencePiece's form with all bytes and printable ASCII, or byte-level BPE."""
import numpy as np

from gguf_file import ARRAY, BOOL, F32, I32, STRING, U32, Array, File, Tensor, noise

WIDTH, HEADS, KV_HEADS, HEAD_DIM, FF, LAYERS, WINDOW = 64, 2, 1, 32, 128, 2, 8


def spm_tokens():
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
    return special + [f"<0x{b:02X}>" for b in range(256)] + [chr(c) for c in range(33, 127)] + ["\u2581"]


def spm_keys(tokens=None):
    tokens = spm_tokens() if tokens is None else tokens
    types = [3, 3, 3, 2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 262)
    return [
        ("tokenizer.ggml.model", STRING, "llama"),
        ("tokenizer.ggml.tokens", ARRAY, Array(STRING, tokens)),
        ("tokenizer.ggml.scores", ARRAY, Array(F32, [0.0] * 262 + [-float(i) for i in range(len(tokens) - 262)])),
        ("tokenizer.ggml.token_type", ARRAY, Array(I32, types)),
        ("tokenizer.ggml.bos_token_id", U32, 2),
        ("tokenizer.ggml.eos_token_id", U32, 1),
        ("tokenizer.ggml.unknown_token_id", U32, 3),
        ("tokenizer.ggml.add_bos_token", BOOL, True),
        ("tokenizer.ggml.add_space_prefix", BOOL, False),
    ]


def byte_letters():
    """How byte-level BPE spells the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def bpe_keys():
    tokens = [byte_letters()[b] for b in range(256)] + ["he", "ll", "hell", "<|end|>"]
    return [
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.pre", STRING, "gpt-2"),
        ("tokenizer.ggml.tokens", ARRAY, Array(STRING, tokens)),
        ("tokenizer.ggml.token_type", ARRAY, Array(I32, [1] * 259 + [3])),
        ("tokenizer.ggml.merges", ARRAY, Array(STRING, ["h e", "l l", "he ll"])),
        ("tokenizer.ggml.eos_token_id", U32, 259),
    ]


def n_tokens(vocabulary):
    return len(next(v for name, _, v in vocabulary if name == "tokenizer.ggml.tokens").items)


def model(arch, layers=LAYERS, vocabulary=None, kv_heads=KV_HEADS, ff=FF, more=()):
    """`kv_heads` and `ff`: a number, or one a layer."""
    vocabulary = spm_keys() if vocabulary is None else vocabulary
    each = lambda v: v if isinstance(v, list) else [v] * layers
    key = lambda v: (ARRAY, Array(I32, v)) if isinstance(v, list) else (U32, v)
    keys = [
        ("general.architecture", STRING, arch),
        (f"{arch}.context_length", U32, 512),
        (f"{arch}.embedding_length", U32, WIDTH),
        (f"{arch}.block_count", U32, layers),
        (f"{arch}.feed_forward_length", *key(ff)),
        (f"{arch}.attention.head_count", U32, HEADS),
        (f"{arch}.attention.head_count_kv", *key(kv_heads)),
        (f"{arch}.attention.layer_norm_rms_epsilon", F32, 1e-6),
        (f"{arch}.attention.key_length", U32, HEAD_DIM),
        (f"{arch}.attention.value_length", U32, HEAD_DIM),
        (f"{arch}.rope.freq_base", F32, 1e6),
        *more,
        *vocabulary,
    ]
    tensors = []
    norm = lambda name, n: tensors.append(Tensor.of(name, 1 + noise(name, n, 0.2)))
    matrix = lambda name, rows, cols: tensors.append(Tensor.of(name, noise(name, (rows, cols), 1.6 / cols**0.5)))
    matrix("token_embd.weight", n_tokens(vocabulary), WIDTH)
    norm("output_norm.weight", WIDTH)
    for i, (kv, hidden) in enumerate(zip(each(kv_heads), each(ff))):
        p = f"blk.{i}."
        norm(p + "attn_norm.weight", WIDTH)
        matrix(p + "attn_q.weight", HEADS * HEAD_DIM, WIDTH)
        matrix(p + "attn_k.weight", kv * HEAD_DIM, WIDTH)
        matrix(p + "attn_v.weight", kv * HEAD_DIM, WIDTH)
        matrix(p + "attn_output.weight", WIDTH, HEADS * HEAD_DIM)
        if arch == "gemma3":
            norm(p + "attn_q_norm.weight", HEAD_DIM)
            norm(p + "attn_k_norm.weight", HEAD_DIM)
            norm(p + "post_attention_norm.weight", WIDTH)
            norm(p + "post_ffw_norm.weight", WIDTH)
        norm(p + "ffn_norm.weight", WIDTH)
        matrix(p + "ffn_gate.weight", hidden, WIDTH)
        matrix(p + "ffn_up.weight", hidden, WIDTH)
        matrix(p + "ffn_down.weight", WIDTH, hidden)
    return File(keys, tensors)


def gemma3(**options):
    return model("gemma3", more=[("gemma3.attention.sliding_window", U32, WINDOW)], **options)


def llama(**options):
    return model("llama", more=[("llama.rope.dimension_count", U32, HEAD_DIM)], **options)


def untied(f):
    """With a head of its own that has the embedding's values."""
    t = f.tensor("token_embd.weight")
    f.tensors.append(Tensor("output.weight", t.dims, t.data, t.kind))
    return f


def vocabulary_alone(keys):
    """What `gguf-compile tokenize` takes: no tensors."""
    return File([("general.architecture", STRING, "llama"), *keys])


def empty(n=0):
    """A file of n keys that says no more than what it is."""
    return File([("general.architecture", STRING, "llama")] + [(f"k{i}", U32, i) for i in range(n)])


def zeros(shape):
    return np.zeros(shape, np.float32)
