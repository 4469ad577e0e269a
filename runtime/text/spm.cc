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
  const uint32_t n = static_cast<uint32_t>(text_.size());
  for (uint32_t begin = 0, end = 0; begin < n && s == kOk; begin = end) s = stretch(begin, &end, out);
  return s;
}

// The text from `begin` on up to where it is cut.
Status SpmMerger::stretch(uint32_t begin, uint32_t* end, Vec<int32_t>& out) {
  const uint32_t n = static_cast<uint32_t>(text_.size());
  uint32_t before = 0;
  auto next = [&](uint32_t at, Merger::Symbol* symbol) {
    if (at == n) return false;
    const uint32_t bytes = static_cast<uint32_t>(frozen::char_bytes(text_.data() + at, n - at));
    const uint32_t code = frozen::char_code(text_.data() + at, bytes);
    if (at != begin && !vocab_.may_join(before, code)) return false;
    before = code;
    symbol->bytes = bytes;
    symbol->id = kNotLooked;
    return true;
  };
  auto find = [&](const Merger::Symbol& l, const Merger::Symbol& r, Merger::Joined* joined) {
    int32_t id = vocab_.find(Str(text_.data() + l.begin, l.bytes + r.bytes));
    if (id >= 0) *joined = {ordered(vocab_.score(id)), id};
    return id >= 0;
  };
  auto put = [&](const Merger::Symbol& symbol) { return this->put(symbol, out); };
  return merger_.merge(begin, next, find, put, out, end);
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
