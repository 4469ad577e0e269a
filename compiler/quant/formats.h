// Tensor types as an enum and facts about them; the table is formats.def.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace gc {

enum class Format : std::uint8_t {
#define FORMAT(name, gguf_id, block_values, block_bytes, kind, scale_values, head) name,
#include "compiler/quant/formats.def"
#undef FORMAT
};

enum class FormatKind : std::uint8_t { kFloat, kInt, kBlock };

// The scale in front of each row, by which all of its values are multiplied.
enum class RowHead : std::uint8_t { kNone, kF16, kF32 };

struct FormatInfo {
  Format format;
  std::string_view name;       // "Q4_K"
  std::string_view text_name;  // "q4_k", as in the text IR
  std::uint32_t gguf_id;
  std::int64_t block_values;
  std::int64_t block_bytes;
  FormatKind kind;
  std::int64_t scale_values;  // values that share the innermost scale, 0 where there is none
  RowHead head;
};

// Every format, in the order of the enum.
std::span<const FormatInfo> all_formats();

const FormatInfo& info(Format format);
inline std::string_view name(Format format) { return info(format).name; }

std::optional<Format> format_of_gguf_id(std::uint32_t gguf_id);
// "Q4_K" or "q4_k".
std::optional<Format> format_of_name(std::string_view name);

std::int64_t head_bytes(Format format);

// Bytes of a row of n values, its head included; n is >= 0 and a whole number of blocks (GC_CHECKed: files are checked by who
// reads them, with `is_whole_blocks` and the overflow-safe `tensor_bytes`).
std::int64_t row_bytes(Format format, std::int64_t n);
inline bool is_whole_blocks(Format format, std::int64_t n) { return n % info(format).block_values == 0; }

// Bytes of `rows` rows of n values, nothing when n is no whole number of blocks or the product leaves int64.
std::optional<std::int64_t> tensor_bytes(Format format, std::int64_t n, std::int64_t rows);

// 4.5 for Q4_0; heads of rows aside.
double bits_per_value(Format format);

}  // namespace gc
