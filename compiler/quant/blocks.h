// Blocks of the quantized tensor types, byte for byte as they lie in a GGUF file (little-endian). All are packed:
// alignment 1, so a pointer into a file may be of this type whatever its address.
//
// Fields: `d` is the block's scale, `m` or `dmin` what is added or subtracted, as bits of f16 unless said otherwise.
// "Nibble order split in halves" means: byte j holds value j in its low and value j + n/2 in its high nibble.
// The decoded value y in terms of the fields is stated per struct; reference.cc is its executable form.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gc {

// Bits of an f16 at any address.
struct [[gnu::packed]] F16Bits {
  std::uint16_t bits;
};

// y = d * (q - 8), q: 4 bits, nibbles split in halves.
struct [[gnu::packed]] BlockQ4_0 {
  F16Bits d;
  std::uint8_t qs[16];
};

// y = d * q + m, q: 4 bits, nibbles split in halves.
struct [[gnu::packed]] BlockQ4_1 {
  F16Bits d;
  F16Bits m;
  std::uint8_t qs[16];
};

// y = d * (q - 16), q: low 4 bits as Q4_0, bit 4 of value j is bit j of the u32 qh.
struct [[gnu::packed]] BlockQ5_0 {
  F16Bits d;
  std::uint8_t qh[4];
  std::uint8_t qs[16];
};

// y = d * q + m, q as Q5_0.
struct [[gnu::packed]] BlockQ5_1 {
  F16Bits d;
  F16Bits m;
  std::uint8_t qh[4];
  std::uint8_t qs[16];
};

// y = d * q.
struct [[gnu::packed]] BlockQ8_0 {
  F16Bits d;
  std::int8_t qs[32];
};

// y = d * q; s = d * sum of q, kept for products with formats that have a minimum.
struct [[gnu::packed]] BlockQ8_1 {
  F16Bits d;
  F16Bits s;
  std::int8_t qs[32];
};

// 16 groups of 16: y = d * scale * q - dmin * min; scales[g] = scale | min << 4.
// q: 2 bits; each half of 128 values has 32 bytes, byte l holds values l, l+32, l+64, l+96 in bit pairs from below.
struct [[gnu::packed]] BlockQ2_K {
  std::uint8_t scales[16];
  std::uint8_t qs[64];
  F16Bits d;
  F16Bits dmin;
};

// 16 groups of 16: y = d * (scale - 32) * (q - 4), q: low 2 bits as Q2_K, bit 2 of value i in bit i/32 of
// hmask[i%32]. Scales are 6 bits: low 4 of g in nibble g/8 of scales[g%8], high 2 in bit pair g/4 of scales[8+g%4].
struct [[gnu::packed]] BlockQ3_K {
  std::uint8_t hmask[32];
  std::uint8_t qs[64];
  std::uint8_t scales[12];
  F16Bits d;
};

// 8 groups of 32: y = d * scale * q - dmin * min, scale and min of 6 bits: groups 0-3 in the low 6 bits of
// scales[g] and scales[4+g]; groups 4-7 have low 4 bits in the nibbles of scales[4+g] (scale low, min high), and
// their top 2 bits above the 6 of scales[g-4] and scales[g].
// q: 4 bits; each pair of groups shares 32 bytes, first group in the low nibbles.
struct [[gnu::packed]] BlockQ4_K {
  F16Bits d;
  F16Bits dmin;
  std::uint8_t scales[12];
  std::uint8_t qs[128];
};

// As Q4_K; bit 4 of value i is bit i/32 of qh[i%32].
struct [[gnu::packed]] BlockQ5_K {
  F16Bits d;
  F16Bits dmin;
  std::uint8_t scales[12];
  std::uint8_t qh[32];
  std::uint8_t qs[128];
};

// 16 groups of 16: y = d * scale * (q - 32). Each half of 128 values has 64 bytes of ql (values 0-63 in the low
// nibbles, 64-127 in the high ones) and 32 bytes of qh (byte l: bits 4-5 of values l, l+32, l+64, l+96).
struct [[gnu::packed]] BlockQ6_K {
  std::uint8_t ql[128];
  std::uint8_t qh[64];
  std::int8_t scales[16];
  F16Bits d;
};

