#pragma once
// A model small enough to predict, linked in place of a compiled one (it defines gc_programs, gc_the_model,
// gc_weights): 300 tokens of SentencePiece kind, and a program whose best token follows from the last one.
//
//   ids   0 <unk>, 1 <s>, 2 </s>, 3..258 the bytes, then a few pieces
//   next  the next byte ('a' -> 'b'); </s> after 'z' and after "ld!"; 'E' -> the two bytes of "é" -> </s>;
//         '0' -> '0' for ever; 'S' the same, but it takes 2 ms; after 'N' there are no numbers
//   The best logit is 10, that of the token two further on 9, all others 0.
//
// Its state is one float a position: token 299's logit is -1 less the sum of all ids so far, so that a run which
// skips or repeats a position is seen.
#include <stdint.h>

#include "runtime/abi/program.h"

namespace fake {

constexpr int32_t kBos = 1, kEos = 2, kByte0 = 3, kHello = 259, kSpaceWor = 260, kLd = 261, kSum = 299,
                  kVocab = 300, kContext = 64;
constexpr int32_t byte(char c) { return kByte0 + static_cast<uint8_t>(c); }
constexpr int32_t kFimPre = byte(1), kFimSuf = byte(2), kFimMid = byte('`');  // 'a' is behind '`'

extern const gc_program kProgram;
extern const gc_program kChoosing;  // the same with a head that chooses; not the model's own

// Changes a byte of the weights, whose checksum is then wrong.
void damage_weights();
// From now on the model has no chat template.
void remove_template();

}  // namespace fake
