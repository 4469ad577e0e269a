#include "frontends/gguf/arch/read_rows.h"

#include "compiler/base/error.h"
#include "compiler/quant/reference.h"
#include "frontends/gguf/rows.h"

namespace gc::gguf {

ir::ReadRow read_rows(const File& file) {
  return [&file](const ir::Weight& weight, std::int64_t row, float* out) {
    GC_CHECK(weight.source == ir::Weight::Source::Tensor, "weight ", weight.name,
             " is no tensor of the file");
    const Tensor& tensor = file.tensor(weight.name);
    const std::int64_t cols = weight.shape.back();
    // A vector may be a tensor of more dimensions, whose values stand one after the other, or the beginning of one.
    const std::int64_t rows = weight.shape.size() == 1 ? 1 : tensor.n_rows();
    GC_CHECK(tensor.format == weight.format &&
                 (rows * cols == tensor.n_values() || (rows == 1 && cols <= tensor.ne[0])) && row >= 0 &&
                 row < rows,
             "row ", row, " of weight ", weight.name);
    if (rows == 1) return dequantize_row(weight.format, tensor.data.data(), out, cols);
    dequantize_row(weight.format, Rows(tensor).at(row, 1).data(), out, cols);
  };
}

}  // namespace gc::gguf