// y = d * q, d is f32; bsums are sums of 16 values each.
struct [[gnu::packed]] BlockQ8_K {
  float d;
  std::int8_t qs[256];
  std::int16_t bsums[16];
};

// 8 groups of 32: y = d * (2*scale + 1) * (grid(index)[k] + delta), grids of 8 values in {-1, 0, 1}.
// qh[g]: high 3 bits of the 4 indices of 11 bits, then 3 bits of scale, then the sign of delta = 1/8.
struct [[gnu::packed]] BlockIQ1_S {
  F16Bits d;
  std::uint8_t qs[32];
  std::uint16_t qh[8];
};

// As IQ1_S with 16 groups of 16 and a delta per 8 values. The f16 d is spread over the top nibbles of the four
// 16-bit words of `scales`, whose low 12 bits hold four scales of 3 bits.
struct [[gnu::packed]] BlockIQ1_M {
  std::uint8_t qs[32];
  std::uint8_t qh[16];
  std::uint16_t scales[4];
};

// 8 groups of 32: y = d * (scale + 0.5) / 4 * grid(index)[k] * sign. Per group 8 bytes: 4 indices of 8 bits, then
// a u32 with four sign patterns of 7 bits (the eighth sign makes the number of minus signs even) and 4 bits of scale.
struct [[gnu::packed]] BlockIQ2_XXS {
  F16Bits d;
  std::uint8_t qs[64];
};

// As IQ2_XXS with 9-bit indices beside their 7-bit sign patterns, and a 4-bit scale per 16 values.
struct [[gnu::packed]] BlockIQ2_XS {
  F16Bits d;
  std::uint16_t qs[32];
  std::uint8_t scales[8];
};

// As IQ2_XS with 10-bit indices (high 2 bits in qh) and all 8 signs stored.
struct [[gnu::packed]] BlockIQ2_S {
  F16Bits d;
  std::uint8_t qs[32];
  std::uint8_t signs[32];
  std::uint8_t qh[8];
  std::uint8_t scales[8];
};

// 8 groups of 32: y = d * (scale + 0.5) / 2 * grid(index)[k] * sign, grids of 4 values; `scales` as IQ2_XXS's u32.
struct [[gnu::packed]] BlockIQ3_XXS {
  F16Bits d;
  std::uint8_t qs[64];
  std::uint32_t scales[8];
};

// y = d * (2*scale + 1) * grid(index)[k] * sign, 9-bit indices of grids of 4 values, all signs stored.
struct [[gnu::packed]] BlockIQ3_S {
  F16Bits d;
  std::uint8_t qs[64];
  std::uint8_t qh[8];
  std::uint8_t signs[32];
  std::uint8_t scales[4];
};

// y = d * kIq4Values[q], nibbles split in halves.
struct [[gnu::packed]] BlockIQ4_NL {
  F16Bits d;
  std::uint8_t qs[16];
};

// 8 groups of 32, each laid out as IQ4_NL: y = d * (scale - 32) * kIq4Values[q], scale: low 4 bits in nibbles of
// scales_l, high 2 in bit pairs of scales_h.
struct [[gnu::packed]] BlockIQ4_XS {
  F16Bits d;
  std::uint16_t scales_h;
  std::uint8_t scales_l[4];
  std::uint8_t qs[128];
};

// y = d * (t - 1), five base-3 digits t a byte (four in qh): digit k of byte b is ((b * 3^k mod 256) * 3) >> 8.
// The first 32 bytes of qs hold values k*32 + j, the other 16 hold 160 + k*16 + j, qh holds 240 + k*4 + j.
struct [[gnu::packed]] BlockTQ1_0 {
  std::uint8_t qs[48];
  std::uint8_t qh[4];
  F16Bits d;
};

// y = d * (q - 1), 2 bits laid out as Q2_K.
struct [[gnu::packed]] BlockTQ2_0 {
  std::uint8_t qs[64];
  F16Bits d;
};

// y = 2^(e - 128) * kFp4Values[q] (the values are doubled, hence 128), nibbles split in halves.
struct [[gnu::packed]] BlockMXFP4 {
  std::uint8_t e;
  std::uint8_t qs[16];
};

