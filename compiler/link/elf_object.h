// A relocatable ELF object of nothing but data: how bytes that the compiler made (frozen tokenizer, the weights'
// marker) reach the linker. But for relocations it is the same for every 64-bit little-endian machine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gc::link {

// The linker writes a value that depends on the address of `symbol`, which another section of the object defines.
struct DataRelocation {
  std::uint64_t offset = 0;
  std::uint32_t type = 0;  // R_*
  std::string symbol;
  std::int64_t addend = 0;
};

struct DataSection {
  std::string name;
  std::uint32_t type = 1;       // SHT_*; PROGBITS
  std::uint64_t alignment = 1;  // a power of 2
  std::span<const std::uint8_t> bytes;
  std::string symbol;       // hidden, covers the section; empty: none
  std::uint64_t flags = 0;  // SHF_* beside ALLOC
  std::vector<DataRelocation> relocations = {};
};

// Sections are allocated and read-only. `machine` is EM_*.
std::vector<std::uint8_t> write_data_object(std::uint16_t machine, std::span<const DataSection> sections);

}  // namespace gc::link
