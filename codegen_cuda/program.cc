#include "codegen_cuda/program.h"

#include <algorithm>

#include "codegen_cuda/backend.h"
#include "codegen_cuda/emit.h"
#include "compiler/base/error.h"
#include "compiler/plan/lifetime.h"

namespace gc::cuda {
namespace {

using ir::OpKind;
using ir::ValueId;

class Maker {
 public:
  Maker(const plan::Plan& plan, int kv_type) : e_{plan, source_, {}, kv_type} {}

  Program run() {
    check();
    find_fronts();
    place_values();
    for (const bool one : {true, false})
      for (std::int32_t op = 0; op < n_ops(); ++op) add(one ? out_.one : out_.many, op, one);
    out_.kv_type = e_.kv_type;
    out_.source = source_.text();
    return std::move(out_);
  }

 private:
  const ir::Graph& graph() const { return e_.graph(); }
  std::int32_t n_ops() const { return static_cast<std::int32_t>(graph().ops.size()); }
  const ir::Op& op(std::int32_t i) const { return graph().ops[static_cast<size_t>(i)]; }

  void check() const {
    if (graph().encoder) throw_unsupported("encoders have no device kernels yet");
    if (e_.kv_type == GC_KV_Q8_0) throw_unsupported("KV in q8_0 has no device kernels yet");
    // Logits are a product's results, or those capped where they lie, and nothing else reads them.
    const ValueId output = graph().outputs[0];
    const ir::Op& last = op(graph().value(output).def);
    const bool capped = last.kind == OpKind::softcap;
    const ValueId made = capped ? last.inputs[0] : output;
    const bool by_product = op(graph().value(made).def).kind == OpKind::matmul;
    if (graph().outputs.size() != 1 || !by_product || readers(made).size() != (capped ? 1 : 0) ||
        !readers(output).empty())
      throw_unsupported(ir::info(last.kind).name, " of '", graph().value(output).name,
                        "' on cuda: outputs other than one matrix's logits have no kernels yet");
  }

  // Ops that read a value, views of it aside.
  std::vector<std::int32_t> readers(ValueId id) const {
    std::vector<std::int32_t> found;
    for (std::int32_t i = 0; i < n_ops(); ++i)
      if (!ir::is_view(op(i).kind))
        for (const ValueId input : op(i).inputs)
          if (e_.root(input) == id) found.push_back(i);
    return found;
  }

  // A norm of whole rows that one product alone reads, next in order, is that product's front in steps of one row.
  void find_fronts() {
    front_of_.assign(graph().ops.size(), -1);
    product_of_.assign(graph().ops.size(), -1);
    for (std::int32_t i = 0; i < n_ops(); ++i) {
      if (!is_norm(op(i).kind)) continue;
      const ValueId y = op(i).results.back();
      const std::vector<std::int32_t> by = readers(y);
      if (e_.type(y).dims.size() != 2 || by.size() != 1 || e_.is_output(y)) continue;
      const ir::Op& product = op(by[0]);
      if (product.kind != OpKind::matmul && product.kind != OpKind::matmul_glu) continue;
      if (by[0] != i + 1 || product.inputs[0] != y) continue;
      if (!fits_front(e_.is_q16(y), columns_of(e_.type(y)))) continue;
      front_of_[static_cast<size_t>(by[0])] = i;
      product_of_[static_cast<size_t>(i)] = by[0];
    }
  }

  // Values live from the op that makes them to the last that reads them; what a front reads and makes, to its product.
  void place_values() {
    e_.places.assign(graph().values.size(), {});
    plan::PhaseAllocator parts[2];
    for (std::int32_t i = 0; i < n_ops(); ++i)
      for (const ValueId result : op(i).results) {
        if (ir::is_view(op(i).kind)) {
          Place place = e_.place(op(i).inputs[0]);
          if (op(i).kind == OpKind::slice) place.shift += 4 * op(i).i64(ir::AttrName::begin);
          e_.places[static_cast<size_t>(result.index)] = place;
          continue;
        }
        std::int32_t last = i;
        for (const std::int32_t reader : readers(result)) {
          const std::int32_t product = product_of_[static_cast<size_t>(reader)];
          last = std::max({last, reader, product});
        }
        const bool outputs = e_.over_outputs(result);
        e_.places[static_cast<size_t>(result.index)] = {outputs,
                                                        parts[outputs].take(e_.stride(result), i, last), 0};
      }
    out_.row_bytes = parts[0].size(), out_.output_bytes = parts[1].size();
  }

