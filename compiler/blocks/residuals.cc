#include "compiler/blocks/residuals.h"

#include "compiler/base/strings.h"

namespace gc::blocks {
namespace {

// Values [T, n] beside each other; the last one is `name`.
ir::ValueId beside(ir::Builder& b, const std::vector<ir::ValueId>& parts, const std::string& name) {
  ir::ValueId all = parts[0];
  for (size_t i = 1; i < parts.size(); i++)
    all = b.concat(all, parts[i], i + 1 == parts.size() ? name : cat(name, ".", i));
  return all;
}

}  // namespace

ir::ValueId read_residuals(ir::Builder& b, ir::ValueId x, const KeptResiduals& kept, const Residuals& r,
                           ir::WeightId score, const std::string& prefix) {
  if (kept.states.empty()) return x;
  std::vector<ir::ValueId> states = kept.states, normed = kept.normed, scores;
  states.push_back(x);
  normed.push_back(b.rms_norm(x, {}, r.eps, prefix + "normed"));
  for (size_t i = 0; i < normed.size(); i++)
    scores.push_back(b.matmul(normed[i], score, cat(prefix, "score", i)));
  const auto n = int64_t(states.size());
  // A softmax is a choice of all.
  const ir::ValueId weights = b.route(beside(b, scores, prefix + "scores"), {.used = n}, prefix + "weights");
  const ir::ValueId all = b.heads(beside(b, states, prefix + "states"), n, prefix + "state_heads");
  return b.merge_heads(b.mix(all, weights, 0, prefix + "mixed"), prefix + "read");
}

void keep_residual(ir::Builder& b, ir::ValueId x, KeptResiduals& kept, const Residuals& r,
                   const std::string& prefix) {
  kept.states.push_back(x);
  kept.normed.push_back(b.rms_norm(x, {}, r.eps, prefix + "kept_norm"));
}

}  // namespace gc::blocks
