"""The C++ rules that are native in Bazel 4.2.3, under the names by which other rule sets load them."""

cc_library = native.cc_library
cc_binary = native.cc_binary
cc_test = native.cc_test
cc_import = native.cc_import
cc_proto_library = native.cc_proto_library
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
fdo_prefetch_hints = native.fdo_prefetch_hints
fdo_profile = native.fdo_profile
objc_library = native.objc_library
objc_import = native.objc_import

def _compiler_flag_impl(ctx):
    pass

# Named by Bazel's own BUILD files, read by nothing here.
compiler_flag = rule(implementation = _compiler_flag_impl)
