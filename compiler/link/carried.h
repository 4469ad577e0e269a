// What the compiler carries to link with: runtime archive, libc, libm, compiler runtime and start files of a target,
// so that where it runs neither a linker nor a libc's development files are needed.
//
// Carried as a bundle: a text table ("NAME SIZE" a line, then an empty line), the files' bytes in that order, all in
// one zstd frame, put into the compiler's read-only data by .incbin (a C array of 3 MB costs clang seconds). The
// archives are whole: a trimmed libc would be 2 MB smaller but lacks whatever the next kernel calls.
// archive.bzl makes bundles; bundle.cc writes the format.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gc::link {

class CarriedFiles {
 public:
  // Unpacks a bundle.
  explicit CarriedFiles(std::span<const std::uint8_t> bundle);
  CarriedFiles(const CarriedFiles&) = delete;

  // A file by name: "runtime.a", "libc.a", "rcrt1.o".
  std::span<const std::uint8_t> file(std::string_view name) const;

 private:
  struct Entry {
    std::string name;
    std::span<const std::uint8_t> bytes;
  };
  std::vector<std::uint8_t> storage_;
  std::vector<Entry> entries_;
};

}  // namespace gc::link
