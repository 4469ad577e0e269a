// Activations of 16 bits (compiler/quant/activation.h): a row of K values as two planes of signed bytes, x = d (256 high +
// low), with what products need beside them:
//
//   high i8[K] | low i8[K] | d f32[K / 32] | sums of 16 neighbours' 256 high + low, i32[K / 16]
//
// in global memory (rows of act_bytes() apart) or in shared memory alike.
#ifndef GC_ACT_CUH_
#define GC_ACT_CUH_

namespace gc::device {

template <int K>
struct ActRow {
  static constexpr int kBytes = (2 * K + K / 8 + K / 4 + 63) / 64 * 64;
  u8* p;
  __device__ const u32* high() const { return reinterpret_cast<const u32*>(p); }
  __device__ const u32* low() const { return reinterpret_cast<const u32*>(p + K); }
  __device__ float* d() const { return reinterpret_cast<float*>(p + 2 * K); }
  __device__ int* sums() const { return reinterpret_cast<int*>(p + 2 * K + K / 8); }
  __device__ float at(int k) const {
    return d()[k / kActBlock] * float(256 * int(i8(p[k])) + int(i8(p[K + k])));
  }
};

// A whole warp quantizes block `block` of the row, lane i its value i.
template <int K>
__device__ inline void quantize_block(float x, int block, ActRow<K> row) {
  const float most = warp_max(fabsf(x));
  float d = most / 32512.0f, by = most > 0 ? 32512.0f / most : 0;
  if (!(by <= 3.402823466e38f)) by = d = 0;  // of a block so small that its factor overflows
  const int q = int(rintf(x * by)), high = (q + 128) >> 8;
  row.p[block * kActBlock + lane()] = u8(high);
  row.p[K + block * kActBlock + lane()] = u8(q - 256 * high);
  int sum = q;
  for (int i = 8; i > 0; i /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, i);
  if (lane() % 16 == 0) row.sums()[block * 2 + lane() / 16] = sum;
  if (lane() == 0) row.d()[block] = d;
}

// Plain floats where the weights are floats.
struct F32Row {
  const float* p;
  __device__ float at(int k) const { return p[k]; }
};

}  // namespace gc::device

#endif  // GC_ACT_CUH_
