// Blocks of the codebook types taken apart: indices looked up in their grids, signs joined to the magnitudes
// (compiler/quant/layouts.def says what the codes stand for).
#pragma once

#include "compiler/pack/split.h"
#include "compiler/quant/codebooks.h"

namespace gc::pack {

// Eight values of a grid of IQ2: magnitude, minus in bit 2.
inline void grid8(std::uint16_t grid, std::uint8_t signs, std::uint8_t* q) {
  for (int k = 0; k < 8; ++k) q[k] = static_cast<std::uint8_t>((grid >> (2 * k) & 3) | (signs >> k & 1) << 2);
}

// Of layouts that keep indices: one stands in the first two of the bytes of its values, in the third their signs.
inline void put_index(std::uint32_t index, std::uint8_t signs, std::uint8_t* q) {
  const auto bits = static_cast<std::uint16_t>(index);
  std::memcpy(q, &bits, 2);
  q[2] = signs;
}

inline std::uint16_t odd(int s) { return static_cast<std::uint16_t>(2 * s + 1); }

inline void split(const BlockIQ2_XXS& b, const Parts& p) {
  p.super[0] = b.d.bits;
  for (int g = 0; g < 8; ++g) {
    std::uint32_t word;
    std::memcpy(&word, &b.qs[g * 8 + 4], 4);
    p.scale[kPartStride * g] = odd(static_cast<int>(word >> 28));
    for (int k = 0; k < 4; ++k) put_index(b.qs[g * 8 + k], iq_signs(word >> (7 * k)), p.q + 32 * g + 8 * k);
  }
}

// Scales of 16 values, two to a byte.
inline void split_iq2_scales(const std::uint8_t (&scales)[8], const Parts& p) {
  for (int g = 0; g < 16; ++g) p.scale[kPartStride * g] = odd(scales[g / 2] >> (g % 2 * 4) & 15);
}

inline void split(const BlockIQ2_XS& b, const Parts& p) {
  p.super[0] = b.d.bits;
  split_iq2_scales(b.scales, p);
  for (int k = 0; k < 32; ++k) {
    const std::uint16_t code = b.qs[k];
    put_index(code & 511u, iq_signs(code >> 9), p.q + 8 * k);
  }
}

inline void split(const BlockIQ2_S& b, const Parts& p) {
  p.super[0] = b.d.bits;
  split_iq2_scales(b.scales, p);
  for (int k = 0; k < 32; ++k)
    grid8(kGridIq2S[b.qs[k] | (b.qh[k / 4] >> (k % 4 * 2) & 3) << 8], b.signs[k], p.q + 8 * k);
}

inline void split(const BlockIQ3_XXS& b, const Parts& p) {
  p.super[0] = b.d.bits;
  for (int g = 0; g < 8; ++g) {
    const std::uint32_t word = b.scales[g];
    p.scale[kPartStride * g] = odd(static_cast<int>(word >> 28));
    for (int k = 0; k < 8; ++k) {
      const int signs = iq_signs(word >> (k / 2 * 7)) >> (k % 2 * 4);
      put_index(b.qs[g * 8 + k], static_cast<std::uint8_t>(signs & 15), p.q + 32 * g + 4 * k);
    }
  }
}

// The value 2 m + 1 or its negative is 2 c - 15: c is 8 + m or 7 - m, the same bits inverted. Stored doubled.
inline void split(const BlockIQ3_S& b, const Parts& p) {
  p.super[0] = b.d.bits;
  for (int g = 0; g < 8; ++g) p.scale[kPartStride * g] = odd(b.scales[g / 2] >> (g % 2 * 4) & 15);
  for (int j = 0; j < 256; ++j) {
    const int k = j / 4;
    const int index = b.qs[k] | (b.qh[k / 8] >> (k % 8) & 1) << 8;
    const int magnitude = kGridIq3S[index] >> (3 * (j % 4)) & 7;
    const int minus = b.signs[j / 8] >> (j % 8) & 1;
    p.q[j] = static_cast<std::uint8_t>(((8 + magnitude) ^ (minus ? 15 : 0)) << 1);
  }
}

// Values 8 g + 1, or with the shift below zero -(8 * -g + 1): then the scale is negative and g is mirrored.
inline void split(const BlockIQ1_S& b, const Parts& p) {
  p.super[0] = b.d.bits;
  for (int g = 0; g < 8; ++g) {
    const std::uint16_t word = b.qh[g];
    const int scale = odd(word >> 12 & 7);
    const bool minus = (word & 0x8000) != 0;
    p.scale[kPartStride * g] = static_cast<std::uint8_t>(minus ? -scale : scale);
    for (int k = 0; k < 4; ++k) {
      const std::uint16_t grid = kGridIq1[b.qs[4 * g + k] | (word >> (k * 3) & 7) << 8];
      for (int j = 0; j < 8; ++j) {
        const int code = grid >> (2 * j) & 3;  // 0, 1, 2: -1, 0, 1
        p.q[32 * g + 8 * k + j] = static_cast<std::uint8_t>((minus ? 2 - code : code) << 3);
      }
    }
  }
}

inline void split(const BlockIQ1_M& b, const Parts& p) {
  int d = 0;
  for (int w = 0; w < 4; ++w) d |= b.scales[w] >> 12 << (4 * w);
  p.super[0] = static_cast<std::uint16_t>(d);
  for (int g = 0; g < 16; ++g) p.scale[kPartStride * g] = odd(b.scales[g / 4] >> (g % 4 * 3) & 7);
  for (int k = 0; k < 32; ++k) {
    const int high = b.qh[k / 2] >> (k % 2 * 4) & 15;  // 3 bits of index, 1 of the shift's sign
    const std::uint16_t grid = kGridIq1[b.qs[k] | (high & 7) << 8];
    const int shift = high & 8 ? 0 : 2;
    for (int j = 0; j < 8; ++j)
      p.q[8 * k + j] = static_cast<std::uint8_t>((grid >> (2 * j) & 3) << 3 | shift);
  }
}

inline void split(const BlockIQ1_S_R4& b, const Parts& p) {
  const int scale = odd(b.qh >> 12 & 7);
  const bool minus = (b.qh & 0x8000) != 0;
  *p.scale = static_cast<std::uint8_t>(minus ? -scale : scale);
  for (int k = 0; k < 4; ++k) {
    const std::uint16_t grid = kGridIq1[b.qs[k] | (b.qh >> (k * 3) & 7) << 8];
    for (int j = 0; j < 8; ++j) {
      const int code = grid >> (2 * j) & 3;
      p.q[8 * k + j] = static_cast<std::uint8_t>((minus ? 2 - code : code) << 3);
    }
  }
}

inline void split(const BlockIQ1_M_R4& b, const Parts& p) {
  p.scale[0] = b.scales & 15;
  p.scale[kPartStride] = b.scales >> 4;
  for (int k = 0; k < 4; ++k) {
    const int high = b.qh[k / 2] >> (k % 2 * 4) & 15;
    const std::uint16_t grid = kGridIq1[b.qs[k] | (high & 7) << 8];
    const int shift = high & 8 ? 0 : 2;
    for (int j = 0; j < 8; ++j)
      p.q[8 * k + j] = static_cast<std::uint8_t>((grid >> (2 * j) & 3) << 3 | shift);
  }
}

inline void split(const BlockIQ2_KT& b, const Parts& p) {
  for (int g = 0; g < 8; ++g)
    p.scale[kPartStride * g] = static_cast<std::uint8_t>(kIq4Values[kt_scale(b.scales, g)]);
  for (int i = 0; i < 32; ++i) put_index(b.qs[i], 0, p.q + 8 * i);
}

inline void split(const BlockIQ3_KT& b, const Parts& p) {
  for (int g = 0; g < 8; ++g) p.scale[kPartStride * g] = static_cast<std::uint16_t>(kt_scale(b.scales, g));
  for (int i = 0; i < 32; ++i) {
    int signs = 0;
    for (int j = 0; j < 8; ++j) signs |= (b.qh[i % 4 * 8 + j] >> (i / 4) & 1) << j;
    put_index(b.qs[i], static_cast<std::uint8_t>(signs), p.q + 8 * i);
  }
}

inline void split(const BlockIQ4_KT& b, const Parts& p) {
  for (int g = 0; g < 8; ++g) p.scale[kPartStride * g] = static_cast<std::uint8_t>(iq4_kt_scale(b.groups[g]));
  for (int i = 0; i < 64; ++i) put_index(iq4_kt_start(b, i) - kTrellisStart, 0, p.q + 4 * i);
}

inline void split(const BlockIQ1_KT& b, const Parts& p) {
  for (int g = 0; g < 8; ++g) p.scale[kPartStride * g] = static_cast<std::uint8_t>(kIq4Values[b.sh[g] & 15]);
  for (int i = 0; i < 32; ++i) put_index(iq1_kt_start(b, i) - kTrellisStart, 0, p.q + 8 * i);
}

}  // namespace gc::pack
