#include "codegen_cuda/backend.h"

#include "codegen_cuda/formats.h"
#include "compiler/base/error.h"
#include "compiler/quant/layouts.h"
#include "runtime/abi/cuda_step.h"
#include "runtime/abi/program.h"

namespace gc::cuda {

using ir::AttrName;
using ir::Elem;
using ir::Graph;
using ir::Op;
using ir::OpKind;

int64_t columns_of(const ir::Type& type) {
  int64_t n = 1;
  for (size_t i = 1; i < type.dims.size(); ++i) n *= type.dims[i].size;
  return n;
}

namespace {

constexpr int64_t kMostDims = 576;  // of a head: registers of a lane

bool is_q16(const Graph& graph, ir::ValueId id) { return graph.value(id).type.elem == Elem::Q16; }

// Quantized results are whole blocks of the row, without heads apart.
std::string can_quantize(const Graph& graph, const Op& op) {
  const ir::Type& type = graph.value(op.results.back()).type;
  if (type.elem != Elem::Q16) return "";
  if (type.dims.size() != 2) return "quantized heads";
  return columns_of(type) % 32 != 0 ? "quantized rows of no whole blocks" : "";
}

std::string can_multiply(const Graph& graph, const Op& op, const std::vector<ir::WeightUse>& rows) {
  for (const ir::WeightUse& use : rows) {
    const ir::Weight& w = graph.weight(use.weight);
    if (std::string missing = undecodable(w.format); !missing.empty())
      return cat(missing, " ('", w.name, "')");
    if (info(w.format).kind == FormatKind::kBlock && !is_q16(graph, op.inputs[0]))
      return cat("block formats on activations of f32 ('", w.name, "')");
  }
  if (op.slot(op.kind == OpKind::matmul ? "rows" : "gate").size() * 2 + 2 > device::kMaxWeights)
    return "so many row segments in one product";
  return can_quantize(graph, op);
}

std::string can_glu(const Graph& graph, const Op& op) {
  const auto gate = op.slot("gate"), up = op.slot("up");
  if (gate.size() != 1 || up.size() != 1) return "a gate of several row segments";
  std::vector<ir::WeightUse> both = {gate[0], up[0]};
  return can_multiply(graph, op, both);
}

std::string can_heads(const Graph& graph, const Op& op) {
  const ir::Weight& w = graph.weight(op.one("matrices")->weight);
  if (is_q16(graph, op.inputs[0]) || info(w.format).kind == FormatKind::kBlock)
    return cat("block formats of a matrix a head ('", w.name, "')");
  if (w.shape[1] % 16 != 0) return cat("heads of ", w.shape[1], " rows, no multiple of 16 ('", w.name, "')");
  return undecodable(w.format);
}

std::string can_experts(const Graph& graph, const Op& op) {
  for (const char* slot : {"gate", "up", "down"}) {
    const bool has = (op.kind == OpKind::experts_out) == (std::string_view(slot) == "down");
    const auto use = has ? op.one(slot) : std::nullopt;
    if (!use) continue;
    const ir::Weight& w = graph.weight(use->weight);
    if (std::string missing = undecodable(w.format); !missing.empty())
      return cat(missing, " ('", w.name, "')");
    if (info(w.format).kind == FormatKind::kBlock && !is_q16(graph, op.inputs[0]))
      return cat("block formats on activations of f32 ('", w.name, "')");
    const int64_t rows = w.shape[1] / (op.i64_or(AttrName::joined, 0) != 0 ? 2 : 1);
    if (rows % 16 != 0) return cat("experts of ", rows, " rows, no multiple of 16 ('", w.name, "')");
    if (is_q16(graph, op.results[0]) && rows % 32 != 0) return "quantized rows of no whole blocks";
  }
  return "";
}

std::string can_attend(const Graph& graph, const Op& op) {
  if (op.has(AttrName::buckets)) return "biases by distance";
  if (op.i64_or(AttrName::ahead, 0) != 0) return "attention to later positions";
  const ir::State& state = graph.state(op.state);
  if (state.k_dim > kMostDims || state.v_dim > kMostDims) return cat("heads of more than ", kMostDims);
  if (is_q16(graph, op.results[0]) && state.v_dim % 32 != 0) return "quantized heads of no whole blocks";
  return "";
}

}  // namespace

std::string CudaBackend::can(const Graph& graph, const Op& op) const {
  switch (op.kind) {
    case OpKind::matmul:
      return can_multiply(graph, op, op.slot("rows"));
    case OpKind::matmul_glu:
      return can_glu(graph, op);
    case OpKind::matmul_heads:
      return can_heads(graph, op);
    case OpKind::embed:
    case OpKind::embed_position:
      return undecodable(graph.weight(op.one("table")->weight).format);
    case OpKind::attn_block:
    case OpKind::attention:
    case OpKind::attention_again:
      return can_attend(graph, op);
    case OpKind::route:
      return "";
    case OpKind::experts_in:
    case OpKind::experts_out:
      return can_experts(graph, op);
    case OpKind::rope:
      if (op.has(AttrName::inverse) || op.has(AttrName::back)) return "RoPE that turns back";
      return op.one("rope_fine") ? "" : "has no tables; pass fold_constants makes them";
    case OpKind::slice:  // a view of columns
      return graph.value(op.results[0]).type.dims.size() == 2 && !is_q16(graph, op.results[0])
                 ? ""
                 : "slices of heads";
    case OpKind::heads:
    case OpKind::merge_heads:
      return is_q16(graph, op.results[0]) ? "quantized heads" : "";
    case OpKind::rms_norm:
    case OpKind::layer_norm:
    case OpKind::residual_norm:
    case OpKind::glu:
    case OpKind::quantize:
      return can_quantize(graph, op);
    case OpKind::scale:
    case OpKind::weigh:
    case OpKind::shift:
    case OpKind::clamp:
    case OpKind::add:
    case OpKind::mul:
    case OpKind::mul_heads:
    case OpKind::softcap:
    case OpKind::select:
    case OpKind::concat:
    case OpKind::slice_heads:
    case OpKind::concat_heads:
    case OpKind::act:
    case OpKind::temper:
    case OpKind::dot_heads:
    case OpKind::conv:
    case OpKind::token_shift:
    case OpKind::ssm_scan:
    case OpKind::delta_rule:
    case OpKind::decay_attention:
    case OpKind::wkv:
    case OpKind::wkv7:
    case OpKind::mix:
    case OpKind::add_heads:
    case OpKind::rescale:
    case OpKind::sparsify:
    case OpKind::sinkhorn:
      return "";
    case OpKind::route_by_token:
    case OpKind::attention_sums:
    case OpKind::attention_chosen:
    case OpKind::choose_positions:
    case OpKind::ngram_embed:
    case OpKind::compress:
      return "has no device kernel yet (codegen_cuda/README.md)";
  }
  throw_internal("an op that the backend doesn't know");
}

int64_t CudaBackend::row_bytes(Elem elem, int64_t columns) const {
  switch (elem) {
    case Elem::F32:
    case Elem::I32:
      return (columns * 4 + 63) / 64 * 64;
    case Elem::F16:
    case Elem::BF16:
      return (columns * 2 + 63) / 64 * 64;
    case Elem::Q16:  // device/act.cuh
      return (2 * columns + columns / 8 + columns / 4 + 63) / 64 * 64;
  }
  throw_internal("an element type that the backend doesn't know");
}

int64_t CudaBackend::panel_bytes(Format format, int64_t columns) const {
  return gc::panel_bytes(format, columns);
}

// kernels/attention/attention.cuh: K [64][k_dim], V [64][v_dim] a head.
int64_t CudaBackend::kv_block_bytes(const ir::State& state, int kv_type) const {
  if (kv_type == GC_KV_Q8_0) return 0;
  const int64_t element = kv_type == GC_KV_F32 ? 4 : 2;
  return state.heads * GC_KV_BLOCK * (state.k_dim + state.v_dim) * element;
}

}  // namespace gc::cuda
