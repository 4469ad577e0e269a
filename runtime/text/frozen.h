#pragma once
// The frozen tokenizer: what the compiler writes and the runtime uses in place, from read-only mapped memory, with
// no construction at start. (Building the usual hash maps of a 262,144-piece vocabulary takes a good part of a
// second at every start, far more than the whole answer to a short prompt.)
//
// The blob is little-endian and position-independent: a header, a table of sections found by tag, and the sections,
// each aligned to 64 bytes. Offsets are bytes from the blob's start. Every tokenizer kind uses the sections that it
// needs and a new kind adds tags; a reader ignores tags that it does not know, and refuses another version.
//
//   META  Meta                  kind-independent facts: special ids, flags, largest lengths
//   TEXT  char[]                bytes of all pieces, by id, without separators
//   TOFF  u32[n_vocab + 1]      where piece i starts in TEXT
//   SCOR  f32[n_vocab]          SPM merge priorities (UGM: log probabilities)
//   ATTR  u8[n_vocab]           Attr bits
//   HASH  u32[n_slots]          bytes -> id, see below
//   PAIR  u64[2^k / 64]         which two characters stand side by side inside some piece, see below
//   BYTE  i32[256]              byte -> id of its fallback token, -1 where the vocabulary has none
//   SPEC  TrieNode[]            trie of the pieces that are matched in raw text before anything else
//   EOGT  i32[]                 ids that end a generation, ascending
//   SUPP  i32[]                 ids that are never to be generated
//   MERG  Merge[n_slots]        BPE: (left id, right id) -> rank and result, open addressing at a load of 1/2
//   WORD  WordHeader, WordStage[]   how BPE cuts words (words.h), with WSTP u16[] its steps, WPAG u16[0x1100] and
//                               WCLS u8[] its classes of characters
//   TRIE  PieceNode[]           trie of the pieces: UGM, WPM, RWKV and PLaMo 2 look for all that start at a place
//   NORM  u32[blocks * 256]     what becomes of a character first, with NPAG u16[0x1100] its pages (charmap.h)
//   CHRM  u8[]                  SentencePiece's precompiled character map (charmap.h)
//
// HASH: open addressing with linear probing at a load of 3/4. A slot is 0 (empty) or
// (fingerprint << id_bits) | (id + 1); with 19 bits of id the fingerprint has 13, so a miss, the common case while
// merging, reads one cache line and compares text once in 8192 tries. Gemma 3's 262,144 pieces: 1.40 MB. A minimal
// perfect hash would save 0.3 MB and cost a second dependent load a lookup; a double-array trie over the same
// pieces takes 6 to 8 MB and is faster only when prefixes of unknown length are sought, which SPM never does.
// Pieces with equal bytes share the entry of the lowest id.
//
// PAIR: a Bloom filter with one hash over the pairs of neighbouring characters in pieces, 3 to 6 % full. Where two
// neighbours of a text are not in it, no merge can ever span them: the text is cut there, so merging works on
// word-sized heaps that stay in cache, and most of the lookups that would miss are never made.
//
// Sizes for Gemma 3: TEXT 2.3, TOFF 1.05, SCOR 1.05, ATTR 0.26, HASH 1.40, PAIR 0.13, SPEC 0.21: 6.4 MB in all.
//
// check() looks at the header and the table only (a start must not touch megabytes); the accessors below bound
// every index that comes out of a section, so damaged content gives wrong ids and never a wild read. deep_check()
// reads everything, for the compiler's tests and the program's own `check`.
#include <stdint.h>

#include "runtime/base/checked.h"
#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/text/words.h"

