#include "compiler/passes/pass.h"

#include <algorithm>

#include "compiler/base/error.h"
#include "compiler/ir/print.h"
#include "compiler/ir/verify.h"

namespace gc::passes {
namespace {

constexpr PassInfo kPasses[] = {
#define PASS(name, purpose) {#name, purpose, name},
#include "compiler/passes/passes.def"
#undef PASS
};

bool contains(const std::vector<std::string>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

}  // namespace

std::span<const PassInfo> all_passes() { return kPasses; }

const PassInfo& pass_named(std::string_view name) {
  std::string names;
  for (const PassInfo& pass : kPasses) {
    if (pass.name == name) return pass;
    names += cat(names.empty() ? "" : ", ", pass.name);
  }
  throw_user("there is no pass ", quote(name), "; passes are ", names);
}

ir::Graph run_passes(ir::Graph g, const PassOptions& options) {
  for (const std::string& name : options.disabled) pass_named(name);
  for (const std::string& name : options.dump_after)
    if (name != "all") pass_named(name);
  if (!options.stop_after.empty()) pass_named(options.stop_after);

  std::vector<Timing> unused;
  for (const PassInfo& pass : kPasses) {
    bool dump =
        options.dump && (contains(options.dump_after, pass.name) || contains(options.dump_after, "all"));
    std::string before = dump ? print(g) : "";
    if (!contains(options.disabled, pass.name)) {
      ScopedTiming timing(options.timings ? *options.timings : unused, pass.name);
      g = with_context(cat("pass ", pass.name), [&] {
        ir::Graph after = pass.run(std::move(g));
        if (options.verify) verify(after);
        return after;
      });
    }
    if (dump) {
      std::string after = print(g);
      options.dump(pass.name, after == before ? "(unchanged)\n" : after);
    }
    if (pass.name == options.stop_after) break;
  }
  return g;
}

std::vector<ir::Graph> split_roles(const ir::Graph& g) {
  std::vector<ir::Graph> out;
  for (const char* role : {"prefill", "decode", "mixed"}) {
    out.push_back(g);
    out.back().name += cat(".", role);
  }
  return out;
}

}  // namespace gc::passes
