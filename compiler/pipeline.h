// From a model file to an executable: the page to read first is pipeline.cc.
#pragma once

#include <ostream>

#include "compiler/options.h"

namespace gc {

// Compiles options.model into options.output, or prints what options.emit or stop_after asks for to `out` (or the
// output file). Notes and the final report go to `log`. Throws gc::Error.
void compile(const Options& options, std::ostream& out, std::ostream& log);

}  // namespace gc
