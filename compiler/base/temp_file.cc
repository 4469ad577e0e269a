#include "compiler/base/temp_file.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "compiler/base/error.h"

namespace gc {
namespace {

// Names of the temporaries that exist now. Fixed storage, as a handler may look at any moment: a slot's name
// is complete before it turns live and is not reused while a handler could still read an older one (a second
// unlink of a name that is gone does nothing).
enum SlotState : int { kFree, kClaimed, kLive };
constexpr int kSlots = 64;  // a link without /proc has each of its inputs in one
struct Slot {
  std::atomic<int> state{kFree};
  char path[PATH_MAX];
};
Slot g_slots[kSlots];
// Set by the handler: a file that another thread creates while the process is ending goes at once.
std::atomic<bool> g_ending{false};

int claim_slot(const std::string& path) {
  GC_CHECK(path.size() < PATH_MAX);
  for (int i = 0; i < kSlots; ++i) {
    int expected = kFree;
    if (g_slots[i].state.compare_exchange_strong(expected, kClaimed)) {
      std::memcpy(g_slots[i].path, path.c_str(), path.size() + 1);
      g_slots[i].state.store(kLive);
      return i;
    }
  }
  throw_internal("more than ", kSlots, " temporary files at once");
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

// The name that `path` leads to through symbolic links, which may not exist yet.
std::string follow_links(std::string path) {
  for (int depth = 0; depth < 40; ++depth) {
    char link[PATH_MAX];
    const ssize_t length = ::readlink(path.c_str(), link, sizeof link);
    if (length < 0) return path;
    std::string next(link, static_cast<std::size_t>(length));
    path = next.starts_with('/') ? next : directory_of(path) + next;
  }
  throw_errno(ELOOP, "cannot write", path);
}

void require_replaceable(const std::string& target) {
  struct stat info{};
  if (::stat(target.c_str(), &info) != 0) {
    if (errno != ENOENT) throw_errno(errno, "cannot write", target);
    return;
  }
  if (S_ISDIR(info.st_mode)) throw_errno(EISDIR, "cannot write", target);
  if (!S_ISREG(info.st_mode)) throw_user("cannot write ", quote(target, kWholePath), ": not a regular file");
}

std::string random_name() {
  std::uint8_t bytes[8];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes) throw_errno(errno, "cannot read", "getrandom");
  std::string name = ".gguf-compile-";
  for (std::uint8_t byte : bytes) {
    name += "0123456789abcdef"[byte >> 4];
    name += "0123456789abcdef"[byte & 15];
  }
  return name;
}

}  // namespace

TempFile::TempFile(const std::string& target, mode_t mode) : target_(follow_links(target)) {
  if (target_.empty()) throw_user("the output's name is empty");
  if (target_.size() + 64 > PATH_MAX) throw_errno(ENAMETOOLONG, "cannot write", target_);
  require_replaceable(target_);
  // Live in the table before the file exists: a signal between the two must not leave it behind.
  path_ = directory_of(target_) + random_name();
  slot_ = claim_slot(path_);
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd_ < 0) {
    const int error = errno;
    g_slots[slot_].state.store(kFree);
    throw_errno(error, "cannot write", target_);
  }
  if (g_ending.load()) ::unlink(path_.c_str());
}

TempFile::TempFile(TempFile&& other) noexcept
    : target_(std::move(other.target_)),
      path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      slot_(std::exchange(other.slot_, -1)) {}

TempFile::~TempFile() {
  if (fd_ >= 0) ::close(fd_);
  if (slot_ >= 0) {
    ::unlink(path_.c_str());
    g_slots[slot_].state.store(kFree);
  }
}

void TempFile::append(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno(errno, "cannot write", target_);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void TempFile::append(std::string_view text) {
  append({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

void TempFile::write_at(std::uint64_t offset, std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno(errno, "cannot write", target_);
    offset += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void TempFile::commit() {
  GC_CHECK(fd_ >= 0);
  // Closing may be the first to report a full disk on network file systems.
  if (::close(std::exchange(fd_, -1)) != 0) throw_errno(errno, "cannot write", target_);
  if (::rename(path_.c_str(), target_.c_str()) != 0) throw_errno(errno, "cannot write", target_);
  g_slots[std::exchange(slot_, -1)].state.store(kFree);
}

void unlink_live_temp_files() noexcept {
  g_ending.store(true);
  for (Slot& slot : g_slots) {
    if (slot.state.load() == kLive) ::unlink(slot.path);
  }
}

}  // namespace gc
