// Recurrences: a convolution over a sequence's last rows, a shift by one, and scans, whose state is a matrix [keys, values] a
// head. A thread has a column of such a state (or a channel), takes all rows of the step in order, and needs nobody else's:
// no barriers, and no bits that depend on chunks or other sequences. States [keys][values] make neighbouring threads' loads
// neighbours. A generated token reads and writes each state once, which is what it must; a prompt finds its column in the
// caches, row after row. A prompt as products of matrices (chunks) would use tensor cores, at other sums for each chunk.
#ifndef GC_RECURRENT_CUH_
#define GC_RECURRENT_CUH_

namespace gc::device {

// Where the row's sequence has this op's state.
__device__ inline float* state_of(const Step& s, const At& a, const Row& row) {
  const u32 slot = s.seqs[row.seq].tables[a.group].blocks[0];
  return reinterpret_cast<float*>(s.pools[a.group] + i64(slot) * a.block_bytes + a.state);
}

__device__ inline const float* row_at(const Step& s, i64 value, i64 t, i64 stride) {
  return reinterpret_cast<const float*>(s.arena + value + t * stride);
}
__device__ inline const float* weight_at(const Step& s, const At& a, int i) {
  return reinterpret_cast<const float*>(s.weights + a.weight[i]);
}

// weight: taps [taps][channels], bias. value: x, y.
template <class E>
__device__ inline void conv(const Step& s, const At& a) {
  wait_for_previous();
  const int c = blockIdx.x * kThreads + threadIdx.x;
  if (c >= E::kColumns) return;
  constexpr int kBefore = E::kKept / E::kDilation;  // taps but the last
  float taps[kBefore + 1], x[E::kKept + 1];
#pragma unroll
  for (int j = 0; j <= kBefore; j++) taps[j] = weight_at(s, a, 0)[j * E::kColumns + c];
  const float bias = E::kBias ? weight_at(s, a, 1)[c] : 0;
  for (u32 t = 0; t < s.n_rows; t++) {
    const Row row = s.rows[t];
    float* state = state_of(s, a, row) + c;
#pragma unroll
    for (int j = 0; j < E::kKept; j++) x[j] = row.pos == 0 ? 0 : state[j * E::kColumns];
    x[E::kKept] = row_at(s, a.value[0], t, E::kStride0)[c];
    float y = bias;
#pragma unroll
    for (int j = 0; j <= kBefore; j++) y = fmaf(taps[j], x[j * E::kDilation], y);
#pragma unroll
    for (int j = 0; j < E::kKept; j++) state[j * E::kColumns] = x[j + 1];
    const_cast<float*>(row_at(s, a.value[1], t, E::kOutStride))[c] = E::finish(y);
  }
}

// weight: mix [mixes][columns]. value: x, y.
template <class E>
__device__ inline void token_shift(const Step& s, const At& a) {
  wait_for_previous();
  const int c = blockIdx.x * kThreads + threadIdx.x;
  if (c >= E::kColumns) return;
  for (u32 t = 0; t < s.n_rows; t++) {
    const Row row = s.rows[t];
    float* state = state_of(s, a, row) + c;
    const float x = row_at(s, a.value[0], t, E::kStride0)[c], d = (row.pos == 0 ? 0 : *state) - x;
    *state = x;
    float* y = const_cast<float*>(row_at(s, a.value[1], t, E::kOutStride)) + c;
    if (E::kMixes == 0) *y = d;
    for (int j = 0; j < E::kMixes; j++) y[j * E::kColumns] = fmaf(weight_at(s, a, 0)[j * E::kColumns + c], d, x);
  }
}

// S' = S exp(decay_i) + ..: `at` walks a column of the state, `f` gets its value before and gives the one behind.
template <class E, class F>
__device__ inline void walk(float* column, bool first, F f) {
  for (int i = 0; i < E::kKeys; i++) {
    float& at = column[i64(i) * E::kValues];
    at = f(i, first ? 0 : at);
  }
}

// value: the op's operands, then y. Weights as the op has them; each scan is a function of a thread's place and row.
template <class E>
struct Column {
  const Step& s;
  const At& a;
  int head, j;

  __device__ const float* in(int i, i64 t) const { return row_at(s, a.value[i], t, E::stride(i)); }
  __device__ int group() const { return E::kInTurn ? head % E::kGroups : head / (E::kHeads / E::kGroups); }

