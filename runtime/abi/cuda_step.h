// What a kernel is told of the step. Every kernel of a program has the same two parameters: the step, which all its
// launches share, and where this launch's operands lie; shapes and formats are literals in the kernel. Plain C++ that includes nothing: the host's programs have the same text.
#ifndef GC_STEP_H_
#define GC_STEP_H_

namespace gc::device {

using u8 = unsigned char;
using i8 = signed char;
using u16 = unsigned short;
using u32 = unsigned int;
using i64 = long long;

constexpr int kKvBlock = 64;  // positions of a KV block
constexpr int kMaxGroups = 8;

// These three as in runtime/abi/program.h.
struct Row {
  int token, pos;
  u32 seq;
  u8 role, output;
  u16 reserved;
};
struct Table {
  const u32* blocks;
  u32 n, reserved;
};
struct Seq {
  Table tables[kMaxGroups];
};

struct Step {
  const Row* rows;     // [n_rows], rows of one sequence in order of position
  const u32* outputs;  // [n_outputs]: rows whose output is wanted
  const Seq* seqs;
  const u8* weights;  // the weight image
  u8* arena;          // values of the step
  u8* pools[kMaxGroups];
  float* logits;  // f32[n_outputs, logits_stride]
  i64 logits_stride;
  u32 n_rows, n_outputs;
  u32 n_splits;      // ranges of positions that attention is cut into, the most of any row
  u32 long_context;  // RoPE turns by the tables of long contexts
};

constexpr int kMaxWeights = 12, kMaxValues = 8;

// Bytes: of weights from the image's begin, of values from the arena's.
struct At {
  i64 weight[kMaxWeights];
  i64 value[kMaxValues];  // inputs, then results
  i64 queries, partials;  // of attention: its scratch
  i64 state,
      block_bytes;  // of a KV block of the group, or a sequence's slot: where this state begins; all of it
  u32 group, reserved;
};

}  // namespace gc::device

#endif  // GC_STEP_H_
