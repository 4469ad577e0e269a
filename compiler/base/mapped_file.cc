#include "compiler/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "compiler/base/error.h"

namespace gc {
namespace {

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

void require_regular(const struct stat& info, const std::string& path) {
  if (!S_ISREG(info.st_mode)) {
    throw_user(quote(path, kWholePath), " is ", kind_of(info.st_mode), "; expected a regular file");
  }
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  // Asked by name first: opening a pipe or a device can block or have effects.
  if (::stat(path.c_str(), &stat_) != 0) throw_errno(errno, "cannot open", path);
  require_regular(stat_, path);
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) throw_errno(errno, "cannot open", path);
  try {
    if (::fstat(fd_, &stat_) != 0) throw_errno(errno, "cannot read", path);
    require_regular(stat_, path);
    if (stat_.st_size == 0) throw_user(quote(path, kWholePath), " is empty");
    size_ = static_cast<std::size_t>(stat_.st_size);
    void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd_, 0);
    if (data == MAP_FAILED) throw_errno(errno, "cannot map", path);
    data_ = static_cast<const std::uint8_t*>(data);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    close();
    path_ = std::move(other.path_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    fd_ = std::exchange(other.fd_, -1);
    stat_ = other.stat_;
  }
  return *this;
}

MappedFile::~MappedFile() { close(); }

void MappedFile::close() noexcept {
  if (data_ != nullptr) ::munmap(const_cast<std::uint8_t*>(data_), size_);
  if (fd_ >= 0) ::close(fd_);
  data_ = nullptr;
  fd_ = -1;
}

void MappedFile::release(std::uint64_t offset, std::uint64_t length) const {
  const std::uint64_t page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  offset = std::min<std::uint64_t>(offset, size_);
  const std::uint64_t end = offset + std::min<std::uint64_t>(length, size_ - offset);
  const std::uint64_t first = (offset + page - 1) / page * page;
  const std::uint64_t last = end == size_ ? (end + page - 1) / page * page : end / page * page;
  if (first < last) ::madvise(const_cast<std::uint8_t*>(data_) + first, last - first, MADV_DONTNEED);
}

void MappedFile::prefetch(std::uint64_t offset, std::uint64_t length) const {
  const std::uint64_t page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  offset = std::min<std::uint64_t>(offset, size_);
  const std::uint64_t end = offset + std::min<std::uint64_t>(length, size_ - offset);
  const std::uint64_t first = offset / page * page;
  if (first < end) ::madvise(const_cast<std::uint8_t*>(data_) + first, end - first, MADV_WILLNEED);
}

void MappedFile::check_unchanged() const {
  struct stat now{};
  if (::fstat(fd_, &now) != 0) throw_errno(errno, "cannot read", path_);
  if (now.st_size != stat_.st_size || now.st_mtim.tv_sec != stat_.st_mtim.tv_sec ||
      now.st_mtim.tv_nsec != stat_.st_mtim.tv_nsec) {
    throw_user(quote(path_, kWholePath), " changed while it was read");
  }
}

bool MappedFile::is_same_file(const struct stat& other) const {
  return stat_.st_dev == other.st_dev && stat_.st_ino == other.st_ino;
}

std::string read_text_file(const std::string& path, std::uint64_t max_bytes) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) throw_errno(errno, "cannot open", path);
  require_regular(info, path);
  if (info.st_size == 0) return {};  // nothing to map
  const MappedFile file(path);
  if (file.size() > max_bytes) {
    throw_user(quote(path, kWholePath), " has ", human_bytes(file.size()), "; expected at most ",
               human_bytes(max_bytes));
  }
  return {reinterpret_cast<const char*>(file.bytes().data()), file.size()};
}

}  // namespace gc
