// A small valid file broken in every mechanical way: each prefix, extreme numbers at each place, each byte changed.
// Opening must either give a sound file, which is then read to its last byte, or end in one clean line; in
// little time and memory.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <ctime>
#include <random>
#include <sstream>

#include "compiler/base/timing.h"
#include "frontends/gguf/inspect.h"
#include "frontends/gguf/reader.h"
#include "frontends/gguf/test_files.h"
#include "frontends/gguf/vocab.h"

namespace gc::gguf {
namespace {

FileBytes model() {
  GgufWriter w("llama");
  w.u32("llama.block_count", 2).f32("eps", 1e-5f).boolean("b", true).u64("q", 7);
  w.array<int>("flags", GgufWriter::kBool, {1, 0}).array<int>("ints", GgufWriter::kI32, {1, 2, 3});
  w.str("tokenizer.ggml.model", "llama");
  w.array<std::string>("tokenizer.ggml.tokens", GgufWriter::kString, {"<unk>", "a", "<0x0A>"});
  w.array<int>("tokenizer.ggml.token_type", GgufWriter::kI32, {2, 1, 6});
  w.array<float>("tokenizer.ggml.scores", GgufWriter::kF32, {0, -1, -2});
  w.array<std::string>("tokenizer.ggml.merges", GgufWriter::kString, {"a b"});
  w.u32("tokenizer.ggml.bos_token_id", 1);
  w.tensor_f32("x", {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  w.tensor("y", {32, 2}, 8, FileBytes(68, 5)).tensor_f32("z", {3}, {1, 2, 3});
  return w.bytes();
}

// Looks at everything that an opened file offers.
void read_all(const std::string& path) {
  const File file = File::open(path);
  std::uint64_t sum = 0;
  for (const Tensor& tensor : file.tensors()) {
    for (std::uint8_t byte : tensor.data) sum += byte;
    sum += static_cast<std::uint64_t>(tensor.n_values());
    file.release(tensor);
  }
  std::ostringstream out;
  inspect(file, {.json = sum % 2 == 0}, out);
  std::vector<std::string> warnings;
  read_vocab(file, &warnings);
}

class Hostile : public ::testing::Test {
 protected:
  std::string result(const FileBytes& bytes) {
    const MemoryFile file(bytes);
    return error_of([&] { read_all(file.path()); });
  }

  const FileBytes good_ = model();
};

TEST_F(Hostile, TheModelItselfIsFine) { EXPECT_EQ(result(good_), "no error"); }

TEST_F(Hostile, EveryPrefix) {
  // The last tensor's 12 bytes are padded to 32: a file may lose the padding and nothing else.
  for (std::size_t length = 0; length < good_.size(); ++length) {
    const bool whole = length + 20 >= good_.size();
    EXPECT_EQ(result({good_.begin(), good_.begin() + static_cast<std::ptrdiff_t>(length)}) == "no error",
              whole)
        << length;
  }
}

TEST_F(Hostile, ExtremeNumbersEverywhere) {
  const Stopwatch watch;
  const std::uint64_t extremes[] = {0,          1,          0x7fffffff, 0x80000000,      0xffffffff,
                                    1ull << 40, 1ull << 60, 1ull << 62, ~0ull / 368 + 1, 0x8000000000000000,
                                    ~0ull};
  int refused = 0, tried = 0;
  for (std::size_t at = 4; at + 8 <= good_.size() - 192; ++at) {
    for (std::uint64_t extreme : extremes) {
      for (std::size_t width : {std::size_t{4}, std::size_t{8}}) {
        if (width == 4 && extreme > 0xffffffff) continue;
        FileBytes bytes = good_;
        std::memcpy(&bytes[at], &extreme, width);
        refused += result(bytes) != "no error" ? 1 : 0;
        ++tried;
      }
    }
  }
  EXPECT_GT(refused, tried / 2);
  RecordProperty("tried", tried);
  // 0.1 ms each; the bound is for what would loop or allocate by a number of the file.
  EXPECT_LT(watch.seconds() / tried, 0.01);
}

TEST_F(Hostile, EveryByteChanged) {
  std::mt19937 random(1);
  for (std::size_t at = 0; at < good_.size(); ++at) {
    for (std::uint8_t flip : {std::uint8_t{1}, std::uint8_t{0x80}, static_cast<std::uint8_t>(random() | 2)}) {
      FileBytes bytes = good_;
      bytes[at] ^= flip;
      result(bytes);
    }
  }
}

TEST_F(Hostile, CountsBeyondTheFile) {
  auto with_u64_at = [&](std::size_t at, std::uint64_t value) {
    FileBytes bytes = good_;
    std::memcpy(&bytes[at], &value, sizeof value);
    return result(bytes);
  };
  for (std::uint64_t count : {~0ull, 1ull << 63, 1ull << 60, ~0ull / 368 + 1, 1ull << 32}) {
    EXPECT_TRUE(has(with_u64_at(8, count), cat("says that the number of tensors is ", count)));
    EXPECT_TRUE(has(with_u64_at(16, count), cat("says that the number of keys is ", count)));
    EXPECT_TRUE(has(with_u64_at(24, count), "inside the name of a key"));
  }
  EXPECT_TRUE(has(with_u64_at(8, 1000), "which needs at least 25000 bytes"));
  EXPECT_TRUE(has(with_u64_at(16, 1000), "which needs at least 14000 bytes"));
}

TEST_F(Hostile, ArraysBeyondTheFile) {
  auto array = [&](std::uint32_t element, std::uint64_t count) {
    GgufWriter w("test");
    FileBytes value(12);
    std::memcpy(value.data(), &element, 4);
    std::memcpy(value.data() + 4, &count, 8);
    w.raw("k", GgufWriter::kArray, value);
    return result(w.bytes());
  };
  EXPECT_TRUE(has(array(GgufWriter::kString, 1ull << 62), "key 'k': an array of 4611686018427387904 string"));
  EXPECT_TRUE(has(array(GgufWriter::kU8, 1ull << 40), "key 'k': an array of 1099511627776 u8"));
  EXPECT_TRUE(has(array(GgufWriter::kF64, ~0ull), "key 'k': an array of 18446744073709551615 f64"));
  EXPECT_TRUE(has(array(GgufWriter::kArray, 1), "key 'k': an array of arrays"));
  EXPECT_TRUE(has(array(13, 1), "key 'k': value type 13 is unknown"));
  EXPECT_EQ(array(GgufWriter::kF64, 0), "no error");
  GgufWriter w("test");
  w.raw("k", 13, {});
  EXPECT_TRUE(has(result(w.bytes()), "key 'k': value type 13 is unknown; expected 0 to 12"));
  GgufWriter b("test");
  b.raw("k", GgufWriter::kBool, {2});
  EXPECT_TRUE(has(result(b.bytes()), "key 'k': a bool is 2; expected 0 or 1"));
}

// As many keys and tensors as are allowed: nothing may take their number squared.
TEST_F(Hostile, ManySmallItems) {
  FileBytes bytes = {'G', 'G', 'U', 'F'};
  const auto put = [&](auto value) {
    bytes.resize(bytes.size() + sizeof value);
    std::memcpy(bytes.data() + bytes.size() - sizeof value, &value, sizeof value);
  };
  const auto put_name = [&](char kind, std::uint64_t i) {
    const std::string name = kind + std::to_string(i);
    put(std::uint64_t{name.size()});
    bytes.insert(bytes.end(), name.begin(), name.end());
  };
  constexpr std::uint64_t kItems = 1 << 17;
  put(std::uint32_t{3});
  put(kItems);
  put(kItems);
  for (std::uint64_t i = 0; i < kItems; ++i) {
    put_name('k', i);
    put(std::uint32_t{GgufWriter::kU8});
    put(std::uint8_t{1});
  }
  for (std::uint64_t i = 0; i < kItems; ++i) {
    put_name('t', i);
    put(std::uint32_t{1});   // dimensions
    put(std::uint64_t{1});   // values
    put(std::uint32_t{24});  // i8
    put(i * 32);             // offset
  }
  bytes.resize(bytes.size() + 32 * (kItems + 1));
  const std::clock_t start = std::clock();  // CPU time: a busy machine's wall clock says little
  const MemoryFile memory(bytes);
  const File file = File::open(memory.path());
  EXPECT_EQ(file.find_tensor("t131071")->data.size(), 1u);
  for (bool json : {false, true}) {
    std::ostringstream out;
    inspect(file, {.json = json}, out);
    EXPECT_GT(out.str().size(), kItems);
  }
  // 2 s; squared, minutes.
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 30);
}

TEST_F(Hostile, NamesThatAttackATerminal) {
  GgufWriter w("test");
  w.str("k\x1b]0;t\x07\n", "v\x1b[2J\x9b\n\xe2\x80\xae");
  w.tensor_f32("t\x1b[1A\n", {1}, {1});
  const Folder folder;
  const File file = File::open(folder.write("n\x1b[7m.gguf", w.bytes()));
  std::ostringstream text, json;
  inspect(file, {}, text);
  inspect(file, {.json = true}, json);
  for (const std::string& out : {text.str(), json.str()}) {
    for (char c : out) ASSERT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << out;
  }
  EXPECT_TRUE(has(text.str(), "'v\\x1b[2J\\x9b\\n\\u{202e}'"));
  EXPECT_TRUE(has(text.str(), "t\\x1b[1A\\n"));
}

#if !defined(__SANITIZE_ADDRESS__) && !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
TEST_F(Hostile, MemoryStaysSmall) {
  // Runs last: what all the tests above have taken at most.
  for (std::size_t at : {std::size_t{8}, std::size_t{16}}) {
    FileBytes bytes = good_;
    const std::uint64_t count = 1 << 17;
    std::memcpy(&bytes[at], &count, sizeof count);
    result(bytes);
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  EXPECT_LT(usage.ru_maxrss, 400 * 1024) << "KiB";
}
#endif

}  // namespace
}  // namespace gc::gguf
