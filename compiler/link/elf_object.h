// A relocatable ELF object of nothing but data: how bytes that the compiler made (frozen tokenizer, the weights'
// marker) reach the linker. Without code or relocations it is the same for every 64-bit little-endian machine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gc::link {

struct DataSection {
  std::string name;
  std::uint32_t type = 1;       // SHT_*; PROGBITS
  std::uint64_t alignment = 1;  // a power of 2
  std::span<const std::uint8_t> bytes;
  std::string symbol;  // hidden, covers the section; empty: none
};

// Sections are allocated and read-only. `machine` is EM_*.
std::vector<std::uint8_t> write_data_object(std::uint16_t machine, std::span<const DataSection> sections);

}  // namespace gc::link
