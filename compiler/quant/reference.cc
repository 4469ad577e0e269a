// Each decoder is the formula of blocks.h written out. The order of the operations is part of it: products and sums
// are rounded to f32 one by one, so contraction into FMA is off.
#include "compiler/quant/reference.h"

#include <cstdlib>
#include <cstring>

#include "compiler/base/error.h"
#include "compiler/quant/blocks.h"
#include "compiler/quant/codebooks.h"
#include "compiler/quant/float16.h"

#pragma STDC FP_CONTRACT OFF

namespace gc {
namespace {

float f32(F16Bits half) { return f32_of_f16(half.bits); }

// Formats of 32 values with nibbles split in halves: value(block, j, 4-bit code) of each.
template <class Block, class Value>
void decode_halves(const Block& b, float* y, Value value) {
  for (int j = 0; j < 16; ++j) {
    y[j] = value(j, b.qs[j] & 15);
    y[j + 16] = value(j + 16, b.qs[j] >> 4);
  }
}

void decode(const BlockQ4_0& b, float* y) {
  const float d = f32(b.d);
  decode_halves(b, y, [&](int, int q) { return d * static_cast<float>(q - 8); });
}

void decode(const BlockQ4_1& b, float* y) {
  const float d = f32(b.d), m = f32(b.m);
  decode_halves(b, y, [&](int, int q) { return d * static_cast<float>(q) + m; });
}

// The fifth bit of value j, in place.
int high_bit(const std::uint8_t (&qh)[4], int j) { return (qh[j / 8] >> (j % 8) & 1) << 4; }

void decode(const BlockQ5_0& b, float* y) {
  const float d = f32(b.d);
  decode_halves(b, y, [&](int j, int q) { return d * static_cast<float>((q | high_bit(b.qh, j)) - 16); });
}

void decode(const BlockQ5_1& b, float* y) {
  const float d = f32(b.d), m = f32(b.m);
  decode_halves(b, y, [&](int j, int q) { return d * static_cast<float>(q | high_bit(b.qh, j)) + m; });
}

void decode(const BlockQ8_0& b, float* y) {
  const float d = f32(b.d);
  for (int j = 0; j < 32; ++j) y[j] = d * static_cast<float>(b.qs[j]);
}

void decode(const BlockQ8_1& b, float* y) {
  const float d = f32(b.d);
  for (int j = 0; j < 32; ++j) y[j] = d * static_cast<float>(b.qs[j]);
}

// Two bits of value i in the layout that Q2_K, Q3_K and TQ2_0 share.
int two_bits(const std::uint8_t (&qs)[64], int i) {
  return qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

void decode(const BlockQ2_K& b, float* y) {
  const float d = f32(b.d), dmin = f32(b.dmin);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(b.scales[i / 16] & 15);
    const float min = dmin * static_cast<float>(b.scales[i / 16] >> 4);
    y[i] = scale * static_cast<float>(two_bits(b.qs, i)) - min;
  }
}

void decode(const BlockQ3_K& b, float* y) {
  const float d = f32(b.d);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(q3_k_scale(b.scales, i / 16));
    const int q = two_bits(b.qs, i) | (b.hmask[i % 32] >> (i / 32) & 1) << 2;
    y[i] = scale * static_cast<float>(q - 4);
  }
}

// Four bits of value i of Q4_K and Q5_K.
int four_bits(const std::uint8_t (&qs)[128], int i) {
  return qs[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
}

void decode(const BlockQ4_K& b, float* y) {
  const float d = f32(b.d), dmin = f32(b.dmin);
  for (int i = 0; i < 256; ++i) {
    const ScaleMin sm = k_scale_min(b.scales, i / 32);
    const float scale = d * static_cast<float>(sm.scale), min = dmin * static_cast<float>(sm.min);
    y[i] = scale * static_cast<float>(four_bits(b.qs, i)) - min;
  }
}

void decode(const BlockQ5_K& b, float* y) {
  const float d = f32(b.d), dmin = f32(b.dmin);
  for (int i = 0; i < 256; ++i) {
    const ScaleMin sm = k_scale_min(b.scales, i / 32);
    const float scale = d * static_cast<float>(sm.scale), min = dmin * static_cast<float>(sm.min);
    const int q = four_bits(b.qs, i) | (b.qh[i % 32] >> (i / 32) & 1) << 4;
    y[i] = scale * static_cast<float>(q) - min;
  }
}

void decode(const BlockQ6_K& b, float* y) {
  const float d = f32(b.d);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, k = i % 128, group = i / 16;
    const int low = b.ql[half * 64 + k % 64] >> (k / 64 * 4) & 15;
    const int high = b.qh[half * 32 + k % 32] >> (k / 32 * 2) & 3;
    const float scale = d * static_cast<float>(b.scales[group]);
    y[i] = scale * static_cast<float>((low | high << 4) - 32);
  }
}

void decode(const BlockQ8_K& b, float* y) {
  for (int j = 0; j < 256; ++j) y[j] = b.d * static_cast<float>(b.qs[j]);
}

// Eight values of a grid of IQ2 with their signs (bit k set: minus).
void decode_grid8(std::uint16_t grid, std::uint8_t signs, float scale, float* y) {
  for (int k = 0; k < 8; ++k) {
    const float magnitude = scale * static_cast<float>(kIq2Values[grid >> (2 * k) & 3]);
    y[k] = magnitude * (signs >> k & 1 ? -1.0f : 1.0f);
  }
}

// Four values of a grid of IQ3; bits first..first+3 of signs are theirs.
void decode_grid4(std::uint16_t grid, const std::int8_t (&values)[8], int signs, float scale, float* y) {
  for (int k = 0; k < 4; ++k) {
    const float magnitude = scale * static_cast<float>(values[grid >> (3 * k) & 7]);
    y[k] = magnitude * (signs >> k & 1 ? -1.0f : 1.0f);
  }
}

// 4-bit scale s of a group with a half added: exact.
float half_scale(float d, int s) { return d * (0.5f + static_cast<float>(s)); }

void decode(const BlockIQ2_XXS& b, float* y) {
  for (int g = 0; g < 8; ++g) {
    std::uint32_t word;
    std::memcpy(&word, &b.qs[g * 8 + 4], 4);
    const float scale = half_scale(f32(b.d), static_cast<int>(word >> 28)) * 0.25f;
    for (int k = 0; k < 4; ++k, y += 8) {
      decode_grid8(kGridIq2Xxs[b.qs[g * 8 + k]], iq_signs(word >> (7 * k)), scale, y);
    }
  }
}

void decode(const BlockIQ2_XS& b, float* y) {
  for (int k = 0; k < 32; ++k, y += 8) {
    const int s = b.scales[k / 4] >> (k / 2 % 2 * 4) & 15;
    const std::uint16_t code = b.qs[k];
    decode_grid8(kGridIq2Xs[code & 511], iq_signs(code >> 9), half_scale(f32(b.d), s) * 0.25f, y);
  }
}

void decode(const BlockIQ2_S& b, float* y) {
  for (int k = 0; k < 32; ++k, y += 8) {
    const int s = b.scales[k / 4] >> (k / 2 % 2 * 4) & 15;
    const int index = b.qs[k] | (b.qh[k / 4] >> (k % 4 * 2) & 3) << 8;
    decode_grid8(kGridIq2S[index], b.signs[k], half_scale(f32(b.d), s) * 0.25f, y);
  }
}

void decode(const BlockIQ3_XXS& b, float* y) {
  for (int g = 0; g < 8; ++g) {
    const std::uint32_t word = b.scales[g];
    const float scale = half_scale(f32(b.d), static_cast<int>(word >> 28)) * 0.5f;
    for (int k = 0; k < 8; ++k, y += 4) {
      const int signs = iq_signs(word >> (k / 2 * 7)) >> (k % 2 * 4);
      decode_grid4(kGridIq3Xxs[b.qs[g * 8 + k]], kIq3XxsValues, signs, scale, y);
    }
  }
}

void decode(const BlockIQ3_S& b, float* y) {
  for (int k = 0; k < 64; ++k, y += 4) {
    const int s = b.scales[k / 16] >> (k / 8 % 2 * 4) & 15;
    const int index = b.qs[k] | (b.qh[k / 8] >> (k % 8) & 1) << 8;
    const float scale = f32(b.d) * static_cast<float>(1 + 2 * s);
    decode_grid4(kGridIq3S[index], kIq3SValues, b.signs[k / 2] >> (k % 2 * 4), scale, y);
  }
}

// Eight values of a grid of IQ1, moved by delta.
void decode_ternary8(std::uint16_t grid, float delta, float scale, float* y) {
  for (int k = 0; k < 8; ++k) y[k] = scale * (static_cast<float>(kIq1Values[grid >> (2 * k) & 3]) + delta);
}

void decode(const BlockIQ1_S& b, float* y) {
  for (int k = 0; k < 32; ++k, y += 8) {
    const std::uint16_t word = b.qh[k / 4];
    const float scale = f32(b.d) * static_cast<float>(2 * (word >> 12 & 7) + 1);
    const int index = b.qs[k] | (word >> (k % 4 * 3) & 7) << 8;
    decode_ternary8(kGridIq1[index], word & 0x8000 ? -0.125f : 0.125f, scale, y);
  }
}

void decode(const BlockIQ1_M& b, float* y) {
  std::uint16_t d = 0;
  for (int w = 0; w < 4; ++w) d = static_cast<std::uint16_t>(d | b.scales[w] >> 12 << (4 * w));
  for (int k = 0; k < 32; ++k, y += 8) {
    const int group = k / 2;  // of 16 values
    const float scale =
        f32_of_f16(d) * static_cast<float>(2 * (b.scales[group / 4] >> (group % 4 * 3) & 7) + 1);
    const int high = b.qh[k / 2] >> (k % 2 * 4) & 15;  // 3 bits of index, 1 of delta's sign
    decode_ternary8(kGridIq1[b.qs[k] | (high & 7) << 8], high & 8 ? -0.125f : 0.125f, scale, y);
  }
}

void decode(const BlockIQ4_NL& b, float* y) {
  const float d = f32(b.d);
  decode_halves(b, y, [&](int, int q) { return d * static_cast<float>(kIq4Values[q]); });
}

void decode(const BlockIQ4_XS& b, float* y) {
  for (int i = 0; i < 256; ++i) {
    const int g = i / 32, k = i % 32;
    const int low = b.scales_l[g / 2] >> (g % 2 * 4) & 15;
    const int high = b.scales_h >> (2 * g) & 3;
    const float scale = f32(b.d) * static_cast<float>((low | high << 4) - 32);
    y[i] = scale * static_cast<float>(kIq4Values[b.qs[g * 16 + k % 16] >> (k / 16 * 4) & 15]);
  }
}

void decode(const BlockTQ1_0& b, float* y) {
  const float d = f32(b.d);
  for (int i = 0; i < 256; ++i) {
    const int t = i < 160   ? trit(b.qs[i % 32], i / 32)
                  : i < 240 ? trit(b.qs[32 + (i - 160) % 16], (i - 160) / 16)
                            : trit(b.qh[(i - 240) % 4], (i - 240) / 4);
    y[i] = d * static_cast<float>(t - 1);
  }
}

void decode(const BlockTQ2_0& b, float* y) {
  const float d = f32(b.d);
  for (int i = 0; i < 256; ++i) y[i] = d * static_cast<float>(two_bits(b.qs, i) - 1);
}

void decode(const BlockMXFP4& b, float* y) {
  const float d = half_of_e8m0(b.e);
  decode_halves(b, y, [&](int, int q) { return d * static_cast<float>(kFp4Values[q]); });
}

void decode(const BlockNVFP4& b, float* y) {
  for (int i = 0; i < 64; ++i) {
    const int g = i / 16, k = i % 16;
    const int q = b.qs[g * 8 + k % 8] >> (k / 8 * 4) & 15;
    y[i] = half_of_ue4m3(b.d[g]) * static_cast<float>(kFp4Values[q]);
  }
}

void decode(const BlockQ1_0& b, float* y) {
  const float d = f32(b.d);
  for (int j = 0; j < 128; ++j) y[j] = b.qs[j / 8] >> (j % 8) & 1 ? d : -d;
}

void decode(const BlockQ2_0& b, float* y) {
  const float d = f32(b.d);
  for (int j = 0; j < 64; ++j) y[j] = static_cast<float>((b.qs[j / 4] >> (j % 4 * 2) & 3) - 1) * d;
}

void decode(const BlockQ6_0& b, float* y) {
  const float d = f32(b.d);
  decode_halves(b, y, [&](int j, int q) {
    const int high = b.qh[j % 8] >> (j / 16 * 2 + j % 16 / 8 * 4) & 3;
    return d * static_cast<float>((q | high << 4) - 32);
  });
}

// Value i of the IQ*_K: scale is an integer, value that of the table.
float shifted(float d, int scale, int value, std::uint16_t extra, int i, int shift) {
  return d * static_cast<float>(scale) * static_cast<float>(value + (extra >> (i / 16) & 1) * shift);
}

void decode(const BlockIQ2_K& b, float* y) {
  for (int i = 0; i < 256; ++i) {
    const int scale = (b.scales[i / 32] >> (i / 16 % 2 * 4) & 15) - 8;
    y[i] = shifted(f32(b.d), scale, kIq2KValues[two_bits(b.qs, i)], b.extra, i, kIq2KShift);
  }
}

void decode(const BlockIQ3_K& b, float* y) {
  for (int i = 0; i < 256; ++i) {
    const int q = two_bits(b.qs, i) | (b.qh[i % 32] >> (i / 32) & 1) << 2;
    y[i] = shifted(f32(b.d), iq3_k_scale(b.scales, b.signs, i / 16), kIq3KValues[q], b.extra, i, kIq3KShift);
  }
}

void decode(const BlockIQ4_K& b, float* y) {
  for (int i = 0; i < 256; ++i) {
    const int q = b.qs[i / 32 * 16 + i % 16] >> (i / 16 % 2 * 4) & 15;
    const int scale = iq4_k_scale(b.scales_l, b.scales_h, i / 16);
    y[i] = shifted(f32(b.d), scale, kIq4Values[q], b.extra, i, kIq4KShift);
  }
}

void decode(const BlockIQ5_K& b, float* y) {
  for (int i = 0; i < 256; ++i) {
    const int q = four_bits(b.qs, i) | (b.qh[i % 32] >> (i / 32) & 1) << 4;
    const int scale = iq4_k_scale(b.scales_l, b.scales_h, i / 16);
    y[i] = shifted(f32(b.d), scale, kIq5KValues[q], b.extra, i, kIq5KShift);
  }
}

void decode(const BlockIQ6_K& b, float* y) {
  for (int i = 0; i < 256; ++i) {
    const int q = four_bits(b.qs, i) | two_bits(b.qh, i) << 4;
    y[i] = shifted(f32(b.d), b.scales[i / 16], kIq6KValues[q], b.extra, i, kIq6KShift);
  }
}

// Formats whose rows have a head: `d` is that.

void decode(const BlockIQ2_KS& b, float d, float* y) {
  for (int i = 0; i < 256; ++i) {
    const int g = i / 32, shift = (b.extra >> g & 1) * kIq2KShift;
    const float scale = d * static_cast<float>(iq2_ks_scale(b.scales, b.extra, g));
    y[i] = scale * static_cast<float>(kIq2KValues[two_bits(b.qs, i)] + shift);
  }
}

void decode(const BlockIQ3_KS& b, float d, float* y) {
  for (int i = 0; i < 256; ++i) {
    const int g = i / 32, shift = (b.extra >> (8 + g) & 1) * kIq3KShift;
    const int q = two_bits(b.qs, i) | (b.qh[i % 32] >> g & 1) << 2;
    const float scale = d * static_cast<float>(iq3_ks_scale(b.scales, b.extra, g));
    y[i] = scale * static_cast<float>(kIq3KValues[q] + shift);
  }
}

void decode(const BlockIQ4_KS& b, float d, float* y) {
  for (int i = 0; i < 256; ++i) {
    const std::uint8_t s = b.scales[i / 32];
    const int q = b.qs[i / 32 * 16 + i % 16] >> (i / 16 % 2 * 4) & 15;
    const float scale = d * static_cast<float>(iq4_ks_scale(s));
    y[i] = scale * static_cast<float>(kIq4Values[q] + (s & 1) * kIq4KShift);
  }
}

void decode(const BlockIQ5_KS& b, float d, float* y) {
  for (int i = 0; i < 256; ++i) {
    const std::uint8_t s = b.scales[i / 32];
    const int q = four_bits(b.qs, i) | (b.qh[i % 32] >> (i / 32) & 1) << 4;
    const float scale = d * static_cast<float>(iq4_ks_scale(s));
    y[i] = scale * static_cast<float>(kIq5KValues[q] + (s & 1) * kIq5KShift);
  }
}

void decode(const BlockIQ4_KSS& b, float d, float* y) {
  for (int g = 0; g < 8; ++g) {
    std::uint16_t words[8];
    std::memcpy(words, b.qs[g], sizeof words);
    const std::uint8_t s = kss_scale(words);
    const float scale = d * static_cast<float>(iq4_ks_scale(s));
    for (int i = 0; i < 32; ++i) {
      const int q = kss_codes(words[i % 16 / 2]) >> (i % 2 * 8 + i / 16 * 4) & 15;
      y[32 * g + i] = scale * static_cast<float>(kIq4Values[q] + (s & 1) * kIq4KShift);
    }
  }
}

void decode(const BlockIQ2_KL& b, float d, float* y) {
  for (int i = 0; i < 256; ++i) {
    const int g = i / 32, pair = iq2_kl_pair(b.qs, b.qh, g, i % 32 / 2);
    const float scale = d * static_cast<float>(iq2_kl_scale(b.scales_l, b.scales_h, g));
    y[i] = scale * static_cast<float>(kIq3KValues[pair >> (i % 2 * 3) & 7]);
  }
}

void decode(const BlockIQ2_KT& b, float d, float* y) {
  for (int i = 0; i < 32; ++i) {
    const float scale = d * static_cast<float>(kIq4Values[kt_scale(b.scales, i / 4)]);
    trellis(b.qs[i] + kTrellisStart, 8, [&](int j, int v) { y[8 * i + j] = scale * static_cast<float>(v); });
  }
}

void decode(const BlockIQ3_KT& b, float d, float* y) {
  for (int i = 0; i < 32; ++i) {
    const float scale = d * static_cast<float>(kt_scale(b.scales, i / 4));
    trellis(b.qs[i] + kTrellisStart, 8, [&](int j, int v) {
      const bool minus = (b.qh[i % 4 * 8 + j] >> (i / 4) & 1) != 0;
      const float magnitude = scale * static_cast<float>(std::abs(v));
      y[8 * i + j] = minus ? -magnitude : magnitude;
    });
  }
}

void decode(const BlockIQ4_KT& b, float d, float* y) {
  for (int i = 0; i < 64; ++i) {
    const float scale = d * static_cast<float>(iq4_kt_scale(b.groups[i / 8]));
    trellis(iq4_kt_start(b, i), 4, [&](int j, int v) { y[4 * i + j] = scale * static_cast<float>(v); });
  }
}

void decode(const BlockIQ1_KT& b, float d, float* y) {
  for (int i = 0; i < 32; ++i) {
    const float scale = d * static_cast<float>(kIq4Values[b.sh[i / 4] & 15]);
    trellis(iq1_kt_start(b, i), 8, [&](int j, int v) { y[8 * i + j] = scale * static_cast<float>(v); });
  }
}

void decode(const BlockIQ1_S_R4& b, float d, float* y) {
  const float scale = d * static_cast<float>(2 * (b.qh >> 12 & 7) + 1);
  for (int k = 0; k < 4; ++k) {
    const int index = b.qs[k] | (b.qh >> (k * 3) & 7) << 8;
    decode_ternary8(kGridIq1[index], b.qh & 0x8000 ? -0.125f : 0.125f, scale, y + 8 * k);
  }
}

void decode(const BlockIQ1_BN& b, float d, float* y) {
  for (int i = 0; i < 64; ++i) y[i] = d * static_cast<float>(iq1_bn_trit(b, i) - 1);
}

void decode(const BlockIQ2_BN& b, float d, float* y) {
  for (int i = 0; i < 64; ++i) y[i] = d * static_cast<float>((b.qs[i % 16] >> (i / 16 * 2) & 3) - 1);
}

void decode(const BlockIQ1_M_R4& b, float d, float* y) {
  for (int k = 0; k < 4; ++k) {
    const float scale = d * static_cast<float>(b.scales >> (k / 2 * 4) & 15);
    const int high = b.qh[k / 2] >> (k % 2 * 4) & 15;  // as IQ1_M
    decode_ternary8(kGridIq1[b.qs[k] | (high & 7) << 8], high & 8 ? -0.125f : 0.125f, scale, y + 8 * k);
  }
}

// The scale in front of a row, 1 where there is none.
float head_scale(RowHead head, const std::uint8_t* row) {
  std::uint16_t half;
  float single;
  switch (head) {
    case RowHead::kNone:
      return 1;
    case RowHead::kF16:
      std::memcpy(&half, row, sizeof half);
      return f32_of_f16(half);
    case RowHead::kF32:
      std::memcpy(&single, row, sizeof single);
      return single;
  }
  throw_internal("row head");
}

template <class Block>
void decode_row(Format format, const std::uint8_t* src, float* dst, std::int64_t n) {
  const FormatInfo& f = info(format);
  [[maybe_unused]] const float head = head_scale(f.head, src);
  src += head_bytes(format);
  for (std::int64_t i = 0; i < n; i += f.block_values, src += sizeof(Block)) {
    Block block;
    std::memcpy(&block, src, sizeof block);
    if constexpr (requires { decode(block, head, dst); }) {
      decode(block, head, dst + i);
    } else {
      decode(block, dst + i);
    }
  }
}

template <class Bits, class Convert>
void decode_floats(const std::uint8_t* src, float* dst, std::int64_t n, Convert convert) {
  for (std::int64_t i = 0; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, src + i * static_cast<std::int64_t>(sizeof bits), sizeof bits);
    dst[i] = convert(bits);
  }
}

}  // namespace

