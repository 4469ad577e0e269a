#include "runtime/text/charmap.h"

#include "runtime/text/utf8.h"

namespace gcrt {

CharMap::CharMap(Span<const uint8_t> blob) {
  if (blob.size() < 4) return;
  uint32_t bytes = load_le<uint32_t>(blob.data());
  if (bytes > blob.size() - 4) return;
  units_ = {blob.data() + 4, bytes};
  replacements_ = {reinterpret_cast<const char*>(blob.data()) + 4 + bytes, blob.size() - 4 - bytes};
}

Str CharMap::next(Str text, size_t at, size_t* bytes) const {
  size_t n_units = units_.size() / 4;
  auto unit = [this](size_t i) { return load_le<uint32_t>(units_.data() + i * 4); };
  auto base = [](uint32_t u) { return size_t{u >> 10} << ((u & 0x200) >> 6); };
  size_t found = 0, value = 0;
  size_t node = n_units ? base(unit(0)) : 0;
  for (size_t i = at; n_units && i < text.size(); ++i) {
    uint8_t c = static_cast<uint8_t>(text[i]);
    if (!c) break;
    node ^= c;
    if (node >= n_units) break;
    uint32_t u = unit(node);
    if ((u & 0x800000FFu) != c) break;
    node ^= base(u);
    if (!(u & 0x100)) continue;
    if (node >= n_units) break;
    found = i + 1 - at;
    value = unit(node) & 0x7FFFFFFF;
  }
  if (found && value < replacements_.size()) {
    const char* p = replacements_.data() + value;
    const void* zero = memchr(p, 0, replacements_.size() - value);
    if (zero) {
      *bytes = found;
      return {p, static_cast<size_t>(static_cast<const char*>(zero) - p)};
    }
  }
  int n = utf8_next(text.sub(at, 4));
  *bytes = n > 0 ? static_cast<size_t>(n) : 1;
  return n > 0 ? text.sub(at, *bytes) : Str("\xEF\xBF\xBD");
}

}  // namespace gcrt
