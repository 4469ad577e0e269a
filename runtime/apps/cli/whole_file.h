#pragma once
// Output that appears under its name when it is whole.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/apps/cli/app.h"

namespace gcrt {

// Written under a temporary name and renamed. What is no regular file (a pipe, /dev/null) is written as it is.
class WholeFile {
 public:
  WholeFile(App& app, const char* path) : app_(app), path_(path), temporary_(app.memory) {}
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;
  ~WholeFile() {
    if (fd_ >= 0) close(fd_);
    if (!temporary_.empty()) unlink(temporary_.data());
  }

  bool open_for_writing() {
    struct stat status;
    if (stat(path_, &status) == 0 && !S_ISREG(status.st_mode)) {
      fd_ = open(path_, O_WRONLY | O_CLOEXEC);
      return fd_ >= 0 || wrong();
    }
    if (!append(temporary_, path_) || !append(temporary_, Str(".XXXXXX\0", 8))) {
      temporary_.clear();
      app_.fail("not enough memory");
      return false;
    }
    fd_ = mkostemp(temporary_.data(), O_CLOEXEC);
    if (fd_ < 0) {
      temporary_.clear();
      return wrong();
    }
    const mode_t mask = umask(0);
    umask(mask);
    fchmod(fd_, 0666 & ~mask);
    return true;
  }
  bool write_all(const void* data, uint64_t bytes) {
    const char* at = static_cast<const char*>(data);
    while (bytes != 0) {
      const ssize_t n = write(fd_, at, bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return wrong();
      at += n;
      bytes -= static_cast<uint64_t>(n);
    }
    return true;
  }
  bool commit() {
    const int fd = fd_;
    fd_ = -1;
    if (close(fd) != 0) return wrong();
    if (temporary_.empty()) return true;
    if (rename(temporary_.data(), path_) != 0) return wrong();
    temporary_.clear();
    return true;
  }

 private:
  bool wrong() {
    const int error = errno;
    if (error != EPIPE) app_.fail("cannot write '", path_, "': ", strerrordesc_np(error));
    return false;
  }
  App& app_;
  const char* path_;
  Vec<char> temporary_;  // its name, zero-terminated; empty when there is none
  int fd_ = -1;
};

}  // namespace gcrt
