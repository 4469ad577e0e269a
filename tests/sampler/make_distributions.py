#!/usr/bin/env python3
"""Writes distributions.json: what is left of a vocabulary after a chain of samplers, by plain NumPy in double.

  make_distributions.py > distributions.json

The stages are written down as their makers describe them, over whole arrays, without regard to cost, and share nothing
with the runtime's. Logits, token texts and ends follow from a seed by formulas that the test has too (sampler_test.cc),
so that a case is only its parameters and the tokens that may still be drawn.
"""
import json
import math
import random

import numpy as np

NEVER = -np.inf


def logits_of(n, seed, spread):
    i = np.arange(n, dtype=np.uint64)
    mixed = ((i * np.uint64(7919) + np.uint64(seed * 104729)) * np.uint64(2654435761)) % np.uint64(1 << 32)
    mixed = ((mixed >> np.uint64(7)) ^ mixed) * np.uint64(2246822519) % np.uint64(1 << 32)
    return ((mixed >> np.uint64(12)).astype(np.float64) / 65536 - 8) / spread


def text_of(i):
    out = ""
    while i > 0:
        i -= 1
        out = "abc"[i % 3] + out
        i //= 3
    return out


def is_end(i):
    return i % 41 == 5


def softmax(l):
    e = np.exp(l - np.max(l))
    return e / e.sum()


def order(l):
    return np.lexsort((np.arange(len(l)), -l))


def keep(l, kept):
    out = np.full_like(l, NEVER)
    out[kept] = l[kept]
    return out


def alive(l):
    return [i for i in order(l) if l[i] != NEVER]


def penalties(l, o, past):
    last = past[-o["repeat_last_n"]:] if o["repeat_last_n"] > 0 else past if o["repeat_last_n"] < 0 else []
    out = l.copy()
    for t in set(last):
        out[t] = out[t] * o["repeat_penalty"] if out[t] <= 0 else out[t] / o["repeat_penalty"]
        out[t] -= last.count(t) * o["frequency_penalty"] + o["presence_penalty"]
    return out


def dry(l, o, past):
    out = l.copy()
    longest = {}
    for at in range(len(past) - 1):  # how much of the end repeats what ends at `at`?
        n = 0
        while n <= at and past[at - n] == past[len(past) - 1 - n]:
            n += 1
        if n:
            longest[past[at + 1]] = max(longest.get(past[at + 1], 0), n)
    for t, n in longest.items():
        if n >= o["dry_allowed_length"]:
            out[t] -= o["dry_multiplier"] * o["dry_base"] ** (n - o["dry_allowed_length"])
    return out


def top_n_sigma(l, o, past):
    live = l[l != NEVER]
    return np.where(l >= live.max() - o["top_n_sigma"] * live.std(), l, NEVER)


def top_k(l, o, past):
    return keep(l, alive(l)[:o["top_k"]])


def top_p(l, o, past):
    ids = alive(l)
    mass = np.cumsum(softmax(l)[ids])
    return keep(l, ids[:int(np.searchsorted(mass, o["top_p"])) + 1])


def min_p(l, o, past):
    p = softmax(l)
    return np.where(p >= o["min_p"] * p.max(), l, NEVER)


def typ_p(l, o, past):
    p = softmax(l)
    ids = [i for i in alive(l)]
    surprise = -np.log(p[ids])
    entropy = float((p[ids] * surprise).sum())
    ids = [i for _, i in sorted(zip(abs(surprise - entropy), ids), key=lambda x: x[0])]
    mass = np.cumsum(p[ids])
    return keep(l, ids[:int((mass <= o["typ_p"]).sum()) + 1])


def xtc(l, o, past):  # with probability 1
    p = softmax(l)
    reach = [i for i in alive(l) if p[i] >= o["xtc_threshold"]]
    return keep(l, [i for i in alive(l) if i not in reach[:-1]])


def temperature(l, o, past):
    t = o["temperature"]
    if o["dynatemp_range"] > 0 and len(alive(l)) > 1:
        p = softmax(l)
        p = p[p > 0]
        even = -float((p * np.log(p)).sum()) / math.log(len(alive(l)))
        low, high = max(0, t - o["dynatemp_range"]), t + o["dynatemp_range"]
        t = low + (high - low) * even ** o["dynatemp_exponent"]
    return l / t


