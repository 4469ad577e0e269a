// GPT-2's spelling of bytes: vocabularies of byte-level BPE write each byte as one printable character, those that are
// printable already as themselves and the others, in order, as U+0100 and on (so a space is U+0120).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gc::text {

// The bytes that `spelled` stands for; nothing when one of its characters is not of that alphabet.
std::optional<std::string> unspell_bytes(std::string_view spelled);

}  // namespace gc::text
