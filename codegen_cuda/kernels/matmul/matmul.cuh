// Products with packed matrices, for a few rows at a time (many: tensor.cuh, which takes panel_share's place): a block decodes panels of 16 weight rows once for up to
// kRowsAtOnce rows of activations. Reading weights is what it costs, so everything else is laid out around that.
//
//   lanes     lane = 4 b + q of a warp: rows 4 q .. 4 q + 3 of the panel, block b of a group of 8 blocks of 32 columns. It
//             loads 16 bytes at a time: 4 rows x 4 columns of a plane. Four lanes make a line of 64 bytes.
//   integers  block formats multiply codes by both planes of the activations with dp4a; the sum over one scale's columns
//             is exact. value += d (scale (256 high + low - offset sum) + min sum)
//   floats    F32, F16 and BF16 weights multiply by f32 FMA
//   sums      over a lane's groups, then over b by shuffles, then over the warps that share a panel, in that order always
//
// Front: activations come as they lie in memory, or a norm makes them in shared memory (kernels/norm). Back: bias, or
// fn(gate) * up with four panels a block, quantized for the next product if that is what it reads.
//
// The alternative, rows of weights apart as llama.cpp has them (a warp a row, sums across lanes for each), needs a
// reduction of 5 shuffles a weight row; here 3 shuffles serve 4 rows, and the image is the one that CPUs read.
#ifndef GC_MATMUL_CUH_
#define GC_MATMUL_CUH_