  void add(std::vector<Launch>& to, std::int32_t i, bool one) {
    if (ir::is_view(op(i).kind) || (one && product_of_[static_cast<size_t>(i)] >= 0)) return;
    for (Launch& launch : launches_of(i, one)) {
      GC_CHECK(launch.weights.size() <= size_t{device::kMaxWeights} &&
                   launch.values.size() <= size_t{device::kMaxValues},
               launch.kernel);
      to.push_back(std::move(launch));
    }
  }

  std::vector<Launch> launches_of(std::int32_t i, bool one) {
    switch (op(i).kind) {
      case OpKind::matmul:
      case OpKind::matmul_heads:
      case OpKind::matmul_glu:
        return {emit_product(e_, i, one ? 1 : kRowsAtOnce, one ? front_of_[static_cast<size_t>(i)] : -1)};
      case OpKind::rms_norm:
      case OpKind::layer_norm:
      case OpKind::residual_norm:
        return {emit_norm(e_, i)};
      case OpKind::rope:
        return {emit_rope(e_, i)};
      case OpKind::attention:
      case OpKind::attention_again:
      case OpKind::attn_block:
        note_attention(op(i));
        return emit_attention(e_, i);
      case OpKind::conv:
      case OpKind::token_shift:
      case OpKind::ssm_scan:
      case OpKind::delta_rule:
      case OpKind::decay_attention:
      case OpKind::wkv:
      case OpKind::wkv7:
        return {emit_recurrent(e_, i)};
      case OpKind::route:
      case OpKind::experts_in:
      case OpKind::experts_out:
        return {emit_experts(e_, i)};
      case OpKind::mix:
      case OpKind::rescale:
      case OpKind::add_heads:
      case OpKind::sinkhorn:
      case OpKind::sparsify:
        return {emit_streams(e_, i)};
      default:
        return {emit_rows(e_, i)};
    }
  }

  void note_attention(const ir::Op& attention) {
    const ir::State& state = graph().state(attention.state);
    const std::int64_t heads = attention.kind == OpKind::attn_block
                                   ? attention.i64(ir::AttrName::heads)
                                   : e_.type(attention.inputs[0]).dims[1].size;
    out_.query_bytes = std::max(out_.query_bytes, 4 * heads * state.k_dim);
    out_.partial_bytes = std::max(out_.partial_bytes, 4 * heads * (state.v_dim + 2));
  }

  Source source_;
  Emit e_;
  Program out_;
  std::vector<std::int32_t> front_of_, product_of_;  // by op: its front; the product that it is the front of
};

}  // namespace

Program make_program(const plan::Plan& plan, int kv_type) { return Maker(plan, kv_type).run(); }

gc_cuda_image arena_facts(const Program& program) {
  gc_cuda_image image{};
  image.row_bytes = program.row_bytes, image.output_bytes = program.output_bytes;
  image.query_bytes = program.query_bytes, image.partial_bytes = program.partial_bytes;
  return image;
}

gc_cuda_launch packed(const Program& program, const plan::Plan& plan, const Launch& launch,
                      std::uint32_t kernel) {
  gc_cuda_launch out{};
  out.kernel = kernel;
  out.outputs = launch.outputs, out.ranges = launch.ranges;
  out.blocks = launch.blocks, out.rows_at_once = launch.rows_at_once;
  out.deep = launch.deep, out.most_ranges = launch.most_ranges;
  std::copy(launch.weights.begin(), launch.weights.end(), out.weight);
  out.n_values = static_cast<std::uint32_t>(launch.values.size());
  for (size_t i = 0; i < launch.values.size(); ++i) {
    const Place& place = launch.values[i];
    out.value[i] = {place.offset, place.shift, place.outputs, 0};
  }
  if (launch.state < 0) return out;
  const plan::StatePlan& state = plan.states[static_cast<size_t>(launch.state)];
  out.group = static_cast<std::uint32_t>(state.group);
  out.state = state.offset[program.kv_type];
  const plan::GroupPlan& group = plan.groups[static_cast<size_t>(state.group)];
  out.block_bytes = group.has_blocks() ? group.block_bytes[program.kv_type] : group.seq_bytes;
  return out;
}

}  // namespace gc::cuda
