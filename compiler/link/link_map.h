// Bytes of a linked program by input, read from LLD's map: the only place that knows after garbage collection which
// archive member, and how much of it, went in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gc::link {

struct InputShare {
  std::string file;         // "libc.a(printf.o)", "layers.o", "<internal>" for the linker's own tables
  std::string section;      // ".text.main"
  std::uint64_t bytes = 0;  // in the file: .bss and the like don't count
};

std::vector<InputShare> read_link_map(std::string_view map);

}  // namespace gc::link
