#include "compiler/link/carried.h"

#include <zstd.h>

#include <charconv>

#include "compiler/base/checked.h"
#include "compiler/base/error.h"

namespace gc::link {

CarriedFiles::CarriedFiles(std::span<const std::uint8_t> bundle) {
  const unsigned long long size = ZSTD_getFrameContentSize(bundle.data(), bundle.size());
  GC_CHECK(size != ZSTD_CONTENTSIZE_ERROR && size != ZSTD_CONTENTSIZE_UNKNOWN, "no bundle");
  storage_.resize(size);
  const std::size_t n = ZSTD_decompress(storage_.data(), storage_.size(), bundle.data(), bundle.size());
  GC_CHECK(n == size, "damaged bundle: ", ZSTD_isError(n) ? ZSTD_getErrorName(n) : "wrong size");

  std::string_view text(reinterpret_cast<const char*>(storage_.data()), storage_.size());
  std::vector<std::uint64_t> sizes;
  for (;;) {
    const std::size_t end = text.find('\n');
    GC_CHECK(end != text.npos);
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line.empty()) break;
    const std::size_t space = line.find(' ');
    GC_CHECK(space != line.npos);
    std::uint64_t bytes = 0;
    const auto parsed = std::from_chars(line.data() + space + 1, line.data() + line.size(), bytes);
    GC_CHECK(parsed.ec == std::errc() && parsed.ptr == line.data() + line.size());
    entries_.push_back({std::string(line.substr(0, space)), {}});
    sizes.push_back(bytes);
  }
  std::uint64_t at = storage_.size() - text.size();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    GC_CHECK(range_fits(at, sizes[i], storage_.size()));
    entries_[i].bytes = std::span(storage_).subspan(at, sizes[i]);
    at += sizes[i];
  }
  GC_CHECK(at == storage_.size());
}

std::span<const std::uint8_t> CarriedFiles::file(std::string_view name) const {
  for (const Entry& entry : entries_)
    if (entry.name == name) return entry.bytes;
  throw_internal("the compiler doesn't carry ", name);
}

}  // namespace gc::link
