// Mixtures of experts: which experts a token is given to (route), and their two products. A block does one token's share:
// what is read of the matrices depends on the token, so there is nothing yet to share between rows (kernels for many rows
// would first gather the rows of each expert).
#ifndef GC_EXPERTS_CUH_
#define GC_EXPERTS_CUH_

namespace gc::device {

// The lane with the greatest score, of equal ones that with the least index.
struct Best {
  float score;
  int at;
};
__device__ inline Best warp_best(Best best) {
  for (int i = 16; i > 0; i /= 2) {
    const float score = __shfl_xor_sync(0xffffffffu, best.score, i);
    const int at = __shfl_xor_sync(0xffffffffu, best.at, i);
    if (score > best.score || (score == best.score && at < best.at)) best = {score, at};
  }
  return best;
}

// Shuts the experts of all groups but the kGroupsUsed of greatest sum of their two best scores. By one lane.
template <class R>
__device__ inline void shut_groups(float* score) {
  constexpr int kSize = R::kExperts / R::kGroups;
  float sums[R::kGroups];
  for (int g = 0; g < R::kGroups; g++) {
    float first = minus_infinity(), second = minus_infinity();
    for (int i = 0; i < kSize; i++) {
      const float s = score[g * kSize + i];
      if (s > first) {
        second = first, first = s;
      } else if (s > second) {
        second = s;
      }
    }
    sums[g] = first + second;
  }
  for (int g = 0; g < R::kGroups; g++) {
    int better = 0;
    for (int h = 0; h < R::kGroups; h++) better += sums[h] > sums[g] || (sums[h] == sums[g] && h < g);
    if (better < R::kGroupsUsed) continue;
    for (int i = 0; i < kSize; i++) score[g * kSize + i] = minus_infinity();
  }
}

// One warp a row. value: logits, y. weight: bias, if there is one. score, p: shared, of all experts.
template <class R>
__device__ inline void route(const Step& s, const At& a, float* score, float* p) {
  wait_for_previous();
  if (warp() != 0) return;
  const int t = blockIdx.y;
  const float* x = reinterpret_cast<const float*>(s.arena + a.value[0] + i64(t) * R::kStride0);
  float* y = reinterpret_cast<float*>(s.arena + a.value[1] + i64(t) * R::kOutStride);
  float most = minus_infinity(), sum = 0;
  if constexpr (R::kSoftmax) {
    for (int e = lane(); e < R::kExperts; e += 32) most = fmaxf(most, x[e]);
    most = warp_max(most);
    for (int e = lane(); e < R::kExperts; e += 32) sum += expf(x[e] - most);
    sum = warp_sum(sum);
  }
  for (int e = lane(); e < R::kExperts; e += 32) {
    p[e] = R::kSoftmax ? expf(x[e] - most) / sum : apply<R::kFn>(x[e]);
    score[e] = p[e];
    if constexpr (R::kBias) score[e] += reinterpret_cast<const float*>(s.weights + a.weight[0])[e];
    y[e] = 0;
  }
  __syncwarp();
  if constexpr (R::kGroups > 1)
    if (lane() == 0) shut_groups<R>(score);
  float chosen = 0;
  int mine[(R::kUsed + 31) / 32] = {};  // lane k % 32 has the k-th choice
  for (int k = 0; k < R::kUsed; k++) {
    __syncwarp();
    Best best{minus_infinity(), R::kExperts};
    for (int e = lane(); e < R::kExperts; e += 32)
      if (score[e] > best.score) best = {score[e], e};
    best = warp_best(best);
    chosen += p[best.at];
    if (lane() == k % 32) mine[k / 32] = best.at;
    __syncwarp();
    if (lane() == 0) score[best.at] = minus_infinity();
  }
  float by = R::kBy;
  if constexpr (R::kNorm) by /= fmaxf(chosen, 6.103515625e-05f);
  if constexpr (R::kChosen) by /= chosen;
  for (int k = lane(); k < R::kUsed; k += 32) y[mine[k / 32]] = p[mine[k / 32]] * by;
}

// The j-th expert of a token, in ascending order, and its weight; none: -1.
struct Expert {
  int e;
  float weight;
};
template <int kExperts>
__device__ inline Expert expert_of(const float* routing, int j) {
  for (int e = 0; e < kExperts; e++)
    if (routing[e] != 0 && j-- == 0) return {e, routing[e]};
  return {-1, 0};
}

template <class E>
__device__ inline typename E::X input_row(u8* p) {
  typename E::X x;
  if constexpr (E::kQuantized) {
    x.p = p;
  } else {
    x.p = reinterpret_cast<const float*>(p);
  }
  return x;
}

// fn(gate) * up of 32 columns of one of a token's experts: block (pair of panels, row, j). value: x, routing, y. weight: gate
// (if apart), up, then their factors and biases, if there are such.
template <class E>
__device__ inline void experts_in(const Step& s, const At& a, Expert* expert, float (*part)[1][kPanelRows]) {
  wait_for_previous();
  const int t = blockIdx.y, j = blockIdx.z, pair = blockIdx.x;
  if (threadIdx.x == 0)
    *expert = expert_of<E::kExperts>(
        reinterpret_cast<const float*>(s.arena + a.value[1] + i64(t) * E::kRoutingStride), j);
  __syncthreads();
  const int e = expert->e;
  const float by = E::kWeigh ? expert->weight : 1;
  const typename E::X x = input_row<E>(s.arena + a.value[0] + i64(t) * E::kStride0);
  const int panel = 2 * pair + warp() % 2;
  if (e >= 0 && panel * kPanelRows < E::kN) {
    constexpr int kPanels = E::kN / kPanelRows;  // of a matrix
    if (warp() >= 2) {
      const i64 at = E::kJoined ? i64(2 * e + 1) * kPanels + panel : i64(e) * kPanels + panel;
      panel_share<typename E::U, E::kColumns, 1>(
          s.weights + a.weight[E::kUpAt] + at * E::U::template panel_bytes<E::kColumns>(), &x, 0, 1, part[warp()]);
    } else if (E::kGated) {
      const i64 at = E::kJoined ? i64(2 * e) * kPanels + panel : i64(e) * kPanels + panel;
      panel_share<typename E::G, E::kColumns, 1>(
          s.weights + a.weight[0] + at * E::G::template panel_bytes<E::kColumns>(), &x, 0, 1, part[warp()]);
    }
  }
  __syncthreads();
  if (warp() != 0) return;
  const int column = pair * kActBlock + lane(), half = lane() / kPanelRows, n = lane() % kPanelRows;
  float y = 0;
  if (e >= 0 && column < E::kN) {
    float u = part[2 + half][0][n];
    // Biases of joined matrices are joined too: the gates' first.
    constexpr int kBiases = E::kJoined ? 2 * E::kN : E::kN;
    if constexpr (E::kUpScale) u *= reinterpret_cast<const float*>(s.weights + a.weight[E::kUpScaleAt])[e];
    if constexpr (E::kUpBias)
      u += reinterpret_cast<const float*>(s.weights + a.weight[E::kUpBiasAt])[e * kBiases + (E::kJoined ? E::kN : 0) + column];
    u *= by;
    if constexpr (E::kGated) {
      float g = part[half][0][n];
      if constexpr (E::kGateScale) g *= reinterpret_cast<const float*>(s.weights + a.weight[E::kGateScaleAt])[e];
      if constexpr (E::kGateBias)
        g += reinterpret_cast<const float*>(s.weights + a.weight[E::kGateBiasAt])[e * kBiases + column];
      g *= by;
      if constexpr (E::kLimited) u = fmaxf(-E::kLimit, fminf(u, E::kLimit));
      if constexpr (E::kLimited && !E::kLimitOut) g = fminf(g, E::kLimit);
      if constexpr (E::kUpCap > 0) u = E::kUpCap * tanhf(u / E::kUpCap);
      const float capped = E::kGateCap > 0 ? E::kGateCap * tanhf(g / (E::kGateCap > 0 ? E::kGateCap : 1)) : 1;
      g = capped * apply<E::kFn>(g);
      if constexpr (E::kLimited && E::kLimitOut) g = fminf(g, E::kLimit);
      y = g * (u + E::kUpAdd);
    } else {
      y = apply<E::kFn>(u);
    }
  }
  u8* to = s.arena + a.value[2] + i64(t) * E::kOutStride + i64(j) * E::kExpertStride;
  if constexpr (E::kQuantizeOut) {
    quantize_block(y, pair, ActRow<E::kN>{to});
  } else if (column < E::kN) {
    reinterpret_cast<float*>(to)[column] = y;
  }
}

// The sum of a token's experts, in ascending order: block (panel, row). value: x [used] rows, routing, y. weight: down, bias.
template <class E>
__device__ inline void experts_out(const Step& s, const At& a, Expert* expert, float (*part)[1][kPanelRows]) {
  wait_for_previous();
  const int t = blockIdx.y, panel = blockIdx.x, row = panel * kPanelRows + threadIdx.x;
  const float* routing = reinterpret_cast<const float*>(s.arena + a.value[1] + i64(t) * E::kRoutingStride);
  float y = 0;
  for (int j = 0; j < E::kUsed; j++) {
    __syncthreads();  // whoever still reads the last one's
    if (threadIdx.x == 0) *expert = expert_of<E::kExperts>(routing, j);
    __syncthreads();
    const int e = expert->e;
    if (e < 0) break;  // the same for all threads
    const typename E::X x =
        input_row<E>(s.arena + a.value[0] + i64(t) * E::kStride0 + i64(j) * E::kExpertStride);
    const i64 at = i64(e) * (E::kN / kPanelRows) + panel;
    panel_share<typename E::D, E::kColumns, 1>(
        s.weights + a.weight[0] + at * E::D::template panel_bytes<E::kColumns>(), &x, warp(), kWarps, part[warp()]);
    __syncthreads();
    if (threadIdx.x >= kPanelRows) continue;
    float sum = part[0][0][threadIdx.x];
    for (int w = 1; w < kWarps; w++) sum += part[w][0][threadIdx.x];
    if constexpr (E::kBias) sum += reinterpret_cast<const float*>(s.weights + a.weight[1])[e * E::kN + row];
    y = fmaf(E::kWeigh ? expert->weight : 1, sum, y);
  }
  if (threadIdx.x < kPanelRows)
    reinterpret_cast<float*>(s.arena + a.value[2] + i64(t) * E::kOutStride)[row] = y;
}

}  // namespace gc::device

#endif  // GC_EXPERTS_CUH_
