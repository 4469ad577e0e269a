#include "compiler/show_weight.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <vector>

#include "compiler/base/error.h"
#include "compiler/base/strings.h"
#include "compiler/pack/pack.h"
#include "compiler/quant/layouts.h"
#include "frontends/gguf/rows.h"

namespace gc {
namespace {

// Calls use(values) with each row in order.
void for_each_row(const gguf::Tensor& t, const std::function<void(std::span<const float>)>& use) {
  const int64_t cols = t.ne[0], rows = t.n_rows();
  gguf::Rows file_rows(t);
  if (info(t.format).kind == FormatKind::kFloat) {  // packing changes no value
    for (int64_t r = 0; r < rows; ++r) use(pack::pack_vector(t.format, file_rows.at(r, 1), cols));
    return;
  }
  std::vector<float> values(static_cast<size_t>(cols));
  int64_t row = 0;
  pack::pack_matrix(
      t.format, rows, cols, [&](int64_t first, int64_t count) { return file_rows.at(first, count); },
      [&](std::span<const uint8_t> panels) {
        const auto bytes = static_cast<size_t>(panel_bytes(t.format, cols));
        for (size_t at = 0; at < panels.size(); at += bytes) {
          for (int64_t r = 0; r < kPanelRows && row < rows; ++r, ++row) {
            unpack_row(t.format, cols, panels.data() + at, r, values.data());
            use(values);
          }
        }
      });
}

std::string fixed(double x) {
  char text[64];
  std::snprintf(text, sizeof text, " %.5f", x);
  return text;
}

}  // namespace

void show_weight(const gguf::File& file, const std::string& name, const std::string& path,
                 std::ostream& out) {
  const gguf::Tensor& t = file.tensor(name);
  if (info(t.format).kind == FormatKind::kInt)
    file.fail_tensor(t.name, cat("expected weights, found integers of type ", t.type_name()));
  std::ofstream to;
  if (!path.empty()) {
    to.open(path, std::ios::binary);
    if (!to) throw_user(escape_controls(path), ": can't be written");
  }
  double sum = 0;
  std::vector<float> first, last;
  for_each_row(t, [&](std::span<const float> row) {
    for (float v : row) sum += v;
    if (first.empty()) first.assign(row.begin(), row.begin() + std::min<size_t>(row.size(), 4));
    last.assign(row.end() - static_cast<std::ptrdiff_t>(std::min<size_t>(row.size(), 4)), row.end());
    if (!path.empty())
      to.write(reinterpret_cast<const char*>(row.data()), static_cast<std::streamsize>(row.size_bytes()));
  });
  if (!path.empty() && !to.flush()) throw_user(escape_controls(path), ": can't be written");
  out << escape_controls(name) << "  " << t.type_name() << " " << t.shape_text() << "  first";
  for (float v : first) out << fixed(v);
  out << "  last";
  for (float v : last) out << fixed(v);
  out << "  sum" << fixed(sum) << "\n";
}

}  // namespace gc
