// Objects, patches and maps without a link; links are in artifact_test.cc.
#include "llvm/BinaryFormat/ELF.h"

#include <gtest/gtest.h>

#include <cstring>

#include "compiler/base/error.h"
#include "compiler/link/elf_object.h"
#include "compiler/link/elf_patch.h"
#include "compiler/link/link_map.h"

namespace gc::link {
namespace {

using llvm::ELF::Elf64_Ehdr;
using llvm::ELF::Elf64_Phdr;
using llvm::ELF::Elf64_Shdr;

const std::uint8_t kData[] = {1, 2, 3};
const std::uint8_t kNote[16] = {};

// An executable's shape: the object that write_data_object makes, with program headers put behind it.
std::vector<std::uint8_t> executable() {
  const DataSection sections[] = {{".rodata.x", llvm::ELF::SHT_PROGBITS, 8, kData, "x"},
                                  {".gc.weights", llvm::ELF::SHT_NOTE, 16, kNote, ""}};
  std::vector<std::uint8_t> elf = write_data_object(llvm::ELF::EM_X86_64, sections);
  Elf64_Ehdr header;
  std::memcpy(&header, elf.data(), sizeof(header));
  Elf64_Shdr note;
  std::memcpy(&note, &elf[header.e_shoff + 2 * sizeof(note)], sizeof(note));
  note.sh_addr = 0x300;
  std::memcpy(&elf[header.e_shoff + 2 * sizeof(note)], &note, sizeof(note));

  Elf64_Phdr segments[3] = {};
  segments[0].p_type = llvm::ELF::PT_LOAD;
  segments[0].p_vaddr = 0;
  segments[0].p_filesz = segments[0].p_memsz = 0x400;
  segments[1].p_type = llvm::ELF::PT_LOAD;
  segments[1].p_flags = llvm::ELF::PF_R | llvm::ELF::PF_W;
  segments[1].p_vaddr = 0x5400;
  segments[1].p_memsz = 0x2000;
  segments[2].p_type = llvm::ELF::PT_NOTE;
  segments[2].p_vaddr = note.sh_addr;
  segments[2].p_filesz = segments[2].p_memsz = sizeof(kNote);
  header.e_phoff = elf.size();
  header.e_phnum = 3;
  header.e_phentsize = sizeof(Elf64_Phdr);
  std::memcpy(elf.data(), &header, sizeof(header));
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(segments);
  elf.insert(elf.end(), bytes, bytes + sizeof(segments));
  return elf;
}

TEST(ElfObject, HoldsItsBytes) {
  const std::vector<std::uint8_t> elf = executable();
  const SectionPlace place = find_section(elf, ".rodata.x");
  EXPECT_EQ(place.size, sizeof(kData));
  EXPECT_EQ(place.file_offset % 8, 0u);
  EXPECT_EQ(std::memcmp(&elf[place.file_offset], kData, sizeof(kData)), 0);
  EXPECT_THROW(find_section(elf, ".rodata"), InternalError);
  EXPECT_THROW(find_section(elf, ".rodata.xy"), InternalError);
}

TEST(ElfPatch, AddsASegmentPastTheOthers) {
  std::vector<std::uint8_t> elf = executable();
  const std::uint64_t size = 5ull << 30;
  const SegmentPlace place = add_segment(elf, ".gc.weights", size, 4096);
  EXPECT_EQ(place.address, 0x8000u);  // the data segment ends at 0x7400
  EXPECT_EQ(place.from_ehdr, 0x8000u);
  EXPECT_EQ(place.file_offset, 4096u);
  EXPECT_LE(elf.size(), place.file_offset);

  Elf64_Ehdr header;
  std::memcpy(&header, elf.data(), sizeof(header));
  Elf64_Phdr segment;
  std::memcpy(&segment, &elf[header.e_phoff + 2 * sizeof(segment)], sizeof(segment));
  EXPECT_EQ(segment.p_type, std::uint32_t{llvm::ELF::PT_LOAD});
  EXPECT_EQ(segment.p_flags, std::uint32_t{llvm::ELF::PF_R});
  EXPECT_EQ(segment.p_vaddr, place.address);
  EXPECT_EQ(segment.p_offset, place.file_offset);
  EXPECT_EQ(segment.p_filesz, size);
  EXPECT_EQ(segment.p_memsz, size);
  Elf64_Shdr section;
  std::memcpy(&section, &elf[header.e_shoff + 2 * sizeof(section)], sizeof(section));
  EXPECT_EQ(section.sh_type, std::uint32_t{llvm::ELF::SHT_PROGBITS});
  EXPECT_EQ(section.sh_addr, place.address);
  EXPECT_EQ(section.sh_size, size);
  // It is a note no more.
  EXPECT_THROW(add_segment(elf, ".gc.weights", size, 4096), InternalError);
}

TEST(ElfPatch, RefusesWhatItCannotDo) {
  std::vector<std::uint8_t> elf = executable();
  EXPECT_THROW(add_segment(elf, ".rodata.x", 1, 4096), InternalError);        // no note
  EXPECT_THROW(add_segment(elf, ".gc.weights", 1, 4095), InternalError);      // no power of 2
  EXPECT_THROW(add_segment(elf, ".gc.weights", ~0ull, 4096), InternalError);  // wraps
}

// Every prefix, and every byte of the headers set to its extremes: an error or an answer, never a wild access (the
// sanitizer builds look on).
TEST(ElfPatch, DamagedFiles) {
  const std::vector<std::uint8_t> good = executable();
  int errors = 0, answers = 0;
  const auto attempt = [&](std::vector<std::uint8_t> elf) {
    try {
      find_section(elf, ".rodata.x");
      add_segment(elf, ".gc.weights", 1 << 20, 4096);
      ++answers;
    } catch (const InternalError&) {
      ++errors;
    }
  };
  for (std::size_t size = 0; size < good.size(); ++size) attempt({good.begin(), good.begin() + size});
  EXPECT_EQ(answers, 0);
  for (std::size_t i = 0; i < good.size(); ++i)
    for (std::uint8_t value : {0x00, 0x7f, 0xff}) {
      std::vector<std::uint8_t> elf = good;
      elf[i] = value;
      attempt(std::move(elf));
    }
  EXPECT_GT(answers, 0);
  EXPECT_GT(errors, static_cast<int>(good.size()));
}

TEST(LinkMap, AddsUpWhatIsInTheFile) {
  const auto shares = read_link_map(
      "             VMA              LMA     Size Align Out     In      Symbol\n"
      "             2e0              2e0       12     4 .rodata\n"
      "             2e0              2e0       10     4         libc.a(printf.o):(.rodata.cst4)\n"
      "             2f0              2f0        2     1         <internal>:(.rodata.str1.1)\n"
      "             2f0              2f0        0     1                 text\n"
      "            1000             1000     1234    16 .text\n"
      "            1000             1000     1234    16         a (b):(c.o:(.text.main)\n"
      "            3000             3000      100    16 .bss\n"
      "            3000             3000      100    16         libc.a(malloc.o):(.bss)\n");
  ASSERT_EQ(shares.size(), 3u);
  EXPECT_EQ(shares[0].file, "libc.a(printf.o)");
  EXPECT_EQ(shares[0].section, ".rodata.cst4");
  EXPECT_EQ(shares[0].bytes, 0x10u);
  EXPECT_EQ(shares[1].file, "<internal>");
  EXPECT_EQ(shares[2].file, "a (b):(c.o");
  EXPECT_EQ(shares[2].bytes, 0x1234u);
}

}  // namespace
}  // namespace gc::link
