#include "runtime/text/unigram.h"

#include <float.h>

#include "runtime/text/charmap.h"
#include "runtime/text/utf8.h"

namespace gcrt {
namespace {

// Bytes of the character at text[at], 1 for a byte that begins none.
size_t char_at(Str text, size_t at) {
  int n = utf8_next(text.sub(at, 4));
  return n > 0 ? static_cast<size_t>(n) : 1;
}

}  // namespace

Status UgmCutter::normalize(Str raw) {
  text_.clear();
  CharMap map(vocab_.char_map());
  Str space = vocab_.has(frozen::kEscapeSpaces) ? Str("\xE2\x96\x81") : Str(" ");
  bool prefix = vocab_.has(frozen::kAddSpacePrefix), merge = vocab_.has(frozen::kRemoveExtraSpaces);
  bool prefixed = false, in_word = false;
  for (size_t at = 0, bytes = 0; at < raw.size(); at += bytes) {
    for (char c : map.next(raw, at, &bytes)) {
      if (c == ' ') {
        in_word = false;
        if (!merge && !append(text_, space)) return kErrMemory;
        continue;
      }
      if (!in_word) {
        in_word = true;
        if ((prefix && !prefixed) || merge) {
          if (!append(text_, space)) return kErrMemory;
          prefixed = true;
        }
      }
      if (!text_.push(c)) return kErrMemory;
    }
  }
  return text_.size() < UINT32_MAX ? kOk : kErrArgument;
}

void UgmCutter::offer(size_t end, double score, int32_t id, size_t begin) {
  if (score > best_[end].score) best_[end] = {score, id, static_cast<uint32_t>(begin)};
}

Status UgmCutter::encode(Str raw, Vec<int32_t>& out) {
  Status s = normalize(raw);
  if (s != kOk) return s;
  Str text(text_.data(), text_.size());
  size_t n = text.size();
  if (!n) return kOk;
  int32_t unk = vocab_.meta().unk;
  best_.clear();
  if (!best_.resize(n + 1)) return kErrMemory;
  for (Best& b : best_) b = {-DBL_MAX, unk, 0};
  best_[0].score = 0;
  double unknown = static_cast<double>(vocab_.meta().unknown_score);
  for (size_t at = 0; at < n;) {
    size_t bytes = char_at(text, at);
    bool single = false;
    uint32_t node = 0;
    for (size_t i = at; i < n; ++i) {
      node = vocab_.piece_child(node, static_cast<uint8_t>(text[i]));
      if (!node) break;
      int32_t id = vocab_.piece_at(node);
      if (id < 0) continue;
      single |= i + 1 - at == bytes;
      offer(i + 1, best_[at].score + static_cast<double>(vocab_.score(id)), id, at);
    }
    if (!single) offer(at + bytes, best_[at].score + unknown, unk, at);
    at += bytes;
  }
  size_t first = out.size();
  bool was_unknown = false;
  for (size_t at = n; at; at = best_[at].begin) {
    bool is_unknown = best_[at].id == unk;
    if (!(was_unknown && is_unknown) && best_[at].id >= 0 && !out.push(best_[at].id)) return kErrMemory;
    was_unknown = is_unknown;
  }
  for (size_t i = first, j = out.size(); i + 1 < j; ++i) swap_values(out[i], out[--j]);
  return kOk;
}

Status Plamo2Cutter::encode(Str text, Vec<int32_t>& out) {
  constexpr int64_t kUnknownCost = 10000000;
  constexpr float kLowestScore = -20000000.0f;
  if (text.starts_with("\xEF\xBB\xBF")) text = text.sub(3);  // a byte order mark is no text
  size_t n = text.size();
  if (!best_.resize(n + 1)) return kErrMemory;
  best_[n] = {0, -1, 0};
  // From the right over starts of characters: those are marked by a first pass from the left.
  for (size_t i = 0; i < n; ++i) best_[i].bytes = 0;
  for (size_t at = 0; at < n; at += best_[at].bytes)
    best_[at].bytes = static_cast<uint32_t>(char_at(text, at));
  for (size_t at = n; at-- > 0;) {
    uint32_t bytes = best_[at].bytes;
    if (!bytes) continue;  // inside a character
    Best best{best_[at + bytes].cost + kUnknownCost, -1, bytes};
    uint32_t node = 0;
    for (size_t i = at; i < n; ++i) {
      node = vocab_.piece_child(node, static_cast<uint8_t>(text[i]));
      if (!node) break;
      int32_t id = vocab_.piece_at(node);
      if (id < 0 || (i + 1 < n && !best_[i + 1].bytes)) continue;  // must end with a character
      float score = vocab_.score(id);
      if (!(score > kLowestScore)) continue;
      int64_t cost = best_[i + 1].cost - static_cast<int64_t>(score);
      if (cost <= best.cost) best = {cost, id, static_cast<uint32_t>(i + 1 - at)};
    }
    best_[at] = best;
  }
  for (size_t at = 0; at < n; at += best_[at].bytes) {
    if (best_[at].id >= 0) {
      if (!out.push(best_[at].id)) return kErrMemory;
      continue;
    }
    for (uint32_t i = 0; i < best_[at].bytes; ++i) {
      int32_t id = vocab_.byte_token(static_cast<uint8_t>(text[at + i]));
      if (id >= 0 && !out.push(id)) return kErrMemory;
    }
  }
  return kOk;
}

}  // namespace gcrt
