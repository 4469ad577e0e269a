// Packed weights (compiler/quant/layouts.h) in registers. A format F is a struct of literals that the compiler writes from
// its row of layouts.def (codegen_cuda/formats.cc):
//
//   kind             of F::kFloat formats: F32, F16, BF16 in FloatKind; the rest is of block formats
//   planes, bits(i), at(i)    planes of bits, lowest first
//   has_table, table(i)       what codes of 4 bits stand for: four words of four bytes
//   offset, unit     weight = scale (q - offset) + min
//   scale, min       ScaleKind, of scale_cols columns each; entry_cols: columns that share an entry
//   supers, super_f32         factors of a group
//   shift            what the min adds to q where it is a bit or byte beside the scale
//
// and of a group of 256 columns and of the shorter one at the end (Group): where its parts begin.
#ifndef GC_DECODE_CUH_
#define GC_DECODE_CUH_

namespace gc::device {

enum class FloatKind { None, F32, F16, BF16 };
enum class ScaleKind { None, F16, U8, I8, Low4, High4, I7, Bit, Odd7, OddBit, E8M0, UE4M3 };

struct Group {
  int scales, mins, quants, bytes;
};

__host__ __device__ constexpr int entry_bytes(ScaleKind kind) {
  return kind == ScaleKind::None ? 0 : kind == ScaleKind::F16 ? 2 : 1;
}

// x / 2 of an exponent's byte: 2^(e - 128), its two smallest subnormal.
__device__ inline float half_of_e8m0(u32 e) { return f32_of_bits(e < 2 ? 0x00200000u << e : (e - 1) << 23); }
// x / 2 of a float of 4 exponent and 3 mantissa bits.
__device__ inline float half_of_ue4m3(u32 x) {
  if (x == 0 || x == 127) return 0;
  const u32 e = x >> 3 & 15, m = x & 7;
  return e == 0 ? float(m) * (1.0f / 1024) : f32_of_bits((e + 119) << 23 | m << 20);
}

// An entry of scales or mins; `super` is the group's factor, with the shift where the kind is a bit.
template <ScaleKind kind>
__device__ inline float factor(const u8* p, int row, float super) {
  if constexpr (kind == ScaleKind::None) return 0;
  if constexpr (kind == ScaleKind::F16) return f32_of_f16(reinterpret_cast<const u16*>(p)[row]);
  const int x = p[row];
  if constexpr (kind == ScaleKind::U8) return super * float(x);
  if constexpr (kind == ScaleKind::I8) return super * float(i8(x));
  if constexpr (kind == ScaleKind::Low4) return super * float(x & 15);
  if constexpr (kind == ScaleKind::High4) return super * float(x >> 4);
  if constexpr (kind == ScaleKind::I7) return super * float(i8(x) >> 1);
  if constexpr (kind == ScaleKind::Bit) return (x & 1) ? super * float(i8(x) >> 1) : 0;
  if constexpr (kind == ScaleKind::Odd7) return super * float((x & 254) - 127);
  if constexpr (kind == ScaleKind::OddBit) return (x & 1) ? super * float((x & 254) - 127) : 0;
  if constexpr (kind == ScaleKind::E8M0) return half_of_e8m0(u32(x));
  if constexpr (kind == ScaleKind::UE4M3) return half_of_ue4m3(u32(x));
}

template <class F>
__device__ inline float super_at(const u8* group, int i) {
  const float x = F::super_f32 ? reinterpret_cast<const float*>(group)[i]
                               : f32_of_f16(reinterpret_cast<const u16*>(group)[i]);
  return F::unit * x;
}

// Scale and min of a block's half `half` (always 0 where scales have 32 columns or more), row `row` of the panel.
struct Factors {
  float scale, min;
};
template <class F>
__device__ inline Factors factors(const u8* group, Group at, int block, int half, int row) {
  const int entry = (block * kActBlock + half * F::scale_cols) / F::entry_cols;
  const float d = F::supers > 0 ? super_at<F>(group, row) : 1;
  float dmin = 1;
  if (F::supers > 1) dmin = -super_at<F>(group, kPanelRows + row);
  if (F::shift != 0) dmin = d * float(F::shift);
  const u8* scales = group + at.scales + entry * kPanelRows * entry_bytes(F::scale);
  const u8* mins = group + at.mins + entry * kPanelRows * entry_bytes(F::min);
  return {factor<F::scale>(scales, row, d), factor<F::min>(mins, row, dmin)};
}

// Entries of a table of 16 bytes for four codes of 4 bits.
template <class F>
__device__ inline u32 look_up(u32 codes) {
  u32 select = codes & 0x07070707u;
  select = (select | select >> 4) & 0x00ff00ffu;
  select = (select | select >> 8) & 0xffffu;
  const u32 lower = permute_bytes(F::table(0), F::table(1), select);
  const u32 upper = permute_bytes(F::table(2), F::table(3), select);
  const u32 high = (codes >> 3 & 0x01010101u) * 255u;
  return (lower & ~high) | (upper & high);
}

// The q of a block of 32 columns of four neighbouring rows: word 4 s + r has the four columns of step s of row r.
template <class F>
struct Codes {
  u32 q[8][4];

