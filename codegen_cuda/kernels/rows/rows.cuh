// Ops that make a row from a row, value by value: a block a row.
#ifndef GC_ROWS_CUH_
#define GC_ROWS_CUH_

namespace gc::device {

// y = scale * the row of a packed table that the token (or, kPosition, the position) names.
template <class E>
__device__ inline void embed(const Step& s, const At& a) {
  wait_for_previous();
  using F = typename E::F;
  const Row row = s.rows[blockIdx.y];
  const int at = E::kPosition ? row.pos : row.token;
  const u8* panel = s.weights + a.weight[0] + i64(at / kPanelRows) * F::template panel_bytes<E::kColumns>();
  float* y = reinterpret_cast<float*>(s.arena + a.value[0] + i64(blockIdx.y) * E::kOutStride);
  for (int i = threadIdx.x; i < E::kColumns; i += kThreads)
    y[i] = E::kScale * element<F, E::kColumns>(panel, at % kPanelRows, i);
}

// Row r of the result is the row of output r, byte for byte.
template <class E>
__device__ inline void select(const Step& s, const At& a) {
  wait_for_previous();
  const u32* x = reinterpret_cast<const u32*>(s.arena + a.value[0] + i64(s.outputs[blockIdx.y]) * E::kStride0);
  u32* y = reinterpret_cast<u32*>(s.arena + a.value[1] + i64(blockIdx.y) * E::kOutStride);
  for (int i = threadIdx.x; i < E::kWords; i += kThreads) y[i] = x[i];
}

// Softcap of the logits, where they lie.
template <class E>
__device__ inline void cap_logits(const Step& s, const At&) {
  wait_for_previous();
  float* y = s.logits + i64(blockIdx.y) * s.logits_stride;
  const int begin = blockIdx.x * E::kAtOnce, end = begin + E::kAtOnce < E::kColumns ? begin + E::kAtOnce : E::kColumns;
  for (int i = begin + threadIdx.x; i < end; i += kThreads) y[i] = E::kCap * tanhf(y[i] / E::kCap);
}

template <int n>
__device__ inline float dot(const float* a, const float* b) {
  float sum = 0;
  for (int i = 0; i < n; i++) sum = fmaf(a[i], b[i], sum);
  return sum;
}

// y[i] = E::value(x0, x1, w, i, position), then quantized where the next product wants it so. x1 and w (floats) only where E
// reads them. value: x0, [x1,] y.
template <class E>
__device__ inline void each(const Step& s, const At& a) {
  wait_for_previous();
  const int t = blockIdx.y;
  const float* x0 = reinterpret_cast<const float*>(s.arena + a.value[0] + i64(t) * E::kStride0);
  const float* x1 = reinterpret_cast<const float*>(s.arena + a.value[1] + i64(t) * E::kStride1);
  const float* w = reinterpret_cast<const float*>(s.weights + a.weight[0]);
  const int pos = E::kPosition ? s.rows[t].pos : 0;
  u8* to = s.arena + a.value[E::kTwo ? 2 : 1] + i64(t) * E::kOutStride;
  for (int i = threadIdx.x; i < E::kColumns; i += kThreads) {
    const float y = E::value(x0, x1, w, i, pos);
    if constexpr (E::kQuantizeOut) {
      quantize_block(y, i / kActBlock, ActRow<E::kColumns>{to});
    } else {
      reinterpret_cast<float*>(to)[i] = y;
    }
  }
}

}  // namespace gc::device

#endif  // GC_ROWS_CUH_
