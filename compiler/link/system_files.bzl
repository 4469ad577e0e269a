"""Repository of what a static program needs from the system, as the host compiler finds it: start files, libc, libm,
compiler runtime. As a repository the files are inputs that Bazel watches: an upgrade of libc rebuilds the bundle."""

_FILES = [
    "rcrt1.o",
    "crti.o",
    "crtbeginS.o",
    "crtendS.o",
    "crtn.o",
    "libc.a",
    "libgcc.a",
    "libgcc_eh.a",
    "libstdc++.a",
]

def _find(ctx, compiler, name):
    target = ["--target=" + ctx.attr.target_triple] if ctx.attr.target_triple else []
    path = ctx.execute([compiler] + target + ["-print-file-name=" + name]).stdout.strip()
    if not path.startswith("/"):
        fail("%s has no %s; %s are needed" % (compiler, name, ctx.attr.packages))
    return path

def _system_files(ctx):
    compiler = ctx.which(ctx.attr.compiler)
    if not compiler:
        fail("no " + ctx.attr.compiler)
    for name in _FILES:
        ctx.symlink(_find(ctx, compiler, name), name)

    # libm.a is a linker script: GROUP ( /path/libm-2.36.a /path/libmvec.a ). Nothing here calls libmvec.
    libm = _find(ctx, compiler, "libm.a")
    for word in ctx.execute(["head", "-c", "1000", libm]).stdout.split(" "):
        if word.startswith("/") and word.endswith(".a") and word.split("/")[-1].startswith("libm-"):
            libm = word
    ctx.symlink(libm, "libm.a")
    for name in ctx.attr.more:
        ctx.symlink(_find(ctx, compiler, name), name)
    ctx.file("BUILD", "exports_files(%r)\n" % (_FILES + ["libm.a"] + ctx.attr.more))

system_files = repository_rule(
    implementation = _system_files,
    attrs = {
        "compiler": attr.string(default = "clang-22"),
        "more": attr.string_list(doc = "further archives"),
        "packages": attr.string(default = "libc6-dev and libstdc++-12-dev"),
        "target_triple": attr.string(doc = "another target than the host"),
    },
    configure = True,
    local = True,
)

def system_file_labels(repository):
    return ["@%s//:%s" % (repository, name) for name in _FILES + ["libm.a"]]
