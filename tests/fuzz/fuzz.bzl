"""Fuzzers: built with --config=fuzz alone, so that a plain build neither has nor needs libFuzzer."""

def fuzz_binary(name, **kwargs):
    native.cc_binary(
        name = name,
        testonly = True,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        **kwargs
    )
