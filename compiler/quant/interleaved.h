// Takes apart groups of rows that lie interleaved in a file (the table is interleaved.def).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "compiler/quant/formats.h"

namespace gc {

struct Interleaved {
  std::string_view name;  // "Q4_K_R4"
  std::uint32_t gguf_id;
  Format base;
  std::int64_t rows;  // of a group
};

std::span<const Interleaved> all_interleaved();
// nullptr: no such type.
const Interleaved* interleaved_of_gguf_id(std::uint32_t gguf_id);

// A group of type.rows rows of n values (whole blocks of the base; of BF16 an even number) at `src`, to plain rows one
// after the other: type.rows * row_bytes(type.base, n) bytes both.
void take_apart(const Interleaved& type, std::int64_t n, const std::uint8_t* src, std::uint8_t* dst);

}  // namespace gc
