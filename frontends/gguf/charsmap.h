// SentencePiece's precompiled character map: a trie of UTF-8 prefixes and their replacements, walked at run time
// for each character of the text. Checked once here, so that the walk needs no bounds.
#pragma once

#include <cstdint>
#include <span>

namespace gc::gguf {

// Throws UserError (without file or key) unless every walk from the trie's root stays inside it, every leaf's offset
// is inside the replacements, and these end with a zero byte.
void check_charsmap(std::span<const std::uint8_t> map);

}  // namespace gc::gguf
