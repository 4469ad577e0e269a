#!/usr/bin/env python3
"""Hostile and strange inputs by kind, and what each must get; the kinds are numbered as in tests/README.md.

  cases.py COMPILER [--kind C01 ...] [--list] [--sanitized] [--jobs N]

Prints a line of counts for each kind, and every input that got something else. --sanitized: the compiler is built with a
sanitizer, whose memory and time are not bounded.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import sys
import time
import traceback

import check
import containers
import faults
import gpu
import gpu_answers
import known
import limits
import models
import programs
import server
import texts

MODULES = [containers, models, texts, faults, programs, limits, gpu, gpu_answers, known, server]


def all_cases():
    for module in MODULES:
        for kind in module.CASES:
            yield from kind()


def titles():
    """Kind -> the first line of what its functions say."""
    found = {}
    for module in MODULES:
        for function in module.CASES:
            name, text = function.__doc__.split(": ", 1)
            found.setdefault(name, text.split("\n")[0])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("compiler")
    parser.add_argument("--kind", nargs="+")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--sanitized", action="store_true")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parents[2]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "gguf-compile"

    def run(case):
        context = check.Context(os.path.abspath(args.compiler), root, cache / "models", args.sanitized)
        start = time.monotonic()
        try:
            word = case.check(context)
        except check.Failed as failed:
            word = f"FAILED {failed}"
        except Exception:
            word = f"FAILED {traceback.format_exc()}"
        finally:
            context.close()
        case.seconds = time.monotonic() - start
        return case, word

    cases = [case for case in all_cases() if not args.kind or case.kind in args.kind]
    if args.list:
        for case in cases:
            print(case.kind, case.name)
        return 0
    counts, failures, seconds = collections.defaultdict(collections.Counter), [], collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for case, word in pool.map(run, cases):
            if word.startswith("FAILED"):
                failures.append((case, word))
                word = "FAILED"
            counts[case.kind][word] += 1
            seconds[case.kind] += case.seconds
    server.forget()
    programs.forget()
    for kind, title in titles().items():
        if kind in counts:
            said = ", ".join(f"{n} {word}" for word, n in sorted(counts[kind].items()))
            print(f"{kind} {title} {sum(counts[kind].values())} inputs: {said} ({seconds[kind]:.0f} s)")
    for case, word in failures:
        print(f"{case.kind} {case.name}: {word}")
    total = sum(sum(c.values()) for c in counts.values())
    print(f"{total} inputs of {len(counts)} kinds, {len(failures)} failed")
    return 1 if failures or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
