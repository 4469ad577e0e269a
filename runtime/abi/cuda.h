// The CUDA part of a program: its launches, and its kernels compiled for each architecture. The compiler writes it, as a blob
// without pointers; the runtime reads it in place.
//
//   gc_cuda_image | kernels' names | launches of steps of one row | of more rows | cubins | the cubins' bytes
//
// What a launch does is told by numbers alone: where its operands lie follows from the sizes that a session's memory was
// made for, its grid from the rows of the step. Every launch is a barrier. Offsets are bytes.
#pragma once

#include <stdint.h>

#include "runtime/abi/cuda_step.h"

#define GC_CUDA_MAGIC "GC-CUDA"
#define GC_CUDA_VERSION 2u
#define GC_CUDA_THREADS 128u  // of every block
#define GC_CUDA_RANGE 256u    // positions of a range of attention, kernels/attention/attention.cuh
#define GC_CUDA_NAME 96

struct gc_cuda_kernel {
  char name[GC_CUDA_NAME];
};

// Where a value lies: bytes for each row from its part's begin, and from there to a view's first element.
struct gc_cuda_value {
  int64_t offset, shift;
  uint32_t outputs;  // in the part of the rows asked for
  uint32_t reserved;
};

struct gc_cuda_launch {
  uint32_t kernel;
  uint32_t outputs;  // over the rows asked for
  uint32_t ranges;   // grid: ranges x blocks x rows; else blocks x rows / rows_at_once x deep
  uint32_t n_values;
  int64_t blocks, rows_at_once;
  int64_t deep;                             // blocks in z (a token's experts)
  int64_t most_ranges;                      // that a row's window touches; 0: as many as its position
  int64_t weight[gc::device::kMaxWeights];  // from the image's begin
  gc_cuda_value value[gc::device::kMaxValues];
  int64_t state, block_bytes;  // of a KV block, or a sequence's slot: where the state begins; all of it
  uint32_t group, reserved;
};

// Code for devices of one major version, from a minor one on; `exact`: for that very one.
struct gc_cuda_cubin {
  uint32_t major, minor, exact, reserved;
  uint64_t offset, size;
};

struct gc_cuda_image {
  char magic[8];
  uint32_t version, kv_type;
  uint64_t size;
  uint32_t n_kernels, n_one, n_many, n_cubins;
  uint64_t kernels, one, many, cubins;  // where they begin
  int64_t row_bytes, output_bytes;      // of the arena, for each row of the two parts
  int64_t query_bytes, partial_bytes;   // for each row; for each row and range
};

// What memory was made for.
struct gc_cuda_sizes {
  int64_t rows, outputs, ranges;
};
static inline int64_t gc_cuda_ranges(int64_t positions) {
  return (positions + GC_CUDA_RANGE - 1) / GC_CUDA_RANGE;
}

// The arena: [tokens' values | outputs' values | queries | partials], each part rounded to 256 bytes.
struct gc_cuda_parts {
  int64_t outputs, queries, partials, end;
};
static inline int64_t gc_cuda_align(int64_t n) { return (n + 255) / 256 * 256; }
static inline gc_cuda_parts gc_cuda_arena(const gc_cuda_image& image, const gc_cuda_sizes& sizes) {
  gc_cuda_parts at;
  at.outputs = gc_cuda_align(image.row_bytes * sizes.rows);
  at.queries = at.outputs + gc_cuda_align(image.output_bytes * sizes.outputs);
  at.partials = at.queries + gc_cuda_align(image.query_bytes * sizes.rows);
  at.end = at.partials + gc_cuda_align(image.partial_bytes * sizes.rows * sizes.ranges);
  return at;
}

static inline gc::device::At gc_cuda_operands(const gc_cuda_image& image, const gc_cuda_launch& launch,
                                              const gc_cuda_sizes& sizes) {
  const gc_cuda_parts parts = gc_cuda_arena(image, sizes);
  gc::device::At at = {};
  for (int i = 0; i < gc::device::kMaxWeights; ++i) at.weight[i] = launch.weight[i];
  for (uint32_t i = 0; i < launch.n_values; ++i) {
    const gc_cuda_value& v = launch.value[i];
    at.value[i] = (v.outputs ? parts.outputs + v.offset * sizes.outputs : v.offset * sizes.rows) + v.shift;
  }
  at.queries = parts.queries, at.partials = parts.partials;
  at.group = launch.group, at.state = launch.state, at.block_bytes = launch.block_bytes;
  return at;
}

// z or y is 0 where the launch has nothing to do. `ranges`: of the step.
struct gc_cuda_grid {
  int64_t x, y, z;
};
static inline gc_cuda_grid gc_cuda_grid_of(const gc_cuda_launch& launch, int64_t rows, int64_t outputs,
                                           int64_t ranges) {
  const int64_t n = launch.outputs ? outputs : rows;
  if (!launch.ranges)
    return {launch.blocks, (n + launch.rows_at_once - 1) / launch.rows_at_once, launch.deep};
  const int64_t most = launch.most_ranges > 0 && launch.most_ranges < ranges ? launch.most_ranges : ranges;
  return {most, launch.blocks, n};
}