def infill(l, o, past):
    ids = alive(l)
    p = dict(zip(ids, softmax(l)[ids]))
    ends = sum(p[i] for i in ids if is_end(i))
    if 3 * ends * len(ids) > 1 - ends:
        return keep(l, [i for i in ids if is_end(i)])
    dead = set()
    for a in ids:
        for b in ids:
            if a in dead:
                break
            if a == b or b in dead or not text_of(a) or not text_of(b).startswith(text_of(a)):
                continue
            winner, loser = (b, a) if p[b] > p[a] else (a, b)
            p[winner] += p[loser]
            p[loser] = 0
            dead.add(loser)
    kept = [i for i in ids if is_end(i) or p[i] >= 0.2]
    texts = [i for i in kept if not is_end(i)]
    if not texts:
        return None  # another token, which is not among these
    mass = sum(p[i] for i in kept)
    return keep(l, [i for i in kept if is_end(i) or p[i] / mass >= 1 / (len(texts) + 1)])


def mirostat(l, o, past):
    l = temperature(l, dict(o, dynatemp_range=0), past)
    ids = alive(l)
    p = softmax(l)[ids]
    mu = 2 * o["mirostat_tau"]
    if o["mirostat"] == 2:
        return keep(l, ids[:max(1, int((-np.log2(p) <= mu).sum()))])
    m = min(100, len(ids))
    t = np.log((np.arange(m - 1) + 2) / (np.arange(m - 1) + 1))
    s = float((t * np.log(p[:m - 1] / p[1:m])).sum() / (t * t).sum())
    e = s - 1
    k = (e * 2 ** mu / (1 - len(l) ** -e)) ** (1 / s)
    return keep(l, ids[:max(1, int(k))])


STAGES = {"penalties": penalties, "dry": dry, "top_n_sigma": top_n_sigma, "top_k": top_k, "typ_p": typ_p, "top_p": top_p,
          "min_p": min_p, "xtc": xtc, "temperature": temperature}


def main():
    rng = random.Random(3)
    cases = []
    while len(cases) < 240:
        n, spread = rng.choice([50, 300, 1000]), rng.choice([1, 2, 4])
        seed = len(cases)
        past = [rng.randrange(12) for _ in range(rng.choice([0, 5, 40]))]
        o = {"temperature": rng.choice([0.25, 0.75, 1.5]), "top_k": rng.choice([3, 20, 60]),
             "top_p": rng.choice([0.5, 0.9]), "min_p": rng.choice([0.02, 0.2]), "typ_p": rng.choice([0.3, 0.8]),
             "top_n_sigma": rng.choice([0.5, 1.5]), "xtc_probability": 1, "xtc_threshold": rng.choice([0.05, 0.2]),
             "repeat_last_n": rng.choice([-1, 0, 8, 64]), "repeat_penalty": rng.choice([1.0, 1.25]),
             "frequency_penalty": rng.choice([0.0, 0.5]), "presence_penalty": rng.choice([0.0, 0.25]),
             "dynatemp_range": rng.choice([0, 0, 0.5]), "dynatemp_exponent": rng.choice([1.0, 2.0]),
             "dry_multiplier": 0.75, "dry_base": 1.75, "dry_allowed_length": 2, "dry_last_n": -1,
             "mirostat": 0, "mirostat_tau": rng.choice([2.0, 5.0])}
        kind = rng.random()
        if kind < 0.12:
            o["mirostat"] = rng.choice([1, 2])
            names = []
        elif kind < 0.3:
            names = ["top_k", "top_p", "infill"]
        elif kind < 0.6:
            names = [rng.choice(list(STAGES))]
        else:
            names = rng.sample(list(STAGES), rng.randint(2, 6))
            if rng.random() < 0.5:
                names.sort(key=list(STAGES).index)
        if "top_n_sigma" in names:
            o["dynatemp_range"] = 0  # how many candidates there are counts, and what it bans still counts as one
        l = logits_of(n, seed, spread)
        for name in names:
            l = infill(l, o, past) if name == "infill" else STAGES[name](l, o, past)
            if l is None:
                break
        if o["mirostat"]:
            l = mirostat(l, o, past)
        if l is None:
            continue
        p = softmax(l)
        want = [[int(i), float(f"{p[i]:.7g}")] for i in alive(l) if p[i] > 1e-7][:60]
        used = {k: v for k, v in o.items() if v != 0 or k in ("repeat_last_n",)}
        cases.append({"n": n, "seed": seed, "spread": spread, "chain": ";".join(names), "past": past, "options": used,
                      "left": int((p > 1e-7).sum()), "likeliest": want[:25]})
    print("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]")


if __name__ == "__main__":
    main()
