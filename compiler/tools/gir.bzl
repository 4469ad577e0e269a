"""Text tests of the IR: see gir_test.cc."""

def gir_tests(name, srcs):
    """A test of .gir files that hold '; run:' lines."""
    native.cc_test(
        name = name,
        size = "small",
        args = ["$(location %s)" % src for src in srcs],
        data = srcs,
        deps = ["//compiler/tools:gir_test_main"],
    )
