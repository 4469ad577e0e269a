#pragma once
// Text to token ids and back, over a frozen vocabulary (frozen.h). The object holds views only: opening is instant,
// and one tokenizer serves any number of threads.
//
// Rules, as llama.cpp has them unless said otherwise:
// - User-defined pieces are matched in any text; control and unknown pieces only with parse_special.
// - BOS and EOS come by the file's flags, with add_special. Ours: one that the text itself already brings (through
//   parse_special) is not added again, so a prompt has one BOS whoever wrote it.
// - A space goes in front of text at the start and after a special piece, where the file wants that prefix.
// - Bytes that are not UTF-8 are accepted: they end up as byte tokens, and decode to themselves (ours, see spm.h).
#include <stdint.h>

#include "runtime/base/allocator.h"
#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/frozen.h"
#include "runtime/text/special.h"

namespace gcrt {

struct EncodeOptions {
  bool add_special = true;     // BOS, EOS by the file's flags
  bool parse_special = false;  // control pieces written out in the text become their ids
  // With parse_special: parts of the text, ascending and disjoint, where control pieces stay plain text. Chat puts
  // the messages' contents here: markup and content are tokenized as one text, as the model was trained.
  Span<const TextRange> literal;
};

struct DecodeOptions {
  bool special = false;      // control and unknown pieces are shown
  bool strip_prefix = true;  // take off the space that encoding put in front
};

class Tokenizer {
 public:
  // `blob` stays mapped. kErrImage: not a blob of this version.
  Status open(Span<const uint8_t> blob, Allocator allocator = libc_allocator());

  // False: the program was compiled without a tokenizer and takes token ids only.
  bool available() const { return view_.kind() != frozen::Kind::kNone; }
  int32_t n_vocab() const { return static_cast<int32_t>(view_.n_vocab()); }
  const frozen::View& view() const { return view_; }
  const frozen::Meta& meta() const { return view_.meta(); }
  // Does this token end a generation (EOS, EOT, and their kin)?
  bool is_eog(int32_t id) const { return view_.is_eog(id); }
  bool is_control(int32_t id) const { return view_.attr(id) & (frozen::kControl | frozen::kUnknown); }

  // Appends to `out`. kErrUnsupported without a tokenizer, kErrMemory, kErrArgument for text of 2 GiB and more or
  // ranges out of order.
  Status encode(Str text, const EncodeOptions& options, Vec<int32_t>& out) const;

  // Appends the bytes of one token as they go into a stream: a character may be spread over several tokens (see
  // Utf8Stream). Tokens without text, control tokens unless `special`, add nothing. kErrArgument: no such id.
  Status append_piece(int32_t id, bool special, Vec<char>& out) const;
  // Appends the text of many.
  Status decode(Span<const int32_t> ids, const DecodeOptions& options, Vec<char>& out) const;

  // The id of exactly this piece as the vocabulary spells it; -1 when there is none.
  int32_t find(Str piece) const { return view_.find(piece); }

 private:
  Status encode_spm(Str text, Span<const Fragment> fragments, Vec<int32_t>& out) const;

  frozen::View view_;
  Allocator allocator_;
};

}  // namespace gcrt
