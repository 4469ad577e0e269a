#include "compiler/quant/interleaved.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "compiler/quant/float16.h"
#include "compiler/quant/reference.h"
#include "compiler/quant/reference_data.h"

namespace gc {
namespace {

constexpr std::int64_t kColumns = 512;

// A group of random bytes with heads of 0.1 as testdata/make_reference.py makes it, taken apart and decoded.
std::string line_of(const Interleaved& type) {
  const std::int64_t row = row_bytes(type.base, kColumns), head = head_bytes(type.base);
  std::vector<std::uint8_t> group = random_bytes(static_cast<std::size_t>(type.rows * row), type.gguf_id);
  for (std::int64_t k = 0; k < type.rows; ++k) put_head(type.base, group.data() + k * head);
  std::vector<std::uint8_t> rows(group.size());
  take_apart(type, kColumns, group.data(), rows.data());
  std::vector<float> values(static_cast<std::size_t>(type.rows * kColumns));
  for (std::int64_t k = 0; k < type.rows; ++k)
    dequantize_row(type.base, &rows[k * row], &values[k * kColumns], kColumns);
  for (float& v : values) v += 0.0f;  // no -0
  return reference_line(type.name, values);
}

TEST(Interleaved, RowsAreWhatIkLlamaCppDecodes) {
  std::ifstream in("compiler/quant/testdata/interleaved.txt");
  ASSERT_TRUE(in.good());
  std::string line;
  std::size_t rows = 0;
  while (std::getline(in, line)) {
    if (line.starts_with('#')) continue;
    const std::string name = line.substr(0, line.find(' '));
    for (const Interleaved& type : all_interleaved()) {
      if (type.name != name) continue;
      EXPECT_EQ(line_of(type), line);
      ++rows;
    }
  }
  EXPECT_EQ(rows, all_interleaved().size()) << "a type has no line in interleaved.txt";
}

TEST(Interleaved, IdsAreNobodyElses) {
  for (const Interleaved& type : all_interleaved()) {
    EXPECT_EQ(interleaved_of_gguf_id(type.gguf_id), &type);
    // The types that exist only interleaved have the id of their plain rows.
    const std::optional<Format> plain = format_of_gguf_id(type.gguf_id);
    EXPECT_TRUE(!plain || plain == type.base) << type.name;
  }
  EXPECT_EQ(interleaved_of_gguf_id(2), nullptr);
}

}  // namespace
}  // namespace gc