namespace gcrt {
namespace frozen {

constexpr uint32_t kMagic = 0x4B544347;  // "GCTK"
constexpr uint32_t kVersion = 2;
constexpr uint64_t kAlign = 64;

enum class Kind : uint32_t {
  kNone = 0,  // no tokenizer: the program runs by token ids
  kSpm = 1,
  kBpe = 2,
  kWpm = 3,
  kUgm = 4,
  kRwkv = 5,
  kPlamo2 = 6,
};

constexpr uint32_t tag(const char (&s)[5]) {
  return static_cast<uint32_t>(s[0]) | static_cast<uint32_t>(s[1]) << 8 | static_cast<uint32_t>(s[2]) << 16 |
         static_cast<uint32_t>(s[3]) << 24;
}
constexpr uint32_t kMeta = tag("META");
constexpr uint32_t kText = tag("TEXT");
constexpr uint32_t kOffsets = tag("TOFF");
constexpr uint32_t kScores = tag("SCOR");
constexpr uint32_t kAttrs = tag("ATTR");
constexpr uint32_t kHash = tag("HASH");
constexpr uint32_t kPairs = tag("PAIR");
constexpr uint32_t kBytes = tag("BYTE");
constexpr uint32_t kSpecial = tag("SPEC");
constexpr uint32_t kEog = tag("EOGT");
constexpr uint32_t kMerges = tag("MERG");
constexpr uint32_t kWords = tag("WORD");
constexpr uint32_t kWordSteps = tag("WSTP");
constexpr uint32_t kWordPages = tag("WPAG");
constexpr uint32_t kWordClasses = tag("WCLS");
constexpr uint32_t kTrie = tag("TRIE");
constexpr uint32_t kNormal32 = tag("NORM");
constexpr uint32_t kNormalPages = tag("NPAG");
constexpr uint32_t kCharMap = tag("CHRM");
constexpr uint32_t kSuppress = tag("SUPP");

struct Header {
  uint32_t magic;
  uint32_t version;
  uint64_t bytes;  // of the whole blob
  Kind kind;
  uint32_t n_vocab;  // ids are [0, n_vocab); the rows of the model's embedding
  uint32_t n_sections;
  uint32_t reserved[9];
};
static_assert(sizeof(Header) == 64);

// Follows the header, n_sections times.
struct Section {
  uint32_t tag;
  uint32_t reserved;
  uint64_t offset;  // bytes from the blob's start, a multiple of kAlign
  uint64_t bytes;
};
static_assert(sizeof(Section) == 24);

// Bits of ATTR. A piece may have several: a "control-looking" user-defined piece is both.
enum Attr : uint8_t {
  kUnknown = 1,
  kUnused = 2,
  kNormal = 4,
  kControl = 8,
  kUserDefined = 16,
  kByte = 32,
  kLStrip = 64,   // as a special piece it swallows white space before it
  kRStrip = 128,  // ... after it
};

enum Flag : uint32_t {
  kAddBos = 1,
  kAddEos = 2,
  kAddSep = 4,
  kAddSpacePrefix = 8,
  kEscapeSpaces = 16,  // pieces hold U+2581 for a space
  kCleanSpaces = 32,   // decoding removes spaces before punctuation
  kRemoveExtraSpaces = 64,
  kIgnoreMerges = 128,   // BPE: a word that is a piece is taken whole
  kCharSymbols = 256,    // BPE: symbols are characters at first, not bytes
  kWholeNewlines = 512,  // BPE: a word of line ends that is a piece is taken whole
  kDropSpaces = 1024,    // BPE: white space parts words and is dropped, letters are replaced by NORM
  kDna = 2048,           // BPE: what stands in <dna> goes six letters a token (bpe.h)
};

struct Meta {
  uint32_t flags;
  uint32_t id_bits;            // of HASH
  uint32_t max_piece_bytes;    // longest piece
  uint32_t max_special_bytes;  // longest piece in SPEC
  // Ids, -1 where there is none.
  int32_t bos, eos, eot, eom, unk, sep, pad, cls, mask, newline;
  int32_t fim_pre, fim_suf, fim_mid, fim_pad, fim_rep, fim_sep;
  uint32_t n_distinct;  // pieces with different bytes
  float unknown_score;  // UGM: of a character that is no piece
  uint32_t reserved[10];
};
static_assert(sizeof(Meta) == 128);

// SPEC: node 0 is the root. The children of a node are [first_child, first_child + n_children), ascending by byte.
struct TrieNode {
  uint32_t first_child;
  uint16_t n_children;
  uint8_t byte;  // on the edge that leads here
  uint8_t reserved;
  int32_t any_id;   // the piece that ends here, lowest id; -1 none
  int32_t user_id;  // the same among those that are neither control nor unknown: matched in any text
};
static_assert(sizeof(TrieNode) == 16);

// MERG: a slot with left = -1 is empty. Ids of n_vocab and more stand for texts that are no pieces.
struct Merge {
  int32_t left, right;
  uint32_t rank;  // lower goes first
  int32_t result;
};
static_assert(sizeof(Merge) == 16);

// TRIE: as SPEC. The children of a node are [first_child, first_child + count()), ascending by byte.
struct PieceNode {
  uint32_t first_child;
  uint32_t count_byte;  // count << 8 | byte on the edge that leads here
  int32_t id;           // the piece that ends here, -1 none
  uint32_t count() const { return count_byte >> 8; }
  uint8_t byte() const { return static_cast<uint8_t>(count_byte); }
};
static_assert(sizeof(PieceNode) == 12);

// ---- What the writer and the reader compute alike ----

// 64 bits from any bytes: multiply and fold, eight bytes a step.
inline uint64_t hash_bytes(const char* p, size_t n) {
  constexpr uint64_t kMul = 0x9FB21C651E98DF25u;
  uint64_t h = n * 0x9E3779B97F4A7C15u;
  auto fold = [&h](uint64_t v) {
    h = (h ^ v) * kMul;
    h ^= h >> 32;
  };
  for (; n >= 8; p += 8, n -= 8) fold(load_le<uint64_t>(p));
  if (n >= 4) {
    // Two overlapping reads cover 4 to 7 bytes.
    fold(load_le<uint32_t>(p) | static_cast<uint64_t>(load_le<uint32_t>(p + n - 4)) << 32);
  } else if (n) {
    fold(static_cast<uint8_t>(p[0]) | static_cast<uint64_t>(static_cast<uint8_t>(p[n / 2])) << 8 |
         static_cast<uint64_t>(static_cast<uint8_t>(p[n - 1])) << 16);
  }
  h *= kMul;
  return h ^ h >> 29;
}
// The slot where the probe begins, from the hash's upper half; the fingerprint is its lower bits.
inline uint32_t hash_slot(uint64_t h, uint32_t n_slots) {
  return static_cast<uint32_t>(((h >> 32) * n_slots) >> 32);
}
inline uint32_t hash_fingerprint(uint64_t h, uint32_t id_bits) {
  return static_cast<uint32_t>(h & ((uint64_t{1} << (32 - id_bits)) - 1));
}

inline uint32_t merge_slot(int32_t left, int32_t right, uint32_t n_slots) {
  uint64_t h = static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  h = (h ^ h >> 29) * 0x9FB21C651E98DF25u;
  h = (h ^ h >> 32) * 0x9E3779B97F4A7C15u;
  return static_cast<uint32_t>(((h >> 32) * n_slots) >> 32);
}

// Bytes of the character at p[0, n), n > 0: what its lead byte says when that many continuation bytes follow, else 1.
inline size_t char_bytes(const char* p, size_t n) {
  uint8_t lead = static_cast<uint8_t>(p[0]);
  if (lead < 0xC0) return 1;
  size_t want = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (want > n) return 1;
  for (size_t i = 1; i < want; ++i)
    if ((static_cast<uint8_t>(p[i]) & 0xC0) != 0x80) return 1;
  return want;
}
// The character at p[0, n), at most four bytes, as one number.
inline uint32_t char_code(const char* p, size_t n) {
  uint32_t v = 0;
  memcpy(&v, p, n < 4 ? n : 4);
  return v;
}
inline uint32_t pair_bit(uint32_t left, uint32_t right, uint32_t n_bits) {
  uint64_t h = (left * 0x9E3779B97F4A7C15u) ^ (right * 0xC2B2AE3D27D4EB4Fu);
  h = (h ^ h >> 31) * 0x9FB21C651E98DF25u;
  return static_cast<uint32_t>(h >> 40) & (n_bits - 1);
}

// ---- Reading ----

// A blob opened in place. Copy it freely; the bytes must outlive it.
class View {
 public:
  View() = default;

