// Products of small matrices by a warp's tensor cores, D = A B + D. All lanes call; lane = 4 g + t has of
//
//   A   16 x k bytes     word 2 h + i: row g + 8 i, columns 16 h + 4 t .. + 3
//   B   k x 8 bytes      word h: rows 16 h + 4 t .. + 3 of column g
//   D   16 x 8           rows g (0, 1) and g + 8 (2, 3), columns 2 t and 2 t + 1
//
// (PTX ISA, "Matrix Fragments for mma.m16n8k16" and "mma.m16n8k32" of 8 bits). Sums are exact, so they are dp4a's.
#ifndef GC_MMA_CUH_
#define GC_MMA_CUH_

namespace gc::device {

#ifdef GC_SHIM
template <int kHalves>
inline void mma_of_lanes(int (&d)[4], const u32 (&a)[2 * kHalves], const u32 (&b)[kHalves]) {
  u32 mine[3 * kHalves];
  for (int i = 0; i < 2 * kHalves; i++) mine[i] = a[i];
  for (int h = 0; h < kHalves; h++) mine[2 * kHalves + h] = b[h];
  const u32* all = gc_shim::share(mine, 3 * kHalves);
  const int g = lane() / 4, t = lane() % 4;
  for (int i = 0; i < 4; i++)
    for (int h = 0; h < kHalves; h++)
      for (int from = 0; from < 4; from++) {
        const u32 x = all[(4 * g + from) * 3 * kHalves + 2 * h + i / 2];
        const u32 y = all[(4 * (2 * t + i % 2) + from) * 3 * kHalves + 2 * kHalves + h];
        d[i] = dot4_u8_s8(x, y, d[i]);
      }
}
#endif

// k = 32: unsigned A, signed B.
__device__ inline void mma_u8_s8(int (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#ifdef GC_SHIM
  mma_of_lanes<2>(d, a, b);
#else
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// k = 16.
__device__ inline void mma_u8_s8(int (&d)[4], const u32 (&a)[2], const u32 (&b)[1]) {
#ifdef GC_SHIM
  mma_of_lanes<1>(d, a, b);
#else
  asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b[0]));
#endif
}

}  // namespace gc::device

#endif  // GC_MMA_CUH_
