// A damaged file is refused or loads; it is never our bug and never touches memory that isn't there (run under
// --config=asan to see that). Bytes of tiny models are changed at places and to values drawn from a fixed seed, numbers
// of metadata by preference, since those reach furthest.
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "compiler/base/error.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/reader.h"
#include "tests/support/tiny_model.h"

namespace gc {
namespace {

using Bytes = std::vector<std::uint8_t>;

void write(const std::string& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

// One to three changes of a byte or of an aligned-by-chance 32-bit number in the first `end` bytes.
Bytes damage(Bytes bytes, std::size_t end, std::mt19937& random) {
  const std::uint32_t numbers[] = {0,   1,        2,        3,          7,          31,        33,
                                   255, 1u << 16, 1u << 31, 0xFFFFFFFF, 0x7F800000, 0x7FC00000};
  const int changes = 1 + int(random() % 3);
  for (int i = 0; i < changes; ++i) {
    const std::size_t at = random() % (end - 4);
    if (random() % 2 == 0) {
      bytes[at] = std::uint8_t(random());
    } else {
      const std::uint32_t number = numbers[random() % std::size(numbers)];
      std::memcpy(&bytes[at], &number, sizeof(number));
    }
  }
  return bytes;
}

void expect_sound(const std::string& architecture) {
  constexpr int kFiles = 3000;
  const testing::TinyModel model{.architecture = architecture, .biases = true, .tokens = false};
  const Bytes whole = tiny_model(model).bytes();
  // Metadata and the tensors' table come first: names alone are half of it.
  const std::size_t end = std::min<std::size_t>(whole.size(), 2500);
  const std::string path = ::testing::TempDir() + architecture + "_damaged.gguf";
  std::mt19937 random(1);
  int loaded = 0, refused = 0;
  for (int i = 0; i < kFiles; ++i) {
    write(path, damage(whole, end, random));
    try {
      gguf::load_model(gguf::File::open(path));
      ++loaded;
    } catch (const Error& error) {
      ASSERT_NE(error.kind(), ErrorKind::kInternal) << "file " << i << ": " << error.what();
      ASSERT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "file " << i;
      ++refused;
    }
  }
  EXPECT_GT(loaded, 0);
  EXPECT_GT(refused, kFiles / 10);
}

TEST(DamagedFiles, Gemma3) { expect_sound("gemma3"); }
TEST(DamagedFiles, Llama) { expect_sound("llama"); }

}  // namespace
}  // namespace gc
