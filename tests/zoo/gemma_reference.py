#!/usr/bin/env python3
"""Logits of the small Gemma 3n and Gemma 4 models of families.json in double precision, written from the models' public
description. The program that made the other references takes GELU from a table of f16, which these models, whose scores
are not scaled, blow up to an error of 1e-4; with that table in place of the exact function they agree with it to 3e-6.

  gemma_reference.py MODEL...       writes goldens/MODEL.npz, for the tokens that are there
"""
import sys

import numpy as np

import zoo

WINDOWED_BASE = 10000.0


class Model:
    def __init__(self, name):
        self.recipe = zoo.Recipe(name)
        self.keys = {key.split(".", 1)[1]: value for key, _, value in self.recipe.keys}
        tied = "output.weight" not in self.recipe.tensors
        self.w = {n: zoo.float_weights(n, d, tied).astype(np.float64) for n, d in self.recipe.tensors.items()}

    def __getitem__(self, name):
        return self.w[name + ".weight"]

    def has(self, name):
        return name + ".weight" in self.w


def rms(x, weight=None, eps=1e-5):
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return y if weight is None else y * weight


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def rope(x, base, factors=None):
    """x: [T, heads, d], pairs (i, i + d / 2)."""
    half = x.shape[-1] // 2
    angle = np.arange(len(x))[:, None] * base ** (-np.arange(half) / half)
    if factors is not None:
        angle = angle / factors
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def attend(q, k, v, window):
    tokens, heads, _ = q.shape
    group = heads // k.shape[1]
    distance = np.arange(tokens)[:, None] - np.arange(tokens)
    hidden = (distance < 0) | ((window > 0) & (distance >= window))
    out = []
    for h in range(heads):
        score = np.where(hidden, -np.inf, q[:, h] @ k[:, h // group].T)
        score = np.exp(score - score.max(-1, keepdims=True))
        out.append(score / score.sum(-1, keepdims=True) @ v[:, h // group])
    return np.concatenate(out, -1)


def attention(m, x, i, slides, source, cache, factors):
    """Layer i sees what layer `source` keeps."""
    p, heads = f"blk.{i}.", m.keys["attention.head_count"]
    base = WINDOWED_BASE if slides else m.keys["rope.freq_base"]
    factors = None if slides else factors
    split = lambda y, n: y.reshape(len(y), n, -1)
    q = rope(rms(split(x @ m[p + "attn_q"].T, heads), m[p + "attn_q_norm"]), base, factors)
    if source == i:
        kv_heads = m.keys["attention.head_count_kv"]
        k = x @ m[p + "attn_k"].T
        v = x @ m[p + "attn_v"].T if m.has(p + "attn_v") else k
        k = rope(rms(split(k, kv_heads), m[p + "attn_k_norm"]), base, factors)
        cache[i] = k, rms(split(v, kv_heads))
    window = m.keys["attention.sliding_window"] if slides else 0
    return attend(q, *cache[source], window) @ m[p + "attn_output"].T


def sources(slides, shared):
    """The layer whose keys and values each layer sees."""
    own = len(slides) - shared
    return [i if i < own else max(j for j in range(own) if slides[j] == slides[i]) for i in range(len(slides))]


def per_layer_inputs(m, tokens, x, layers):
    own = m["per_layer_token_embd"][tokens].reshape(len(x), layers, -1)
    own = own * np.sqrt(own.shape[-1])
    made = (x @ m["per_layer_model_proj"].T / np.sqrt(x.shape[-1])).reshape(own.shape)
    return (rms(made, m["per_layer_proj_norm"]) + own) / np.sqrt(2)


def per_layer(m, x, row, p):
    return rms((gelu(x @ m[p + "inp_gate"].T) * row) @ m[p + "proj"].T, m[p + "post_norm"])


def feed_forward(m, x, p, sparse=False):
    gate = x @ m[p + "ffn_gate"].T
    if sparse:
        gate = np.maximum(0, gate - gate.mean(-1, keepdims=True) - 1.6448533535003662 * gate.std(-1, ddof=1, keepdims=True))
    return (gelu(gate) * (x @ m[p + "ffn_up"].T)) @ m[p + "ffn_down"].T


def as_long_as(like, x):
    return x * np.linalg.norm(like, axis=-1, keepdims=True) / np.linalg.norm(x, axis=-1, keepdims=True)


def head(m, x):
    logits = rms(x, m["output_norm"]) @ m["token_embd"].T
    return 30 * np.tanh(logits / 30)


def gemma3n(m, tokens):
    layers = m.keys["block_count"]
    slides = [(i + 1) % 5 != 0 for i in range(layers)]
    source = sources(slides, m.keys["attention.shared_kv_layers"])
    x = m["token_embd"][tokens] * np.sqrt(m.keys["embedding_length"])
    rows = per_layer_inputs(m, tokens, x, layers)
    streams = np.stack([x] + [as_long_as(x, x @ w.T) for w in m["altup_proj"]])  # [4, T, n]
    cache = {}

    def router(p, y):
        return np.tanh(rms(y, m[p + "altup_router_norm"]) / y.shape[-1] @ m[p + "altup_router"].T)

    for i in range(layers):
        p = f"blk.{i}."
        factors = (router(p, streams[0]) @ m[p + "altup_predict_coef"].T).reshape(-1, 4, 4)
        predictions = streams + np.einsum("tji,itn->jtn", factors, streams)
        active = predictions[0]
        h = rms(active, m[p + "attn_norm"])
        laurel = h + rms(h @ m[p + "laurel_l"].T @ m[p + "laurel_r"].T, m[p + "laurel_post_norm"])
        made = attention(m, h, i, slides[i], source[i], cache, None)
        made = (rms(made, m[p + "post_attention_norm"]) + active + laurel) / np.sqrt(2)
        out = feed_forward(m, rms(made, m[p + "ffn_norm"]), p, sparse=i < 10)
        made = made + rms(out, m[p + "post_ffw_norm"])
        factors = 1 + router(p, made) @ m[p + "altup_correct_coef"].T
        streams = predictions + factors.T[:, :, None] * (made - active)
        streams[1:] += per_layer(m, streams[0] * m[p + "altup_correct_scale"], rows[:, i], p)
    others = [as_long_as(streams[0], y @ w.T) for y, w in zip(streams[1:], m["altup_unembd_proj"])]
    return head(m, (streams[0] + sum(others)) / 4)


def experts(m, x, p):
    used, count = m.keys["expert_used_count"], m.keys["expert_count"]
    seen = rms(x) / np.sqrt(x.shape[-1]) * m.w[p + "ffn_gate_inp.scale"]
    score = np.exp(seen @ m[p + "ffn_gate_inp"].T)
    score /= score.sum(-1, keepdims=True)
    chosen = np.argsort(-score, axis=-1)[:, :used]
    h = rms(x, m[p + "pre_ffw_norm_2"])
    out = np.zeros_like(x)
    for t in range(len(x)):
        total = score[t, chosen[t]].sum()
        for e in chosen[t]:
            gate, up = np.split(m[p + "ffn_gate_up_exps"][e] @ h[t], 2)
            made = m[p + "ffn_down_exps"][e] @ (gelu(gate) * up)
            out[t] += score[t, e] / total * m.w[p + "ffn_down_exps.scale"][e] * made
    return out


def gemma4(m, tokens):
    layers = m.keys["block_count"]
    slides = m.keys["attention.sliding_window_pattern"]
    source = sources(slides, m.keys.get("attention.shared_kv_layers", 0))
    x = m["token_embd"][tokens] * np.sqrt(m.keys["embedding_length"])
    rows = per_layer_inputs(m, tokens, x, layers) if m.has("per_layer_token_embd") else None
    cache = {}
    for i in range(layers):
        p = f"blk.{i}."
        h = attention(m, rms(x, m[p + "attn_norm"]), i, slides[i], source[i], cache, m["rope_freqs"])
        x = x + rms(h, m[p + "post_attention_norm"])
        h = feed_forward(m, rms(x, m[p + "ffn_norm"]), p)
        if m.has(p + "ffn_gate_inp"):
            h = rms(h, m[p + "post_ffw_norm_1"]) + rms(experts(m, x, p), m[p + "post_ffw_norm_2"])
        x = x + rms(h, m[p + "post_ffw_norm"])
        if rows is not None:
            x = x + per_layer(m, x, rows[:, i], p)
        x = x * m[p + "layer_output_scale"]
    return head(m, x)


def main():
    for name in sys.argv[1:]:
        model, path = Model(name), zoo.HERE / "goldens" / f"{name}.npz"
        tokens = np.load(path)["tokens"]
        logits = {"gemma3n": gemma3n, "gemma4": gemma4}[model.recipe.arch](model, tokens)
        np.savez_compressed(path, tokens=tokens, F32=logits.astype(np.float16))


if __name__ == "__main__":
    main()
