// Norms of one row by one block, also as the front of a product (kernels/matmul): each block of the product norms the row
// again for itself, which costs a read of it from the second-level cache and saves a launch. The sums' order is the
// same in both places: bits depend neither on where it was done nor on the number of rows.
//
// Thread t has elements t, t + 128, ...: those of one warp are whole blocks of 32, so quantizing needs no exchange.
#ifndef GC_NORM_CUH_
#define GC_NORM_CUH_

namespace gc::device {

enum class Norm { None, Rms, Layer, Residual };

// N: kNorm, kColumns, kEps, kPost, kPre: whether there are such weights (Rms: pre is its weight; Layer: post is its bias).
//   Rms       y = x0 / sqrt(mean(x0^2) + eps) * pre
//   Layer     y = (x0 - mean) / sqrt(var + eps) * pre + post
//   Residual  r = x0 + rms_norm(x1) * post (without post: x0 + x1), y = rms_norm(r) * pre; r goes to `residual` if not null
// `put(i, y)` is called for i = t, t + 128, ... < kColumns.
template <class N, class Put>
__device__ inline void norm_row(const float* x0, const float* x1, const float* pre, const float* post,
                                float* residual, float* shared, Put put) {
  constexpr int n = (N::kColumns + kThreads - 1) / kThreads;
  float x[n];
  float sum = 0;
#pragma unroll
  for (int j = 0; j < n; j++) {
    const int i = j * kThreads + threadIdx.x;
    x[j] = i < N::kColumns ? (N::kNorm == Norm::Residual ? x1[i] : x0[i]) : 0;
    sum = N::kNorm == Norm::Layer ? sum + x[j] : fmaf(x[j], x[j], sum);
  }
  if constexpr (N::kNorm == Norm::Residual) {
    float by = 1;
    if constexpr (N::kPost) by = 1 / sqrtf(block_sum(sum, shared) / N::kColumns + N::kEps);
    sum = 0;
#pragma unroll
    for (int j = 0; j < n; j++) {
      const int i = j * kThreads + threadIdx.x;
      if (i >= N::kColumns) continue;
      x[j] = x0[i] + (N::kPost ? x[j] * by * post[i] : x[j]);
      if (residual) residual[i] = x[j];
      sum = fmaf(x[j], x[j], sum);
    }
  }
  float mean = 0;
  if constexpr (N::kNorm == Norm::Layer) {
    mean = block_sum(sum, shared) / N::kColumns;
    sum = 0;
#pragma unroll
    for (int j = 0; j < n; j++)
      if (j * kThreads + threadIdx.x < N::kColumns) sum = fmaf(x[j] - mean, x[j] - mean, sum);
  }
  const float by = 1 / sqrtf(block_sum(sum, shared) / N::kColumns + N::kEps);
#pragma unroll
  for (int j = 0; j < n; j++) {
    const int i = j * kThreads + threadIdx.x;
    if (i >= N::kColumns) continue;
    float y = (x[j] - mean) * by;
    if constexpr (N::kPre) y *= pre[i];
    if constexpr (N::kNorm == Norm::Layer && N::kPost) y += post[i];
    put(i, y);
  }
}

// A launch of its own: block (j, t) norms part j (of kParts: heads) of row t.
// value: x0, [x1,] then [residual,] y. weight: pre, post as far as there are such.
template <class N>
__device__ inline void norm(const Step& s, const At& a, float* shared) {
  wait_for_previous();
  const int t = blockIdx.y;
  const float* pre = reinterpret_cast<const float*>(s.weights + a.weight[0]);
  const float* post = reinterpret_cast<const float*>(s.weights + a.weight[N::kPre ? 1 : 0]);
  const i64 part = i64(blockIdx.x) * N::kColumns;
  const auto row = [&](int value, int stride) {
    return reinterpret_cast<float*>(s.arena + a.value[value] + i64(t) * stride) + part;
  };
  const float* x0 = row(0, N::kStride0);
  const float* x1 = N::kNorm == Norm::Residual ? row(1, N::kStride1) : nullptr;
  float* residual = N::kNorm == Norm::Residual ? row(2, N::kResidualStride) : nullptr;
  const i64 to = a.value[N::kNorm == Norm::Residual ? 3 : 1] + i64(t) * N::kOutStride;
  if constexpr (N::kQuantize) {
    const ActRow<N::kColumns> y{s.arena + to};
    norm_row<N>(x0, x1, pre, post, residual, shared, [&](int i, float v) { quantize_block(v, i / kActBlock, y); });
  } else {
    float* y = reinterpret_cast<float*>(s.arena + to) + part;
    norm_row<N>(x0, x1, pre, post, residual, shared, [&](int i, float v) { y[i] = v; });
  }
}

}  // namespace gc::device

#endif  // GC_NORM_CUH_
