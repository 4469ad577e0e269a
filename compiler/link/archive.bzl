"""Bundles of runtime and system files that the compiler carries (carried.h)."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load(":system_files.bzl", "system_file_labels")

# The runtime is what users run, whatever way the compiler around it is built: always optimized, position-independent,
# a section per function so that the unused ones go, and never with the sanitizers of a test build. Another target is
# the same clang with --target, whose headers and libraries Debian's cross packages bring; -MMD: Bazel wants to know of
# no header outside the toolchain's own folders. What other C libraries may lack is not asked for: atomics from libgcc, and
# the guard that aarch64's stack protector takes from the dynamic linker.
def _for_users(settings, attr):
    copts = ["-O2", "-g0", "-fPIC", "-ffunction-sections", "-fdata-sections"]
    if attr.target_triple:
        copts += ["--target=" + attr.target_triple, "-MMD", "-mno-outline-atomics", "-fno-stack-protector"]
    return {
        "//command_line_option:compilation_mode": "opt",
        "//command_line_option:copt": copts,
        "//command_line_option:features": [],
        "//command_line_option:force_pic": True,
        "//command_line_option:linkopt": [],
    }

_for_users_transition = transition(
    implementation = _for_users,
    inputs = [],
    outputs = [
        "//command_line_option:compilation_mode",
        "//command_line_option:copt",
        "//command_line_option:features",
        "//command_line_option:force_pic",
        "//command_line_option:linkopt",
    ],
)

def _runtime_archive(ctx):
    objects = []
    for dep in ctx.attr.deps:
        for linker_input in dep[CcInfo].linking_context.linker_inputs.to_list():
            for library in linker_input.libraries:
                objects.extend(library.pic_objects or library.objects)
    if not objects:
        fail("no objects in %s" % ctx.attr.deps)
    toolchain = find_cpp_toolchain(ctx)
    archive = ctx.actions.declare_file(ctx.label.name + ".a")
    args = ctx.actions.args()
    args.add("qcsD")  # D: no times, users or modes; q: two objects may share a name
    args.add(archive)
    args.add_all(objects)
    ctx.actions.run(
        executable = toolchain.ar_executable,
        arguments = [args],
        inputs = objects,
        outputs = [archive],
        tools = toolchain.all_files,
        mnemonic = "RuntimeArchive",
    )
    return [DefaultInfo(files = depset([archive]))]

runtime_archive = rule(
    implementation = _runtime_archive,
    doc = "One deterministic archive of all objects of `deps` and what they depend on.",
    attrs = {
        "deps": attr.label_list(providers = [CcInfo], cfg = _for_users_transition),
        "target_triple": attr.string(doc = "another target than the host"),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
)

def libc_stubs(name, folder = "", target_triple = "", oldest = "", libraries = ["libc.so.6", "libm.so.6"], symbols = ["libc_symbols.txt"]):
    """Libraries of the C library for a linker to bind symbols to: names and versions of `symbols`, no code.

    `folder`: before the names of the files that are made. `oldest`: the version of the target's first libc, which stands
    for all that are older (they are all GLIBC_2.N). A line of `symbols` is LIBRARY VERSION NAME, of data with its size.

    What is linked against them asks for the versions named there, whatever libc the machine has that builds this. Not
    llvm-ifs: its stubs have no versions, and pthread_cond_timedwait was bound to its oldest, another function.
    """
    for library in libraries:
        native.genrule(
            name = name + "_" + library,
            srcs = symbols,
            outs = [folder + library],
            cmd = """
awk '$$1 == "{library}" && $$4 == "" {{print ".text; .globl " $$3 "; .type " $$3 ",@function; " $$3 ": ret"}}
  $$1 == "{library}" && $$4 != "" {{
    print ".data; .globl " $$3 "; .type " $$3 ",@object; .size " $$3 "," $$4 "; " $$3 ": .zero " $$4}}' $(SRCS) > $(@D)/{library}.s
awk -v oldest={oldest} '
  {{split($$2, version, "."); split(oldest, first, "."); if (version[2] + 0 < first[2] + 0) $$2 = oldest}}
  $$1 == "{library}" {{all[$$2] = all[$$2] " " $$3 ";"}}
  END {{for (v in all) print v " {{ global:" all[v] " }};"}}' $(SRCS) > $(@D)/{library}.map
$(CC) {target} -shared -nostdlib -fuse-ld=lld -Wl,-soname,{library} -Wl,--build-id=none \
  -Wl,--version-script=$(@D)/{library}.map -o $@ $(@D)/{library}.s
""".format(
                library = library,
                oldest = oldest,
                target = "--target=" + target_triple if target_triple else "",
            ),
            toolchains = ["@bazel_tools//tools/cpp:current_cc_toolchain"],
        )

def link_bundle(name, deps, extra = {}, system_files = "system_files", target_triple = "", **kwargs):
    """A cc_library whose C symbols NAME_begin and NAME_end enclose a bundle of `deps` and the system's files.

    `extra`: further files of the bundle, label: name. `system_files`: their repository. `target_triple`: another target
    than the host.
    """
    runtime_archive(
        name = name + "_runtime",
        target_triple = target_triple,
        deps = deps,
        visibility = ["//visibility:private"],
    )
    files = system_file_labels(system_files)
    native.genrule(
        name = name + "_bundle",
        srcs = [":" + name + "_runtime"] + files + extra.keys(),
        outs = [name + ".zst"],
        cmd = "$(execpath //compiler/link:bundle) $@ runtime.a=$(execpath :%s_runtime) " % name +
              " ".join(["%s=$(execpath %s)" % (file.split(":")[-1], file) for file in files] +
                       ["%s=$(execpath %s)" % (as_name, label) for label, as_name in extra.items()]),
        tools = ["//compiler/link:bundle"],
    )
    native.genrule(
        name = name + "_assembly",
        srcs = [":" + name + "_bundle"],
        outs = [name + ".S"],
        # Bazel drops inputs that the compiler's dependency file doesn't name, and .incbin isn't in it: the checksum
        # makes the source change with the bundle.
        cmd = """cat > $@ <<END
    /* $$(sha256sum < $(execpath :{name}_bundle)) */
    .section .rodata.{name}, "a"
    .balign 16
    .globl {name}_begin, {name}_end
{name}_begin:
    .incbin "$(execpath :{name}_bundle)"
{name}_end:
    .section .note.GNU-stack, "", %progbits
END
""".format(name = name),
    )
    native.cc_library(
        name = name,
        srcs = [name + ".S"],
        textual_hdrs = [":" + name + "_bundle"],
        **kwargs
    )