// 4 groups of 16: y = ue4m3(d[g]) / 2 * kFp4Values[q]; each group has 8 bytes, nibbles split in halves.
struct [[gnu::packed]] BlockNVFP4 {
  std::uint8_t d[4];
  std::uint8_t qs[32];
};

// y = d or -d: bit j%8 of qs[j/8] set means d.
struct [[gnu::packed]] BlockQ1_0 {
  F16Bits d;
  std::uint8_t qs[16];
};

// y = d * (q - 1), value j in bit pair j%4 of qs[j/4].
struct [[gnu::packed]] BlockQ2_0 {
  F16Bits d;
  std::uint8_t qs[16];
};

// y = d * (q - 32), q: low 4 bits as Q4_0, high 2 bits of values j, j + 8, j + 16, j + 24 in bit pairs 0, 2, 1, 3 of
// qh[j].
struct [[gnu::packed]] BlockQ6_0 {
  F16Bits d;
  std::uint8_t qh[8];
  std::uint8_t qs[16];
};

// The IQ*_K: 16 groups of 16, y = d * scale * (table[q] + shift * bit g of extra), tables below.
// IQ2_K: scale = 4 bits - 8, in nibbles; q: 2 bits laid out as Q2_K.
struct [[gnu::packed]] BlockIQ2_K {
  F16Bits d;
  std::uint16_t extra;
  std::uint8_t scales[8];
  std::uint8_t qs[64];
};

// scale = 2 * (4 bits) + 1, negative where bit g of signs is set; q: low 2 bits as Q2_K, bit 2 of value i is bit i/32
// of qh[i%32].
struct [[gnu::packed]] BlockIQ3_K {
  F16Bits d;
  std::uint16_t extra;
  std::uint16_t signs;
  std::uint8_t scales[8];
  std::uint8_t qs[64];
  std::uint8_t qh[32];
};

// scale = 6 bits - 32, low 4 in nibbles of scales_l, high 2 in bit pairs of scales_h; each 32 values have 16 bytes of
// q as IQ4_NL.
struct [[gnu::packed]] BlockIQ4_K {
  F16Bits d;
  std::uint16_t extra;
  std::uint8_t scales_h[4];
  std::uint8_t scales_l[8];
  std::uint8_t qs[128];
};

// Scales as IQ4_K; q: low 4 bits as Q4_K, bit 4 of value i is bit i/32 of qh[i%32].
struct [[gnu::packed]] BlockIQ5_K {
  F16Bits d;
  std::uint16_t extra;
  std::uint8_t scales_h[4];
  std::uint8_t scales_l[8];
  std::uint8_t qs[128];
  std::uint8_t qh[32];
};

// Scales are whole bytes; q: low 4 bits as Q4_K, high 2 laid out as Q2_K. Products multiply by kIq6KValues; decoders
// elsewhere may give values of a smooth curve through them, off by at most 0.7 before the scale.
struct [[gnu::packed]] BlockIQ6_K {
  F16Bits d;
  std::uint16_t extra;
  std::int8_t scales[16];
  std::uint8_t qs[128];
  std::uint8_t qh[64];
};

// The IQ*_KS: d stands in front of the row, 8 groups of 32: y = d * scale * (table[q] + shift * a bit), the IQ*_K's
// tables. IQ2_KS: scale = 5 bits - 16, low 4 in nibbles, the top one bit 8 + g of extra, whose bit g is the shift's.
struct [[gnu::packed]] BlockIQ2_KS {
  std::uint16_t extra;
  std::uint8_t scales[4];
  std::uint8_t qs[64];
};

// As IQ2_KS, with extra's halves the other way round; nibbles of scales: groups 0-3 low, 4-7 high. q as IQ3_K.
struct [[gnu::packed]] BlockIQ3_KS {
  std::uint16_t extra;
  std::uint8_t scales[4];
  std::uint8_t qs[64];
  std::uint8_t qh[32];
};

// scale = the byte without its lowest bit - 127, the bit is the shift's; q as IQ4_NL, 16 bytes a group.
struct [[gnu::packed]] BlockIQ4_KS {
  std::uint8_t scales[8];
  std::uint8_t qs[128];
};

// Scales as IQ4_KS, q as IQ5_K.
struct [[gnu::packed]] BlockIQ5_KS {
  std::uint8_t scales[8];
  std::uint8_t qs[128];
  std::uint8_t qh[32];
};

