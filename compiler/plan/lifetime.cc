#include "compiler/plan/lifetime.h"

#include <algorithm>

#include "compiler/base/error.h"
#include "compiler/plan/plan.h"

namespace gc::plan {

Lifetimes find_lifetimes(const Plan& plan) {
  const ir::Graph& graph = plan.graph;
  Lifetimes out;
  out.life_.assign(graph.values.size(), {});
  out.last_reader_.assign(graph.values.size(), -1);

  std::vector<int32_t> phase(graph.ops.size(), 0);  // of the steps' ops; views have none of their own
  int32_t now = 0;
  for (const Step& step : plan.steps) {
    if (step.before == Meet::Always) ++now;
    phase[step.op] = now;
  }
  for (const Step& step : plan.steps)
    for (ir::ValueId result : graph.ops[step.op].results)
      out.life_[result.index] = {phase[step.op], phase[step.op]};

  for (const Step& step : plan.steps) {
    for (ir::ValueId value : graph.ops[step.op].inputs) {
      for (;;) {  // the value, and what it is a view of
        out.last_reader_[value.index] = std::max(out.last_reader_[value.index], step.op);
        out.life_[value.index].last = std::max(out.life_[value.index].last, phase[step.op]);
        const ir::Op& def = graph.ops[graph.value(value).def];
        if (!ir::is_view(def.kind)) break;
        value = def.inputs[0];
      }
    }
  }
  return out;
}

int64_t PhaseAllocator::take(int64_t bytes, int32_t first, int32_t last) {
  std::vector<Block> busy;
  for (const Block& block : blocks_)
    if (block.first <= last && first <= block.last) busy.push_back(block);
  std::sort(busy.begin(), busy.end(), [](const Block& a, const Block& b) { return a.begin < b.begin; });
  int64_t at = 0;
  for (const Block& block : busy) {
    if (at + bytes <= block.begin) break;
    at = std::max(at, block.end);
  }
  blocks_.push_back({at, at + bytes, first, last});
  size_ = std::max(size_, at + bytes);
  return at;
}

void PhaseAllocator::extend(int64_t offset, int32_t last) {
  Block* latest = nullptr;
  for (Block& block : blocks_)
    if (block.begin == offset && (latest == nullptr || block.last >= latest->last)) latest = &block;
  GC_CHECK(latest != nullptr, "no block at ", offset);
  latest->last = std::max(latest->last, last);
}

}  // namespace gc::plan
