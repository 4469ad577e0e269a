// Runs the passes of passes.def: named, timed, verified, dumped, switched off or stopped at.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/base/timing.h"
#include "compiler/ir/ir.h"

namespace gc::passes {

#define PASS(name, purpose) ir::Graph name(ir::Graph g);
#include "compiler/passes/passes.def"
#undef PASS

struct PassInfo {
  const char* name;
  const char* purpose;
  ir::Graph (*run)(ir::Graph);
};
// In the order they run.
std::span<const PassInfo> all_passes();
// Throws a UserError that lists the names when there is none of this name.
const PassInfo& pass_named(std::string_view name);

struct PassOptions {
  std::vector<std::string> disabled;
  std::vector<std::string> dump_after;  // names, or "all"
  std::string stop_after;               // a name, or "" for none
  bool verify = true;                   // after every pass
  // Gets the graph's text after each pass of dump_after, or "(unchanged)\n".
  std::function<void(std::string_view pass, std::string_view text)> dump;
  std::vector<Timing>* timings = nullptr;
};

// All passes in order, or those up to stop_after.
ir::Graph run_passes(ir::Graph g, const PassOptions& options = {});

// The graph once for each role, named NAME.prefill, NAME.decode and NAME.mixed. Ops are the same: the role picks the
// kernels' arithmetic when they are selected, never the graph, so that answers don't depend on the batch.
std::vector<ir::Graph> split_roles(const ir::Graph& g);

}  // namespace gc::passes