  // Validates header and section table; kErrImage otherwise. `data` is aligned to 8 bytes.
  Status open(Span<const uint8_t> data);
  // Reads all sections; kErrImage names nothing, it says only that the blob is damaged.
  Status deep_check() const;

  Kind kind() const { return header_ ? header_->kind : Kind::kNone; }
  uint32_t n_vocab() const { return header_ ? header_->n_vocab : 0; }
  const Meta& meta() const { return *meta_; }
  bool has(Flag f) const { return meta_->flags & f; }
  Span<const int32_t> eog() const { return eog_; }
  // Ids that are never to be generated.
  Span<const int32_t> suppressed() const { return suppressed_; }
  bool is_eog(int32_t id) const;

  // Bytes of a piece; empty for an id out of range.
  Str piece(int32_t id) const {
    if (static_cast<uint32_t>(id) >= n_pieces_) return {};
    uint32_t from = offsets_[static_cast<uint32_t>(id)], to = offsets_[static_cast<uint32_t>(id) + 1];
    if (from > to || to > text_.size()) return {};
    return {text_.data() + from, to - from};
  }
  uint8_t attr(int32_t id) const {
    return static_cast<uint32_t>(id) < attrs_.size() ? attrs_[static_cast<uint32_t>(id)] : 0;
  }
  float score(int32_t id) const {
    return static_cast<uint32_t>(id) < scores_.size() ? scores_[static_cast<uint32_t>(id)] : 0;
  }
  int32_t byte_token(uint8_t b) const { return bytes_.empty() ? -1 : bytes_[b]; }
  // The piece with exactly these bytes, lowest id; -1 when there is none.
  int32_t find(Str s) const;
  // The merge of two symbols, null when they have none.
  const Merge* find_merge(int32_t left, int32_t right) const;
  // May some piece hold these characters side by side?
  bool may_join(uint32_t left, uint32_t right) const {
    if (!pair_bits_) return true;
    uint32_t bit = pair_bit(left, right, pair_bits_);
    return pairs_[bit / 64] >> (bit % 64) & 1;
  }
  // Steps in SPEC: the child of `node` along `byte`, or 0.
  uint32_t special_child(uint32_t node, uint8_t byte) const;
  const TrieNode& special(uint32_t node) const { return special_[node]; }
  bool has_special() const { return !special_.empty(); }
  // Steps in TRIE: the child of `node` along `byte`, or 0.
  uint32_t piece_child(uint32_t node, uint8_t byte) const;
  int32_t piece_at(uint32_t node) const { return trie_[node].id; }
  const WordRules& words() const { return words_; }
  // NORM's entry of a character, 0 without the section.
  uint32_t normal(uint32_t code_point) const {
    if (normal_pages_.empty()) return 0;
    size_t at = size_t{normal_pages_[code_point >> 8]} * 256 + (code_point & 255);
    return at < normal_.size() ? normal_[at] : 0;
  }
  Span<const uint8_t> char_map() const { return char_map_; }
  // Size of a section as stored, 0 when it is missing; `info` itemises with it.
  uint64_t section_bytes(uint32_t tag) const;
  uint64_t bytes() const { return header_ ? header_->bytes : 0; }

 private:
  const Section* section(uint32_t tag) const;
  // False when the section is there but not `count` (or any whole number, for SIZE_MAX) elements.
  template <class T>
  bool take(uint32_t tag, uint64_t count, Span<const T>* out) const;
  bool take_words();

  const uint8_t* base_ = nullptr;
  const Header* header_ = nullptr;
  const Meta* meta_ = nullptr;
  uint32_t n_pieces_ = 0;
  uint32_t pair_bits_ = 0;
  Span<const char> text_;
  Span<const uint32_t> offsets_;
  Span<const float> scores_;
  Span<const uint8_t> attrs_;
  Span<const uint32_t> slots_;
  Span<const uint64_t> pairs_;
  Span<const int32_t> bytes_;
  Span<const TrieNode> special_;
  Span<const int32_t> eog_;
  Span<const Merge> merges_;
  WordRules words_;
  Span<const PieceNode> trie_;
  Span<const uint32_t> normal_;
  Span<const uint16_t> normal_pages_;
  Span<const uint8_t> char_map_;
  Span<const int32_t> suppressed_;
};

}  // namespace frozen
}  // namespace gcrt
