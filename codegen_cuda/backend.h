// What codegen_cuda can compile: plan asks op by op, and what has no device kernel is refused by name.
#pragma once

#include "compiler/backend.h"

namespace gc::cuda {

class CudaBackend : public Backend {
 public:
  std::string_view name() const override { return "cuda"; }
  std::string can(const ir::Graph& graph, const ir::Op& op) const override;
  int64_t row_bytes(ir::Elem elem, int64_t columns) const override;
  int64_t panel_bytes(Format format, int64_t columns) const override;
  int64_t worker_scratch(const ir::Graph&, const ir::Op&) const override { return 0; }
  int64_t worker_row_scratch(const ir::Graph&, const ir::Op&) const override { return 0; }
  int64_t kv_block_bytes(const ir::State& state, int kv_type) const override;
};

// Columns of a row: the product of all dimensions but the first.
int64_t columns_of(const ir::Type& type);

}  // namespace gc::cuda
