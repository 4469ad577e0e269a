#include "runtime/text/bpe.h"

#include "runtime/text/charmap.h"
#include "runtime/text/utf8.h"
#include "runtime/text/words.h"

namespace gcrt {

Status BpeMerger::encode(Str text, Vec<int32_t>& out) {
  return vocab_.has(frozen::kDna) ? dna(text, out) : ordinary(text, out);
}

Status BpeMerger::dna(Str text, Vec<int32_t>& out) {
  constexpr Str kOpen = "<dna>", kClose = "</dna>";
  const int32_t open = vocab_.find(kOpen), close = vocab_.find(kClose), other = vocab_.find("<oov>");
  if (open < 0 || close < 0 || other < 0) return ordinary(text, out);
  auto find = [](Str in, Str what) {
    const void* p = in.empty() ? nullptr : memmem(in.data(), in.size(), what.data(), what.size());
    return p ? static_cast<size_t>(static_cast<const char*>(p) - in.data()) : in.size();
  };
  while (!text.empty()) {
    const size_t from = find(text, kOpen);
    Status s = from ? ordinary(text.sub(0, from), out) : kOk;
    if (s != kOk || from == text.size()) return s;
    text = text.sub(from + kOpen.size());
    const size_t to = find(text, kClose);
    if (!out.push(open)) return kErrMemory;
    s = letters(text.sub(0, to), other, out);
    if (s != kOk || to == text.size()) return s;
    if (!out.push(close)) return kErrMemory;
    text = text.sub(to + kClose.size());
  }
  return kOk;
}

Status BpeMerger::letters(Str text, int32_t other, Vec<int32_t>& out) {
  constexpr size_t kLetters = 6;
  for (size_t at = 0; at < text.size(); at += kLetters) {
    char piece[kLetters + 3];
    for (size_t i = 0; i < kLetters; ++i) {
      const char c = at + i < text.size() ? text[at + i] : 'A';
      piece[i] = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    }
    memcpy(piece + kLetters, kDnaMark.data(), kDnaMark.size());
    const int32_t id = vocab_.find({piece, sizeof piece});
    if (!out.push(id >= 0 ? id : other)) return kErrMemory;
  }
  return kOk;
}

Status BpeMerger::ordinary(Str text, Vec<int32_t>& out) {
  if (vocab_.has(frozen::kDropSpaces)) return replaced(text, out);
  return vocab_.has(frozen::kEscapeSpaces) ? escaped(text, out) : words(text, out);
}

// U+2581 for spaces.
Status BpeMerger::escaped(Str text, Vec<int32_t>& out) {
  text_.clear();
  for (size_t i = 0; i < text.size();) {
    const void* hit = memchr(text.data() + i, ' ', text.size() - i);
    size_t stop = hit ? static_cast<size_t>(static_cast<const char*>(hit) - text.data()) : text.size();
    if (!append(text_, text.sub(i, stop - i)) || (hit && !append(text_, Str("\xE2\x96\x81"))))
      return kErrMemory;
    i = stop + 1;
  }
  return text_.size() < Merger::kEnd ? words({text_.data(), text_.size()}, out) : kErrArgument;
}

// Stretches without white space, their letters replaced.
Status BpeMerger::replaced(Str text, Vec<int32_t>& out) {
  text_.clear();
  for (size_t at = 0; at <= text.size();) {
    int n = at < text.size() ? utf8_next(text.sub(at, 4)) : 1;
    CharRule rule{CharRuleKind::kSpace, 0};
    if (n <= 0) {  // no character: stays as it is
      n = 1;
      if (!text_.push(text[at++])) return kErrMemory;
      continue;
    }
    if (at < text.size()) rule = char_rule(vocab_, utf8_decode(text.data() + at, n));
    at += static_cast<size_t>(n);
    if (rule.kind != CharRuleKind::kSpace) {
      if (!utf8_append(rule.code_point, text_)) return kErrMemory;
      continue;
    }
    if (text_.size() >= Merger::kEnd) return kErrArgument;
    Status s = words({text_.data(), text_.size()}, out);
    if (s != kOk) return s;
    text_.clear();
  }
  return kOk;
}

Status BpeMerger::words(Str text, Vec<int32_t>& out) {
  WordSplitter words(vocab_.words(), text);
  bool whole_first = vocab_.has(frozen::kIgnoreMerges), whole_lines = vocab_.has(frozen::kWholeNewlines);
  for (Str w; words.next(&w);) {
    bool whole = whole_first || (whole_lines && w[0] == '\n');
    int32_t id = whole ? vocab_.find(w) : -1;
    if (id >= 0) {
      if (!out.push(id)) return kErrMemory;
      continue;
    }
    Status s = vocab_.has(frozen::kCharSymbols) ? chars(w, out) : word(w, out);
    if (s != kOk) return s;
  }
  return kOk;
}

Status BpeMerger::word(Str word, Vec<int32_t>& out) {
  uint32_t end = 0;
  return merge(word, 0, out, &end, [&](uint32_t at, Merger::Symbol* s) {
    if (at == word.size()) return false;
    s->bytes = 1;
    s->id = vocab_.byte_token(static_cast<uint8_t>(word[at]));
    return true;
  });
}

Status BpeMerger::chars(Str word, Vec<int32_t>& out) {
  for (uint32_t begin = 0, end = 0; begin < word.size(); begin = end) {
    uint32_t before = 0;
    const Status s = merge(word, begin, out, &end, [&](uint32_t at, Merger::Symbol* symbol) {
      if (at == word.size()) return false;
      const uint32_t bytes = static_cast<uint32_t>(frozen::char_bytes(word.data() + at, word.size() - at));
      const uint32_t code = frozen::char_code(word.data() + at, bytes);
      if (at != begin && !vocab_.may_join(before, code)) return false;
      before = code;
      symbol->bytes = bytes;
      symbol->id = vocab_.find(word.sub(at, bytes));
      return true;
    });
    if (s != kOk) return s;
  }
  return kOk;
}

// The symbols that `next` reads, parts of `word`.
template <class Next>
Status BpeMerger::merge(Str word, uint32_t begin, Vec<int32_t>& out, uint32_t* end, const Next& next) {
  auto find = [&](const Merger::Symbol& l, const Merger::Symbol& r, Merger::Joined* joined) {
    const frozen::Merge* m = vocab_.find_merge(l.id, r.id);
    if (m) *joined = {~m->rank, m->result};
    return m != nullptr;
  };
  auto put = [&](const Merger::Symbol& symbol) { return this->put(symbol, word, out); };
  return merger_.merge(begin, next, find, put, out, end);
}

bool BpeMerger::put(const Merger::Symbol& s, Str word, Vec<int32_t>& out) const {
  if (s.id >= 0 && static_cast<uint32_t>(s.id) < vocab_.n_vocab()) return out.push(s.id);
  for (uint32_t i = s.begin; i < s.begin + s.bytes; ++i) {
    int32_t id = vocab_.byte_token(static_cast<uint8_t>(word[i]));
    if (id >= 0 && !out.push(id)) return false;  // the compiler has warned of bytes without a token
  }
  return true;
}

}  // namespace gcrt
