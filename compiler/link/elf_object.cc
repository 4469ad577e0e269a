#include "compiler/link/elf_object.h"

#include <bit>
#include <cstring>
#include <string_view>

#include "compiler/base/checked.h"
#include "compiler/base/error.h"
#include "llvm/BinaryFormat/ELF.h"

namespace gc::link {
namespace {

namespace elf = llvm::ELF;
static_assert(std::endian::native == std::endian::little);

class StringTable {
 public:
  std::uint32_t add(std::string_view text) {
    if (text.empty()) return 0;
    const auto at = static_cast<std::uint32_t>(bytes_.size());
    bytes_.append(text);
    bytes_ += '\0';
    return at;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_ = std::string(1, '\0');
};

void append(std::vector<std::uint8_t>& out, const void* data, std::size_t size) {
  const auto* bytes = static_cast<const std::uint8_t*>(data);
  out.insert(out.end(), bytes, bytes + size);
}

// Pads to the header's alignment and puts the section's bytes there.
void place(std::vector<std::uint8_t>& out, elf::Elf64_Shdr& header, const void* data, std::size_t size) {
  out.resize(align_up(out.size(), header.sh_addralign));
  header.sh_offset = out.size();
  header.sh_size = size;
  append(out, data, size);
}

}  // namespace

std::vector<std::uint8_t> write_data_object(std::uint16_t machine, std::span<const DataSection> sections) {
  std::vector<std::uint8_t> out(sizeof(elf::Elf64_Ehdr));
  std::vector<elf::Elf64_Shdr> headers(1);
  std::vector<elf::Elf64_Sym> symbols(1);
  StringTable section_names, symbol_names;

  const auto add = [&](std::string_view name, std::uint32_t type, std::uint64_t flags,
                       std::uint64_t alignment) -> elf::Elf64_Shdr& {
    elf::Elf64_Shdr header{};
    header.sh_name = section_names.add(name);
    header.sh_type = type;
    header.sh_flags = flags;
    header.sh_addralign = alignment;
    return headers.emplace_back(header);
  };

  for (const DataSection& section : sections) {
    GC_CHECK(is_power_of_2(section.alignment), section.name);
    place(out, add(section.name, section.type, elf::SHF_ALLOC | section.flags, section.alignment),
          section.bytes.data(), section.bytes.size());
    if (section.symbol.empty()) continue;
    elf::Elf64_Sym symbol{};
    symbol.st_name = symbol_names.add(section.symbol);
    symbol.setBindingAndType(elf::STB_GLOBAL, elf::STT_OBJECT);
    symbol.st_other = elf::STV_HIDDEN;
    symbol.st_shndx = static_cast<std::uint16_t>(headers.size() - 1);
    symbol.st_size = section.bytes.size();
    symbols.push_back(symbol);
  }
  const auto symbol_index = [&](const std::string& name) {
    std::uint32_t at = 1;
    for (const DataSection& section : sections) {
      if (section.symbol == name) return at;
      at += !section.symbol.empty();
    }
    throw_internal("no symbol ", name, " to relocate by");
  };
  std::vector<std::size_t> relocation_headers;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    if (sections[i].relocations.empty()) continue;
    std::vector<elf::Elf64_Rela> rows;
    for (const DataRelocation& r : sections[i].relocations) {
      elf::Elf64_Rela row{};
      row.r_offset = r.offset;
      row.setSymbolAndType(symbol_index(r.symbol), r.type);
      row.r_addend = r.addend;
      rows.push_back(row);
    }
    relocation_headers.push_back(headers.size());
    elf::Elf64_Shdr& header = add(".rela" + sections[i].name, elf::SHT_RELA, elf::SHF_INFO_LINK, 8);
    header.sh_entsize = sizeof(elf::Elf64_Rela);
    header.sh_info = static_cast<std::uint32_t>(i + 1);
    place(out, header, rows.data(), rows.size() * sizeof(elf::Elf64_Rela));
  }
  GC_CHECK(headers.size() < elf::SHN_LORESERVE - 4u);

  place(out, add(".note.GNU-stack", elf::SHT_PROGBITS, 0, 1), nullptr, 0);  // no executable stack
  for (std::size_t at : relocation_headers) headers[at].sh_link = static_cast<std::uint32_t>(headers.size());
  elf::Elf64_Shdr& symtab = add(".symtab", elf::SHT_SYMTAB, 0, 8);
  symtab.sh_entsize = sizeof(elf::Elf64_Sym);
  symtab.sh_info = 1;  // first global
  symtab.sh_link = static_cast<std::uint32_t>(headers.size());
  place(out, symtab, symbols.data(), symbols.size() * sizeof(elf::Elf64_Sym));
  place(out, add(".strtab", elf::SHT_STRTAB, 0, 1), symbol_names.bytes().data(), symbol_names.bytes().size());
  elf::Elf64_Shdr& names = add(".shstrtab", elf::SHT_STRTAB, 0, 1);
  place(out, names, section_names.bytes().data(), section_names.bytes().size());

  out.resize(align_up(out.size(), 8));
  elf::Elf64_Ehdr header{};
  std::memcpy(header.e_ident, elf::ElfMagic, 4);
  header.e_ident[elf::EI_CLASS] = elf::ELFCLASS64;
  header.e_ident[elf::EI_DATA] = elf::ELFDATA2LSB;
  header.e_ident[elf::EI_VERSION] = elf::EV_CURRENT;
  header.e_type = elf::ET_REL;
  header.e_machine = machine;
  header.e_version = elf::EV_CURRENT;
  header.e_ehsize = sizeof(elf::Elf64_Ehdr);
  header.e_shentsize = sizeof(elf::Elf64_Shdr);
  header.e_shoff = out.size();
  header.e_shnum = static_cast<std::uint16_t>(headers.size());
  header.e_shstrndx = static_cast<std::uint16_t>(headers.size() - 1);
  append(out, headers.data(), headers.size() * sizeof(elf::Elf64_Shdr));
  std::memcpy(out.data(), &header, sizeof(header));
  return out;
}

}  // namespace gc::link
