#include "compiler/link/elf_patch.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "compiler/base/checked.h"
#include "compiler/base/error.h"
#include "llvm/BinaryFormat/ELF.h"

namespace gc::link {
namespace {

using llvm::ELF::Elf64_Ehdr;
using llvm::ELF::Elf64_Phdr;
using llvm::ELF::Elf64_Shdr;
static_assert(std::endian::native == std::endian::little);

// Structures are copied in and out: nothing promises that the bytes are aligned.
template <class T>
T load(std::span<const std::uint8_t> elf, std::uint64_t offset) {
  GC_CHECK(range_fits(offset, sizeof(T), elf.size()), "ELF structure at ", offset, " of ", elf.size());
  T value;
  std::memcpy(&value, elf.data() + offset, sizeof(T));
  return value;
}

template <class T>
void store(std::span<std::uint8_t> elf, std::uint64_t offset, const T& value) {
  GC_CHECK(range_fits(offset, sizeof(T), elf.size()));
  std::memcpy(elf.data() + offset, &value, sizeof(T));
}

Elf64_Ehdr load_header(std::span<const std::uint8_t> elf) {
  const auto header = load<Elf64_Ehdr>(elf, 0);
  GC_CHECK(header.checkMagic() && header.getFileClass() == llvm::ELF::ELFCLASS64 &&
           header.getDataEncoding() == llvm::ELF::ELFDATA2LSB);
  GC_CHECK(header.e_phentsize == sizeof(Elf64_Phdr) || header.e_phnum == 0);
  GC_CHECK(header.e_shentsize == sizeof(Elf64_Shdr));
  GC_CHECK(header.e_shnum != 0 && header.e_shstrndx < header.e_shnum);
  GC_CHECK(range_fits(header.e_phoff, std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr), elf.size()));
  GC_CHECK(range_fits(header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr), elf.size()));
  return header;
}

// File offset of the section header of that name.
std::uint64_t find_section_header(std::span<const std::uint8_t> elf, const Elf64_Ehdr& header,
                                  std::string_view name) {
  const auto strings = load<Elf64_Shdr>(elf, header.e_shoff + header.e_shstrndx * sizeof(Elf64_Shdr));
  GC_CHECK(range_fits(strings.sh_offset, strings.sh_size, elf.size()));
  const std::string_view names(reinterpret_cast<const char*>(elf.data()) + strings.sh_offset,
                               strings.sh_size);
  for (std::uint64_t i = 1; i < header.e_shnum; ++i) {
    const std::uint64_t at = header.e_shoff + i * sizeof(Elf64_Shdr);
    const auto section = load<Elf64_Shdr>(elf, at);
    GC_CHECK(section.sh_name < names.size());
    const std::string_view tail = names.substr(section.sh_name);
    if (tail.substr(0, tail.find('\0')) == name) return at;
  }
  throw_internal("no section ", name, " in the linked program");
}

std::uint64_t end_of(std::uint64_t begin, std::uint64_t size) {
  std::uint64_t end;
  GC_CHECK(checked_add(begin, size, &end));
  return end;
}

}  // namespace

SectionPlace find_section(std::span<const std::uint8_t> elf, std::string_view name) {
  const Elf64_Ehdr header = load_header(elf);
  const auto section = load<Elf64_Shdr>(elf, find_section_header(elf, header, name));
  GC_CHECK(range_fits(section.sh_offset, section.sh_size, elf.size()), name);
  return {section.sh_offset, section.sh_addr, section.sh_size};
}

std::uint64_t place_section(std::vector<std::uint8_t>& elf, std::string_view name, std::uint64_t size) {
  const std::uint64_t at = find_section_header(elf, load_header(elf), name);
  auto section = load<Elf64_Shdr>(elf, at);
  GC_CHECK(section.sh_type == llvm::ELF::SHT_PROGBITS && is_power_of_2(section.sh_addralign), name);
  std::uint64_t offset;
  GC_CHECK(checked_align_up(elf.size(), section.sh_addralign, &offset));
  end_of(offset, size);
  section.sh_offset = offset;
  section.sh_size = size;
  store(std::span(elf), at, section);
  return offset;
}

SegmentPlace add_segment(std::vector<std::uint8_t>& elf, std::string_view note_section, std::uint64_t size,
                         std::uint64_t alignment) {
  GC_CHECK(is_power_of_2(alignment));
  const Elf64_Ehdr header = load_header(elf);
  const std::uint64_t section_at = find_section_header(elf, header, note_section);
  auto section = load<Elf64_Shdr>(elf, section_at);
  GC_CHECK(section.sh_type == llvm::ELF::SHT_NOTE, note_section);

  std::uint64_t first_load = ~std::uint64_t{0}, last_load = 0, end = 0, note_at = 0;
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    const std::uint64_t at = header.e_phoff + i * sizeof(Elf64_Phdr);
    const auto segment = load<Elf64_Phdr>(elf, at);
    if (segment.p_type == llvm::ELF::PT_LOAD) {
      if (first_load == ~std::uint64_t{0}) {
        GC_CHECK(segment.p_offset == 0, "the first segment doesn't hold the ELF header");
        first_load = segment.p_vaddr;
      }
      last_load = at;
      end = std::max(end, end_of(segment.p_vaddr, segment.p_memsz));
    }
    if (segment.p_type == llvm::ELF::PT_NOTE && segment.p_vaddr == section.sh_addr &&
        segment.p_filesz == section.sh_size)
      note_at = at;
  }
  GC_CHECK(note_at > last_load && last_load != 0, "no PT_NOTE of ", note_section, " alone after the loads");

  SegmentPlace place;
  GC_CHECK(checked_align_up(elf.size(), alignment, &place.file_offset));
  GC_CHECK(checked_align_up(end, alignment, &place.address));
  end_of(place.address, size);
  end_of(place.file_offset, size);
  place.from_ehdr = place.address - first_load;

  auto segment = load<Elf64_Phdr>(elf, note_at);
  segment.p_type = llvm::ELF::PT_LOAD;
  segment.p_flags = llvm::ELF::PF_R;
  segment.p_offset = place.file_offset;
  segment.p_vaddr = segment.p_paddr = place.address;
  segment.p_filesz = segment.p_memsz = size;
  segment.p_align = alignment;
  store(std::span(elf), note_at, segment);

  section.sh_type = llvm::ELF::SHT_PROGBITS;
  section.sh_flags = llvm::ELF::SHF_ALLOC;
  section.sh_addr = place.address;
  section.sh_offset = place.file_offset;
  section.sh_size = size;
  section.sh_addralign = alignment;
  store(std::span(elf), section_at, section);
  return place;
}

}  // namespace gc::link
