#include "frontends/gguf/rows.h"

#include "compiler/base/error.h"
#include "compiler/quant/interleaved.h"

namespace gc::gguf {

std::span<const std::uint8_t> Rows::at(std::int64_t first, std::int64_t count) {
  const std::int64_t cols = tensor_.ne[0], row = row_bytes(tensor_.format, cols);
  GC_CHECK(first >= 0 && count >= 0 && first + count <= tensor_.n_rows(), tensor_.name, ": rows ", first,
           " + ", count);
  const auto part = [&](std::span<const std::uint8_t> bytes, std::int64_t begin) {
    return bytes.subspan(static_cast<std::size_t>(begin * row), static_cast<std::size_t>(count * row));
  };
  if (!tensor_.interleaved) return part(tensor_.data, first);
  const std::int64_t n = tensor_.interleaved->rows, begin = first / n * n,
                     end = (first + count + n - 1) / n * n;
  plain_.resize(static_cast<std::size_t>((end - begin) * row));
  for (std::int64_t r = begin; r < end; r += n)
    take_apart(*tensor_.interleaved, cols, tensor_.data.data() + r * row, plain_.data() + (r - begin) * row);
  return part(plain_, first - begin);
}

}  // namespace gc::gguf
