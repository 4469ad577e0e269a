#include <sstream>

#include "compiler/base/strings.h"
#include "compiler/plan/plan.h"

namespace gc::plan {
namespace {

const char* text(Split split) {
  switch (split) {
    case Split::View:
      return "view";
    case Split::Rows:
      return "rows";
    case Split::Panels:
      return "panels";
    case Split::Columns:
      return "columns";
    case Split::Experts:
      return "experts";
    case Split::Units:
      return "units";
    case Split::Channels:
      return "channels";
  }
  return "?";
}

const char* text(Meet meet) {
  switch (meet) {
    case Meet::None:
      return "";
    case Meet::IfShared:
      return "meet if rows are shared";
    case Meet::IfOutputsShared:
      return "meet if outputs are shared";
    case Meet::Always:
      return "meet";
  }
  return "?";
}

std::string text(const Buffer& b) {
  switch (b.place) {
    case Buffer::Place::None:
      return "-";
    case Buffer::Place::Rows:
      return cat("rows+", b.offset, "*T");
    case Buffer::Place::Prep:
      return cat("prep+", b.offset, "*T");
    case Buffer::Place::Outputs:
      return cat("outputs+", b.offset, "*R");
    case Buffer::Place::OutPrep:
      return cat("outprep+", b.offset, "*R");
    case Buffer::Place::Sink:
      return "sink";
  }
  return "?";
}

void print_step(std::ostream& out, const Plan& plan, const Step& step) {
  if (step.before != Meet::None) out << "  -- " << text(step.before) << "\n";
  const ir::Op& op = plan.graph.ops[step.op];
  out << "  " << ir::info(op.kind).name << " by " << text(step.split);
  for (ir::ValueId id : op.inputs) out << " %" << plan.graph.value(id).name;
  out << " ->";
  for (ir::ValueId id : op.results) {
    const Buffer& b = plan.buffers[id.index];
    out << " %" << plan.graph.value(id).name << " [" << text(b);
    if (b.stride != 0) out << ", " << b.stride << " bytes a row";
    out << "]";
  }
  out << "\n";
}

}  // namespace

std::string print(const Plan& plan) {
  std::ostringstream out;
  out << "plan of " << plan.graph.name << "\n";
  for (int part = 0; part < plan.n_layer() + 2; ++part) {
    if (part == 0)
      out << "embedding\n";
    else if (part <= plan.n_layer())
      out << "layer " << part - 1 << "\n";
    else
      out << "head\n";
    for (int32_t i = plan.section[part]; i < plan.section[part + 1]; ++i)
      print_step(out, plan, plan.steps[i]);
  }
  out << "arena: " << plan.arena.per_row << " bytes a row, " << plan.arena.per_output << " an output, "
      << plan.arena.per_worker << " + " << plan.arena.per_worker_row << " a row for each worker\n";
  for (size_t i = 0; i < plan.groups.size(); ++i) {
    const GroupPlan& g = plan.groups[i];
    out << "state group " << i << ": ";
    if (!g.has_blocks()) {
      out << (g.kind == GC_STATE_CONV ? "conv" : "ssm") << ", " << g.seq_bytes << " bytes a sequence\n";
      continue;
    }
    out << (g.kind == GC_STATE_KV_RING     ? cat("ring of window ", g.window)
            : g.kind == GC_STATE_KV_LATENT ? cat("one row of each ", g.window)
                                           : "full")
        << ", block of " << GC_KV_BLOCK << " positions: " << g.block_bytes[GC_KV_F32] << " bytes f32, "
        << g.block_bytes[GC_KV_F16] << " f16, " << g.block_bytes[GC_KV_BF16] << " bf16, "
        << g.block_bytes[GC_KV_Q8_0] << " q8_0\n";
  }
  out << "weights: " << plan.packed.size() << " tensors, " << plan.weights_bytes << " bytes\n";
  for (const Packed& p : plan.packed)
    out << "  " << p.offset << " " << p.name << " "
        << (p.kind == Packed::Kind::Panels       ? name(plan.graph.weight(p.weight).format)
            : p.kind == Packed::Kind::Table      ? "table"
            : p.kind == Packed::Kind::Transposed ? "transposed"
                                                 : "vector")
        << " " << p.rows << "x" << p.cols << ", " << p.bytes << " bytes\n";
  return out.str();
}

}  // namespace gc::plan
