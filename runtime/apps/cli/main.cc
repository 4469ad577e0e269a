// The main of every compiled model.
//
// It is written without the C++ library, as all of the runtime: a static libstdc++ adds 2 MB and its start-up code
// (locale tables, iostreams) to a program whose own code is a few hundred kB, and a program that answers within
// milliseconds of exec has no use for either. getopt_long_only is libc's and the library that everyone's fingers
// know; output goes through a buffer of ours (output.h). Nothing is set up before it is needed: weights and
// vocabulary stay untouched in the page cache, memory is reserved and not written.
#include "runtime/apps/cli/app.h"

int main(int argc, char** argv) { return gcrt::run_cli(argc, argv); }