// As IQ4_KS: the lowest bits of a group's 8 words are its scale's byte; the other 15, w, stand for the four codes of
// w ^ w >> 1 (kss_codes).
struct [[gnu::packed]] BlockIQ4_KSS {
  std::uint16_t qs[8][8];
};

// d in front of the row, 8 groups of 32: y = d * (scale - 32) * kIq3KValues of both codes of kIq2KlPairs[q]. Low 4 bits
// of scales in nibbles (groups 0-3 low, 4-7 high), high 2 in pairs of scales_h; q: a byte of qs holds a pair of values of
// one group (low nibble) and of the next; bit 4 of pair j of group g is bit g of qh[j].
struct [[gnu::packed]] BlockIQ2_KL {
  std::uint16_t scales_h;
  std::uint8_t scales_l[4];
  std::uint8_t qs[64];
  std::uint8_t qh[16];
};

// d in front of the row: y = d * (t - 1), base-3 digits t as TQ1_0's, the lowest first. Byte k of qs holds 5 values from
// k / 3 * 16 + k % 3 * 5 on, extra those that this leaves out: 15, 31, 47, 63.
struct [[gnu::packed]] BlockIQ1_BN {
  std::uint8_t qs[12];
  std::uint8_t extra;
};

// d in front of the row: y = d * (q - 1), bits 2 k of qs[j] have value 16 k + j.
struct [[gnu::packed]] BlockIQ2_BN {
  std::uint8_t qs[16];
};

// The IQ*_KT: d in front of the row, 8 groups of 32: y = d * scale * trellis values, which follow from one index for 8
// (IQ4_KT: 4) values. The scales of IQ1_KT and IQ2_KT are kIq4Values[4 bits].
// IQ2_KT: indices of 16 bits; nibbles of scales: groups 0-3 low, 4-7 high.
struct [[gnu::packed]] BlockIQ2_KT {
  std::uint8_t scales[4];
  std::uint16_t qs[32];
};

// As IQ2_KT, of the magnitudes of trellis values, negative where bit i / 32 of qh[i % 32] is set; the scale is 4 bits.
struct [[gnu::packed]] BlockIQ3_KT {
  std::uint8_t scales[4];
  std::uint16_t qs[32];
  std::uint8_t qh[32];
};

// Indices of 15 bits: low 8 in ql, next 4 in nibbles of qh (indices 0-31 low, 32-63 high), top 3 in the word of their
// group above its lowest byte, which has the sequence's choice in bit 0 and scale + 64 above.
struct [[gnu::packed]] BlockIQ4_KT {
  std::uint32_t groups[8];
  std::uint8_t ql[64];
  std::uint8_t qh[32];
};

// Indices of 13 bits: low 8 in ql, next 4 in nibbles of qh (indices 0-15 low, 16-31 high), the top one in the high half
// of their group's byte of sh, whose low half is the scale.
struct [[gnu::packed]] BlockIQ1_KT {
  std::uint8_t sh[8];
  std::uint8_t ql[32];
  std::uint8_t qh[16];
};

// As a group of IQ1_S, with d in front of the row.
struct [[gnu::packed]] BlockIQ1_S_R4 {
  std::uint8_t qs[4];
  std::uint16_t qh;
};

// As two groups of IQ1_M, with d in front of the row; their scales are the two nibbles.
struct [[gnu::packed]] BlockIQ1_M_R4 {
  std::uint8_t qs[4];
  std::uint8_t qh[2];
  std::uint8_t scales;
};

