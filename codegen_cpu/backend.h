// What plan and pipeline ask of the CPU code generator (compiler/backend.h), for one ISA.
#pragma once

#include "codegen_cpu/experts.h"
#include "codegen_cpu/isa.h"
#include "codegen_cpu/kernels/attention/attention.h"
#include "codegen_cpu/kernels/attention/choose.h"
#include "codegen_cpu/kernels/matmul/prompt_way.h"
#include "codegen_cpu/kernels/recurrent/recurrent.h"
#include "codegen_cpu/kernels/route/route.h"
#include "compiler/backend.h"

namespace gc::cpu {

// Whether a head of a format that can be is laid out in two streams. Auto: where it is past the caches, since it pays by
// what is not read from memory.
enum class HeadStreams { Auto, One, Two };

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const Isa& isa, HeadStreams streams = HeadStreams::Auto)
      : isa_(isa), streams_(streams) {}

  std::string_view name() const override { return isa_.name; }
  std::string can(const ir::Graph& graph, const ir::Op& op) const override;
  int64_t row_bytes(ir::Elem elem, int64_t columns) const override;
  int64_t pad_rows() const override;
  int64_t panel_bytes(Format format, int64_t columns) const override;
  bool splits_head(Format format, int64_t rows, int64_t columns) const override;
  int64_t worker_scratch(const ir::Graph& graph, const ir::Op& op) const override;
  int64_t worker_row_scratch(const ir::Graph& graph, const ir::Op& op) const override;
  int64_t split_bytes(const ir::Graph& graph, const ir::Op& op) const override;
  int64_t kv_block_bytes(const ir::State& state, int kv_type) const override;

 private:
  int64_t stride_of(int64_t bytes) const;
  const Isa& isa_;
  HeadStreams streams_;
};

// Whether programs for the ISA multiply prompts in 8 bits, as they were told (Isa::coarse_prompts).
bool multiplies_coarsely(const Isa& isa);
// The kernels' description of an attn_block or attention, and of a rope.
AttnSpec attn_spec(const ir::Graph& graph, const ir::Op& op, int kv_type);
ChooseSpec choose_spec(const ir::Graph& graph, const ir::Op& op, int kv_type);
ConvSpec conv_spec(const ir::Graph& graph, const ir::Op& op);
ShiftSpec shift_spec(const ir::Graph& graph, const ir::Op& op);
CompressSpec compress_spec(const ir::Graph& graph, const ir::Op& op);
NgramSpec ngram_spec(const ir::Graph& graph, const ir::Op& op);
ScanSpec scan_spec(const ir::Graph& graph, const ir::Op& op);
// What sessions store keys and values in unless told otherwise: bf16 where prompt rows multiply them on tiles, else f16.
std::uint32_t usual_kv_type(const Isa& isa, const ir::Graph& graph);
RopeKernelSpec rope_kernel_spec(const ir::Graph& graph, const ir::Op& op);
// And of the ops of a mixture of experts.
RouteSpec route_spec(const ir::Graph& graph, const ir::Op& op);
ExpertsInSpec experts_in_spec(const ir::Graph& graph, const ir::Op& op);
ExpertsOutSpec experts_out_spec(const ir::Graph& graph, const ir::Op& op);

// Columns of gate and up that a worker computes before it joins them: the products must be long enough to stream, the scratch
// small enough for the cache. By the way of prompt rows, for any number of them; for others few rows and many.
inline constexpr int64_t kGluColumnsFewRows = 512;
inline constexpr int64_t kGluColumnsManyRows = 64;
constexpr int64_t glu_columns(PromptWay way) { return way == PromptWay::Tiles ? 256 : 384; }
// Bytes of a row of them: an odd number of lines.
constexpr int64_t glu_stride(PromptWay way) { return 4 * glu_columns(way) + 64; }

// Panels of the head that a worker computes before it gives them away, when the sink chooses: 4 KB of logits, and for
// many rows one KB each.
inline constexpr int64_t kHeadPanelsFewRows = 64;
inline constexpr int64_t kHeadPanelsManyRows = 16;

// A head of fewer bytes stays in the caches of some machines.
inline constexpr int64_t kSplitHeadBytes = 48 << 20;

// Ranges of positions (kernels/attention) from which on few rows' attention is split among workers: below, the second
// meeting costs more than half of the work saves.
inline constexpr int64_t kSplitRanges = 4;

}  // namespace gc::cpu
