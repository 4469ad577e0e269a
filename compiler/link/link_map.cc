#include "compiler/link/link_map.h"

#include <algorithm>
#include <charconv>

#include "compiler/base/error.h"

namespace gc::link {
namespace {

// The next word of `line`, which loses it and the spaces before it.
std::string_view take_word(std::string_view& line) {
  const std::size_t begin = line.find_first_not_of(' ');
  if (begin == line.npos) return line = {};
  const std::size_t end = std::min(line.find(' ', begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

}  // namespace

// Columns are VMA, LMA, size (hexadecimal) and alignment, then one space and, by indentation, an output section (0),
// an input section as FILE:(SECTION) (8), or a symbol (16).
std::vector<InputShare> read_link_map(std::string_view map) {
  std::vector<InputShare> shares;
  bool in_file = false;  // the output section has bytes in the file
  while (!map.empty()) {
    const std::size_t end = std::min(map.find('\n'), map.size());
    std::string_view line = map.substr(0, end);
    map.remove_prefix(std::min(end + 1, map.size()));
    take_word(line), take_word(line);
    const std::string_view size_text = take_word(line);
    std::uint64_t size = 0;
    const auto parsed = std::from_chars(size_text.data(), size_text.data() + size_text.size(), size, 16);
    if (parsed.ec != std::errc() || parsed.ptr != size_text.data() + size_text.size())
      continue;  // the heading
    take_word(line);
    const std::size_t indent = line.find_first_not_of(' ');
    if (indent == line.npos) continue;
    line.remove_prefix(indent);
    if (indent == 1) {
      in_file = !line.starts_with(".bss") && !line.starts_with(".tbss") &&
                !line.starts_with(".relro_padding") && line != ".comment" && line != ".symtab" &&
                line != ".strtab" && line != ".shstrtab" && !line.starts_with(".debug");
      continue;
    }
    const std::size_t colon = line.rfind(":(");
    if (indent != 9 || colon == line.npos || !line.ends_with(')') || !in_file || size == 0) continue;
    shares.push_back({std::string(line.substr(0, colon)),
                      std::string(line.substr(colon + 2, line.size() - colon - 3)), size});
  }
  return shares;
}

}  // namespace gc::link
