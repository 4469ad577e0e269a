# How everything under runtime/ but apps/ is compiled: it ends up inside other people's programs, which may have no
# C++ library, so nothing may need one.
RUNTIME_COPTS = [
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fvisibility=hidden",
    "-fno-math-errno",
    "-Werror=return-type",
]