  // quants: the block's; quad: which four rows.
  __device__ void load(const u8* quants, int quad) {
#pragma unroll
    for (int s = 0; s < 8; s++)
      for (int r = 0; r < 4; r++) q[s][r] = 0;
#pragma unroll
    for (int i = 0; i < F::planes; i++) {
      const int bits = F::bits(i), per_vector = 8 / bits;
      const u32 mask = (1u << bits) - 1;
#pragma unroll
      for (int v = 0; v < bits; v++) {
        const Words4 w = load16(quants + 64 * v + 16 * quad);
#pragma unroll
        for (int j = 0; j < per_vector; j++)
#pragma unroll
          for (int r = 0; r < 4; r++)
            q[v * per_vector + j][r] |= (w.w[r] >> (bits * j) & mask * 0x01010101u) << F::at(i);
      }
      quants += 64 * bits;
    }
    if constexpr (F::has_table)
      for (int s = 0; s < 8; s++)
        for (int r = 0; r < 4; r++) q[s][r] = look_up<F>(q[s][r]);
  }
};

// One weight by itself, for embeddings: column k of row `row` of a panel of K columns.
template <class F, int K>
__device__ inline float element(const u8* panel, int row, int k) {
  if constexpr (F::kind == FloatKind::F32) return reinterpret_cast<const float*>(panel)[k * kPanelRows + row];
  if constexpr (F::kind == FloatKind::F16)
    return f32_of_f16(reinterpret_cast<const u16*>(panel)[k * kPanelRows + row]);
  if constexpr (F::kind == FloatKind::BF16)
    return f32_of_bf16(reinterpret_cast<const u16*>(panel)[(k / 2 * kPanelRows + row) * 2 + k % 2]);
  if constexpr (F::kind == FloatKind::None) {
    constexpr Group whole = F::template group<K>(false), tail = F::template group<K>(true);
    const int g = k / kGroupCols, block = k % kGroupCols / kActBlock, c = k % kActBlock;
    const u8* group = panel + i64(g) * whole.bytes;
    const Group at = g == K / kGroupCols ? tail : whole;
    const u8* quants = group + at.quants + block * F::block_bytes;
    u32 code = 0;
    for (int i = 0; i < F::planes; i++) {
      const int bits = F::bits(i), per_vector = 8 / bits, step = c / 4;
      const u32 word = quants[step / per_vector * 64 + 4 * row + c % 4];
      code |= (word >> (bits * (step % per_vector)) & ((1u << bits) - 1)) << F::at(i);
      quants += 64 * bits;
    }
    if constexpr (F::has_table) code = look_up<F>(code) & 255;
    const Factors f = factors<F>(group, at, block, c / F::scale_cols, row);
    return f.scale * float(int(code) - F::offset) + f.min;
  }
}

}  // namespace gc::device

#endif  // GC_DECODE_CUH_
