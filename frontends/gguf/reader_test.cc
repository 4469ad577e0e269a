#include "frontends/gguf/reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "compiler/base/timing.h"
#include "frontends/gguf/rows.h"
#include "frontends/gguf/test_files.h"

namespace gc::gguf {
namespace {

constexpr std::uint32_t kF32Id = 0, kQ8_0Id = 8, kQ4_KId = 12, kQ6_KId = 14;

class ReaderTest : public ::testing::Test {
 protected:
  File open(const GgufWriter& w, const std::string& name = "m.gguf") {
    return File::open(folder_.write(name, w.bytes()));
  }
  std::string open_error(const GgufWriter& w) {
    const std::string path = folder_.write("m.gguf", w.bytes());
    return error_of([&] { File::open(path); });
  }
  Folder folder_;
};

GgufWriter small() {
  GgufWriter w("test");
  w.tensor_f32("a", {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  w.tensor("b", {64, 3}, kQ8_0Id, FileBytes(204, 7));
  return w;
}

TEST_F(ReaderTest, ReadsTensorsInPlace) {
  const File file = open(small());
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.alignment(), 32u);
  ASSERT_EQ(file.tensors().size(), 2u);
  const Tensor& a = file.tensor("a");
  EXPECT_EQ(a.format, Format::F32);
  EXPECT_EQ(a.n_dims, 2);
  EXPECT_EQ(a.ne[0], 4);
  EXPECT_EQ(a.n_rows(), 2);
  EXPECT_EQ(a.ne[3], 1);
  EXPECT_EQ(a.shape_text(), "[4, 2]");
  float values[8];
  std::memcpy(values, a.data.data(), sizeof values);
  EXPECT_EQ(values[7], 8.0f);
  const Tensor& b = file.tensor("b");
  EXPECT_EQ(b.format, Format::Q8_0);
  EXPECT_EQ(b.data.size(), 204u);
  EXPECT_EQ(b.data[0], 7);
  EXPECT_EQ(b.file_offset % 32, 0u);
  file.release(b);
  EXPECT_EQ(b.data[203], 7);
  EXPECT_EQ(file.find_tensor("c"), nullptr);
  EXPECT_TRUE(has(error_of([&] { file.tensor("c"); }), "m.gguf: tensor 'c' is missing"));
  file.check_unchanged();
}

// Of BF16_R16: two columns of each of 16 rows, then the next two.
TEST_F(ReaderTest, InterleavedRowsComeInOrder) {
  constexpr std::uint32_t kBf16R16Id = 230;
  constexpr int kRows = 32, kColumns = 4;
  FileBytes bytes(kRows * kColumns * 2);
  const auto value = [](std::int64_t r, int c) { return static_cast<std::uint16_t>(100 * r + c); };
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      const std::uint16_t v = value(r, c);
      std::memcpy(&bytes[((r / 16 * kColumns + c / 2 * 2) * 16 + r % 16 * 2 + c % 2) * 2], &v, 2);
    }
  }
  GgufWriter w("test");
  w.tensor("x", {kColumns, kRows}, kBf16R16Id, bytes);
  const File file = open(w);
  const Tensor& x = file.tensor("x");
  EXPECT_EQ(x.format, Format::BF16);
  EXPECT_EQ(x.type_name(), "BF16_R16");
  Rows rows(x);
  for (const auto& [first, count] : {std::pair{0, 32}, {0, 16}, {3, 5}, {15, 2}, {31, 1}, {7, 0}}) {
    const std::span<const std::uint8_t> part = rows.at(first, count);
    ASSERT_EQ(part.size(), static_cast<std::size_t>(count * kColumns * 2));
    for (int i = 0; i < count * kColumns; ++i) {
      std::uint16_t v;
      std::memcpy(&v, &part[2 * i], 2);
      EXPECT_EQ(v, value(first + i / kColumns, i % kColumns)) << first << " " << i;
    }
  }
  GgufWriter few("test");
  few.tensor("x", {4, 24}, kBf16R16Id, FileBytes(192, 0));
  EXPECT_TRUE(has(open_error(few), "24 rows are not a multiple of 16, of which BF16_R16 makes groups"));
  GgufWriter odd("test");
  odd.tensor("x", {3, 16}, kBf16R16Id, FileBytes(96, 0));
  EXPECT_TRUE(has(open_error(odd), "row length 3 is odd"));
}

TEST_F(ReaderTest, Version2IsTheSame) {
  GgufWriter w("test", 2);
  w.tensor_f32("a", {4}, {1, 2, 3, 4});
  const File file = open(w);
  EXPECT_EQ(file.version(), 2u);
  EXPECT_EQ(file.tensor("a").data.size(), 16u);
}

TEST_F(ReaderTest, AnyAlignment) {
  for (std::uint32_t alignment : {1u, 2u, 8u, 64u, 4096u, 1u << 20}) {
    GgufWriter w("test", 3, alignment);
    w.tensor("x", {32}, kQ8_0Id, FileBytes(34, 9)).tensor_f32("y", {1}, {3});
    const File file = open(w);
    EXPECT_EQ(file.alignment(), alignment);
    EXPECT_EQ(file.tensor("x").data[33], 9);
    float y = 0;
    std::memcpy(&y, file.tensor("y").data.data(), sizeof y);
    EXPECT_EQ(y, 3.0f);
  }
}

TEST_F(ReaderTest, BadAlignmentIsRefused) {
  for (std::uint32_t alignment : {0u, 3u, 33u, 1u << 21, 1u << 31}) {
    GgufWriter w("test");
    w.u32("general.alignment", alignment);
    EXPECT_TRUE(has(open_error(w), cat("key 'general.alignment': ", alignment, "; expected a power of 2")));
  }
  GgufWriter w("test");
  w.i32("general.alignment", 32);
  EXPECT_TRUE(has(open_error(w), "key 'general.alignment': expected a u32, found i32 32"));
}

TEST_F(ReaderTest, TrailingBytesAreFine) {
  FileBytes bytes = small().bytes();
  bytes.insert(bytes.end(), 100, 0xff);
  EXPECT_EQ(File::open(folder_.write("m.gguf", bytes)).tensors().size(), 2u);
}

TEST_F(ReaderTest, EveryMetadataType) {
  GgufWriter w("test");
  w.scalar<std::uint8_t>("u8", GgufWriter::kU8, 200).scalar<std::int8_t>("i8", GgufWriter::kI8, -5);
  w.scalar<std::uint16_t>("u16", GgufWriter::kU16, 60000).scalar<std::int16_t>("i16", GgufWriter::kI16, -300);
  w.u32("u32", 4'000'000'000).i32("i32", -7).u64("u64", ~0ull).f32("f32", 0.1f).f64("f64", 1e300);
  w.scalar<std::int64_t>("i64", GgufWriter::kI64, -1).boolean("bool", true).str("str", "hi");
  w.array<std::string>("strs", GgufWriter::kString, {"a", "", "ccc"});
  w.array<std::int16_t>("shorts", GgufWriter::kI16, {1, -2}).array<int>("bools", GgufWriter::kBool, {1, 0});
  w.array<float>("none", GgufWriter::kF32, {});
  const File file = open(w);
  EXPECT_EQ(file.get_u32("u8"), 200u);
  EXPECT_EQ(file.get_u32("u16"), 60000u);
  EXPECT_EQ(file.get_u32("u32"), 4'000'000'000u);
  EXPECT_EQ(file.get_u32("absent", 5), 5u);
  EXPECT_EQ(file.find("i8")->as_int(), -5);
  EXPECT_EQ(file.find("i16")->as_int(), -300);
  EXPECT_EQ(file.find("i64")->as_int(), -1);
  EXPECT_EQ(file.find("i64")->as_uint(), std::nullopt);
  EXPECT_EQ(file.find("u64")->as_uint(), ~0ull);
  EXPECT_EQ(file.find("u64")->as_int(), std::nullopt);
  EXPECT_EQ(file.get_f32("f32"), 0.1f);
  EXPECT_EQ(file.get_f32("i32"), -7.0f);
  EXPECT_EQ(file.get_f32("absent", 0.5f), 0.5f);
  EXPECT_TRUE(file.get_bool("bool"));
  EXPECT_TRUE(file.get_bool("absent", true));
  EXPECT_EQ(file.get_string("str"), "hi");
  EXPECT_EQ(file.get_string("absent", "x"), "x");
  EXPECT_EQ(file.find_strings("strs"), (std::vector<std::string_view>{"a", "", "ccc"}));
  EXPECT_EQ(file.find("strs")->element_text(2), "'ccc'");
  EXPECT_EQ(file.find_i32_array("shorts"), (std::vector<std::int32_t>{1, -2}));
  EXPECT_EQ(file.find_f32_array("shorts"), (std::vector<float>{1, -2}));
  EXPECT_TRUE(file.find_f32_array("none").empty());
  EXPECT_TRUE(file.find_strings("absent").empty());
  EXPECT_EQ(file.find("bools")->as_bool(1), false);
  EXPECT_EQ(file.find("strs")->describe(), "array of 3 string");
  EXPECT_EQ(file.find("u32")->describe(), "u32 4000000000");
}

TEST_F(ReaderTest, WrongTypesAreNamed) {
  GgufWriter w("test");
  w.str("s", "ab\x1b[31mc")
      .i32("neg", -1)
      .u64("big", 1ull << 33)
      .f32("nan", NAN)
      .u32("n", 3)
      .f64("huge", 1e300);
  w.array<float>("floats", GgufWriter::kF32, {1, INFINITY}).array<int>("ints", GgufWriter::kI32, {1, -2});
  const File f = open(w);
  EXPECT_TRUE(has(error_of([&] { f.get_u32("s"); }),
                  "m.gguf: key 's': expected an unsigned 32-bit integer, found string 'ab\\x1b[31mc'"));
  EXPECT_TRUE(has(error_of([&] { f.get_u32("neg"); }), "found i32 -1"));
  EXPECT_TRUE(has(error_of([&] { f.get_u32("big", 1); }), "found u64 8589934592"));
  EXPECT_TRUE(has(error_of([&] { f.get_u32("ints"); }), "found array of 2 i32"));
  EXPECT_TRUE(
      has(error_of([&] { f.get_u32("gone"); }), "m.gguf: key 'gone' is missing; expected an unsigned"));
  EXPECT_TRUE(has(error_of([&] { f.get_f32("nan"); }), "expected a finite number, found f32 nan"));
  EXPECT_TRUE(has(error_of([&] { f.get_f32("huge"); }), "expected a finite number"));
  EXPECT_TRUE(has(error_of([&] { f.get_bool("n"); }), "expected a bool, found u32 3"));
  EXPECT_TRUE(has(error_of([&] { f.get_string("n"); }), "expected a string, found u32 3"));
  EXPECT_TRUE(has(error_of([&] { f.get_u32_in("n", 4, 9); }), "key 'n': 3; expected 4 to 9"));
  EXPECT_TRUE(
      has(error_of([&] { f.find_strings("ints"); }), "expected an array of strings, found array of 2 i32"));
  EXPECT_TRUE(has(error_of([&] { f.find_f32_array("floats"); }), "found f32 inf at index 1"));
  EXPECT_TRUE(has(error_of([&] { f.find_i32_array("n"); }), "expected an array, found u32 3"));
}

TEST_F(ReaderTest, OneValuePerLayer) {
  GgufWriter w("test");
  w.u32("scalar", 3)
      .array<int>("three", GgufWriter::kI32, {1, 2, 3})
      .array<int>("flags", GgufWriter::kBool, {1, 0, 1});
  w.array<int>("negative", GgufWriter::kI32, {1, -2, 3}).f32("eps", 0.5f);
  const File f = open(w);
  EXPECT_EQ(f.per_layer_u32("scalar", 3), (std::vector<std::uint32_t>{3, 3, 3}));
  EXPECT_EQ(f.per_layer_u32("three", 3), (std::vector<std::uint32_t>{1, 2, 3}));
  EXPECT_EQ(f.per_layer_u32("gone", 2, 7), (std::vector<std::uint32_t>{7, 7}));
  EXPECT_EQ(f.per_layer_bool("flags", 3, false), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(f.per_layer_bool("gone", 2, true), (std::vector<bool>{true, true}));
  EXPECT_EQ(f.per_layer_f32("eps", 2, 0), (std::vector<float>{0.5f, 0.5f}));
  EXPECT_TRUE(has(error_of([&] { f.per_layer_u32("three", 4); }),
                  "key 'three': has 3 values; expected 4, one for each layer"));
  EXPECT_TRUE(has(error_of([&] { f.per_layer_u32("gone", 4); }), "key 'gone' is missing"));
  EXPECT_TRUE(has(error_of([&] { f.per_layer_u32("negative", 3); }), "found i32 -2 at index 1"));
}

TEST_F(ReaderTest, TensorsThatCannotBe) {
  auto with = [&](std::vector<std::uint64_t> ne, std::uint32_t type) {
    GgufWriter w("test");
    w.tensor("t", std::move(ne), type, FileBytes(64));
    return open_error(w);
  };
  EXPECT_TRUE(
      has(with({640}, kQ4_KId), "tensor 't': row length 640 is not a multiple of 256, the block of Q4_K"));
  EXPECT_TRUE(has(with({8, 64}, kQ6_KId), "row length 8 is not a multiple of 256"));
  EXPECT_TRUE(has(with({33}, kQ8_0Id), "row length 33 is not a multiple of 32"));
  EXPECT_TRUE(has(with({4, 0}, kF32Id), "dimension 1 is 0"));
  EXPECT_TRUE(has(with({1ull << 63}, kF32Id), "dimension 0 is 9223372036854775808"));
  EXPECT_TRUE(has(with({1ull << 32, 1ull << 31}, kF32Id), "number of values leaves 63 bits"));
  EXPECT_TRUE(has(with({1ull << 62}, kF32Id), "number of bytes leaves 63 bits"));
  EXPECT_TRUE(has(with({1, 1, 1, 1, 1}, kF32Id), "has 5 dimensions"));
  EXPECT_TRUE(has(with({17}, kF32Id), "tensor 't' needs 68 bytes"));
  EXPECT_TRUE(has(with({16}, 4), "tensor type 4 was withdrawn"));
  EXPECT_TRUE(has(with({16}, 151), "tensor type Q8_KV (151) is not supported"));
  EXPECT_TRUE(has(with({16}, 255), "tensor type 255 is unknown"));
  EXPECT_EQ(with({16}, kF32Id), "no error");
  EXPECT_EQ(with({}, kF32Id), "no error");  // a single value
}

TEST_F(ReaderTest, NamesAreWholeOrRefused) {
  GgufWriter w("test");
  w.tensor_f32(std::string(64, 'n'), {1}, {1});
  EXPECT_NE(open(w).find_tensor(std::string(64, 'n')), nullptr);
  w.tensor_f32(std::string(65, 'n'), {1}, {1});
  EXPECT_TRUE(has(open_error(w), "has a name of 65 bytes; expected at most 64"));
  GgufWriter empty("test");
  empty.tensor_f32("", {1}, {1});
  EXPECT_TRUE(has(open_error(empty), "tensor number 0 has an empty name"));
  GgufWriter key("test");
  key.u32("", 1);
  EXPECT_TRUE(has(open_error(key), "key number 1 has an empty name"));
  GgufWriter long_key("test");
  long_key.u32(std::string(65536, 'k'), 1);
  EXPECT_TRUE(has(open_error(long_key), "has a name of 65536 bytes"));
}

// Writes `to` over the only place where `from` stands.
void patch(FileBytes& bytes, std::string_view from, std::string_view to) {
  const auto at = std::search(bytes.begin(), bytes.end(), from.begin(), from.end());
  ASSERT_NE(at, bytes.end());
  std::copy(to.begin(), to.end(), at);
}

TEST_F(ReaderTest, DuplicatesAreRefused) {
  GgufWriter w("test");
  w.u32("key.a", 1).u32("key.b", 2).tensor_f32("ten.a", {1}, {1}).tensor_f32("ten.b", {1}, {1});
  FileBytes keys = w.bytes(), tensors = w.bytes(), cases = w.bytes();
  patch(keys, "key.b", "key.a");
  patch(tensors, "ten.b", "ten.a");
  patch(cases, "key.b", "KEY.A");
  EXPECT_TRUE(has(error_of([&] { File::open(folder_.write("m", keys)); }), "duplicate key 'key.a'"));
  EXPECT_TRUE(has(error_of([&] { File::open(folder_.write("m", tensors)); }), "duplicate tensor 'ten.a'"));
  EXPECT_EQ(File::open(folder_.write("m", cases)).get_u32("KEY.A"), 2u);
}

TEST_F(ReaderTest, OverlapsAndOddOffsetsAreRefused) {
  GgufWriter w("test");
  w.tensor_f32("ten.a", {16}, std::vector<float>(16, 1)).tensor_f32("ten.b", {16}, std::vector<float>(16, 1));
  // ten.b's offset stands after its name, one dimension count, one dimension and the type.
  const FileBytes good = w.bytes();
  const std::string_view name = "ten.b";
  const auto at =
      std::search(good.begin(), good.end(), name.begin(), name.end()) - good.begin() + 5 + 4 + 8 + 4;
  FileBytes bytes = good;
  ASSERT_EQ(bytes[static_cast<std::size_t>(at)], 64);
  bytes[static_cast<std::size_t>(at)] = 32;
  EXPECT_TRUE(
      has(error_of([&] { File::open(folder_.write("m", bytes)); }), "tensors 'ten.a' and 'ten.b' overlap"));
  bytes[static_cast<std::size_t>(at)] = 65;
  EXPECT_TRUE(has(error_of([&] { File::open(folder_.write("m", bytes)); }),
                  "offset 65 is not a multiple of the alignment 32"));
  bytes[static_cast<std::size_t>(at)] = 96;
  EXPECT_TRUE(has(error_of([&] { File::open(folder_.write("m", bytes)); }),
                  "tensor 'ten.b' needs 64 bytes at offset 96"));
}

TEST_F(ReaderTest, OtherFilesAreNamed) {
  auto text = [&](std::string_view content) {
    const std::string path = folder_.write("f", FileBytes(content.begin(), content.end()));
    return error_of([&] { File::open(path); });
  };
  EXPECT_TRUE(has(text(""), "is empty"));
  EXPECT_TRUE(has(text("GGU"), "has 3 bytes; a GGUF file has at least 24"));
  EXPECT_TRUE(has(text("GGUF"), "the file ends at byte 4"));
  EXPECT_TRUE(has(text("GGML1234"), "starts with 'GGML' (a format older than GGUF)"));
  EXPECT_TRUE(has(text(std::string_view("\x1f\x8b\x08\x00zzzz", 8)), "gzip"));
  EXPECT_TRUE(has(text(std::string_view("\x40\0\0\0\0\0\0\0{\"a\":1}", 15)), "safetensors"));
  EXPECT_TRUE(has(text("version https://git-lfs.github.com/spec/v1\n"), "Git LFS"));
  EXPECT_TRUE(has(text("<!DOCTYPE html>"), "web page"));
  EXPECT_TRUE(
      has(text(std::string_view("GGUF\0\0\0\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24)), "big-endian"));
  for (char version : {'\0', '\1', '\4'}) {
    std::string bytes = std::string("GGUF") + version + std::string(19, '\0');
    EXPECT_TRUE(has(text(bytes), cat("has GGUF version ", static_cast<int>(version), "; expected 2 or 3")));
  }
  EXPECT_TRUE(has(error_of([&] { File::open(folder_.path("none")); }), "No such file"));
  EXPECT_TRUE(has(error_of([&] { File::open(folder_.path("")); }), "is a directory"));
  EXPECT_TRUE(has(error_of([&] { File::open("/dev/null"); }), "is a device"));
  ASSERT_EQ(::mkfifo(folder_.path("fifo").c_str(), 0600), 0);
  EXPECT_TRUE(has(error_of([&] { File::open(folder_.path("fifo")); }), "is a pipe"));
}

TEST_F(ReaderTest, TheModelIsNoOutput) {
  const File file = open(small());
  std::filesystem::create_symlink("m.gguf", folder_.path("soft"));
  std::filesystem::create_hard_link(folder_.path("m.gguf"), folder_.path("hard"));
  for (const char* name : {"m.gguf", "./m.gguf", "soft", "hard"}) {
    EXPECT_TRUE(has(error_of([&] { file.refuse_output(folder_.path(name)); }), "it is the model")) << name;
  }
  file.refuse_output(folder_.path("other"));
  folder_.write("other", {1});
  file.refuse_output(folder_.path("other"));
}

TEST_F(ReaderTest, ManyStringsAreOneWalk) {
  std::vector<std::string> tokens(262144);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = "token" + std::to_string(i);
  GgufWriter w("test");
  w.array("tokenizer.ggml.tokens", GgufWriter::kString, tokens);
  const std::string path = folder_.write("m.gguf", w.bytes());
  const Stopwatch watch;
  const File file = File::open(path);
  const double seconds = watch.seconds();
  EXPECT_EQ(file.find_strings("tokenizer.ggml.tokens")[262143], "token262143");
  // 3 ms alone on a machine; the bound leaves room for sanitizers and neighbours.
  EXPECT_LT(seconds, 0.5);
}

// ---- Splits

class SplitTest : public ReaderTest {
 protected:
  static GgufWriter part(int number, int count, int total) {
    GgufWriter w(number == 1 ? "test" : "");
    w.scalar<std::uint16_t>("split.no", GgufWriter::kU16, static_cast<std::uint16_t>(number - 1));
    w.scalar<std::uint16_t>("split.count", GgufWriter::kU16, static_cast<std::uint16_t>(count));
    w.i32("split.tensors.count", total);
    w.tensor_f32(cat("t", number), {2}, {static_cast<float>(number), 0});
    return w;
  }
  std::string name(int number, int count = 3) const {
    char text[64];
    std::snprintf(text, sizeof text, "m-%05d-of-%05d.gguf", number, count);
    return text;
  }
  void write(int number, const GgufWriter& w) { folder_.write(name(number), w.bytes()); }
  void write_all() {
    for (int n = 1; n <= 3; ++n) write(n, part(n, 3, 3));
  }
  std::string open_named(int number) {
    return error_of([&] { File::open(folder_.path(name(number))); });
  }
};

TEST_F(SplitTest, AnyPartFindsTheSet) {
  write_all();
  for (int n = 1; n <= 3; ++n) {
    const File file = File::open(folder_.path(name(n)));
    ASSERT_EQ(file.tensors().size(), 3u);
    EXPECT_EQ(file.shards().size(), 3u);
    EXPECT_EQ(file.path(), folder_.path(name(1)));
    EXPECT_EQ(file.get_string("general.architecture"), "test");
    for (int t = 1; t <= 3; ++t) {
      const Tensor& tensor = file.tensor(cat("t", t));
      float value = 0;
      std::memcpy(&value, tensor.data.data(), sizeof value);
      EXPECT_EQ(value, static_cast<float>(t));
      EXPECT_EQ(tensor.shard, static_cast<std::uint32_t>(t - 1));
      file.release(tensor);
    }
    file.check_unchanged();
  }
}

TEST_F(SplitTest, OnePartIsAWhole) {
  GgufWriter w("test");
  w.scalar<std::uint16_t>("split.count", GgufWriter::kU16, 1).tensor_f32("a", {1}, {1});
  EXPECT_EQ(open(w, "m-00001-of-00001.gguf").tensors().size(), 1u);
  EXPECT_EQ(open(w, "renamed.gguf").tensors().size(), 1u);
}

TEST_F(SplitTest, MissingPart) {
  write_all();
  std::filesystem::remove(folder_.path(name(3)));
  EXPECT_TRUE(has(open_named(1), "part 3 of 3: cannot open"));
  EXPECT_TRUE(has(open_named(2), "m-00003-of-00003.gguf': No such file"));
}

TEST_F(SplitTest, NamesOffThePattern) {
  write_all();
  for (const char* renamed :
       {"other.gguf", "m-2-of-3.gguf", "m-00002-of-00004.gguf", "m-00000-of-00003.gguf"}) {
    std::filesystem::copy_file(folder_.path(name(2)), folder_.path(renamed));
    EXPECT_TRUE(has(error_of([&] { File::open(folder_.path(renamed)); }),
                    "is part 2 of 3 of a split model; expected a name that ends in -00002-of-00003.gguf"));
  }
}

TEST_F(SplitTest, PartsThatDisagree) {
  write_all();
  write(2, part(2, 4, 3));
  EXPECT_TRUE(has(open_named(1), "m-00002-of-00003.gguf: key 'split.count': 4; expected 3"));
  write(2, part(3, 3, 3));
  EXPECT_TRUE(has(open_named(1), "m-00002-of-00003.gguf: key 'split.no': 2 (part 3); expected 1"));
  EXPECT_TRUE(has(open_named(2), "m-00002-of-00003.gguf: key 'split.no': 2 (part 3); expected 1"));
  write(2, part(2, 3, 4));
  EXPECT_TRUE(has(open_named(1), "m-00002-of-00003.gguf: key 'split.tensors.count': 4; the parts have 3"));
  GgufWriter twice = part(2, 3, 3);
  twice.drop_tensor("t2").tensor_f32("t1", {1}, {1});
  write(2, twice);
  EXPECT_TRUE(has(open_named(3), "duplicate tensor 't1' in parts 1 and 2"));
  GgufWriter odd = part(2, 3, 3);
  odd.str("split.count", "three");
  write(2, odd);
  EXPECT_TRUE(has(open_named(1), "key 'split.count': expected an unsigned integer, found string 'three'"));
  folder_.write(name(2), FileBytes{'G', 'G', 'U', 'F'});
  EXPECT_TRUE(has(open_named(1), "m-00002-of-00003.gguf: the file ends at byte 4"));
}

}  // namespace
}  // namespace gc::gguf
