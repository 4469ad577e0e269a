// Gives a linked ELF file one more read-only segment, for bytes that will follow it in the file.
//
// ELF has no room to add a program header after the link, so the link is given a note section of its own: LLD makes
// a PT_NOTE for it, and that becomes the PT_LOAD; the note's section header becomes that of the new segment (without
// one, `strip` would drop the bytes without a word). PT_NOTEs follow the loads in LLD's table, so loads stay in
// ascending order of address as the kernel wants.
// Tried instead: a NOBITS section in place (x86-64 only: overflows adrp on aarch64 and needs a hand on `_end`),
// reading /proc/self/exe (needs /proc and read permission).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace gc::link {

struct SectionPlace {
  std::uint64_t file_offset = 0;
  std::uint64_t address = 0;
  std::uint64_t size = 0;
};

struct SegmentPlace {
  std::uint64_t file_offset = 0;  // multiple of the alignment, at or past the end of the file
  std::uint64_t address = 0;      // as linked; multiple of the alignment
  std::uint64_t from_ehdr = 0;    // address relative to the ELF header in memory
};

// All check every offset and count against the file; a file that fails is an internal error (we linked it).
SectionPlace find_section(std::span<const std::uint8_t> elf, std::string_view name);

// In an object file: makes `section`, which has placeholder bytes, one of `size` bytes that lie at the returned offset,
// a multiple of its alignment at or past the end of the file. No linker or tool has to carry them before that.
std::uint64_t place_section(std::vector<std::uint8_t>& elf, std::string_view section, std::uint64_t size);

// Turns `note_section` into a read-only segment of `size` bytes past everything that is mapped and past the end of
// the file. `alignment` is a power of 2, at least the page size.
SegmentPlace add_segment(std::vector<std::uint8_t>& elf, std::string_view note_section, std::uint64_t size,
                         std::uint64_t alignment);

}  // namespace gc::link
