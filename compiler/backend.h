// What plan and pipeline need to know of a code generator. Both codegens fulfil it; passes and plan see no more.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "compiler/ir/ir.h"

namespace gc {

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;  // "x86-64-v4-vnni"

  // Empty if the op can be compiled, else what is missing and what would support it.
  virtual std::string can(const ir::Graph& graph, const ir::Op& op) const = 0;

  // Bytes of a row of `columns` elements in the arena, a multiple of 64.
  virtual int64_t row_bytes(ir::Elem elem, int64_t columns) const = 0;

  // Rows beyond those of a step that the row parts of the arena need room for (gc_arena.pad_rows).
  virtual int64_t pad_rows() const { return 0; }

  // A packed matrix: bytes of a panel of 16 rows.
  virtual int64_t panel_bytes(Format format, int64_t columns) const = 0;

  // Whether the head, a matrix [rows, columns] of the format, is laid out in two streams (compiler/quant/two_streams.h).
  virtual bool splits_head(Format, int64_t /*rows*/, int64_t /*columns*/) const { return false; }

  // Scratch that a worker needs while it runs the op: bytes, and bytes for each row of the step.
  virtual int64_t worker_scratch(const ir::Graph& graph, const ir::Op& op) const = 0;
  virtual int64_t worker_row_scratch(const ir::Graph& graph, const ir::Op& op) const = 0;

  // Bytes that the op needs for each of a step's splits (gc_arena.per_split); 0: it isn't split.
  virtual int64_t split_bytes(const ir::Graph&, const ir::Op&) const { return 0; }

  // Bytes of a KV block of one layer (GC_KV_BLOCK positions) for a KV type of runtime/abi/program.h; 0: no kernels.
  virtual int64_t kv_block_bytes(const ir::State& state, int kv_type) const = 0;
};

}  // namespace gc
