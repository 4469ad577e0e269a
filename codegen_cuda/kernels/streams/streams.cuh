// Ops on a token's several streams, and on vectors as wholes: a block a row.
#ifndef GC_STREAMS_CUH_
#define GC_STREAMS_CUH_

namespace gc::device {

// Operands of the block's row. value: x0, [x1,] y.
template <class E>
__device__ inline const float* operand(const Step& s, const At& a, int i) {
  return reinterpret_cast<const float*>(s.arena + a.value[i] + i64(blockIdx.y) * (i == 0 ? E::kStride0 : E::kStride1));
}
template <class E>
__device__ inline float* result(const Step& s, const At& a) {
  return reinterpret_cast<float*>(s.arena + a.value[E::kTwo ? 2 : 1] + i64(blockIdx.y) * E::kOutStride);
}

// y[j] = sum_i (x1[j, i] + plus) x0[i]: x0 [kFrom][kDim], x1 [kTo][kFrom].
template <class E>
__device__ inline void mix(const Step& s, const At& a) {
  wait_for_previous();
  const float *x = operand<E>(s, a, 0), *by = operand<E>(s, a, 1);
  float* y = result<E>(s, a);
  for (int i = threadIdx.x; i < E::kTo * E::kDim; i += kThreads) {
    float sum = 0;
    for (int k = 0; k < E::kFrom; k++)
      sum = fmaf(by[i / E::kDim * E::kFrom + k] + E::kPlus, x[k * E::kDim + i % E::kDim], sum);
    y[i] = sum;
  }
}

// y[h] = x0[h] + x1 from head kBegin on.
template <class E>
__device__ inline void add_heads(const Step& s, const At& a) {
  wait_for_previous();
  const float *x = operand<E>(s, a, 0), *more = operand<E>(s, a, 1);
  float* y = result<E>(s, a);
  for (int i = threadIdx.x; i < E::kTo * E::kDim; i += kThreads)
    y[i] = i / E::kDim >= E::kBegin ? x[i] + more[i % E::kDim] : x[i];
}

// y[h] = x1[h] |x0| / |x1[h]|, a warp a head.
template <class E>
__device__ inline void rescale(const Step& s, const At& a) {
  wait_for_previous();
  const float *like = operand<E>(s, a, 0), *x = operand<E>(s, a, 1);
  float* y = result<E>(s, a);
  const auto length = [](const float* v) {
    float sum = 0;
    for (int i = lane(); i < E::kDim; i += 32) sum = fmaf(v[i], v[i], sum);
    return sqrtf(warp_sum(sum));
  };
  const float wanted = length(like);
  for (int h = warp(); h < E::kTo; h += kWarps) {
    const float by = wanted / length(x + h * E::kDim);
    for (int i = lane(); i < E::kDim; i += 32) y[h * E::kDim + i] = x[h * E::kDim + i] * by;
  }
}

// y = max(0, x - mean - by std) of each of kTo vectors. shared: kWarps floats.
template <class E>
__device__ inline void sparsify(const Step& s, const At& a, float* shared) {
  wait_for_previous();
  for (int v = 0; v < E::kTo; v++) {
    const float* x = operand<E>(s, a, 0) + v * E::kDim;
    float* y = result<E>(s, a) + v * E::kDim;
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < E::kDim; i += kThreads) sum += x[i];
    const float mean = block_sum(sum, shared) / E::kDim;
    for (int i = threadIdx.x; i < E::kDim; i += kThreads) squares = fmaf(x[i] - mean, x[i] - mean, squares);
    const float cut = fmaf(E::kBy, sqrtf(block_sum(squares, shared) / (E::kDim - 1)), mean);
    for (int i = threadIdx.x; i < E::kDim; i += kThreads) y[i] = fmaxf(0, x[i] - cut);
  }
}

// A [kDim, kDim] matrix of logits made almost doubly stochastic, transposed. A few values and rounds that wait for each
// other: one thread does it, in shared memory.
template <class E>
__device__ inline void sinkhorn(const Step& s, const At& a, float* m) {
  wait_for_previous();
  if (threadIdx.x != 0) return;
  constexpr int n = E::kDim;
  const float* x = operand<E>(s, a, 0);
  const auto divide = [&](int first, int stride) {
    float sum = E::kEps;
    for (int i = 0; i < n; i++) sum += m[first + i * stride];
    for (int i = 0; i < n; i++) m[first + i * stride] /= sum;
  };
  for (int r = 0; r < n; r++) {
    float top = x[r * n], sum = 0;
    for (int i = 1; i < n; i++) top = fmaxf(top, x[r * n + i]);
    for (int i = 0; i < n; i++) sum += m[r * n + i] = expf(x[r * n + i] - top);
    for (int i = 0; i < n; i++) m[r * n + i] = m[r * n + i] / sum + E::kEps;
  }
  for (int round = 0; round < E::kRounds; round++) {
    for (int r = 0; round > 0 && r < n; r++) divide(r * n, 1);
    for (int i = 0; i < n; i++) divide(i, n);
  }
  float* y = result<E>(s, a);
  for (int r = 0; r < n; r++)
    for (int i = 0; i < n; i++) y[i * n + r] = m[r * n + i];
}

}  // namespace gc::device

#endif  // GC_STREAMS_CUH_