  __device__ float ssm(i64 t, float* state, bool first) const {
    const int channel = head * E::kValues + j, at = E::kOfStates ? j : head;
    float dt = in(1, t)[at];
    if (E::kDtBias) dt += weight_at(s, a, 1)[at];
    const float step = apply<Fn::softplus>(dt), x = in(0, t)[channel], u = step * x;
    const float *key = in(2, t) + group() * E::kKeys, *query = in(3, t) + group() * E::kKeys;
    const float *rates = weight_at(s, a, 0), same = E::kOfStates ? 0 : expf(step * rates[head]);
    float y = 0;
    walk<E>(state, first, [&](int i, float before) {
      const float decay = E::kOfStates ? expf(step * rates[i64(i) * E::kValues + j]) : same;
      const float now = fmaf(key[i], u, decay * before);
      y = fmaf(query[i], now, y);
      return now;
    });
    return E::kD ? fmaf(weight_at(s, a, 1 + E::kDtBias)[at], x, y) : y;
  }

  __device__ float delta(i64 t, float* state, bool first) const {
    const float *query = in(0, t) + group() * E::kKeys, *key = in(1, t) + group() * E::kKeys;
    const float* gates = in(3, t) + (E::kOfKeys ? head * E::kKeys : head);
    const float same = E::kOfKeys ? 0 : expf(gates[0]);
    float known = 0, y = 0;
    walk<E>(state, first, [&](int i, float before) {
      const float now = (E::kOfKeys ? expf(gates[i]) : same) * before;
      known = fmaf(key[i], now, known);
      return now;
    });
    const float u = in(4, t)[head] * (in(2, t)[head * E::kValues + j] - known);
    walk<E>(state, false, [&](int i, float before) {
      const float now = fmaf(key[i], u, before);
      y = fmaf(query[i], now, y);
      return now;
    });
    return E::kScale * y;
  }

  __device__ float decay(i64 t, float* state, bool first) const {
    const float *query = in(0, t) + group() * E::kKeys, *key = in(1, t) + group() * E::kKeys;
    const float u = in(2, t)[head * E::kValues + j], by = expf(-E::kBy * E::slope(head));
    float y = 0;
    walk<E>(state, first, [&](int i, float before) {
      const float now = fmaf(key[i], u, by * before);
      y = fmaf(query[i], now, y);
      return now;
    });
    return E::kScale * y;
  }

  __device__ float wkv(i64 t, float* state, bool first) const {
    const float *query = in(0, t) + head * E::kKeys, *key = in(1, t) + group() * E::kKeys;
    const float* gates = in(3, t) + head * E::kKeys;
    const float u = in(2, t)[group() * E::kValues + j];
    const float* bonus = weight_at(s, a, 0) + head * E::kKeys;
    float y = 0;
    walk<E>(state, first, [&](int i, float before) {
      const float by = expf(gates[i]), now = fmaf(E::kLeaky ? (1 - by) * key[i] : key[i], u, by * before);
      y = fmaf(query[i], E::kBonus ? fmaf(bonus[i] * key[i], u, before) : now, y);
      return now;
    });
    return E::kScale * y;
  }

  __device__ float wkv7(i64 t, float* state, bool first) const {
    const int at = head * E::kKeys;
    const float *query = in(0, t) + at, *key = in(1, t) + at, *gates = in(3, t) + at, *to = in(4, t) + at, *back = in(5, t) + at;
    const float u = in(2, t)[head * E::kValues + j];
    float known = 0, y = 0;
    walk<E>(state, first, [&](int i, float before) {
      known = fmaf(to[i], before, known);
      return before;
    });
    walk<E>(state, false, [&](int i, float before) {
      const float now = fmaf(key[i], u, fmaf(back[i], known, expf(gates[i]) * before));
      y = fmaf(query[i], now, y);
      return now;
    });
    return y;
  }
};

template <class E>
__device__ inline void scan(const Step& s, const At& a) {
  wait_for_previous();
  const int item = blockIdx.x * kThreads + threadIdx.x;
  if (item >= E::kHeads * E::kValues) return;
  const Column<E> column{s, a, item / E::kValues, item % E::kValues};
  for (u32 t = 0; t < s.n_rows; t++) {
    const Row row = s.rows[t];
    float* state = state_of(s, a, row) + i64(column.head) * E::kKeys * E::kValues + column.j;
    const float y = E::advance(column, t, state, row.pos == 0);
    const_cast<float*>(row_at(s, a.value[E::kInputs], t, E::kOutStride))[item] = y;
  }
}

}  // namespace gc::device

#endif  // GC_RECURRENT_CUH_
