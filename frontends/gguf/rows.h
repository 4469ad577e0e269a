// Rows of a tensor as its format has them, whatever their order in the file.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "frontends/gguf/reader.h"

namespace gc::gguf {

class Rows {
 public:
  explicit Rows(const Tensor& tensor) : tensor_(tensor) {}
  // The bytes of rows [first, first + count), row_bytes(format, ne[0]) each: in the file, or in memory of this object
  // until the next call.
  std::span<const std::uint8_t> at(std::int64_t first, std::int64_t count);

 private:
  const Tensor& tensor_;
  std::vector<std::uint8_t> plain_;
};

}  // namespace gc::gguf