bool has_reference(Format format) { return info(format).kind != FormatKind::kInt; }

void dequantize_row(Format format, const void* src, float* dst, std::int64_t n) {
  GC_CHECK(n >= 0 && is_whole_blocks(format, n), n, " values of ", name(format));
  const auto* bytes = static_cast<const std::uint8_t*>(src);
  switch (format) {
    case Format::F32:
      return decode_floats<float>(bytes, dst, n, [](float v) { return v; });
    case Format::F16:
      return decode_floats<std::uint16_t>(bytes, dst, n, f32_of_f16);
    case Format::BF16:
      return decode_floats<std::uint16_t>(bytes, dst, n, f32_of_bf16);
    case Format::F64:
      return decode_floats<double>(bytes, dst, n, [](double v) { return static_cast<float>(v); });
    case Format::I32:  // of numbers of rows, which f32 holds
      return decode_floats<std::int32_t>(bytes, dst, n, [](std::int32_t v) { return static_cast<float>(v); });
    case Format::I8:
    case Format::I16:
    case Format::I64:
      throw_internal("no decoder for ", name(format));
// A block format needs its overload of decode above.
#define DECODE_kFloat(name)
#define DECODE_kInt(name)
#define DECODE_kBlock(name) \
  case Format::name:        \
    return decode_row<Block##name>(format, bytes, dst, n);
#define FORMAT(name, gguf_id, block_values, block_bytes, kind, scale_values, head) DECODE_##kind(name)
#include "compiler/quant/formats.def"
#undef FORMAT
#undef DECODE_kFloat
#undef DECODE_kInt
#undef DECODE_kBlock
  }
}

}  // namespace gc
