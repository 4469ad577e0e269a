#include "runtime/text/longest.h"

#include "runtime/text/charmap.h"
#include "runtime/text/utf8.h"

namespace gcrt {
namespace {

// The longest piece at text[at], its length in *bytes; -1 when there is none.
int32_t longest(const frozen::View& vocab, Str text, size_t at, size_t* bytes) {
  int32_t found = -1;
  uint32_t node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    node = vocab.piece_child(node, static_cast<uint8_t>(text[i]));
    if (!node) break;
    int32_t id = vocab.piece_at(node);
    if (id < 0) continue;
    found = id;
    *bytes = i + 1 - at;
  }
  return found;
}

}  // namespace

bool WordPieceCutter::add(uint32_t code_point) {
  if (word_.empty() && !append(word_, Str("\xE2\x96\x81"))) return false;
  return utf8_append(code_point, word_);
}

Status WordPieceCutter::encode(Str text, Vec<int32_t>& out) {
  for (size_t at = 0; at < text.size();) {
    int n = utf8_next(text.sub(at, 4));
    if (n <= 0) {  // bytes that are no character count for nothing
      ++at;
      continue;
    }
    CharRule rule = char_rule(vocab_, utf8_decode(text.data() + at, n));
    at += static_cast<size_t>(n);
    Status s = kOk;
    switch (rule.kind) {
      case CharRuleKind::kPart:
        if (!add(rule.code_point)) return kErrMemory;
        break;
      case CharRuleKind::kSpace:
        s = finish(out);
        break;
      case CharRuleKind::kDrop:
        break;
      case CharRuleKind::kSingle:
        s = finish(out);
        if (s != kOk) return s;
        if (!add(rule.code_point)) return kErrMemory;
        s = finish(out);
        break;
    }
    if (s != kOk) return s;
  }
  return finish(out);
}

// The word's pieces.
Status WordPieceCutter::finish(Vec<int32_t>& out) {
  if (word_.empty()) return kOk;
  Str word(word_.data(), word_.size());
  size_t before = out.size();
  for (size_t at = 0, bytes = 0; at < word.size(); at += bytes) {
    int32_t id = longest(vocab_, word, at, &bytes);
    if (id < 0) {
      out.truncate(before);
      break;
    }
    if (!out.push(id)) return kErrMemory;
  }
  int32_t unk = vocab_.meta().unk;
  if (out.size() == before && unk >= 0 && !out.push(unk)) return kErrMemory;
  word_.clear();
  return kOk;
}

Status encode_longest(const frozen::View& vocab, Str text, Vec<int32_t>& out) {
  for (size_t at = 0, bytes = 0; at < text.size(); at += bytes) {
    int32_t id = longest(vocab, text, at, &bytes);
    if (id < 0) {
      id = vocab.meta().unk;
      bytes = 1;
    }
    if (id >= 0 && !out.push(id)) return kErrMemory;
  }
  return kOk;
}

}  // namespace gcrt
