#!/usr/bin/env python3
"""Files of the kinds that this compiler and a peer both read: differential.py COMPILER PEER [--kind C13 ...] [--name REGEX]

PEER MODEL OUT.f32 TOKEN... writes the last token's logits, or ends with another code than 0. Where both accept a file, their
logits must agree to a normalized squared error of 1e-5 (2.5e-4 for the quantized ones, those of C20). Files that only one
accepts, or that crash the peer, are listed with the reasons that each gave.
"""
import argparse
import collections
import concurrent.futures
import os
import re
import sys

import numpy as np

import check
import containers
import models
import texts

TOKENS = (2, 50, 60, 70, 80, 90, 100, 50, 60, 70, 80, 90)
ADDRESS_SPACE = 8 << 30  # of the peer, which asks for what files say
BOUND, BOUND_QUANTIZED = 1e-5, 2.5e-4  # as tests/zoo: activations of quantized products are rounded in two ways


def reason(outcome):
    text = outcome.said().split("error: ", 1)[-1].strip().split("model.gguf: ")[-1]
    return re.sub(r"'?/[^ ]*gguf-compile-case\.[^/ ]*/", "", text)[:110]


def peers_reason(outcome):
    """What it said of its end: a failed assertion, an exception, an error, or nothing."""
    text = outcome.said()
    for pattern in (r"(GGML_ASSERT\(.*) failed", r"what\(\): +(.*)", r"error loading model: (.*)", r"(?:error|failed)[^\n:]*: (.*)"):
        if found := re.findall(pattern, text):
            return ": " + re.sub(r"'?/[^ ]*gguf-compile-case\.[^/ ]*/", "", found[0])[:110]
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("compiler")
    parser.add_argument("peer")
    parser.add_argument("--kind", nargs="+")
    parser.add_argument("--name", default="", help="of the cases' names")
    args = parser.parse_args()
    cases = [c for m in (containers, models, texts) for kind in m.CASES for c in kind() if c.model is not None]
    cases = [c for c in cases if (not args.kind or c.kind in args.kind) and re.search(args.name, c.name)]

    def compare(case):
        c, how = check.Context(os.path.abspath(args.compiler), "", "", False), ""
        try:
            made = case.model(c) if callable(case.model) else case.model
            path = made if isinstance(made, str) else c.write("model.gguf", made)
            try:
                theirs = check.run([args.peer, path, c.path("theirs"), *map(str, TOKENS)], address_space=ADDRESS_SPACE)
                code = theirs.code
                how = "accepts" if code == 0 else f"dies of signal {-code}" if code < 0 else "refuses"
                how += peers_reason(theirs) if code else ""
            except check.Failed:
                code, how = None, "waits for good"
            outcome, program = c.compile(path, *case.options, wall=600)
            if outcome.code != 0 or code != 0:
                return "neither" if outcome.code != 0 and code == 1 else "one", how, outcome
            ours = np.frombuffer(c.logits(program, TOKENS), "<f4").reshape(len(TOKENS), -1)[-1].astype(float)
            other = np.fromfile(c.path("theirs"), "<f4").astype(float)
            error = ((ours - other) ** 2).sum() / (other**2).sum() if ours.shape == other.shape else float("inf")
            return ("same" if error <= (BOUND_QUANTIZED if case.kind == "C20" else BOUND) else "DIFFER"), f"{error:.1e}", outcome
        except check.Failed as failed:
            return "FAILED", how, str(failed)[:150]
        finally:
            c.close()

    counts = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for case, (word, how, outcome) in zip(cases, pool.map(compare, cases)):
            counts[word] += 1
            if word in ("one", "DIFFER", "FAILED"):
                ours = outcome if word == "FAILED" else "accepts" if outcome.code == 0 else reason(outcome)
                print(f"{word} {case.kind} {case.name[:60]}: the peer {how}; here: {ours}", flush=True)
    print(f"{len(cases)} files: {counts['same']} accepted by both with the same logits, {counts['DIFFER']} with others, "
          f"{counts['neither']} by neither, {counts['one']} by one, {counts['FAILED']} not told")
    return 1 if counts["DIFFER"] or counts["FAILED"] or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
