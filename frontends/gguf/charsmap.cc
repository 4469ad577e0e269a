// The map is a u32 length, a double-array trie of that many bytes, then the replacements, each ended by a zero byte.
//
// A unit of the trie is a u32: bits 0-7 label, bit 8 "a replacement ends here", bit 31 "this is a value", and an offset
// in bits 10-30, times 256 when bit 9 is set. Children of a unit at i lie at (i ^ offset) ^ label, its value at
// i ^ offset. A reader tries any byte as a label, so the whole block of 256 around i ^ offset must exist; builders
// fill up the last block for that reason.
#include "frontends/gguf/charsmap.h"

#include <cstring>
#include <vector>

#include "compiler/base/error.h"

namespace gc::gguf {
namespace {

// Ten times the largest known map; keeps the check below a second.
constexpr std::size_t kMaxBytes = 8 << 20;

class Trie {
 public:
  Trie(std::span<const std::uint8_t> units, std::size_t replacement_bytes)
      : units_(units), size_(units.size() / 4), replacement_bytes_(replacement_bytes) {}

  void check() const {
    if (size_ == 0) throw_user("the trie is empty");
    std::vector<bool> seen(size_);
    std::vector<std::uint32_t> pending;
    // A block is named by where its children are counted from.
    auto visit = [&](std::uint32_t from, std::uint32_t to) {
      if ((to | 255) >= size_)
        throw_user("unit ", from, " of the trie leads to ", to, ", past its ", size_, " units");
      if (!seen[to]) pending.push_back(to);
      seen[to] = true;
    };
    visit(0, offset(unit(0)));
    while (!pending.empty()) {
      const std::uint32_t block = pending.back();
      pending.pop_back();
      for (std::uint32_t label = 1; label < 256; ++label) {
        const std::uint32_t child = block ^ label;
        const std::uint32_t u = unit(child);
        if ((u & 0x800000ffu) != label) continue;
        const std::uint32_t next = child ^ offset(u);
        visit(child, next);
        if (u >> 8 & 1) check_value(next);
      }
    }
  }

 private:
  std::uint32_t unit(std::uint32_t i) const {
    std::uint32_t u = 0;
    std::memcpy(&u, units_.data() + std::size_t{i} * 4, 4);
    return u;
  }

  static std::uint32_t offset(std::uint32_t u) { return (u >> 10 & 0x1fffff) << (u >> 9 & 1 ? 8 : 0); }

  void check_value(std::uint32_t i) const {
    const std::uint32_t value = unit(i) & 0x7fffffff;
    if (value >= replacement_bytes_) {
      throw_user("the replacement at byte ", value, " is past the ", replacement_bytes_, " bytes of them");
    }
  }

  std::span<const std::uint8_t> units_;
  std::size_t size_;
  std::size_t replacement_bytes_;
};

}  // namespace

void check_charsmap(std::span<const std::uint8_t> map) {
  if (map.size() > kMaxBytes) throw_user("has ", map.size(), " bytes; expected at most ", kMaxBytes);
  std::uint32_t length = 0;
  if (map.size() < sizeof length) throw_user("has ", map.size(), " bytes; expected at least ", sizeof length);
  std::memcpy(&length, map.data(), sizeof length);
  if (length % 4 != 0 || length >= map.size() - sizeof length) {
    throw_user("says that its trie has ", length, " bytes; expected a multiple of 4 below ",
               map.size() - sizeof length);
  }
  const auto replacements = map.subspan(sizeof length + length);
  if (replacements.back() != 0) throw_user("its last replacement does not end");
  Trie(map.subspan(sizeof length, length), replacements.size()).check();
}

}  // namespace gc::gguf
