// Writes the weight image of runtime/abi/image.h into a file, section by section, without holding it in memory.
//
// The header comes first in the file but holds checksums of what follows, so the sections (names, offsets, sizes)
// are told ahead, their bytes stream past a running checksum, and the header is written last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/base/temp_file.h"

namespace gc::link {

// A named range of the weights, e.g. one packed tensor. Offsets count from the base that compiled code is given.
struct ImageSection {
  std::string name;
  std::uint64_t offset = 0;  // ascending, no overlap; gaps read as zeros
  std::uint64_t size = 0;    // bytes
};

class WeightSink {
 public:
  virtual ~WeightSink();
  // The next bytes of a section. Sections may be filled in any order, and different ones by different threads at once.
  virtual void append(std::size_t section, std::span<const std::uint8_t> bytes) = 0;
};

struct WeightImage {
  std::vector<ImageSection> sections;
  std::function<void(WeightSink&)> write;  // fills every section to its size
};

// Bytes before the first section: header, table and names, rounded up to a page.
std::uint64_t image_header_size(const std::vector<ImageSection>& sections);
// The whole image; throws UserError past what a file can hold.
std::uint64_t image_size(const std::vector<ImageSection>& sections);

// Puts the image into `file` at file_offset and returns its header_checksum.
std::uint64_t write_image(const WeightImage& image, TempFile& file, std::uint64_t file_offset);

}  // namespace gc::link
