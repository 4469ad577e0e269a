#pragma once
// Stop strings in a stream of text: bytes go through until one of the strings is complete, wherever the pieces of
// text are cut. What may still become a stop string is held back, and released when it cannot or when the text ends,
// so that what was given out, joined, is the same for any cutting.
//
// The stop that is complete first ends the text (the longest of those that end at the same byte). An Aho-Corasick
// automaton makes the cost of a byte independent of the number of strings: a thousand of them are as fast as one.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"

namespace gcrt {

class StopMatcher {
 public:
  explicit StopMatcher(Allocator a = libc_allocator()) : nodes_(a), held_(a), queue_(a) {}

  // The strings are any bytes, half characters included. kErrInput: one of them is empty.
  Status init(Span<const Str> stops);

  // Appends to `out` what is safe to show. Once a stop is found nothing more comes out.
  Status push(Str text, Vec<char>& out);
  // The end of the text: releases what was held back.
  Status finish(Vec<char>& out);

  bool stopped() const { return found_ >= 0; }
  // Index of the stop string that was found, -1 none.
  int32_t found() const { return found_; }
  size_t held() const { return held_.size(); }
  // For the next text, with the same strings.
  void reset();

 private:
  struct Node {
    int32_t first_child;  // -1 none
    int32_t sibling;      // next child of the same parent, -1 none
    int32_t fail;         // node of the longest proper suffix that is in the trie
    int32_t stop;         // index of the stop string that ends here, or at the nearest suffix; -1 none
    uint32_t stop_bytes;  // its length
    uint32_t depth;
    uint8_t byte;
  };
  int32_t child(int32_t node, uint8_t byte) const;
  int32_t step(int32_t node, uint8_t byte) const;
  Status insert(Str stop, int32_t index);
  Status link();

  Vec<Node> nodes_;
  Vec<char> held_;  // the path of state_, as bytes of the text
  Vec<int32_t> queue_;
  int32_t state_ = 0;
  int32_t found_ = -1;
};

}  // namespace gcrt
