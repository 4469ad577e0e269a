"""Bundles of runtime and system files that the compiler carries (carried.h)."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load(":system_files.bzl", "system_file_labels")

# The runtime is what users run, whatever way the compiler around it is built: always optimized, position-independent,
# a section per function so that the unused ones go, and never with the sanitizers of a test build.
def _for_users(settings, attr):
    return {
        "//command_line_option:compilation_mode": "opt",
        "//command_line_option:copt": ["-O2", "-g0", "-fPIC", "-ffunction-sections", "-fdata-sections"],
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
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
)

def link_bundle(name, deps, **kwargs):
    """A cc_library whose C symbols NAME_begin and NAME_end enclose a bundle of `deps` and the system's files."""
    runtime_archive(
        name = name + "_runtime",
        deps = deps,
        visibility = ["//visibility:private"],
    )
    files = system_file_labels("system_files")
    native.genrule(
        name = name + "_bundle",
        srcs = [":" + name + "_runtime"] + files,
        outs = [name + ".zst"],
        cmd = "$(execpath //compiler/link:bundle) $@ runtime.a=$(execpath :%s_runtime) " % name +
              " ".join(["%s=$(execpath %s)" % (file.split(":")[-1], file) for file in files]),
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
