// A regular file mapped read-only. Reading a 50 GB model must not look like 50 GB of memory: `release` gives
// the pages of a range back as soon as a tensor has been packed (they stay in the page cache and can be read
// again).
//
// A mapping cannot report that the file shrinks under it: the kernel sends SIGBUS. main installs a handler
// that says so and leaves; `check_unchanged` catches the quieter case, a file rewritten in place.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gc {

class MappedFile {
 public:
  // Throws UserError, by name, on what is missing, unreadable, empty or no regular file.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::uint8_t> bytes() const { return {data_, size_}; }
  std::uint64_t size() const { return size_; }

  // Hints; both round to pages inside (release) or around (prefetch) the range and clip it to the file.
  void release(std::uint64_t offset, std::uint64_t length) const;
  void prefetch(std::uint64_t offset, std::uint64_t length) const;

  // Throws UserError when the file's size or time of change is not what it was at opening.
  void check_unchanged() const;
  // The same file under any of its names.
  bool is_same_file(const struct stat& other) const;

 private:
  void close() noexcept;

  std::string path_;
  const std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
  int fd_ = -1;
  struct stat stat_{};
};

// The whole of a small text file, e.g. a template named on the command line; throws UserError past max_bytes.
std::string read_text_file(const std::string& path, std::uint64_t max_bytes = 64 << 20);

}  // namespace gc
