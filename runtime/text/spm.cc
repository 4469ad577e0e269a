#include "runtime/text/spm.h"

namespace gcrt {
namespace {

constexpr Str kSpace = "\xE2\x96\x81";  // U+2581, SentencePiece's space

// Unsigned order of the result is the order of the floats; -0 counts as 0.
uint32_t ordered(float score) {
  score += 0.0f;
  uint32_t u;
  memcpy(&u, &score, sizeof u);
  return u & 0x80000000u ? ~u : u | 0x80000000u;
}

}  // namespace

Status SpmMerger::escape(Str raw, bool space_prefix) {
  text_.clear();
  bool escaped = vocab_.has(frozen::kEscapeSpaces);
  size_t spaces = space_prefix;
  if (escaped)
    for (char c : raw) spaces += c == ' ';
  uint64_t bytes = raw.size() + uint64_t{spaces} * 3;
  if (bytes >= Merger::kEnd) return kErrArgument;
  if (!text_.reserve(bytes)) return kErrMemory;
  bool ok = !space_prefix || append(text_, escaped ? kSpace : Str(" "));
  for (size_t i = 0; i < raw.size() && ok;) {
    const void* hit = escaped ? memchr(raw.data() + i, ' ', raw.size() - i) : nullptr;
    size_t stop = hit ? static_cast<size_t>(static_cast<const char*>(hit) - raw.data()) : raw.size();
    ok = append(text_, raw.sub(i, stop - i)) && (!hit || append(text_, kSpace));
    i = stop + 1;
  }
  return ok ? kOk : kErrMemory;
}

Status SpmMerger::encode(Str raw, bool space_prefix, Vec<int32_t>& out) {
  Status s = escape(raw, space_prefix);
  if (s != kOk) return s;
  uint32_t n = static_cast<uint32_t>(text_.size());
  uint32_t before = 0;
  merger_.clear();
  for (uint32_t at = 0; at < n;) {
    uint32_t bytes = static_cast<uint32_t>(frozen::char_bytes(text_.data() + at, n - at));
    uint32_t code = frozen::char_code(text_.data() + at, bytes);
    if (!merger_.empty() && !vocab_.may_join(before, code)) {
      s = merge(out);
      if (s != kOk) return s;
      merger_.clear();
    }
    if (!merger_.add(at, bytes, kNotLooked)) return kErrMemory;
    before = code;
    at += bytes;
  }
  return merge(out);
}

// One stretch, whose symbols stand ready.
Status SpmMerger::merge(Vec<int32_t>& out) {
  Status s = merger_.merge([&](const Merger::Symbol& l, const Merger::Symbol& r, Merger::Joined* joined) {
    int32_t id = vocab_.find(Str(text_.data() + l.begin, l.bytes + r.bytes));
    if (id >= 0) *joined = {ordered(vocab_.score(id)), id};
    return id >= 0;
  });
  if (s != kOk) return s;
  return merger_.each([&](const Merger::Symbol& symbol) { return put(symbol, out); }) ? kOk : kErrMemory;
}

bool SpmMerger::put(const Merger::Symbol& s, Vec<int32_t>& out) {
  Str bytes(text_.data() + s.begin, s.bytes);
  int32_t id = s.id == kNotLooked ? vocab_.find(bytes) : s.id;
  if (id >= 0) return out.push(id);
  for (char c : bytes) {
    int32_t byte_id = vocab_.byte_token(static_cast<uint8_t>(c));
    // The compiler lets a vocabulary without this byte pass only if it has an unknown piece: one for the character.
    if (byte_id < 0) return vocab_.meta().unk < 0 || out.push(vocab_.meta().unk);
    if (!out.push(byte_id)) return false;
  }
  return true;
}

}  // namespace gcrt
