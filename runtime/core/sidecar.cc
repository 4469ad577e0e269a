#include "runtime/core/sidecar.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/abi/image.h"
#include "runtime/base/format.h"

namespace gcrt {
namespace {

// The file that the marker lies in.
struct OwnPath {
  char text[PATH_MAX];
  bool found = false;
};

int look_at_object(dl_phdr_info* info, size_t, void* own) {
  const uintptr_t marker = reinterpret_cast<uintptr_t>(&gc_weights);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) & segment = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type != PT_LOAD || marker - begin >= segment.p_memsz) continue;
    OwnPath* out = static_cast<OwnPath*>(own);
    const char* name = info->dlpi_name ? info->dlpi_name : "";
    const size_t n = strlen(name);
    if (n == 0 || n >= sizeof out->text) return 1;  // the program itself has no name here
    memcpy(out->text, name, n + 1);
    out->found = true;
    return 1;
  }
  return 0;
}

bool find_own_path(OwnPath* own) {
  dl_iterate_phdr(look_at_object, own);
  if (own->found) return true;
  const ssize_t n = readlink("/proc/self/exe", own->text, sizeof own->text - 1);
  if (n <= 0) return false;
  own->text[n] = 0;
  return true;
}

bool default_path(Span<char> path, Span<char> message) {
  OwnPath own;
  if (!find_own_path(&own)) {
    format_to(message, "the weights are in a file of their own; without /proc its path must be given");
    return false;
  }
  Str base = own.text;
  const bool named = gc_weights.sidecar[0] != 0;
  if (named)
    while (!base.empty() && !base.ends_with("/")) base.len -= 1;
  Writer w(path.data(), path.size());
  format(w, base, named ? gc_weights.sidecar : ".weights");
  if (w.cut()) format_to(message, "the path of the weights is too long");
  return !w.cut();
}

Status fail(Span<char> message, const char* path, Str why) {
  format_to(message, "the weights in ", path, ": ", why);
  return kErrImage;
}

}  // namespace

Status map_sidecar(Str given, Image* image, Span<char> message) {
  char path[PATH_MAX + sizeof gc_weights.sidecar];
  if (given.empty()) {
    if (!default_path(path, message)) return kErrImage;
  } else {
    if (given.size() >= sizeof path) return fail(message, "a path", "it is too long");
    memcpy(path, given.data(), given.size());
    path[given.size()] = 0;
  }
  const int fd =
      open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // whatever lies there, without waiting for it
  if (fd < 0) {
    const char* why = errno == ENOENT   ? "there is no such file"
                      : errno == EACCES ? "permission denied"
                                        : "it cannot be opened";
    return fail(message, path, why);
  }
  // Not fstat, which older C libraries don't have as a function.
  const off_t size = lseek(fd, 0, SEEK_END);
  void* mapped = MAP_FAILED;
  const bool whole = size >= 0 && static_cast<uint64_t>(size) == gc_weights.size;
  if (whole) mapped = mmap(nullptr, gc_weights.size, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (!whole) {
    char why[96];
    format_to(why, size, " bytes, and this model's are ", gc_weights.size);
    return fail(message, path, size >= 0 ? why : "it cannot be read");
  }
  if (mapped == MAP_FAILED) return fail(message, path, "it cannot be mapped");
  const auto* header = static_cast<const gc_image_header*>(mapped);
  const bool sound = gc_image_check_header(header, gc_weights.size);
  if (!sound || header->header_checksum != gc_weights.header_checksum) {
    munmap(mapped, gc_weights.size);
    return fail(message, path, sound ? "they are another model's" : "damaged, or no weights");
  }
  *image = {header, mapped};
  return kOk;
}

void close_image(Image* image) {
  if (image->mapping != nullptr) munmap(image->mapping, gc_weights.size);
  *image = Image();
}

}  // namespace gcrt
