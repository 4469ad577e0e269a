// Products of many rows with block formats on the tensor cores, with the bits of the kernel for few rows (matmul.cuh): the
// sum over one scale's columns is exact in both, and floats are joined in its order. So a token's arithmetic does not depend
// on how many rows there are beside it, and prompts and batches of generated tokens take the same kernel.
//
// A panel is A of an mma: 16 rows x a block of 32 columns; 8 rows of activations are B, each of their two planes of signed
// bytes one mma. Columns within a block may lie in any order that both sides share, so a lane takes steps 2 t and 2 t + 1
// (of 4 columns each), which mostly are bits of one word of weights and one 8-byte load of activations. Formats whose scales
// have 16 columns multiply halves.
//
// There a lane's sums are those of one block of each group, and then shuffles join the 8 blocks as a tree; here the loop
// over groups is inside that over blocks, and the tree's unfinished nodes wait in registers (Tree).
//
// The alternative for prompts, weights as bf16, takes as many tensor cycles (one product of 16 bits instead of two of 8), has
// no scales in the inner loop but rounds activations to 8 bits of mantissa, and needs the role of each row.
#ifndef GC_TENSOR_CUH_
#define GC_TENSOR_CUH_

namespace gc::device {

constexpr int kTiles = 4;  // of 8 rows that a warp multiplies while a panel's codes are in registers

// The rows of activations of a block of the grid: `first` and on, past `last` that one again.
template <int K, int kStride>
struct TokenRows {
  u8* base;
  int first, last;
  __device__ ActRow<K> at(int r) const {
    const int t = first + r < last ? first + r : last;
    return {base + i64(t) * kStride};
  }
};

template <class M>
__device__ inline TokenRows<M::kColumns, M::kStride0> token_rows(const Step& s, const At& a) {
  wait_for_previous();
  return {s.arena + a.value[0], int(blockIdx.y) * M::kRowsAtOnce, rows_of<M::kDomain>(s) - 1};
}

// Four columns of a row of the panel: those of step `step` of a block.
template <class F>
__device__ inline u32 codes_of(const u8* quants, int row, int step) {
  u32 q = 0;
#pragma unroll
  for (int i = 0; i < F::planes; i++) {
    const int bits = F::bits(i), per_vector = 8 / bits;
    const u32 word = reinterpret_cast<const u32*>(quants)[step / per_vector * 16 + row];
    q |= (word >> (bits * (step % per_vector)) & ((1u << bits) - 1) * 0x01010101u) << F::at(i);
    quants += 64 * bits;
  }
  if constexpr (F::has_table) q = look_up<F>(q);
  return q;
}

// acc[tile][i] += block `block` of group `group` of the panel, of columns 32 b and on, times the rows of the tiles.
template <class F, int K, class Rows>
__device__ inline void add_block(const u8* group, Group at, int block, int b, const Rows& x, int tiles,
                                 float (&acc)[kTiles][4]) {
  constexpr int kHalves = kActBlock / F::scale_cols > 1 ? 2 : 1, kWords = 2 / kHalves;
  const u8* quants = group + at.quants + block * F::block_bytes;
  const int g = lane() / 4, t = lane() % 4;
#pragma unroll
  for (int half = 0; half < kHalves; half++) {
    const int step = kHalves == 2 ? 4 * half + t : 2 * t;
    u32 w[2 * kWords];
#pragma unroll
    for (int j = 0; j < kWords; j++)
      for (int i = 0; i < 2; i++) w[2 * j + i] = codes_of<F>(quants, g + 8 * i, step + j);
    const Factors f[2] = {factors<F>(group, at, block, half, g), factors<F>(group, at, block, half, g + 8)};
#pragma unroll
    for (int tile = 0; tile < kTiles; tile++) {
      if (tile >= tiles) continue;
      const ActRow<K> mine = x.at(8 * tile + g);
      u32 xh[kWords], xl[kWords];
      for (int j = 0; j < kWords; j++) {
        xh[j] = mine.high()[b * 8 + step + j];
        xl[j] = mine.low()[b * 8 + step + j];
      }
      int high[4] = {}, low[4] = {};
      mma_u8_s8(high, w, xh);
      mma_u8_s8(low, w, xl);
#pragma unroll
      for (int c = 0; c < 2; c++) {
        const ActRow<K> row = x.at(8 * tile + 2 * t + c);
        const int sum = kHalves == 2 ? row.sums()[b * 2 + half] : row.sums()[b * 2] + row.sums()[b * 2 + 1];
        const float d = row.d()[b];
#pragma unroll
        for (int i = 0; i < 2; i++) {
          const int dot = 256 * high[2 * i + c] + low[2 * i + c] - F::offset * sum;
          float& y = acc[tile][2 * i + c];
          y = fmaf(d, fmaf(f[i].scale, float(dot), f[i].min * float(sum)), y);
        }
      }
    }
  }
}

// The sum of eight leaves that come one by one, as ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)).
struct Tree {
  float node[3][kTiles][4];

  // Leaf `leaf`; with the last one y becomes the sum.
  __device__ void add(int leaf, float (&y)[kTiles][4]) {
#pragma unroll
    for (int level = 0; level < 3; level++) {
      const bool joins = leaf >> level & 1;
#pragma unroll
      for (int tile = 0; tile < kTiles; tile++)
        for (int i = 0; i < 4; i++) {
          if (joins) {
            y[tile][i] = node[level][tile][i] + y[tile][i];
          } else {
            node[level][tile][i] = y[tile][i];
          }
        }
      if (!joins) return;
    }
  }
};

// All columns of a panel's share times 8 * kTiles rows, in `part`[row][16].
template <class F, int K, int R, int kStride>
__device__ inline void panel_share(const u8* panel, const TokenRows<K, kStride>& x, int share, int shares,
                                   float (*part)[kPanelRows]) {
  static_assert(R == 8 * kTiles);
  constexpr Group whole = F::template group<K>(false), tail = F::template group<K>(true);
  constexpr int kBlocks = K / kActBlock;
  const int left = x.last - x.first + 1, tiles = left >= R ? kTiles : (left + 7) / 8;
  float acc[kTiles][4];
  Tree tree;
  for (int block = 0; block < 8; block++) {
#pragma unroll
    for (int tile = 0; tile < kTiles; tile++)
      for (int i = 0; i < 4; i++) acc[tile][i] = 0;
    for (int g = share; g * 8 + block < kBlocks; g += shares)
      add_block<F, K>(panel + i64(g) * whole.bytes, g == K / kGroupCols ? tail : whole, block, g * 8 + block, x,
                      tiles, acc);
    tree.add(block, acc);
  }
#pragma unroll
  for (int tile = 0; tile < kTiles; tile++)
    for (int i = 0; i < 4; i++)
      part[8 * tile + lane() % 4 * 2 + i % 2][lane() / 4 + i / 2 * 8] = acc[tile][i];
}

}  // namespace gc::device

#endif  // GC_TENSOR_CUH_
