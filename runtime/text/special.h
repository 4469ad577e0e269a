#pragma once
// Finds the pieces that are taken from raw text before the tokenizer proper sees it: user-defined pieces always,
// control pieces when asked for.
//
// The order is the one that vocabularies are written for: the longest piece first, wherever it stands, each from
// left to right; shorter ones only in what is left. (Leftmost-first would differ: in "<a<ab>" the piece "<ab>" wins
// over "<a<".) Between overlapping pieces of equal length the lower id goes first. Done by trying all pieces over
// all text this costs pieces x length; here each position enters a heap with the longest piece that starts there,
// and comes back with a shorter one only when its neighbour was taken: length x log(length) for any text.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/frozen.h"

namespace gcrt {

// Bytes [begin, end) of a text.
struct TextRange {
  uint32_t begin;
  uint32_t end;
};

// A part of the text in order: a special piece, or raw text where `id` is -1. White space that a piece strips
// belongs to no fragment.
struct Fragment {
  uint32_t begin;
  uint32_t end;
  int32_t id;
};

// Appends the fragments of `text`. Control pieces are matched when `parse_special`, but never where they touch one
// of the `literal` ranges (ascending, disjoint): what a user wrote cannot become structure.
Status split_special(const frozen::View& vocab, Str text, bool parse_special, Span<const TextRange> literal,
                     Allocator allocator, Vec<Fragment>& out);

}  // namespace gcrt
