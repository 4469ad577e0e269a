// Attention over KV blocks, in three launches:
//
//   attention_prepare   a warp a head and row: norms and RoPE of q and k; q, times the scale, to scratch; k and v to the state
//   attention_ranges    a block a row, kv head and range of kRange positions at absolute multiples: (m, l, o) of each query
//                       head, the largest score, sum of exp(s - m), sum of exp(s - m) v; query heads of a group share the
//                       loads of keys and values. The block's warps take positions in turn.
//   attention_merge     a warp a head and row: its ranges in order, with the sink, divided by the sum
//
// The order of sums is a function of the row's position alone: a row has the same bits in any company, chunk or split.
//
// Keys and values of a state lie in its group's block of 64 positions as, for each kv head, K [64][k_dim], then V
// [64][v_dim]: dimensions innermost, since a warp reads one position by consecutive lanes.
#ifndef GC_ATTENTION_CUH_
#define GC_ATTENTION_CUH_

namespace gc::device {

enum class Kv { F32, F16, BF16 };

template <Kv kv>
struct KvElement {
  static constexpr int kBytes = kv == Kv::F32 ? 4 : 2;
  __device__ static float load(const u8* p, int i) {
    if constexpr (kv == Kv::F32) return reinterpret_cast<const float*>(p)[i];
    const u32 h = reinterpret_cast<const u16*>(p)[i];
    return kv == Kv::F16 ? f32_of_f16(h) : f32_of_bf16(h);
  }
  __device__ static void store(u8* p, int i, float x) {
    if constexpr (kv == Kv::F32) {
      reinterpret_cast<float*>(p)[i] = x;
    } else {
      reinterpret_cast<u16*>(p)[i] = kv == Kv::F16 ? f16_of_f32(x) : bf16_of_f32(x);
    }
  }
};

// Where the state keeps a position's key; its value is 64 keys and pos % 64 values further.
template <class A>
__device__ inline u8* key_at(const Step& s, const At& a, const Table& table, int pos, int head) {
  constexpr i64 kHeadBytes = i64(kKvBlock) * (A::kKDim + A::kVDim) * KvElement<A::kKv>::kBytes;
  const u32 block = u32(pos) / kKvBlock;
  const u32 physical = table.blocks[A::kRing ? block % table.n : block];
  return s.pools[a.group] + i64(physical) * a.block_bytes + a.state + head * kHeadBytes +
         i64(pos % kKvBlock) * A::kKDim * KvElement<A::kKv>::kBytes;
}
template <class A>
__device__ inline u8* value_at(u8* key, int pos) {
  return key + (i64(kKvBlock - pos % kKvBlock) * A::kKDim + i64(pos % kKvBlock) * A::kVDim) * KvElement<A::kKv>::kBytes;
}

// Turns x[dims], in shared memory, of one head by the position's angles: fine[pos % n] * coarse[pos / n] (tables
// f32[n, dims / 2, 2]; those of long contexts stand behind the others). By a whole warp.
template <int kDims, bool kNeox, int kFine, int kCoarse>
__device__ inline void turn(float* x, const float* fine, const float* coarse, int pos, bool long_context) {
  fine += i64((long_context ? kFine : 0) + pos % kFine) * kDims;
  coarse += i64((long_context ? kCoarse : 0) + pos / kFine) * kDims;
  __syncwarp();
  for (int i = lane(); i < kDims / 2; i += 32) {
    const float fc = fine[2 * i], fs = fine[2 * i + 1], cc = coarse[2 * i], cs = coarse[2 * i + 1];
    const float c = fc * cc - fs * cs, sn = fc * cs + fs * cc;
    float& p = x[kNeox ? i : 2 * i];
    float& q = x[kNeox ? i + kDims / 2 : 2 * i + 1];
    const float p0 = p, q0 = q;
    p = p0 * c - q0 * sn;
    q = p0 * sn + q0 * c;
  }
  __syncwarp();
}

// value: q, k, v. weight: q_norm, k_norm, fine, coarse, those that there are. buffer: a head's floats for each warp.
template <class A>
__device__ inline void attention_prepare(const Step& s, const At& a, float* buffer) {
  wait_for_previous();
  const int t = blockIdx.y, item = blockIdx.x * kWarps + warp();
  if (item >= A::kItems) return;
  const Row row = s.rows[t];
  const bool is_q = item < A::kHeads, is_k = !is_q && item < A::kHeads + A::kKvHeads;
  const int head = is_q ? item : is_k ? item - A::kHeads : item - A::kHeads - A::kKvHeads;
  const int n = is_q || is_k ? A::kKDim : A::kVDim;
  const i64 from = is_q   ? a.value[0] + i64(t) * A::kQStride
                   : is_k ? a.value[1] + i64(t) * A::kKStride
                          : a.value[2] + i64(t) * A::kVStride;
  const float* x = reinterpret_cast<const float*>(s.arena + from) + i64(head) * n;
  float* y = buffer + warp() * (A::kKDim > A::kVDim ? A::kKDim : A::kVDim);
  float sum = 0;
  for (int i = lane(); i < n; i += 32) {
    y[i] = x[i];
    sum = fmaf(x[i], x[i], sum);
  }
  constexpr int kRopeAt = int(A::kQNorm) + int(A::kKNorm);
  if ((is_q && A::kQNorm) || (is_k && A::kKNorm)) {
    const float* w = reinterpret_cast<const float*>(s.weights + a.weight[is_q ? 0 : int(A::kQNorm)]);
    const float by = 1 / sqrtf(warp_sum(sum) / float(n) + A::kEps);
    for (int i = lane(); i < n; i += 32) y[i] *= by * w[i];
  }
  if constexpr (A::kRopeDims > 0)
    if (is_q || is_k)
      turn<A::kRopeDims, A::kNeox, A::kFine, A::kCoarse>(
          y, reinterpret_cast<const float*>(s.weights + a.weight[kRopeAt]),
          reinterpret_cast<const float*>(s.weights + a.weight[kRopeAt + 1]), row.pos, s.long_context != 0);
  if (is_q) {
    float* q = reinterpret_cast<float*>(s.arena + a.queries) + (i64(t) * A::kHeads + head) * A::kKDim;
    for (int i = lane(); i < n; i += 32) q[i] = y[i] * A::kScale;
    return;
  }
  u8* to = key_at<A>(s, a, s.seqs[row.seq].tables[a.group], row.pos, head);
  if (!is_k) to = value_at<A>(to, row.pos);
  for (int i = lane(); i < n; i += 32) KvElement<A::kKv>::store(to, i, y[i]);
}

constexpr int kRange = 256;

// First position that the row at pos sees.
template <class A>
__device__ inline int first_seen(int pos) {
  return A::kWindow > 0 && pos >= A::kWindow ? pos + 1 - A::kWindow : 0;
}

// Of one query head and range, or of one warp's positions of it.
template <class A>
struct Partial {
  float m, l, o[A::kVDim];
};

// shared: kWarps x kAtOnce partials.
template <class A>
__device__ inline void attention_ranges(const Step& s, const At& a, Partial<A>* shared) {
  wait_for_previous();
  constexpr int kGroup = A::kHeads / A::kKvHeads, kChunks = (kGroup + A::kAtOnce - 1) / A::kAtOnce;
  constexpr int G = A::kAtOnce, kQ = (A::kKDim + 31) / 32, kV = (A::kVDim + 31) / 32;
  const Row row = s.rows[blockIdx.z];
  const int lo = first_seen<A>(row.pos), range = lo / kRange + int(blockIdx.x);
  if (range > row.pos / kRange) return;
  const int begin = lo > range * kRange ? lo : range * kRange;
  const int end = row.pos + 1 < (range + 1) * kRange ? row.pos + 1 : (range + 1) * kRange;
  const int kv = blockIdx.y / kChunks, first = blockIdx.y % kChunks * G;  // of the group's heads
  const int heads = kGroup - first < G ? kGroup - first : G;
  const float* queries =
      reinterpret_cast<const float*>(s.arena + a.queries) + (i64(blockIdx.z) * A::kHeads + kv * kGroup + first) * A::kKDim;
  float q[G][kQ], m[G], l[G], o[G][kV];
#pragma unroll
  for (int g = 0; g < G; g++) {
    m[g] = minus_infinity(), l[g] = 0;
    for (int j = 0; j < kQ; j++)
      q[g][j] = g < heads && lane() + 32 * j < A::kKDim ? queries[g * A::kKDim + lane() + 32 * j] : 0;
    for (int j = 0; j < kV; j++) o[g][j] = 0;
  }
  const Table table = s.seqs[row.seq].tables[a.group];
  for (int p = begin + warp(); p < end; p += kWarps) {
    u8* key = key_at<A>(s, a, table, p, kv);
    const u8* value = value_at<A>(key, p);
    float k[kQ], v[kV];
#pragma unroll
    for (int j = 0; j < kQ; j++)
      k[j] = lane() + 32 * j < A::kKDim ? KvElement<A::kKv>::load(key, lane() + 32 * j) : 0;
#pragma unroll
    for (int j = 0; j < kV; j++)
      v[j] = lane() + 32 * j < A::kVDim ? KvElement<A::kKv>::load(value, lane() + 32 * j) : 0;
#pragma unroll
    for (int g = 0; g < G; g++) {
      float score = 0;
      for (int j = 0; j < kQ; j++) score = fmaf(q[g][j], k[j], score);
      score = warp_sum(score);
      if constexpr (A::kCap > 0) score = A::kCap * tanhf(score / A::kCap);
      if constexpr (A::kAlibi) score -= A::slope(kv * kGroup + first + g) * float(row.pos - p);
      const float top = fmaxf(m[g], score), kept = expf(m[g] - top), e = expf(score - top);
      m[g] = top, l[g] = fmaf(l[g], kept, e);
      for (int j = 0; j < kV; j++) o[g][j] = fmaf(e, v[j], o[g][j] * kept);
    }
  }
#pragma unroll
  for (int g = 0; g < G; g++) {
    Partial<A>& mine = shared[warp() * G + g];
    if (lane() == 0) mine.m = m[g], mine.l = l[g];
    for (int j = 0; j < kV; j++)
      if (lane() + 32 * j < A::kVDim) mine.o[lane() + 32 * j] = o[g][j];
  }
  __syncthreads();
  // A warp merges the four of a head.
  for (int g = warp(); g < heads; g += kWarps) {
    float top = shared[g].m;
    for (int w = 1; w < kWarps; w++) top = fmaxf(top, shared[w * G + g].m);
    float by[kWarps], sum = 0;
    for (int w = 0; w < kWarps; w++) {
      by[w] = expf(shared[w * G + g].m - top);  // 0 of a warp without positions
      sum = fmaf(shared[w * G + g].l, by[w], sum);
    }
    const int head = kv * kGroup + first + g;
    Partial<A>& to = reinterpret_cast<Partial<A>*>(
        s.arena + a.partials)[(i64(blockIdx.z) * A::kHeads + head) * s.n_splits + blockIdx.x];
    if (lane() == 0) to.m = top, to.l = sum;
    for (int i = lane(); i < A::kVDim; i += 32) {
      float y = 0;
      for (int w = 0; w < kWarps; w++) y = fmaf(shared[w * G + g].o[i], by[w], y);
      to.o[i] = y;
    }
  }
}

// value[3]: the result. weight: sinks f32[heads], last, where there are any.
template <class A>
__device__ inline void attention_merge(const Step& s, const At& a) {
  wait_for_previous();
  constexpr int kV = (A::kVDim + 31) / 32;
  const int t = blockIdx.y, head = blockIdx.x * kWarps + warp();
  if (head >= A::kHeads) return;
  const int pos = s.rows[t].pos, n = pos / kRange - first_seen<A>(pos) / kRange + 1;
  const Partial<A>* from = reinterpret_cast<const Partial<A>*>(s.arena + a.partials) + (i64(t) * A::kHeads + head) * s.n_splits;
  float m = minus_infinity(), l = 0, o[kV] = {};
  if constexpr (A::kSinks) m = reinterpret_cast<const float*>(s.weights + a.weight[A::kSinksAt])[head], l = 1;
  for (int i = 0; i < n; i++) {
    const float top = fmaxf(m, from[i].m), kept = expf(m - top), by = expf(from[i].m - top);
    m = top, l = fmaf(from[i].l, by, l * kept);
#pragma unroll
    for (int j = 0; j < kV; j++)
      if (lane() + 32 * j < A::kVDim) o[j] = fmaf(from[i].o[lane() + 32 * j], by, o[j] * kept);
  }
  u8* row = s.arena + a.value[3] + i64(t) * A::kOutStride;
#pragma unroll
  for (int j = 0; j < kV; j++) {
    const int i = lane() + 32 * j;
    if constexpr (A::kQuantizeOut) {
      quantize_block(o[j] / l, (head * A::kVDim + 32 * j) / kActBlock, ActRow<A::kHeads * A::kVDim>{row});
    } else if (i < A::kVDim) {
      reinterpret_cast<float*>(row)[head * A::kVDim + i] = o[j] / l;
    }
  }
}

// Op rope: value: x [heads][dim] a row, y. weight: fine, coarse.
template <class R>
__device__ inline void rope(const Step& s, const At& a, float* buffer) {
  wait_for_previous();
  const int t = blockIdx.y, head = blockIdx.x * kWarps + warp();
  if (head >= R::kHeads) return;
  const float* x = reinterpret_cast<const float*>(s.arena + a.value[0] + i64(t) * R::kStride0) + head * R::kDim;
  float* to = reinterpret_cast<float*>(s.arena + a.value[1] + i64(t) * R::kOutStride) + head * R::kDim;
  float* y = buffer + warp() * R::kDim;
  for (int i = lane(); i < R::kDim; i += 32) y[i] = x[i];
  turn<R::kRopeDims, R::kNeox, R::kFine, R::kCoarse>(
      y, reinterpret_cast<const float*>(s.weights + a.weight[0]),
      reinterpret_cast<const float*>(s.weights + a.weight[1]), s.rows[t].pos, s.long_context != 0);
  for (int i = lane(); i < R::kDim; i += 32) to[i] = y[i];
}

}  // namespace gc::device

#endif  // GC_ATTENTION_CUH_
