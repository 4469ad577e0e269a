#pragma once
// The file that `perplexity --kl-divergence-base` saves, and that --kl-divergence compares with: llama-perplexity's,
// so that either program reads what the other wrote.
//
//   "_logits_"  i32 n_ctx  i32 n_vocab  i32 n_chunk  i32 tokens[n_chunk][n_ctx]
//   for each chunk, for each position from n_ctx / 2 on but the last:
//     f32 scale  f32 least  u16 q[n_vocab]  (padding to an even number)
//
// The log-probability of a token is scale * q + least: 65535 steps over the 16 nats below the likeliest (or to the least
// likely, when that is nearer); what is less likely is clamped. 2 bytes a token of the vocabulary: half a megabyte a
// position at 262,144.
#include <stdint.h>

#include "runtime/apps/cli/app.h"

namespace gcrt {

class KlBase {
 public:
  struct Head {
    char magic[8];
    int32_t n_ctx, n_vocab, n_chunk;
  };
  static Head make_head(uint32_t n_ctx, uint32_t n_vocab, uint32_t n_chunk);
  static uint64_t row_words(uint32_t n_vocab) { return (n_vocab + uint64_t{1}) / 2 * 2 + 4; }
  // Positions of a chunk that count, and the first of them.
  static uint32_t first_scored(uint32_t n_ctx) { return n_ctx / 2; }
  static uint32_t scored(uint32_t n_ctx) { return n_ctx - 1 - n_ctx / 2; }

  KlBase() = default;
  KlBase(const KlBase&) = delete;
  KlBase& operator=(const KlBase&) = delete;
  ~KlBase();

  // Maps the file; false after a message: no such file, another format or vocabulary, cut off.
  bool open(App& app, const char* path, uint32_t n_vocab);
  const Head& head() const { return *reinterpret_cast<const Head*>(bytes_); }
  Span<const int32_t> tokens() const;
  // Of the i-th scored position of a chunk.
  const uint16_t* row(uint32_t chunk, uint32_t i) const;

 private:
  const uint8_t* bytes_ = nullptr;
  uint64_t size_ = 0;
};

// What a position says, in nats. `best` counts ties to the lowest id.
struct Score {
  double nll = 0;       // of the token that follows
  double base_nll = 0;  // the base's, where it isn't clamped
  bool has_base_nll = false;
  double kl = 0;  // from the base
  bool same_best = false;
};

// Scores one position's logits. `save`: a row of the file to fill; `base`: one to compare with; either may be null.
// A NaN anywhere makes nll a NaN.
Score score_position(const float* logits, uint32_t n_vocab, int32_t next, uint16_t* save,
                     const uint16_t* base);

}  // namespace gcrt