namespace gc::device {

// acc[r][i] += weight row 4 quad + i of the panel times activation row r. `share` of `shares` warps do the groups.
template <class F, int K, int R, class X>
__device__ inline void panel_of_floats(const u8* panel, const X* x, int share, int shares, float (&acc)[R][4]) {
  const int quad = lane() % 4, at = lane() / 4 + 8 * share, step = 8 * shares;
  if constexpr (F::kind == FloatKind::BF16) {  // pairs of columns
    for (int pair = at; pair < (K + 1) / 2; pair += step) {
      const Words4 w = load16(panel + i64(pair) * 64 + 16 * quad);
      for (int r = 0; r < R; r++) {
        const float x0 = x[r].at(2 * pair), x1 = 2 * pair + 1 < K ? x[r].at(2 * pair + 1) : 0;
        for (int i = 0; i < 4; i++)
          acc[r][i] = fmaf(f32_of_bf16(w.w[i] >> 16), x1, fmaf(f32_of_bf16(w.w[i] & 0xffff), x0, acc[r][i]));
      }
    }
  } else {
    for (int k = at; k < K; k += step) {
      float w[4];
      if constexpr (F::kind == FloatKind::F32) {
        const Words4 words = load16(panel + i64(k) * 64 + 16 * quad);
        for (int i = 0; i < 4; i++) w[i] = f32_of_bits(words.w[i]);
      } else {
        const Words2 words = load8(panel + i64(k) * 32 + 8 * quad);
        for (int i = 0; i < 4; i++) w[i] = f32_of_f16(words.w[i / 2] >> (i % 2 * 16) & 0xffff);
      }
      for (int r = 0; r < R; r++) {
        const float xk = x[r].at(k);
        for (int i = 0; i < 4; i++) acc[r][i] = fmaf(w[i], xk, acc[r][i]);
      }
    }
  }
}

template <class F, int K, int R>
__device__ inline void panel_of_blocks(const u8* panel, const ActRow<K>* x, int share, int shares,
                                       float (&acc)[R][4]) {
  constexpr Group whole = F::template group<K>(false), tail = F::template group<K>(true);
  constexpr int kBlocks = K / kActBlock, kHalves = kActBlock / F::scale_cols, kSteps = 8 / kHalves;
  const int quad = lane() % 4, block = lane() / 4;
  for (int g = share; g * 8 + block < kBlocks; g += shares) {
    const u8* group = panel + i64(g) * whole.bytes;
    const Group at = g == K / kGroupCols ? tail : whole;
    Codes<F> codes;
    codes.load(group + at.quants + block * F::block_bytes, quad);
    const int b = g * 8 + block;
#pragma unroll
    for (int half = 0; half < kHalves; half++) {
      Factors f[4];
      for (int i = 0; i < 4; i++) f[i] = factors<F>(group, at, block, half, 4 * quad + i);
#pragma unroll
      for (int r = 0; r < R; r++) {
        int high[4] = {}, low[4] = {};
#pragma unroll
        for (int s = half * kSteps; s < (half + 1) * kSteps; s++) {
          const u32 xh = x[r].high()[b * 8 + s], xl = x[r].low()[b * 8 + s];
#pragma unroll
          for (int i = 0; i < 4; i++) {
            high[i] = dot4_u8_s8(codes.q[s][i], xh, high[i]);
            low[i] = dot4_u8_s8(codes.q[s][i], xl, low[i]);
          }
        }
        const int* sums = x[r].sums() + b * 2;
        const int sum = kHalves == 2 ? sums[half] : sums[0] + sums[1];
        const float d = x[r].d()[b];
#pragma unroll
        for (int i = 0; i < 4; i++) {
          const int dot = 256 * high[i] + low[i] - F::offset * sum;
          acc[r][i] = fmaf(d, fmaf(f[i].scale, float(dot), f[i].min * float(sum)), acc[r][i]);
        }
      }
    }
  }
}

// All columns of a panel's share; lanes 0..3 have the sums of their four rows afterwards, in `part`[r][16].
template <class F, int K, int R, class X>
__device__ inline void panel_share(const u8* panel, const X* x, int share, int shares, float (*part)[kPanelRows]) {
  float acc[R][4] = {};
  if constexpr (F::kind == FloatKind::None) {
    panel_of_blocks<F, K, R>(panel, x, share, shares, acc);
  } else {
    panel_of_floats<F, K, R>(panel, x, share, shares, acc);
  }
  for (int r = 0; r < R; r++)
    for (int i = 0; i < 4; i++) {
      float y = acc[r][i];
      for (int j = 4; j < 32; j *= 2) y += __shfl_xor_sync(0xffffffffu, y, j);
      if (lane() < 4) part[r][4 * lane() + i] = y;
    }
}

// The rows of activations that this block multiplies, as X. Past the last row of the step it takes that one again.
template <class M>
__device__ inline int row_of_block(const Step& s, int r) {
  const int last = rows_of<M::kDomain>(s) - 1, t = blockIdx.y * M::kRowsAtOnce + r;
  return t < last ? t : last;
}

// As they lie in memory, of products with a matrix a head (kHeadPanels panels each) the block's head's, or from the norm in
// front. `made`: shared memory for kRowsAtOnce rows where there is a norm.
// value: without a norm x; Rms, Layer: x0; Residual: x0, x1, residual. Then y.
template <class M>
__device__ inline void load_rows(const Step& s, const At& a, typename M::X* x, u8* made, float* shared) {
  wait_for_previous();
#pragma unroll
  for (int r = 0; r < M::kRowsAtOnce; r++) {
    const int t = row_of_block<M>(s, r);
    u8* row = s.arena + a.value[0] + i64(t) * M::kStride0;
    if constexpr (M::kHeadPanels > 0) row += blockIdx.x / M::kHeadPanels * (4 * M::kColumns);
    if constexpr (M::kNorm == Norm::None) {
      if constexpr (M::kQuantized) {
        x[r].p = row;
      } else {
        x[r].p = reinterpret_cast<const float*>(row);
      }
    } else {
      constexpr bool residual = M::kNorm == Norm::Residual;
      const float* x1 = residual ? reinterpret_cast<const float*>(s.arena + a.value[1] + i64(t) * M::kStride1) : nullptr;
      const bool stores = residual && blockIdx.x == 0 && blockIdx.y * M::kRowsAtOnce + r == u32(t);
      float* to = stores ? reinterpret_cast<float*>(s.arena + a.value[2] + i64(t) * M::kResidualStride) : nullptr;
      const float* pre = reinterpret_cast<const float*>(s.weights + a.weight[0]);
      const float* post = reinterpret_cast<const float*>(s.weights + a.weight[M::kPre ? 1 : 0]);
      u8* slot = made + r * M::kMadeBytes;
      const auto put = [&](int i, float y) {
        if constexpr (M::kQuantized) {
          quantize_block(y, i / kActBlock, ActRow<M::kColumns>{slot});
        } else {
          reinterpret_cast<float*>(slot)[i] = y;
        }
      };
      norm_row<M>(reinterpret_cast<const float*>(row), x1, pre, post, to, shared, put);
      if constexpr (M::kQuantized) {
        x[r].p = slot;
      } else {
        x[r].p = reinterpret_cast<const float*>(slot);
      }
    }
  }
  if constexpr (M::kNorm != Norm::None) __syncthreads();
}

template <class M>
__device__ inline float* out_row(const Step& s, const At& a, int t) {
  if constexpr (M::kToLogits) return s.logits + i64(t) * s.logits_stride;
  return reinterpret_cast<float*>(s.arena + a.value[M::kOut] + i64(t) * M::kOutStride);
}

// One panel by all warps: panel `panel` of a segment of kRows rows whose results begin at column `column`.
template <class M, class F, int kRows>
__device__ inline void multiply(const Step& s, const At& a, const typename M::Rows& x, int weight, int bias, int panel,
                                int column, float (*part)[M::kRowsAtOnce][kPanelRows]) {
  const u8* at = s.weights + a.weight[weight] + i64(panel) * F::template panel_bytes<M::kColumns>();
  panel_share<F, M::kColumns, M::kRowsAtOnce>(at, x, warp(), kWarps, part[warp()]);
  __syncthreads();
  for (int i = threadIdx.x; i < M::kRowsAtOnce * kPanelRows; i += kThreads) {
    const int r = i / kPanelRows, n = i % kPanelRows, t = blockIdx.y * M::kRowsAtOnce + r;
    const int row = panel * kPanelRows + n;
    if (t >= rows_of<M::kDomain>(s) || row >= kRows) continue;
    float y = part[0][r][n];
    for (int w = 1; w < kWarps; w++) y += part[w][r][n];
    if (bias >= 0) y += reinterpret_cast<const float*>(s.weights + a.weight[bias])[row];
    out_row<M>(s, a, t)[column + row] = y;
  }
}

// fn(gate) * up: warps 0 and 1 two panels of the gate, 2 and 3 the same two of up; 32 columns of the result.
template <class M, class G, class U, int kRows, Fn fn>
__device__ inline void multiply_glu(const Step& s, const At& a, const typename M::Rows& x, int gate, int up, int pair,
                                    float (*part)[M::kRowsAtOnce][kPanelRows]) {
  const int panel = 2 * pair + warp() % 2;
  if (panel * kPanelRows < kRows) {
    if (warp() < 2) {
      const u8* at = s.weights + a.weight[gate] + i64(panel) * G::template panel_bytes<M::kColumns>();
      panel_share<G, M::kColumns, M::kRowsAtOnce>(at, x, 0, 1, part[warp()]);
    } else {
      const u8* at = s.weights + a.weight[up] + i64(panel) * U::template panel_bytes<M::kColumns>();
      panel_share<U, M::kColumns, M::kRowsAtOnce>(at, x, 0, 1, part[warp()]);
    }
  }
  __syncthreads();
  for (int r = warp(); r < M::kRowsAtOnce; r += kWarps) {  // a warp a row: whole warps quantize
    const int t = blockIdx.y * M::kRowsAtOnce + r, column = pair * kActBlock + lane();
    if (t >= rows_of<M::kDomain>(s)) continue;
    const bool there = column < kRows;
    const int half = lane() / kPanelRows, n = lane() % kPanelRows;
    const float y = there ? apply<fn>(part[half][r][n]) * part[2 + half][r][n] : 0;
    if constexpr (M::kQuantizeOut) {
      quantize_block(y, pair, ActRow<kRows>{reinterpret_cast<u8*>(out_row<M>(s, a, t))});
    } else if (there) {
      out_row<M>(s, a, t)[column] = y;
    }
  }
}

}  // namespace gc::device

#endif  // GC_MATMUL_CUH_
