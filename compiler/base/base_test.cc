#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "compiler/base/checked.h"
#include "compiler/base/error.h"
#include "compiler/base/mapped_file.h"
#include "compiler/base/parallel.h"
#include "compiler/base/progress.h"
#include "compiler/base/strings.h"
#include "compiler/base/temp_file.h"

namespace gc {
namespace {

namespace fs = std::filesystem;

class Base : public ::testing::Test {
 protected:
  Base() {
    std::string pattern = ::testing::TempDir() + "base_test_XXXXXX";
    dir_ = ::mkdtemp(pattern.data());
  }
  ~Base() override { fs::remove_all(dir_); }

  std::string in_dir(const std::string& name) const { return (dir_ / name).string(); }
  std::string make(const std::string& name, const std::string& text) const {
    std::ofstream(in_dir(name), std::ios::binary) << text;
    return in_dir(name);
  }
  static std::string read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  int entries() const { return static_cast<int>(std::distance(fs::directory_iterator(dir_), {})); }

  fs::path dir_;
};

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(Base, CatTreatsBytesAsNumbers) {
  EXPECT_EQ(cat("a", std::string("b"), 'c', std::uint8_t{65}, -1, true, 0.5), "abc65-1true0.5");
  EXPECT_EQ(join(std::vector<int>{1, 2, 3}, ", "), "1, 2, 3");
  EXPECT_EQ(join(std::vector<int>{}, ", "), "");
}

TEST_F(Base, QuoteDisarmsTerminalsAndKeepsText) {
  EXPECT_EQ(quote("Café 日本 😊"), "'Café 日本 😊'");
  EXPECT_EQ(quote("\x1b]0;owned\x07"), "'\\x1b]0;owned\\x07'");
  EXPECT_EQ(quote("a\nb\tc\\d'e"), "'a\\nb\\tc\\\\d\\'e'");
  EXPECT_EQ(quote("\u202Eabc"), "'\\u{202e}abc'");
  EXPECT_EQ(quote("\u009B31m"), "'\\u{009b}31m'");
  // Cut short, overlong, a surrogate, past the last code point, a stray continuation.
  EXPECT_EQ(quote("\xe2\x82"), "'\\xe2\\x82'");
  EXPECT_EQ(quote("\xc0\x80"), "'\\xc0\\x80'");
  EXPECT_EQ(quote("\xed\xa0\x80"), "'\\xed\\xa0\\x80'");
  EXPECT_EQ(quote("\xf4\x90\x80\x80"), "'\\xf4\\x90\\x80\\x80'");
  EXPECT_EQ(quote(std::string_view("\0x", 2)), "'\\x00x'");
  EXPECT_LT(quote(std::string(1 << 20, 'x')).size(), 200u);
}

TEST_F(Base, HumanBytes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(253113024), "241.4 MiB");
  EXPECT_EQ(human_bytes(~std::uint64_t{0}), "16.0 EiB");
}

TEST_F(Base, CheckedArithmetic) {
  std::uint64_t r = 0;
  EXPECT_TRUE(checked_mul<std::uint64_t>(1u << 31, 1u << 31, &r));
  EXPECT_FALSE(checked_mul<std::uint64_t>(1ull << 33, 1ull << 31, &r));
  EXPECT_FALSE(checked_add<std::uint64_t>(~0ull, 1, &r));
  EXPECT_TRUE(range_fits(10, 0, 10));
  EXPECT_FALSE(range_fits(11, 0, 10));
  EXPECT_FALSE(range_fits(1, ~0ull, 10));
  EXPECT_TRUE(checked_align_up(33, 32, &r));
  EXPECT_EQ(r, 64u);
  EXPECT_FALSE(checked_align_up(~0ull, 32, &r));
}

TEST_F(Base, ContextsReadOutermostFirstAndKeepTheType) {
  try {
    with_context("m.gguf", [] { with_context("tensor 'x'", [] { throw_unsupported("type ", 7); }); });
    FAIL();
  } catch (const UnsupportedError& error) {
    EXPECT_STREQ(error.what(), "m.gguf: tensor 'x': type 7");
    EXPECT_EQ(error.message(), "type 7");
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
  }
  EXPECT_EQ(with_context("x", [] { return 3; }), 3);
  EXPECT_EQ(error_of([] { throw_user("two\nlines\x1b"); }), "two\\nlines\\x1b");
}

TEST_F(Base, CheckNamesTheCondition) {
  EXPECT_NE(error_of([] { GC_CHECK(1 + 1 == 3, "really ", 2); }).find("1 + 1 == 3: really 2"),
            std::string::npos);
  EXPECT_NE(error_of([] { GC_CHECK(false); }).find("false"), std::string::npos);
  GC_CHECK(true);
}

TEST_F(Base, MapsRegularFilesOnly) {
  EXPECT_NE(error_of([&] { MappedFile f(in_dir("none")); }).find("No such file"), std::string::npos);
  EXPECT_NE(error_of([&] { MappedFile f(dir_.string()); }).find("is a directory"), std::string::npos);
  EXPECT_NE(error_of([&] { MappedFile f("/dev/null"); }).find("is a device"), std::string::npos);
  EXPECT_NE(error_of([&] { MappedFile f(make("empty", "")); }).find("is empty"), std::string::npos);
  ASSERT_EQ(::mkfifo(in_dir("fifo").c_str(), 0600), 0);
  EXPECT_NE(error_of([&] { MappedFile f(in_dir("fifo")); }).find("is a pipe"), std::string::npos);
}

TEST_F(Base, ReleasedPagesReadTheSame) {
  std::string text(100'000, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 256);
  MappedFile file(make("data", text));
  ASSERT_EQ(file.size(), text.size());
  file.prefetch(100, 50'000);
  file.release(0, text.size());
  file.release(99'999'999, 5);
  file.release(5, ~std::uint64_t{0});
  EXPECT_EQ(std::memcmp(file.bytes().data(), text.data(), text.size()), 0);
  const MappedFile moved = std::move(file);
  EXPECT_EQ(moved.bytes()[1], 7);
  moved.check_unchanged();
  std::ofstream(in_dir("data"), std::ios::app) << "x";
  EXPECT_NE(error_of([&] { moved.check_unchanged(); }).find("changed while it was read"), std::string::npos);
}

TEST_F(Base, TextFilesAreBounded) {
  EXPECT_EQ(read_text_file(make("t", "hello")), "hello");
  EXPECT_EQ(read_text_file(make("e", "")), "");
  EXPECT_NE(error_of([&] { read_text_file(in_dir("t"), 4); }).find("at most 4 B"), std::string::npos);
}

TEST_F(Base, OutputAppearsOnlyOnCommit) {
  const std::string out = make("out", "old");
  {
    TempFile file(out);
    file.append("half");
  }
  EXPECT_EQ(read(out), "old");
  EXPECT_EQ(entries(), 1);
  {
    TempFile file(out, 0755);
    file.append("new!");
    const std::uint8_t x[] = {'N'};
    file.write_at(0, x);
    file.commit();
  }
  EXPECT_EQ(read(out), "New!");
  EXPECT_EQ(entries(), 1);
  struct stat info{};
  ASSERT_EQ(::stat(out.c_str(), &info), 0);
  const mode_t umask_now = ::umask(0);
  ::umask(umask_now);
  EXPECT_EQ(info.st_mode & 0777, 0755 & ~umask_now);
}

TEST_F(Base, SignalsLeaveNoTemporary) {
  // In a process of its own: after the call it can make no more files.
  const auto ending = [this] {
    TempFile a(in_dir("a"));
    TempFile b(in_dir("b"));
    const int before = entries();
    unlink_live_temp_files();
    TempFile late(in_dir("c"));
    ::_exit(before == 2 && entries() == 0 ? 0 : 1);
  };
  EXPECT_EXIT(ending(), ::testing::ExitedWithCode(0), "");
}

TEST_F(Base, OutputThroughALinkKeepsTheLink) {
  ASSERT_EQ(::symlink("real", in_dir("link").c_str()), 0);
  TempFile file(in_dir("link"));
  file.append("x");
  file.commit();
  EXPECT_TRUE(fs::is_symlink(in_dir("link")));
  EXPECT_EQ(read(in_dir("real")), "x");
}

TEST_F(Base, BadTargetsAreNamed) {
  EXPECT_NE(error_of([&] { TempFile f(dir_.string()); }).find("Is a directory"), std::string::npos);
  EXPECT_NE(error_of([&] { TempFile f("/dev/full"); }).find("not a regular file"), std::string::npos);
  EXPECT_NE(error_of([&] { TempFile f(in_dir("no/such")); }).find("No such file"), std::string::npos);
  EXPECT_NE(error_of([&] { TempFile f(in_dir(std::string(300, 'n'))); }).find("too long"), std::string::npos);
  ASSERT_EQ(::symlink("loop", in_dir("loop").c_str()), 0);
  EXPECT_NE(error_of([&] { TempFile f(in_dir("loop")); }).find("symbolic links"), std::string::npos);
  EXPECT_EQ(entries(), 1);
  // Every refused target gave its slot back.
  for (int i = 0; i < 100; ++i) error_of([&] { TempFile f(in_dir("no/such")); });
  TempFile ok(in_dir("a b'\n\xff"));
  ok.commit();
  EXPECT_TRUE(fs::exists(in_dir("a b'\n\xff")));
}

TEST_F(Base, ThreadsShareWork) {
  for (int threads : {-1, 0, 1, 2, 9}) {
    std::vector<std::atomic<int>> done(100);
    std::atomic<std::size_t> next = 0;
    run_on_threads(threads, [&] {
      for (std::size_t i; (i = next++) < done.size();) ++done[i];
    });
    for (const std::atomic<int>& item : done) EXPECT_EQ(item, 1) << threads;
  }
}

TEST_F(Base, ProgressText) {
  EXPECT_EQ(progress_text("packing", 0, 1024, 0), "packing    0 %  0 B of 1.0 KiB");
  EXPECT_EQ(progress_text("packing", 512, 1024, 70), "packing   50 %  512 B of 1.0 KiB  1:10 left");
  EXPECT_EQ(progress_text("packing", 0, 0, 0), "packing  100 %  0 B of 0 B");
}

}  // namespace
}  // namespace gc
