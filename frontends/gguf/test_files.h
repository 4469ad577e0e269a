// What the tests of this folder share: a folder that goes away, and the text of the error that a call ends in.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "compiler/base/error.h"
#include "tests/support/gguf_writer.h"

namespace gc::gguf {

using testing::GgufWriter;
using FileBytes = GgufWriter::Bytes;

class Folder {
 public:
  Folder() {
    std::string pattern = ::testing::TempDir() + "gguf_test_XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }

  std::string path(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const FileBytes& bytes) const {
    std::ofstream out(path(name), std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

// A file without a disk: thousands of variants of a file cost no writes.
class MemoryFile {
 public:
  explicit MemoryFile(const FileBytes& bytes) : fd_(::memfd_create("model", MFD_CLOEXEC)) {
    EXPECT_GE(fd_, 0);
    EXPECT_EQ(::write(fd_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

// "no error" when f returns. An error must be the user's or unsupported, and one line without control characters.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const InternalError& error) {
    ADD_FAILURE() << "a bug of ours: " << error.what();
  } catch (const Error& error) {
    const std::string text = error.what();
    for (char c : text) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << text;
    return text;
  }
  return "no error";
}

inline ::testing::AssertionResult has(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << text << "' lacks '" << part << "'";
}

}  // namespace gc::gguf
