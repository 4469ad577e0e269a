// A small vocabulary for tests, with its texts in one place so that the views stay valid.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "compiler/base/vocab.h"

namespace gc::text {

class TestVocab {
 public:
  // "<unk>" 0, "<s>" 1, "</s>" 2, then the 256 byte tokens, 3 to 258.
  explicit TestVocab(bool with_bytes = true) {
    vocab.model = "llama";
    add("<unk>", 0, TokenType::kUnknown);
    add("<s>", 0, TokenType::kControl);
    add("</s>", 0, TokenType::kControl);
    vocab.unk = 0, vocab.bos = 1, vocab.eos = 2;
    if (with_bytes)
      for (int b = 0; b < 256; ++b) {
        const char* hex = "0123456789ABCDEF";
        add(std::string("<0x") + hex[b >> 4] + hex[b & 15] + '>', 0, TokenType::kByte);
      }
  }

  std::int32_t add(std::string text, float score, TokenType type = TokenType::kNormal) {
    texts_.push_back(std::move(text));
    vocab.tokens.push_back(texts_.back());
    vocab.scores.push_back(score);
    vocab.types.push_back(type);
    return static_cast<std::int32_t>(vocab.tokens.size()) - 1;
  }

  static constexpr std::int32_t kByte0 = 3;
  Vocab vocab;

 private:
  std::deque<std::string> texts_;  // never moves its elements
};

}  // namespace gc::text
