// A group's bytes are blocks of the group, each with the parts of one block of every row: what blocks.h has as one
// field, for all rows. Heads of rows stand in front. One function a type, block_of, gives row `k`'s block; fields whose
// order is common to several types have readers of their own.
//
// Codes of 32 values (j = 0..31) of a row, four neighbours in four bytes, in one of these orders:
//   pairs   4 rows, 64 bytes: values j and j + 8 share a byte
//   wide    8 rows, 128 bytes: values j and j + 4 share a byte
//   quads   4 rows, 32 bytes of 2 bits: values j, j + 4, j + 8, j + 12 share a byte
#include "compiler/quant/interleaved.h"

#include <cstring>

#include "compiler/base/error.h"
#include "compiler/quant/blocks.h"

namespace gc {
namespace {

constexpr Interleaved kTable[] = {
#define INTERLEAVED(name, gguf_id, base, rows) {#name, gguf_id, Format::base, rows},
#include "compiler/quant/interleaved.def"
#undef INTERLEAVED
};

// ---- What groups have ----

int pair_code(const std::uint8_t* p, int k, int j) {
  const int m = j / 4;
  return p[16 * (m % 2 * 2 + m / 4) + 4 * k + j % 4] >> (m / 2 % 2 * 4) & 15;
}

int wide_code(const std::uint8_t* p, int k, int j) {
  return p[32 * (j / 8) + 4 * k + j % 4] >> (j / 4 % 2 * 4) & 15;
}

int quad_code(const std::uint8_t* p, int k, int j) {
  return p[16 * (j / 16) + 4 * k + j % 4] >> (j % 16 / 4 * 2) & 3;
}

// The bit of each value in 16 bytes: its place is that of the value's four among the 8 of a row.
int plane_bit(const std::uint8_t* p, int k, int j, const int (&place)[8]) {
  return p[4 * k + j % 4] >> place[j / 4] & 1;
}
constexpr int kInOrder[8] = {0, 1, 2, 3, 4, 5, 6, 7};
constexpr int kOfQ5_0[8] = {0, 2, 4, 6, 1, 3, 5, 7};
constexpr int kOfQ5_K[8] = {0, 2, 1, 3, 4, 6, 5, 7};
constexpr int kOfIQ5_K[8] = {0, 4, 1, 5, 2, 6, 3, 7};

// `bits` bits of item `i` of fields of n bytes that are filled with their lowest bits first.
int spread(const std::uint8_t* p, int n, int i, int bits) {
  return p[i % n] >> (i / n * bits) & ((1 << bits) - 1);
}

// ---- What blocks have ----

template <class Code>
void put_halves(std::uint8_t* qs, Code code) {
  for (int j = 0; j < 16; ++j) qs[j] = static_cast<std::uint8_t>((code(j) & 15) | (code(j + 16) & 15) << 4);
}

// The low 4 bits of 256 values as Q4_K has them.
template <class Code>
void put_fours(std::uint8_t (&qs)[128], Code code) {
  for (int i = 0; i < 128; ++i) {
    const int at = i / 32 * 64 + i % 32;
    qs[i] = static_cast<std::uint8_t>((code(at) & 15) | (code(at + 32) & 15) << 4);
  }
}

// The low 2 bits of 256 values as Q2_K has them.
template <class Code>
void put_twos(std::uint8_t (&qs)[64], Code code) {
  for (int i = 0; i < 64; ++i) {
    int byte = 0;
    for (int s = 0; s < 4; ++s) byte |= (code(i / 32 * 128 + 32 * s + i % 32) & 3) << (2 * s);
    qs[i] = static_cast<std::uint8_t>(byte);
  }
}

// Bit `at` of 256 values, that of value i in bit i / 32 of byte i % 32.
template <class Code>
void put_plane(std::uint8_t (&qh)[32], int at, Code code) {
  for (int j = 0; j < 32; ++j) {
    int byte = 0;
    for (int g = 0; g < 8; ++g) byte |= (code(32 * g + j) >> at & 1) << g;
    qh[j] = static_cast<std::uint8_t>(byte);
  }
}

// n items of `bits` bits, lowest first.
template <class Item>
void put_bits(std::uint8_t* p, int n, int bits, Item item) {
  std::memset(p, 0, static_cast<std::size_t>(n * bits / 8));
  for (int i = 0; i < n; ++i) p[i * bits / 8] |= static_cast<std::uint8_t>(item(i) << (i * bits % 8));
}

// ---- The types ----

struct [[gnu::packed]] GroupQ4_0 {
  F16Bits d[8];
  std::uint8_t qs[128];
};

BlockQ4_0 block_of(const GroupQ4_0& g, int k, BlockQ4_0) {
  BlockQ4_0 b{g.d[k], {}};
  for (int j = 0; j < 16; ++j) b.qs[j] = g.qs[32 * (j / 4) + 4 * k + j % 4];
  return b;
}

struct [[gnu::packed]] GroupMXFP4 {
  std::uint8_t e[8];
  std::uint8_t qs[128];
};

BlockMXFP4 block_of(const GroupMXFP4& g, int k, BlockMXFP4) {
  BlockMXFP4 b{g.e[k], {}};
  for (int j = 0; j < 16; ++j) b.qs[j] = g.qs[32 * (j / 4) + 4 * k + j % 4];
  return b;
}

struct [[gnu::packed]] GroupQ8_0 {
  F16Bits d[8];
  std::int8_t qs[256];
};

BlockQ8_0 block_of(const GroupQ8_0& g, int k, BlockQ8_0) {
  BlockQ8_0 b{g.d[k], {}};
  for (int j = 0; j < 32; ++j) b.qs[j] = g.qs[32 * (j / 4) + 4 * k + j % 4];
  return b;
}

struct [[gnu::packed]] GroupQ5_0 {
  F16Bits d[4];
  std::uint8_t qh[16];
  std::uint8_t qs[64];
};

BlockQ5_0 block_of(const GroupQ5_0& g, int k, BlockQ5_0) {
  BlockQ5_0 b{g.d[k], {}, {}};
  put_halves(b.qs, [&](int j) { return pair_code(g.qs, k, j); });
  put_bits(b.qh, 32, 1, [&](int j) { return plane_bit(g.qh, k, j, kOfQ5_0); });
  return b;
}

struct [[gnu::packed]] GroupQ6_0 {
  F16Bits d[4];
  std::uint8_t qh[32];
  std::uint8_t qs[64];
};

BlockQ6_0 block_of(const GroupQ6_0& g, int k, BlockQ6_0) {
  BlockQ6_0 b{g.d[k], {}, {}};
  put_halves(b.qs, [&](int j) { return pair_code(g.qs, k, j); });
  const auto high = [&](int j) {
    return g.qh[16 * (j / 16) + 4 * k + j % 4] >> (j / 4 % 2 * 2 + j / 8 % 2 * 4) & 3;
  };
  for (int j = 0; j < 8; ++j)
    b.qh[j] = static_cast<std::uint8_t>(high(j) | high(j + 16) << 2 | high(j + 8) << 4 | high(j + 24) << 6);
  return b;
}

struct [[gnu::packed]] GroupIQ4_NL {
  F16Bits d[4];
  std::uint8_t qs[64];
};

BlockIQ4_NL block_of(const GroupIQ4_NL& g, int k, BlockIQ4_NL) {
  BlockIQ4_NL b{g.d[k], {}};
  put_halves(b.qs, [&](int j) { return pair_code(g.qs, k, j); });
  return b;
}

struct [[gnu::packed]] GroupQ2_K {
  F16Bits d[4], dmin[4];
  std::uint8_t scales[64];
  std::uint8_t qs[256];
};

BlockQ2_K block_of(const GroupQ2_K& g, int k, BlockQ2_K) {
  BlockQ2_K b{{}, {}, g.d[k], g.dmin[k]};
  for (int i = 0; i < 16; ++i) b.scales[i] = g.scales[4 * i + k];
  put_twos(b.qs, [&](int i) { return quad_code(g.qs + i / 32 * 32, k, i % 32); });
  return b;
}

struct [[gnu::packed]] GroupQ3_K {
  F16Bits d[4];
  std::uint8_t scales_h[16];
  std::uint8_t scales_l[32];
  std::uint8_t qh[128];
  std::uint8_t qs[256];
};

BlockQ3_K block_of(const GroupQ3_K& g, int k, BlockQ3_K) {
  BlockQ3_K b{{}, {}, {}, g.d[k]};
  for (int i = 0; i < 16; ++i) {
    b.scales[i % 8] |= static_cast<std::uint8_t>(spread(g.scales_l, 32, 4 * i + k, 4) << (i / 8 * 4));
    b.scales[8 + i % 4] |= static_cast<std::uint8_t>(spread(g.scales_h, 16, 4 * i + k, 2) << (i / 4 * 2));
  }
  put_twos(b.qs, [&](int i) { return quad_code(g.qs + i / 32 * 32, k, i % 32); });
  put_plane(b.hmask, 0, [&](int i) { return plane_bit(g.qh + i / 32 * 16, k, i % 32, kInOrder); });
  return b;
}

// Scales and mins of Q4_K and Q5_K.
void put_k_scales(const std::uint8_t (&high)[16], const std::uint8_t (&low)[32], int k,
                  std::uint8_t (&out)[12]) {
  for (int i = 0; i < 8; ++i) {
    const int both = low[4 * i + k], top = spread(high, 16, 4 * i + k, 4);
    const int scale = (both & 15) | (top & 3) << 4, min = both >> 4 | (top >> 2) << 4;
    if (i < 4) {
      out[i] |= static_cast<std::uint8_t>(scale);
      out[4 + i] |= static_cast<std::uint8_t>(min);
    } else {
      out[4 + i] = static_cast<std::uint8_t>((scale & 15) | (min & 15) << 4);
      out[i - 4] |= static_cast<std::uint8_t>(scale >> 4 << 6);
      out[i] |= static_cast<std::uint8_t>(min >> 4 << 6);
    }
  }
}

struct [[gnu::packed]] GroupQ4_K {
  F16Bits d[4], dmin[4];
  std::uint8_t scales_h[16];
  std::uint8_t scales_l[32];
  std::uint8_t qs[512];
};

BlockQ4_K block_of(const GroupQ4_K& g, int k, BlockQ4_K) {
  BlockQ4_K b{g.d[k], g.dmin[k], {}, {}};
  put_k_scales(g.scales_h, g.scales_l, k, b.scales);
  put_fours(b.qs, [&](int i) { return pair_code(g.qs + i / 32 * 64, k, i % 32); });
  return b;
}

struct [[gnu::packed]] GroupQ5_K {
  F16Bits d[4], dmin[4];
  std::uint8_t scales_h[16];
  std::uint8_t scales_l[32];
  std::uint8_t qh[128];
  std::uint8_t qs[512];
};

BlockQ5_K block_of(const GroupQ5_K& g, int k, BlockQ5_K) {
  BlockQ5_K b{g.d[k], g.dmin[k], {}, {}, {}};
  put_k_scales(g.scales_h, g.scales_l, k, b.scales);
  put_fours(b.qs, [&](int i) { return pair_code(g.qs + i / 32 * 64, k, i % 32); });
  put_plane(b.qh, 0, [&](int i) { return plane_bit(g.qh + i / 32 * 16, k, i % 32, kOfQ5_K); });
  return b;
}

struct [[gnu::packed]] GroupQ6_K {
  F16Bits d[4];
  std::int8_t scales[64];
  std::uint8_t qh[256];
  std::uint8_t ql[512];
};

BlockQ6_K block_of(const GroupQ6_K& g, int k, BlockQ6_K) {
  BlockQ6_K b{{}, {}, {}, g.d[k]};
  for (int i = 0; i < 16; ++i) b.scales[i] = g.scales[4 * i + k];
  const auto low = [&](int i) { return pair_code(g.ql + i / 32 * 64, k, i % 32); };
  const auto high = [&](int i) {
    const int j = i % 32;
    return g.qh[i / 32 * 32 + 16 * (j / 16) + 4 * k + j % 4] >> (j / 8 % 2 * 2 + j / 4 % 2 * 4) & 3;
  };
  for (int half = 0; half < 2; ++half) {
    for (int j = 0; j < 64; ++j)
      b.ql[64 * half + j] = static_cast<std::uint8_t>(low(128 * half + j) | low(128 * half + j + 64) << 4);
    for (int j = 0; j < 32; ++j) {
      int byte = 0;
      for (int s = 0; s < 4; ++s) byte |= high(128 * half + 32 * s + j) << (2 * s);
      b.qh[32 * half + j] = static_cast<std::uint8_t>(byte);
    }
  }
  return b;
}

struct [[gnu::packed]] GroupIQ4_XS {
  F16Bits d[8];
  std::uint8_t scales_h[16];
  std::uint8_t scales_l[32];
  std::uint8_t qs[1024];
};

BlockIQ4_XS block_of(const GroupIQ4_XS& g, int k, BlockIQ4_XS) {
  BlockIQ4_XS b{g.d[k], 0, {}, {}};
  int high = 0;
  for (int i = 0; i < 8; ++i) high |= spread(g.scales_h, 16, 8 * i + k, 2) << (2 * i);
  b.scales_h = static_cast<std::uint16_t>(high);
  put_bits(b.scales_l, 8, 4, [&](int i) { return spread(g.scales_l, 32, 8 * i + k, 4); });
  for (int i = 0; i < 8; ++i)
    put_halves(b.qs + 16 * i, [&](int j) { return wide_code(g.qs + 128 * i, k, j); });
  return b;
}

// The bits that choose the shifts of a row's 16 groups.
std::uint16_t extra_of(const std::uint8_t (&extra)[8], int k) {
  int bits = 0;
  for (int i = 0; i < 16; ++i) bits |= (extra[k + i % 2 * 4] >> (i / 2) & 1) << i;
  return static_cast<std::uint16_t>(bits);
}

struct [[gnu::packed]] GroupIQ2_K {
  F16Bits d[4];
  std::uint8_t extra[8];
  std::uint8_t scales[32];
  std::uint8_t qs[256];
};

BlockIQ2_K block_of(const GroupIQ2_K& g, int k, BlockIQ2_K) {
  BlockIQ2_K b{g.d[k], extra_of(g.extra, k), {}, {}};
  put_bits(b.scales, 16, 4, [&](int i) { return spread(g.scales, 32, 4 * i + k, 4); });
  put_twos(b.qs, [&](int i) { return quad_code(g.qs + i / 32 * 32, k, i % 32); });
  return b;
}

struct [[gnu::packed]] GroupIQ3_K {
  F16Bits d[4];
  std::uint8_t extra[8];
  std::uint8_t signs[8];
  std::uint8_t scales[32];
  std::uint8_t qs[256];
  std::uint8_t qh[128];
};

BlockIQ3_K block_of(const GroupIQ3_K& g, int k, BlockIQ3_K) {
  BlockIQ3_K b{g.d[k], extra_of(g.extra, k), 0, {}, {}, {}};
  int signs = 0;
  for (int i = 0; i < 16; ++i) signs |= spread(g.signs, 8, 4 * i + k, 1) << i;
  b.signs = static_cast<std::uint16_t>(signs);
  put_bits(b.scales, 16, 4, [&](int i) { return spread(g.scales, 32, 4 * i + k, 4); });
  put_twos(b.qs, [&](int i) { return quad_code(g.qs + i / 32 * 32, k, i % 32); });
  put_plane(b.qh, 0, [&](int i) { return plane_bit(g.qh + i / 32 * 16, k, i % 32, kInOrder); });
  return b;
}

struct [[gnu::packed]] GroupIQ4_K {
  F16Bits d[4];
  std::uint8_t extra[8];
  std::uint8_t scales_h[16];
  std::uint8_t scales_l[32];
  std::uint8_t qs[512];
};

BlockIQ4_K block_of(const GroupIQ4_K& g, int k, BlockIQ4_K) {
  BlockIQ4_K b{g.d[k], extra_of(g.extra, k), {}, {}, {}};
  put_bits(b.scales_l, 16, 4, [&](int i) { return spread(g.scales_l, 32, 4 * i + k, 4); });
  put_bits(b.scales_h, 16, 2, [&](int i) { return spread(g.scales_h, 16, 4 * i + k, 2); });
  for (int i = 0; i < 8; ++i)
    put_halves(b.qs + 16 * i, [&](int j) { return pair_code(g.qs + 64 * i, k, j); });
  return b;
}

struct [[gnu::packed]] GroupIQ5_K {
  F16Bits d[4];
  std::uint8_t extra[8];
  std::uint8_t scales_h[16];
  std::uint8_t scales_l[32];
  std::uint8_t qs[512];
  std::uint8_t qh[128];
};

BlockIQ5_K block_of(const GroupIQ5_K& g, int k, BlockIQ5_K) {
  BlockIQ5_K b{g.d[k], extra_of(g.extra, k), {}, {}, {}, {}};
  put_bits(b.scales_l, 16, 4, [&](int i) { return spread(g.scales_l, 32, 4 * i + k, 4); });
  put_bits(b.scales_h, 16, 2, [&](int i) { return spread(g.scales_h, 16, 4 * i + k, 2); });
  put_fours(b.qs, [&](int i) { return pair_code(g.qs + i / 32 * 64, k, i % 32); });
  put_plane(b.qh, 0, [&](int i) { return plane_bit(g.qh + i / 32 * 16, k, i % 32, kOfIQ5_K); });
  return b;
}

struct [[gnu::packed]] GroupIQ4_KS {
  std::uint8_t scales[32];
  std::uint8_t qs[512];
};

BlockIQ4_KS block_of(const GroupIQ4_KS& g, int k, BlockIQ4_KS) {
  BlockIQ4_KS b{};
  for (int i = 0; i < 8; ++i) {
    b.scales[i] = g.scales[4 * i + k];
    put_halves(b.qs + 16 * i, [&](int j) { return pair_code(g.qs + 64 * i, k, j); });
  }
  return b;
}

struct [[gnu::packed]] GroupIQ5_KS {
  std::uint8_t scales[32];
  std::uint8_t qs[512];
  std::uint8_t qh[128];
};

BlockIQ5_KS block_of(const GroupIQ5_KS& g, int k, BlockIQ5_KS) {
  BlockIQ5_KS b{};
  for (int i = 0; i < 8; ++i) b.scales[i] = g.scales[4 * i + k];
  put_fours(b.qs, [&](int i) { return pair_code(g.qs + i / 32 * 64, k, i % 32); });
  put_plane(b.qh, 0, [&](int i) { return plane_bit(g.qh + i / 32 * 16, k, i % 32, kOfIQ5_K); });
  return b;
}

// Groups keep a pattern of 8 signs as the 7 bits t for which it is t ^ t << 1; blocks as its lower 7.
std::uint32_t sign_pattern(std::uint32_t t) { return (t ^ t << 1) & 127; }

// Four patterns and a scale's 4 bits: a byte a pattern, the scale's bits below, as blocks have them in 32 bits.
std::uint32_t signs_and_scale(const std::uint8_t* bytes) {
  std::uint32_t word = 0;
  for (std::uint32_t i = 0; i < 4; ++i)
    word |= sign_pattern(bytes[i] >> 1) << (7 * i) | (bytes[i] & 1u) << (28 + i);
  return word;
}

struct [[gnu::packed]] GroupIQ2_XXS {
  F16Bits d[4];
  std::uint8_t sas[128];
  std::uint8_t qs[128];
};

BlockIQ2_XXS block_of(const GroupIQ2_XXS& g, int k, BlockIQ2_XXS) {
  BlockIQ2_XXS b{g.d[k], {}};
  for (int i = 0; i < 8; ++i) {
    const std::uint32_t signs = signs_and_scale(g.sas + 16 * i + 4 * k);
    std::memcpy(b.qs + 8 * i, g.qs + 16 * i + 4 * k, 4);
    std::memcpy(b.qs + 8 * i + 4, &signs, 4);
  }
  return b;
}

struct [[gnu::packed]] GroupIQ2_XS {
  F16Bits d[4];
  std::uint16_t qs[128];
  std::uint8_t scales[32];
};

BlockIQ2_XS block_of(const GroupIQ2_XS& g, int k, BlockIQ2_XS) {
  BlockIQ2_XS b{g.d[k], {}, {}};
  for (int i = 0; i < 32; ++i) {
    const std::uint16_t q = g.qs[i / 4 * 16 + 4 * k + i % 4];
    b.qs[i] = static_cast<std::uint16_t>((q & 511) | sign_pattern(q >> 9) << 9);
  }
  for (int i = 0; i < 8; ++i) b.scales[i] = g.scales[4 * i + k];
  return b;
}

struct [[gnu::packed]] GroupIQ2_S {
  F16Bits d[4];
  std::uint8_t qs[128];
  std::uint8_t qh[32];
  std::uint8_t signs[128];
  std::uint8_t scales[32];
};

BlockIQ2_S block_of(const GroupIQ2_S& g, int k, BlockIQ2_S) {
  BlockIQ2_S b{g.d[k], {}, {}, {}, {}};
  for (int i = 0; i < 32; ++i) {
    b.qs[i] = g.qs[i / 4 * 16 + 4 * k + i % 4];
    b.signs[i] = g.signs[i / 4 * 16 + 4 * k + i % 4];
  }
  for (int i = 0; i < 8; ++i) {
    b.qh[i] = g.qh[4 * i + k];
    b.scales[i] = g.scales[4 * i + k];
  }
  return b;
}

struct [[gnu::packed]] GroupIQ3_XXS {
  F16Bits d[4];
  std::uint8_t sas[128];
  std::uint8_t qs[256];
};

BlockIQ3_XXS block_of(const GroupIQ3_XXS& g, int k, BlockIQ3_XXS) {
  BlockIQ3_XXS b{g.d[k], {}, {}};
  for (int i = 0; i < 8; ++i) {
    std::memcpy(b.qs + 8 * i, g.qs + 32 * i + 8 * k, 8);
    b.scales[i] = signs_and_scale(g.sas + 16 * i + 4 * k);
  }
  return b;
}

struct [[gnu::packed]] GroupIQ3_S {
  F16Bits d[4];
  std::uint8_t qs[256];
  std::uint8_t qh[32];
  std::uint8_t signs[128];
  std::uint8_t scales[16];
};

BlockIQ3_S block_of(const GroupIQ3_S& g, int k, BlockIQ3_S) {
  BlockIQ3_S b{g.d[k], {}, {}, {}, {}};
  put_bits(b.scales, 8, 4, [&](int i) { return spread(g.scales, 16, 4 * i + k, 4); });
  for (int i = 0; i < 8; ++i) {
    b.qh[i] = g.qh[4 * i + k];
    // Indices i and i + 4 of a group of 8 stand 4 bytes apart, signs of values j and j + 4 in neighbouring bits.
    for (int j = 0; j < 8; ++j) b.qs[8 * i + j] = g.qs[32 * i + 8 * (j % 4) + 4 * (j / 4) + k];
    put_bits(b.signs + 4 * i, 32, 1,
             [&](int j) { return g.signs[16 * i + 4 * k + j % 4] >> (j / 8 * 2 + j / 4 % 2) & 1; });
  }
  return b;
}

struct [[gnu::packed]] GroupIQ1_S_R4 {
  std::uint8_t qs[16];
  std::uint16_t qh[4];
};

BlockIQ1_S_R4 block_of(const GroupIQ1_S_R4& g, int k, BlockIQ1_S_R4) {
  return {{g.qs[k], g.qs[4 + k], g.qs[8 + k], g.qs[12 + k]}, g.qh[k]};
}

struct [[gnu::packed]] GroupIQ1_M_R4 {
  std::uint8_t qs[16];
  std::uint8_t qh[8];
  std::uint8_t scales[4];
};

BlockIQ1_M_R4 block_of(const GroupIQ1_M_R4& g, int k, BlockIQ1_M_R4) {
  return {{g.qs[k], g.qs[4 + k], g.qs[8 + k], g.qs[12 + k]}, {g.qh[k], g.qh[4 + k]}, g.scales[k]};
}

struct [[gnu::packed]] GroupIQ2_BN {
  std::uint8_t qs[64];
};

BlockIQ2_BN block_of(const GroupIQ2_BN& g, int k, BlockIQ2_BN) {
  BlockIQ2_BN b{};
  for (int i = 0; i < 64; ++i) {
    b.qs[i % 16] = static_cast<std::uint8_t>(b.qs[i % 16] | quad_code(g.qs, k, i) << (i / 16 * 2));
  }
  return b;
}

// ---- Rows ----

template <class Group, class Block>
void take_blocks_apart(const Interleaved& type, std::int64_t n, const std::uint8_t* src, std::uint8_t* dst) {
  static_assert(sizeof(Group) % sizeof(Block) == 0);
  GC_CHECK(static_cast<std::int64_t>(sizeof(Group)) == type.rows * static_cast<std::int64_t>(sizeof(Block)));
  const std::int64_t head = head_bytes(type.base), row = row_bytes(type.base, n);
  for (std::int64_t k = 0; k < type.rows; ++k)
    std::memcpy(dst + k * row, src + k * head, static_cast<std::size_t>(head));
  src += head * type.rows;
  dst += head;
  for (std::int64_t i = 0; i < n / info(type.base).block_values; ++i) {
    Group group;
    std::memcpy(&group, src, sizeof group);
    src += sizeof group;
    for (int k = 0; k < type.rows; ++k) {
      const Block block = block_of(group, k, Block{});
      std::memcpy(dst + k * row + i * static_cast<std::int64_t>(sizeof block), &block, sizeof block);
    }
  }
}

// Two columns of each row, then the next two.
void take_bf16_apart(const Interleaved& type, std::int64_t n, const std::uint8_t* src, std::uint8_t* dst) {
  GC_CHECK(n % 2 == 0, n);
  for (std::int64_t c = 0; c < n; c += 2) {
    for (std::int64_t k = 0; k < type.rows; ++k, src += 4) std::memcpy(dst + (k * n + c) * 2, src, 4);
  }
}

}  // namespace

std::span<const Interleaved> all_interleaved() { return kTable; }

const Interleaved* interleaved_of_gguf_id(std::uint32_t gguf_id) {
  for (const Interleaved& type : kTable) {
    if (type.gguf_id == gguf_id) return &type;
  }
  return nullptr;
}

void take_apart(const Interleaved& type, std::int64_t n, const std::uint8_t* src, std::uint8_t* dst) {
#define TAKE(name)   \
  case Format::name: \
    return take_blocks_apart<Group##name, Block##name>(type, n, src, dst)
  switch (type.base) {
    case Format::BF16:
      return take_bf16_apart(type, n, src, dst);
      TAKE(Q4_0);
      TAKE(Q5_0);
      TAKE(Q8_0);
      TAKE(Q2_K);
      TAKE(Q3_K);
      TAKE(Q4_K);
      TAKE(Q5_K);
      TAKE(Q6_K);
      TAKE(IQ2_XXS);
      TAKE(IQ2_XS);
      TAKE(IQ3_XXS);
      TAKE(IQ1_S_R4);
      TAKE(IQ4_NL);
      TAKE(IQ3_S);
      TAKE(IQ2_S);
      TAKE(IQ4_XS);
      TAKE(IQ1_M_R4);
      TAKE(Q6_0);
      TAKE(IQ2_BN);
      TAKE(IQ2_K);
      TAKE(IQ3_K);
      TAKE(IQ4_K);
      TAKE(IQ5_K);
      TAKE(IQ4_KS);
      TAKE(IQ5_KS);
      TAKE(MXFP4);
    default:  // not in interleaved.def
      throw_internal("interleaved rows of ", name(type.base));
  }
#undef TAKE
}

}  // namespace gc
