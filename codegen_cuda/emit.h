// What the emitters of kernels/<op> share: the plan, the source that they add kernels to, and where operands lie.
#pragma once

#include <string>
#include <vector>

#include "codegen_cuda/program.h"
#include "codegen_cuda/source.h"
#include "compiler/base/error.h"

namespace gc::cuda {

struct Emit {
  const plan::Plan& plan;
  Source& source;
  std::vector<Place> places;  // by value
  int kv_type;

  const ir::Graph& graph() const { return plan.graph; }
  const ir::Type& type(ir::ValueId id) const { return graph().value(id).type; }
  const Place& place(ir::ValueId id) const { return places[static_cast<size_t>(id.index)]; }
  // The value whose memory this is, through views.
  ir::ValueId root(ir::ValueId id) const;
  // Bytes from a row of its memory to the next.
  std::int64_t stride(ir::ValueId id) const;
  bool is_output(ir::ValueId id) const;  // of the graph: the logits
  bool over_outputs(ir::ValueId id) const;
  bool is_q16(ir::ValueId id) const { return type(id).elem == ir::Elem::Q16; }
  std::int64_t weight(const ir::WeightUse& use) const { return plan.packed_of(use).offset; }
};

const char* name_of(ir::Fn fn);  // an enumerator of device code
// "static __device__ float slope(int head)": ALiBi's, of this largest exponent (ir.h).
std::string slopes(double alibi, std::int64_t heads);

// A launch over the rows of the op's first result.
Launch launch_of(const Emit& e, std::int32_t op);

// An op that makes the front of a product, or stands by itself: rms_norm, layer_norm, residual_norm.
bool is_norm(ir::OpKind kind);
// Adds kNorm, kColumns, kEps, kPost, kPre and strides of the operands, and the operands to the launch.
void add_norm(const Emit& e, const ir::Op& norm, Fields& spec, Launch& launch);

// kernels/norm
Launch emit_norm(Emit& e, std::int32_t op);
// kernels/matmul: matmul, matmul_heads and matmul_glu, for so many rows at once. `norm`: the op that is the product's front, -1: none.
inline constexpr std::int64_t kRowsAtOnce = 4;  // accumulators are rows x 4 a lane
Launch emit_product(Emit& e, std::int32_t op, std::int64_t rows_at_once, std::int32_t norm);
// Whether a row of so many columns fits the shared memory that a front has.
bool fits_front(bool quantized, std::int64_t columns);
// kernels/attention: attention, attention_again and attn_block, in three launches; rope.
std::vector<Launch> emit_attention(Emit& e, std::int32_t op);
Launch emit_rope(Emit& e, std::int32_t op);
// kernels/experts: route, experts_in, experts_out.
Launch emit_experts(Emit& e, std::int32_t op);
// kernels/recurrent: conv, token_shift and scans.
Launch emit_recurrent(Emit& e, std::int32_t op);
// kernels/streams: mix, rescale, add_heads, sinkhorn, sparsify.
Launch emit_streams(Emit& e, std::int32_t op);
// kernels/rows: embeddings, select, softcap of logits, and all ops that work value by value.
Launch emit_rows(Emit& e, std::int32_t op);

}  // namespace gc::cuda
