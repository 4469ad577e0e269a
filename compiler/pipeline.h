// From a model file to an executable: the page to read first is pipeline.cc.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/options.h"
#include "frontends/gguf/reader.h"

namespace gc {

// Compiles options.model into options.output, or prints what options.emit or stop_after asks for to `out` (or the
// output file). Notes and the final report go to `log`. Throws gc::Error.
void compile(const Options& options, std::ostream& out, std::ostream& log);

// What --target takes, `between` the names.
std::string target_names(std::string_view between);

// What compiling a file would take and make, without making it: for `inspect`.
struct MemoryPlan {
  std::string refusal;  // why this compiler would not take the file; the rest is empty then
  std::string isa;
  int64_t weights = 0;  // bytes of the packed image
  int64_t n_ctx = 0;    // the file's context
  struct Kv {
    std::string type;
    int64_t context = 0;    // bytes of a context of n_ctx, in chunks of 512
    int64_t per_token = 0;  // that grow with each token once rings are full
  };
  std::vector<Kv> kv;
  int64_t recurrent = 0;            // bytes of recurrent states and their snapshot
  int64_t arena = 0;                // bytes of scratch for steps of 512 rows, one output, two workers
  std::vector<std::string> passes;  // that would change the graph
};
MemoryPlan memory_plan(const gguf::File& file);

}  // namespace gc
