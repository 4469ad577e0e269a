// Output that appears whole or not at all: written to a temporary beside its target and renamed over it by
// `commit`. An exception unlinks the temporary; a signal handler calls `unlink_live_temp_files`, which is
// async-signal-safe (its table is the one piece of global state here: a handler can be handed nothing).
// A target that is a symbolic link keeps the link: the file it leads to is replaced. Nothing is synced: a
// crash of the machine may lose the output, and the compiler can make it again.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gc {

class TempFile {
 public:
  // Throws UserError when the target is a directory or device, or its directory is missing or not writable.
  // `mode` is narrowed by the umask.
  explicit TempFile(const std::string& target, mode_t mode = 0644);
  TempFile(TempFile&& other) noexcept;
  TempFile& operator=(TempFile&&) = delete;
  TempFile(const TempFile&) = delete;
  ~TempFile();

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  // Links followed.
  const std::string& target() const { return target_; }

  // Both write all of it or throw UserError ("cannot write 'OUT': No space left on device").
  void append(std::span<const std::uint8_t> bytes);
  void append(std::string_view text);
  void write_at(std::uint64_t offset, std::span<const std::uint8_t> bytes);

  void commit();

 private:
  std::string target_;
  std::string path_;
  int fd_ = -1;
  int slot_ = -1;
};

// For a handler of a signal that ends the process: TempFiles made afterwards vanish too.
void unlink_live_temp_files() noexcept;

}  // namespace gc
