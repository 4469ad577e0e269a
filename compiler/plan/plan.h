// From a graph to a fixed schedule: who computes what, where workers meet, where every value lies.
//
// Work of an op is split among workers in one of six ways. Row-wise ops (norms, embedding, element-wise ones) are
// cheap: for few rows every worker computes all of them into its own copy, which saves a barrier before each
// matrix product; for more rows they are shared and the workers meet. Matrix products are split by panels, attention
// by (row, kv head).
//
//   Rows     every worker all rows if n <= GC_REDUNDANT_ROWS, else its share of rows
//   Panels   its share of 16-row panels, by bytes over all segments of a joined matrix
//   Columns  element-wise on what the same worker's panels gave
//   Units    its share of rows x kv heads
//   Channels its share of channels or of columns of states, over all rows in order: what a state was depends on no
//            other worker
//   Experts  its share of experts x columns; the result's rows stand in the order of the experts' lists of rows, so only
//            the op that sums experts reads it
//
// A meet is placed only where a step reads what another worker wrote since the last one: five a layer for one token
// (QKV | attention | o | gate-up | down), and one more between the append of keys and attention when a sequence has
// more than one row in the step.
//
// Values share memory when their lifetimes, counted in phases between unconditional meets, don't touch. Sizes are
// bytes per row: the arena's size is decided when a session is made. Two allocators, since values of row-wise ops
// live in two places: the shared part for many rows, the worker's own part for few.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/backend.h"
#include "compiler/ir/ir.h"
#include "runtime/abi/program.h"

namespace gc::plan {

struct Buffer {
  enum class Place : uint8_t {
    None,     // nothing is stored
    Rows,     // shared: rows part + offset * rows_cap
    Prep,     // of row-wise ops: the worker's own part + offset * own_rows(), or shared like Rows
    Outputs,  // as Rows, for the R rows asked for
    OutPrep,  // as Prep, for the R rows asked for
    Sink      // the sink's logits
  };
  Place place = Place::None;
  int64_t offset = 0;  // bytes per row of the part
  int64_t stride = 0;  // bytes from one row to the next
  int64_t shift = 0;   // bytes from a row's beginning to this value's first element (slices)
  bool operator==(const Buffer&) const = default;
};

enum class Split : uint8_t { View, Rows, Panels, Columns, Units, Channels, Experts };

enum class Meet : uint8_t {
  None,
  IfShared,         // when the T rows are shared: n_rows > GC_REDUNDANT_ROWS
  IfOutputsShared,  // when the R rows are shared: n_outputs > GC_REDUNDANT_ROWS
  Always
};

struct Step {
  int32_t op = -1;  // index into graph.ops
  Split split = Split::View;
  bool outputs = false;  // over the R rows asked for, else over all T
  Meet before = Meet::None;
};

// A tensor of the weight image.
struct Packed {
  // 16-row panels; flat f32; flat f32 of the transposed matrix; a RoPE table, flat f32.
  enum class Kind : uint8_t { Panels, Vector, Transposed, Table };
  ir::WeightId weight;
  Kind kind = Kind::Panels;
  int64_t row_begin = 0, rows = 0, cols = 0;
  int64_t offset = 0, bytes = 0;  // in the image
  bool two_streams = false;  // panels of the upper bits, then panels of the lower bits (quant/two_streams.h)
  std::string name;          // unique
};

struct StatePlan {
  int32_t group = 0;
  int32_t layer = 0;
  int64_t offset[GC_KV_TYPES] = {};  // within the group's block, or its slot of a sequence
};

struct GroupPlan {
  uint32_t kind = GC_STATE_KV_FULL;
  int64_t window = 0;
  int64_t block_bytes[GC_KV_TYPES] = {};
  int64_t seq_bytes = 0;  // of recurrent states, in place of blocks

  bool has_blocks() const { return kind != GC_STATE_CONV && kind != GC_STATE_SSM; }
};

struct Plan {
  ir::Graph graph;
  std::vector<Buffer> buffers;  // by value
  std::vector<Step> steps;
  std::vector<int32_t>
      section;  // steps of: embedding, layer 0, .., layer n-1, head: [section[i], section[i + 1])
  std::vector<Packed> packed;
  std::vector<StatePlan> states;  // by state
  std::vector<GroupPlan> groups;
  gc_arena arena{};
  int64_t prep_bytes = 0;      // bytes per row of Prep values in a worker's own part
  int64_t out_prep_bytes = 0;  // of OutPrep values
  int64_t scratch_at = 0;      // offset of an op's scratch in the worker's part
  int64_t weights_bytes = 0;
  int64_t max_position = 0;
  int64_t short_context =
      0;  // sequences with room for more turn by the tables of long contexts; 0: by the same

  // Rows that a worker's own part has room for.
  int64_t own_rows() const { return GC_REDUNDANT_ROWS + static_cast<int64_t>(arena.pad_rows); }
  int n_layer() const { return static_cast<int>(graph.layer_begin.size()) - 1; }
  const Packed& packed_of(const ir::WeightUse& use) const;
};

// Throws Unsupported, naming op and layer, for what the backend can't compile.
Plan make_plan(ir::Graph graph, const Backend& backend);

// The schedule as text: a line a step with its split, meet, buffers; then memory.
std::string print(const Plan& plan);

// Bytes of a context: KV of one sequence of n positions in chunks of `chunk` rows.
int64_t kv_bytes(const Plan& plan, int kv_type, int64_t positions, int64_t chunk);
// Bytes of one sequence's recurrent states and their snapshot, whatever the context.
int64_t recurrent_bytes(const Plan& plan);

}  // namespace gc::plan
