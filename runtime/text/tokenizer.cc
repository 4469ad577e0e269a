#include "runtime/text/tokenizer.h"

#include "runtime/text/bpe.h"
#include "runtime/text/longest.h"
#include "runtime/text/spm.h"
#include "runtime/text/unigram.h"

namespace gcrt {
namespace {

using frozen::Kind;

bool ranges_ok(Span<const TextRange> ranges, size_t bytes) {
  uint32_t at = 0;
  for (const TextRange& r : ranges) {
    if (r.begin < at || r.end < r.begin || r.end > bytes) return false;
    at = r.end;
  }
  return true;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// The piece with U+2581 turned into spaces.
bool append_unescaped(Str piece, Vec<char>& out) {
  while (!piece.empty()) {
    if (piece.starts_with("\xE2\x96\x81")) {
      if (!out.push(' ')) return false;
      piece = piece.sub(3);
    } else {
      if (!out.push(piece[0])) return false;
      piece = piece.sub(1);
    }
  }
  return true;
}

// Special pieces as they are, `encode` for what lies between.
template <class Encode>
Status encode_each(Str text, Span<const Fragment> fragments, Vec<int32_t>& out, Encode encode) {
  for (const Fragment& f : fragments) {
    Status s = kOk;
    if (f.id < 0)
      s = encode(text.sub(f.begin, f.end - f.begin));
    else if (!out.push(f.id))
      s = kErrMemory;
    if (s != kOk) return s;
  }
  return kOk;
}

}  // namespace

Status Tokenizer::open(Span<const uint8_t> blob, Allocator allocator) {
  allocator_ = allocator;
  return view_.open(blob);
}

Status Tokenizer::encode(Str text, const EncodeOptions& options, Vec<int32_t>& out) const {
  if (!available()) return kErrUnsupported;
  if (text.size() > INT32_MAX || !ranges_ok(options.literal, text.size())) return kErrArgument;
  Vec<Fragment> fragments(allocator_);
  Status s = split_special(view_, text, options.parse_special, options.literal, allocator_, fragments);
  if (s != kOk) return s;

  int32_t bos = meta().bos, eos = meta().eos;
  bool bos_given = !fragments.empty() && fragments[0].id == bos;
  bool eos_given = !fragments.empty() && fragments.back().id == eos;
  if (options.add_special && view_.has(frozen::kAddBos) && bos >= 0 && !bos_given && !out.push(bos))
    return kErrMemory;
  switch (view_.kind()) {
    case Kind::kSpm:
      s = encode_spm(text, fragments, out);
      break;
    case Kind::kBpe: {
      BpeMerger merger(view_, allocator_);
      s = encode_each(text, fragments, out, [&](Str part) { return merger.encode(part, out); });
      break;
    }
    case Kind::kWpm: {
      WordPieceCutter cutter(view_, allocator_);
      s = encode_each(text, fragments, out, [&](Str part) { return cutter.encode(part, out); });
      break;
    }
    case Kind::kUgm: {
      UgmCutter cutter(view_, allocator_);
      s = encode_each(text, fragments, out, [&](Str part) { return cutter.encode(part, out); });
      break;
    }
    case Kind::kRwkv:
      s = encode_each(text, fragments, out, [&](Str part) { return encode_longest(view_, part, out); });
      break;
    case Kind::kPlamo2: {
      Plamo2Cutter cutter(view_, allocator_);
      s = encode_each(text, fragments, out, [&](Str part) { return cutter.encode(part, out); });
      break;
    }
    case Kind::kNone:
      return kErrUnsupported;
  }
  if (s != kOk) return s;
  // WordPiece ends with its separator; elsewhere it parts pairs of texts, which is not for us to add.
  if (options.add_special && view_.kind() == Kind::kWpm && view_.has(frozen::kAddSep) && meta().sep >= 0 &&
      !(!fragments.empty() && fragments.back().id == meta().sep) && !out.push(meta().sep))
    return kErrMemory;
  if (options.add_special && view_.has(frozen::kAddEos) && eos >= 0 && !eos_given && !out.push(eos))
    return kErrMemory;
  return kOk;
}

Status Tokenizer::encode_spm(Str text, Span<const Fragment> fragments, Vec<int32_t>& out) const {
  SpmMerger merger(view_, allocator_);
  bool after_special = true;
  for (const Fragment& f : fragments) {
    if (f.id >= 0) {
      if (!out.push(f.id)) return kErrMemory;
      after_special = true;
      continue;
    }
    bool prefix = after_special && view_.has(frozen::kAddSpacePrefix);
    Status s = merger.encode(text.sub(f.begin, f.end - f.begin), prefix, out);
    if (s != kOk) return s;
    after_special = false;
  }
  return kOk;
}

Status Tokenizer::append_piece(int32_t id, bool special, Vec<char>& out) const {
  if (!available()) return kErrUnsupported;
  if (id < 0 || id >= n_vocab()) return kErrArgument;
  Str piece = view_.piece(id);
  uint8_t attr = view_.attr(id);
  if (attr & (frozen::kControl | frozen::kUnknown)) return !special || append(out, piece) ? kOk : kErrMemory;
  if (attr & frozen::kUserDefined) return append(out, piece) ? kOk : kErrMemory;
  if (attr & frozen::kByte) {
    // "<0xHH>"; the compiler marks nothing else as a byte.
    if (piece.size() != 6) return kErrImage;
    int hi = hex_digit(piece[3]), lo = hex_digit(piece[4]);
    if (hi < 0 || lo < 0) return kErrImage;
    return out.push(static_cast<char>(hi * 16 + lo)) ? kOk : kErrMemory;
  }
  if (!(attr & frozen::kNormal)) return kOk;
  if (view_.has(frozen::kDna) && piece.ends_with(kDnaMark))
    piece = piece.sub(0, piece.size() - kDnaMark.size());
  bool ok = view_.has(frozen::kEscapeSpaces) ? append_unescaped(piece, out) : append(out, piece);
  return ok ? kOk : kErrMemory;
}

Status Tokenizer::decode(Span<const int32_t> ids, const DecodeOptions& options, Vec<char>& out) const {
  constexpr uint8_t kSpecial = frozen::kControl | frozen::kUnknown | frozen::kUserDefined;
  bool prefixed = options.strip_prefix && view_.has(frozen::kAddSpacePrefix);
  bool strip = prefixed;
  for (int32_t id : ids) {
    size_t before = out.size();
    Status s = append_piece(id, options.special, out);
    if (s != kOk) return s;
    if (strip && !(view_.attr(id) & kSpecial) && out.size() > before && out[before] == ' ') {
      memmove(out.data() + before, out.data() + before + 1, out.size() - before - 1);
      out.pop();
    }
    // Encoding puts the prefix after special pieces too, so it comes off after each of them.
    strip = prefixed && view_.attr(id) & kSpecial;
  }
  return kOk;
}

}  // namespace gcrt
