// Takes blocks of the file apart into what layouts store: codes one a byte, and scales and mins as they are (bits of
// f16, or 8 bits). One overload a block type; a new format adds its own here, or in split_grids.h where it looks up
// grids.
#pragma once

#include <cstdint>
#include <cstring>

#include "compiler/quant/blocks.h"

namespace gc::pack {

// Where the parts of one block of one row go. `super`, `scale` and `min` have an entry a block of one scale, 16 apart
// (a panel's rows lie beside each other).
struct Parts {
  std::uint8_t* q;
  std::uint16_t* super;
  std::uint16_t* scale;
  std::uint16_t* min;
};
inline constexpr int kPartStride = 16;

inline void nibbles(const std::uint8_t* qs, std::uint8_t* q, int half) {
  for (int j = 0; j < half; ++j) {
    q[j] = qs[j] & 15;
    q[j + half] = qs[j] >> 4;
  }
}

// Adds bit j of `bits` to bit 4 of q[j], j < 8 n. Eight bits are spread over a word: each byte keeps its own bit, and
// adding 0x7f carries a set one to the byte's top.
inline void fifth_bits(const std::uint8_t* bits, std::uint8_t* q, int n) {
  for (int i = 0; i < n; ++i) {
    constexpr std::uint64_t kOnes = 0x0101010101010101;
    const std::uint64_t own = bits[i] * kOnes & 0x8040201008040201;
    const std::uint64_t top = own + 0x7f * kOnes & 0x80 * kOnes;
    std::uint64_t word;
    std::memcpy(&word, q + 8 * i, 8);
    word |= top >> 3;
    std::memcpy(q + 8 * i, &word, 8);
  }
}

inline void split(const BlockQ4_0& b, const Parts& p) {
  *p.scale = b.d.bits;
  nibbles(b.qs, p.q, 16);
}

inline void split(const BlockQ4_1& b, const Parts& p) {
  *p.scale = b.d.bits;
  *p.min = b.m.bits;
  nibbles(b.qs, p.q, 16);
}

inline void split(const BlockQ5_0& b, const Parts& p) {
  *p.scale = b.d.bits;
  nibbles(b.qs, p.q, 16);
  fifth_bits(b.qh, p.q, 4);
}

inline void split(const BlockQ5_1& b, const Parts& p) {
  *p.scale = b.d.bits;
  *p.min = b.m.bits;
  nibbles(b.qs, p.q, 16);
  fifth_bits(b.qh, p.q, 4);
}

inline void split(const BlockQ8_0& b, const Parts& p) {
  *p.scale = b.d.bits;
  for (int j = 0; j < 32; ++j) p.q[j] = static_cast<std::uint8_t>(b.qs[j]) ^ 0x80;
}

// Scales and mins of Q4_K and Q5_K: 6 bits each.
inline void split_k_scales(const std::uint8_t (&s)[12], const Parts& p) {
  for (int g = 0; g < 4; ++g) {
    p.scale[kPartStride * g] = s[g] & 63;
    p.min[kPartStride * g] = s[4 + g] & 63;
    p.scale[kPartStride * (4 + g)] = static_cast<std::uint16_t>((s[8 + g] & 15) | (s[g] >> 6) << 4);
    p.min[kPartStride * (4 + g)] = static_cast<std::uint16_t>(s[8 + g] >> 4 | (s[4 + g] >> 6) << 4);
  }
}

// Two bits of 256 values in the order that Q2_K, Q3_K and TQ2_0 share.
inline void bit_pairs(const std::uint8_t (&qs)[64], std::uint8_t* q) {
  for (int half = 0; half < 2; ++half) {
    for (int pair = 0; pair < 4; ++pair) {
      for (int j = 0; j < 32; ++j) q[128 * half + 32 * pair + j] = qs[32 * half + j] >> (2 * pair) & 3;
    }
  }
}

inline void split(const BlockQ2_K& b, const Parts& p) {
  p.super[0] = b.d.bits;
  p.super[kPartStride] = b.dmin.bits;
  for (int g = 0; g < 16; ++g) p.scale[kPartStride * g] = b.scales[g];  // the min in the high half
  bit_pairs(b.qs, p.q);
}

inline void split(const BlockQ3_K& b, const Parts& p) {
  p.super[0] = b.d.bits;
  for (int g = 0; g < 16; ++g) p.scale[kPartStride * g] = static_cast<std::uint8_t>(q3_k_scale(b.scales, g));
  bit_pairs(b.qs, p.q);
  for (int g = 0; g < 8; ++g) {
    for (int j = 0; j < 32; ++j) p.q[32 * g + j] |= (b.hmask[j] >> g & 1) << 2;
  }
}

inline void split(const BlockQ4_K& b, const Parts& p) {
  p.super[0] = b.d.bits;
  p.super[kPartStride] = b.dmin.bits;
  split_k_scales(b.scales, p);
  for (int pair = 0; pair < 4; ++pair) nibbles(b.qs + 32 * pair, p.q + 64 * pair, 32);
}

inline void split(const BlockQ5_K& b, const Parts& p) {
  p.super[0] = b.d.bits;
  p.super[kPartStride] = b.dmin.bits;
  split_k_scales(b.scales, p);
  for (int pair = 0; pair < 4; ++pair) {
    std::uint8_t* q = p.q + 64 * pair;
    nibbles(b.qs + 32 * pair, q, 32);
    for (int j = 0; j < 32; ++j) {
      q[j] |= (b.qh[j] >> (2 * pair) & 1) << 4;
      q[j + 32] |= (b.qh[j] >> (2 * pair + 1) & 1) << 4;
    }
  }
}

inline void split(const BlockQ6_K& b, const Parts& p) {
  p.super[0] = b.d.bits;
  for (int g = 0; g < 16; ++g) p.scale[kPartStride * g] = static_cast<std::uint8_t>(b.scales[g]);
  for (int half = 0; half < 2; ++half) {
    const std::uint8_t* ql = b.ql + 64 * half;
    const std::uint8_t* qh = b.qh + 32 * half;
    std::uint8_t* q = p.q + 128 * half;
    nibbles(ql, q, 64);
    for (int j = 0; j < 32; ++j) {
      q[j] |= (qh[j] & 3) << 4;
      q[j + 32] |= (qh[j] >> 2 & 3) << 4;
      q[j + 64] |= (qh[j] >> 4 & 3) << 4;
      q[j + 96] |= (qh[j] >> 6) << 4;
    }
  }
}

inline void split(const BlockIQ4_NL& b, const Parts& p) {
  *p.scale = b.d.bits;
  nibbles(b.qs, p.q, 16);
}

inline void split(const BlockIQ4_XS& b, const Parts& p) {
  p.super[0] = b.d.bits;
  for (int g = 0; g < 8; ++g) {
    const int low = b.scales_l[g / 2] >> (g % 2 * 4) & 15, high = b.scales_h >> (2 * g) & 3;
    p.scale[kPartStride * g] = static_cast<std::uint8_t>((low | high << 4) - 32);
    nibbles(b.qs + 16 * g, p.q + 32 * g, 16);
  }
}

inline void split(const BlockTQ1_0& b, const Parts& p) {
  *p.scale = b.d.bits;
  // The top digit of bytes, then the next: each takes its digit off.
  const auto digits = [](const std::uint8_t* bytes, int n, int count, std::uint8_t* q) {
    std::uint8_t left[32];
    std::memcpy(left, bytes, static_cast<std::size_t>(n));
    for (int k = 0; k < count; ++k) {
      for (int j = 0; j < n; ++j) {
        const int tripled = left[j] * 3;
        *q++ = static_cast<std::uint8_t>(tripled >> 8);
        left[j] = static_cast<std::uint8_t>(tripled);
      }
    }
  };
  digits(b.qs, 32, 5, p.q);
  digits(b.qs + 32, 16, 5, p.q + 160);
  digits(b.qh, 4, 4, p.q + 240);
}

inline void split(const BlockTQ2_0& b, const Parts& p) {
  *p.scale = b.d.bits;
  bit_pairs(b.qs, p.q);
}

inline void split(const BlockMXFP4& b, const Parts& p) {
  *p.scale = b.e;
  nibbles(b.qs, p.q, 16);
}

inline void split(const BlockNVFP4& b, const Parts& p) {
  for (int g = 0; g < 4; ++g) {
    p.scale[kPartStride * g] = b.d[g] == 0x7f ? 0 : b.d[g];  // NaN counts as 0
    nibbles(b.qs + 8 * g, p.q + 16 * g, 8);
  }
}

inline void split(const BlockQ1_0& b, const Parts& p) {
  *p.scale = b.d.bits;
  for (int j = 0; j < 128; ++j) p.q[j] = static_cast<std::uint8_t>((b.qs[j / 8] >> (j % 8) & 1) << 1);
}

inline void split(const BlockQ2_0& b, const Parts& p) {
  *p.scale = b.d.bits;
  for (int j = 0; j < 64; ++j) p.q[j] = b.qs[j / 4] >> (j % 4 * 2) & 3;
}

inline void split(const BlockQ6_0& b, const Parts& p) {
  *p.scale = b.d.bits;
  nibbles(b.qs, p.q, 16);
  for (int j = 0; j < 8; ++j) {
    p.q[j] |= (b.qh[j] & 3) << 4;
    p.q[j + 8] |= (b.qh[j] >> 4 & 3) << 4;
    p.q[j + 16] |= (b.qh[j] >> 2 & 3) << 4;
    p.q[j + 24] |= (b.qh[j] >> 6) << 4;
  }
}

// Scale of group g of the IQ*_K and its bit in one byte.
inline void split_iq_k_scale(int scale, std::uint16_t extra, int g, const Parts& p) {
  p.scale[kPartStride * g] = static_cast<std::uint8_t>(scale * 2 | (extra >> g & 1));
}

inline void split(const BlockIQ2_K& b, const Parts& p) {
  p.super[0] = b.d.bits;
  for (int g = 0; g < 16; ++g) split_iq_k_scale((b.scales[g / 2] >> (g % 2 * 4) & 15) - 8, b.extra, g, p);
  bit_pairs(b.qs, p.q);
}

inline void split(const BlockIQ3_K& b, const Parts& p) {
  p.super[0] = b.d.bits;
  for (int g = 0; g < 16; ++g) split_iq_k_scale(iq3_k_scale(b.scales, b.signs, g), b.extra, g, p);
  bit_pairs(b.qs, p.q);
  for (int g = 0; g < 8; ++g) {
    for (int j = 0; j < 32; ++j) p.q[32 * g + j] |= (b.qh[j] >> g & 1) << 2;
  }
}

inline void split(const BlockIQ4_K& b, const Parts& p) {
  p.super[0] = b.d.bits;
  for (int g = 0; g < 16; ++g) split_iq_k_scale(iq4_k_scale(b.scales_l, b.scales_h, g), b.extra, g, p);
  for (int g = 0; g < 8; ++g) nibbles(b.qs + 16 * g, p.q + 32 * g, 16);
}

inline void split(const BlockIQ5_K& b, const Parts& p) {
  p.super[0] = b.d.bits;
  for (int g = 0; g < 16; ++g) split_iq_k_scale(iq4_k_scale(b.scales_l, b.scales_h, g), b.extra, g, p);
  for (int pair = 0; pair < 4; ++pair) nibbles(b.qs + 32 * pair, p.q + 64 * pair, 32);
  for (int g = 0; g < 8; ++g) {
    for (int j = 0; j < 32; ++j) p.q[32 * g + j] |= (b.qh[j] >> g & 1) << 4;
  }
}

inline void split(const BlockIQ6_K& b, const Parts& p) {
  p.super[0] = b.d.bits;
  for (int g = 0; g < 16; ++g) {
    p.scale[kPartStride * g] = static_cast<std::uint8_t>(b.scales[g]);
    p.min[kPartStride * g] = b.extra >> g & 1;
  }
  std::uint8_t high[256];
  bit_pairs(b.qh, high);
  for (int pair = 0; pair < 4; ++pair) nibbles(b.qs + 32 * pair, p.q + 64 * pair, 32);
  for (int i = 0; i < 256; ++i) p.q[i] |= static_cast<std::uint8_t>(high[i] << 4);
}

// Formats whose rows have a head: the factors are that.

inline void split(const BlockIQ2_KS& b, const Parts& p) {
  for (int g = 0; g < 8; ++g) split_iq_k_scale(iq2_ks_scale(b.scales, b.extra, g), b.extra, g, p);
  bit_pairs(b.qs, p.q);
}

inline void split(const BlockIQ3_KS& b, const Parts& p) {
  for (int g = 0; g < 8; ++g)
    split_iq_k_scale(iq3_ks_scale(b.scales, b.extra, g), static_cast<std::uint16_t>(b.extra >> 8), g, p);
  bit_pairs(b.qs, p.q);
  for (int g = 0; g < 8; ++g) {
    for (int j = 0; j < 32; ++j) p.q[32 * g + j] |= (b.qh[j] >> g & 1) << 2;
  }
}

inline void split(const BlockIQ4_KS& b, const Parts& p) {
  for (int g = 0; g < 8; ++g) {
    p.scale[kPartStride * g] = b.scales[g];
    nibbles(b.qs + 16 * g, p.q + 32 * g, 16);
  }
}

inline void split(const BlockIQ5_KS& b, const Parts& p) {
  for (int g = 0; g < 8; ++g) p.scale[kPartStride * g] = b.scales[g];
  for (int pair = 0; pair < 4; ++pair) nibbles(b.qs + 32 * pair, p.q + 64 * pair, 32);
  for (int g = 0; g < 8; ++g) {
    for (int j = 0; j < 32; ++j) p.q[32 * g + j] |= (b.qh[j] >> g & 1) << 4;
  }
}

inline void split(const BlockIQ4_KSS& b, const Parts& p) {
  for (int g = 0; g < 8; ++g) {
    std::uint16_t words[8];
    std::memcpy(words, b.qs[g], sizeof words);
    p.scale[kPartStride * g] = kss_scale(words);
    for (std::uint16_t& w : words) w = kss_codes(w);
    std::uint8_t bytes[16];
    std::memcpy(bytes, words, sizeof bytes);
    nibbles(bytes, p.q + 32 * g, 16);
  }
}

inline void split(const BlockIQ1_BN& b, const Parts& p) {
  *p.scale = 1;
  for (int i = 0; i < 64; ++i) p.q[i] = static_cast<std::uint8_t>(iq1_bn_trit(b, i));
}

inline void split(const BlockIQ2_BN& b, const Parts& p) {
  *p.scale = 1;
  for (int i = 0; i < 64; ++i) p.q[i] = b.qs[i % 16] >> (i / 16 * 2) & 3;
}

inline void split(const BlockIQ2_KL& b, const Parts& p) {
  for (int g = 0; g < 8; ++g) {
    p.scale[kPartStride * g] = static_cast<std::uint8_t>(iq2_kl_scale(b.scales_l, b.scales_h, g));
    for (int j = 0; j < 16; ++j) {
      const std::uint8_t pair = iq2_kl_pair(b.qs, b.qh, g, j);
      p.q[32 * g + 2 * j] = pair & 7;
      p.q[32 * g + 2 * j + 1] = pair >> 3;
    }
  }
}

}  // namespace gc::pack
