#include "compiler/quant/formats.h"

#include <array>
#include <string>

#include "compiler/base/checked.h"
#include "compiler/base/error.h"

namespace gc {
namespace {

constexpr FormatInfo kTable[] = {
#define FORMAT(name, gguf_id, block_values, block_bytes, kind, scale_values, head)   \
  {Format::name,     #name,        #name,        gguf_id, block_values, block_bytes, \
   FormatKind::kind, scale_values, RowHead::head},
#include "compiler/quant/formats.def"
#undef FORMAT
};
constexpr std::size_t kCount = std::size(kTable);

// The lower-case names live here, so that the table above stays one plain list.
struct LowerNames {
  char text[kCount][16] = {};
  constexpr LowerNames() {
    for (std::size_t i = 0; i < kCount; ++i) {
      for (std::size_t j = 0; j < kTable[i].name.size(); ++j) {
        const char c = kTable[i].name[j];
        text[i][j] = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      }
    }
  }
};
constexpr LowerNames kLower;

constexpr std::array<FormatInfo, kCount> kFormats = [] {
  std::array<FormatInfo, kCount> formats{};
  for (std::size_t i = 0; i < kCount; ++i) {
    formats[i] = kTable[i];
    formats[i].text_name = kLower.text[i];
  }
  return formats;
}();

}  // namespace

std::span<const FormatInfo> all_formats() { return kFormats; }

const FormatInfo& info(Format format) {
  const auto index = static_cast<std::size_t>(format);
  GC_CHECK(index < kCount);
  return kFormats[index];
}

std::optional<Format> format_of_gguf_id(std::uint32_t gguf_id) {
  for (const FormatInfo& f : kFormats) {
    if (f.gguf_id == gguf_id) return f.format;
  }
  return std::nullopt;
}

std::optional<Format> format_of_name(std::string_view name) {
  for (const FormatInfo& f : kFormats) {
    if (f.name == name || f.text_name == name) return f.format;
  }
  return std::nullopt;
}

std::int64_t head_bytes(Format format) {
  switch (info(format).head) {
    case RowHead::kNone:
      return 0;
    case RowHead::kF16:
      return 2;
    case RowHead::kF32:
      return 4;
  }
  throw_internal("row head");
}

std::int64_t row_bytes(Format format, std::int64_t n) {
  const std::optional<std::int64_t> bytes = tensor_bytes(format, n, 1);
  GC_CHECK(bytes.has_value(), n, " values in a row of ", name(format));
  return *bytes;
}

std::optional<std::int64_t> tensor_bytes(Format format, std::int64_t n, std::int64_t rows) {
  std::int64_t bytes = 0;
  if (n < 0 || rows < 0 || !is_whole_blocks(format, n)) return std::nullopt;
  if (!checked_mul(n / info(format).block_values, info(format).block_bytes, &bytes)) return std::nullopt;
  if (!checked_add(bytes, head_bytes(format), &bytes)) return std::nullopt;
  if (!checked_mul(bytes, rows, &bytes)) return std::nullopt;
  return bytes;
}

double bits_per_value(Format format) {
  return 8.0 * static_cast<double>(info(format).block_bytes) / static_cast<double>(info(format).block_values);
}

}  // namespace gc