// The struct of a quantized format has the size that the table says.
#define CHECK_kFloat(name, bytes)
#define CHECK_kInt(name, bytes)
#define CHECK_kBlock(name, bytes)                                            \
  static_assert(sizeof(Block##name) == (bytes) && alignof(Block##name) == 1, \
                "Block" #name " is not as formats.def says");
#define FORMAT(name, gguf_id, block_values, block_bytes, kind, scale_values, head) \
  CHECK_##kind(name, block_bytes)
#include "compiler/quant/formats.def"
#undef FORMAT
#undef CHECK_kFloat
#undef CHECK_kInt
#undef CHECK_kBlock

// Values of a 4-bit code of IQ4_NL and IQ4_XS.
inline constexpr std::int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};

// Tables and shifts of the IQ*_K; IQ4_K has that of IQ4_NL.
inline constexpr std::int8_t kIq2KValues[4] = {-31, -13, 1, 17};
inline constexpr std::int8_t kIq3KValues[8] = {-63, -40, -23, -10, 1, 13, 28, 47};
inline constexpr std::int8_t kIq5KValues[32] = {-126, -114, -103, -92, -83, -74, -65, -57, -50, -43, -36,
                                                -30,  -24,  -18,  -12, -6,  -1,  5,   11,  17,  23,  29,
                                                36,   43,   51,   59,  68,  77,  87,  97,  109, 121};
inline constexpr std::int8_t kIq6KValues[64] = {
    -127, -121, -115, -109, -104, -98, -93, -88, -84, -79, -74, -70, -66, -62, -58, -54,
    -51,  -47,  -44,  -40,  -37,  -34, -31, -28, -25, -22, -19, -16, -13, -11, -8,  -5,
    -2,   0,    3,    6,    9,    12,  14,  17,  20,  23,  27,  30,  33,  36,  40,  44,
    47,   51,   55,   59,   63,   68,  72,  77,  82,  87,  92,  98,  103, 109, 115, 121};
inline constexpr int kIq2KShift = 5, kIq3KShift = 4, kIq4KShift = 4, kIq5KShift = 2, kIq6KShift = 1;

// Codes of the pairs of IQ2_KL, octal: the first value's is the last digit.
inline constexpr std::uint8_t kIq2KlPairs[32] = {020, 050, 001, 031, 051, 071, 012, 022, 042, 052, 062,
                                                 003, 043, 053, 073, 024, 034, 044, 054, 064, 015, 025,
                                                 035, 045, 055, 006, 026, 046, 066, 076, 027, 057};

// Twice the values of an e2m1 code (MXFP4, NVFP4).
inline constexpr std::int8_t kFp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Scale and minimum of group g (0-7) of Q4_K and Q5_K, 6 bits each.
struct ScaleMin {
  std::uint8_t scale;
  std::uint8_t min;
};
constexpr ScaleMin k_scale_min(const std::uint8_t (&scales)[12], int g) {
  if (g < 4)
    return {static_cast<std::uint8_t>(scales[g] & 63), static_cast<std::uint8_t>(scales[g + 4] & 63)};
  const std::uint8_t low = scales[g + 4];
  return {static_cast<std::uint8_t>((low & 15) | (scales[g - 4] >> 6) << 4),
          static_cast<std::uint8_t>(low >> 4 | (scales[g] >> 6) << 4)};
}

// Scale of group g (0-15) of IQ3_K, odd, -31 to 31.
constexpr int iq3_k_scale(const std::uint8_t (&scales)[8], std::uint16_t signs, int g) {
  const int magnitude = 2 * (scales[g / 2] >> (g % 2 * 4) & 15) + 1;
  return signs >> g & 1 ? -magnitude : magnitude;
}

// Scale of group g (0-15) of IQ4_K and IQ5_K, -32 to 31.
constexpr int iq4_k_scale(const std::uint8_t (&low)[8], const std::uint8_t (&high)[4], int g) {
  return ((low[g / 2] >> (g % 2 * 4) & 15) | (high[g / 4] >> (g % 4 * 2) & 3) << 4) - 32;
}

// Scale of group g (0-7) of the IQ*_KS.
constexpr int iq2_ks_scale(const std::uint8_t (&low)[4], std::uint16_t extra, int g) {
  return ((low[g / 2] >> (g % 2 * 4) & 15) | (extra >> (8 + g) & 1) << 4) - 16;
}
constexpr int iq3_ks_scale(const std::uint8_t (&low)[4], std::uint16_t extra, int g) {
  return ((low[g % 4] >> (g / 4 * 4) & 15) | (extra >> g & 1) << 4) - 16;
}
constexpr int iq4_ks_scale(std::uint8_t byte) { return (byte & 254) - 127; }
constexpr int iq2_kl_scale(const std::uint8_t (&low)[4], std::uint16_t high, int g) {
  return ((low[g % 4] >> (g / 4 * 4) & 15) | (high >> (2 * g) & 3) << 4) - 32;
}

// Byte of scale and four codes a word (lowest first, of values j, j + 16, j + 1, j + 17 of word j / 2) of an IQ4_KSS group.
constexpr std::uint8_t kss_scale(const std::uint16_t (&words)[8]) {
  int byte = 0;
  for (int k = 0; k < 8; ++k) byte |= (words[k] & 1) << k;
  return static_cast<std::uint8_t>(byte);
}
constexpr std::uint16_t kss_codes(std::uint16_t word) {
  const int w = word & 0xfffe;
  return static_cast<std::uint16_t>(w ^ w >> 1);
}

// Codes of kIq3KValues of values 2 j and 2 j + 1 of group g (0-7) of IQ2_KL: kIq2KlPairs' entry.
constexpr std::uint8_t iq2_kl_pair(const std::uint8_t (&qs)[64], const std::uint8_t (&qh)[16], int g, int j) {
  return kIq2KlPairs[(qs[g / 2 * 16 + j] >> (g % 2 * 4) & 15) | (qh[j] >> g & 1) << 4];
}

inline constexpr std::uint32_t kTrellisFactor = 0xCBAC1FED, kTrellisMask = 0x3f3f3f3f;
// Calls value(i, v) with the n trellis values, -126 to 126, of an index: a multiplicative random sequence, of each word the
// sum of four fields of 6 bits.
template <class Value>
constexpr void trellis(std::uint32_t index, int n, Value value) {
  for (int i = 0; i < n; ++i) {
    index *= kTrellisFactor;
    const std::uint32_t s = index & kTrellisMask;
    value(i, static_cast<int>((s & 255) + (s >> 8 & 255) + (s >> 16 & 255) + (s >> 24)) - 126);
  }
}
inline constexpr std::uint32_t kTrellisStart = 4096;  // added to every index
inline constexpr std::int32_t kTrellisOffset = 126;   // values are sums of bytes, 0 to 252, less this

// Nibble of group g (0-7) of IQ2_KT and IQ3_KT.
constexpr int kt_scale(const std::uint8_t (&scales)[4], int g) { return scales[g % 4] >> (g / 4 * 4) & 15; }

constexpr int iq4_kt_scale(std::uint32_t group) { return static_cast<int>(group >> 1 & 127) - 64; }
// Where the sequence of index i (0-63) of IQ4_KT starts.
constexpr std::uint32_t iq4_kt_start(const BlockIQ4_KT& b, int i) {
  const std::uint32_t group = b.groups[i / 8];
  const std::uint32_t index =
      b.ql[i] | (b.qh[i % 32] >> (i / 32 * 4) & 15u) << 8 | (group >> (8 + i % 8 * 3) & 7) << 12;
  return index + kTrellisStart + (group & 1) * 32768;
}
// Of index i (0-31) of IQ1_KT.
constexpr std::uint32_t iq1_kt_start(const BlockIQ1_KT& b, int i) {
  const std::uint32_t index =
      b.ql[i] | (b.qh[i % 16] >> (i / 16 * 4) & 15u) << 8 | (b.sh[i / 4] >> (4 + i % 4) & 1u) << 12;
  return index + kTrellisStart;
}

// Digit k of a byte of base-3 digits, 0 the highest: the byte holds the number scaled so that this one is at the top.
constexpr int trit(std::uint8_t byte, int k) {
  constexpr int kPowers[] = {1, 3, 9, 27, 81};
  return (static_cast<std::uint8_t>(byte * kPowers[k]) * 3) >> 8;
}

// t of value i (0-63).
constexpr int iq1_bn_trit(const BlockIQ1_BN& b, int i) {
  const int at = i % 16;
  return at < 15 ? trit(b.qs[i / 16 * 3 + at / 5], 4 - at % 5) : trit(b.extra, 4 - i / 16);
}

// Scale of group g (0-15) of Q3_K, -32 to 31.
constexpr int q3_k_scale(const std::uint8_t (&scales)[12], int g) {
  const int low = scales[g % 8] >> (4 * (g / 8)) & 15;
  const int high = scales[8 + g % 4] >> (2 * (g / 4)) & 3;
  return (low | high << 4) - 32;
}

}  // namespace gc
