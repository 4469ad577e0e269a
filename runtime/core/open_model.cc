// Finds the program and the weights of the file that this code is linked into. The weights are mapped by the kernel
// at exec; nothing is opened or copied, unless they were put into a file of their own.
#include <fcntl.h>
#include <unistd.h>

#include "runtime/abi/image.h"
#include "runtime/base/format.h"
#include "runtime/core/cpu_features.h"
#include "runtime/core/huge_pages.h"
#include "runtime/core/session.h"
#include "runtime/core/sidecar.h"

namespace gcrt {
namespace {

// Whether the byte can be read. A page past the end of a truncated file is SIGBUS when touched, but an error when the
// kernel reads it.
bool readable(const unsigned char* byte) {
  int fd[2];
  if (pipe2(fd, O_CLOEXEC) != 0) return true;  // can't tell; the header's checksum still guards the rest
  const bool ok = write(fd[1], byte, 1) == 1;
  close(fd[0]);
  close(fd[1]);
  return ok;
}

}  // namespace

Status open_image(Str sidecar, Image* image, Span<char> message) {
  *image = Image();
  if (gc_weights.location == GC_WEIGHTS_SIDECAR) return map_sidecar(sidecar, image, message);
  if (gc_weights.location != GC_WEIGHTS_INSIDE) {
    format_to(message, "this file holds no weights");
    return kErrImage;
  }
  const gc_image_header* header = gc_image();
  const unsigned char* begin = reinterpret_cast<const unsigned char*>(header);
  if (!readable(begin) || !readable(begin + gc_weights.size - 1)) {
    format_to(message, "this file is cut off: its weights end early");
    return kErrImage;
  }
  if (!gc_image_check_header(header, gc_weights.size) ||
      header->header_checksum != gc_weights.header_checksum) {
    format_to(message, "the header of this file's weights is damaged");
    return kErrImage;
  }
  image->header = header;
  return kOk;
}

Status open_model(Str isa, Str sidecar, Model* model, Span<char> message) {
  if (gc_the_model.abi_version != GC_ABI_VERSION || gc_the_model.size != sizeof(gc_model)) {
    format_to(message, "the model's description is of another version of the runtime");
    return kErrImage;
  }
  model->facts = &gc_the_model;
  model->program = choose_program(gc_programs, gc_n_programs, isa, message);
  if (model->program == nullptr) return kErrIsa;
  if (const Status s = open_image(sidecar, &model->image, message); s != kOk) return s;
  const gc_image_header* image = model->image.header;
  if (image->size - image->header_size < model->program->weights_bytes) {
    format_to(message, "this file holds less weights than its program reads");
    close_image(&model->image);
    return kErrImage;
  }
  model->weights = gc_image_data(image);
  // What the page cache doesn't have yet is then read into large pages, where the file system can.
  const uint64_t mapped = gc_weights.size & ~(kHugePage - 1);
  if (mapped != 0) want_huge_pages(const_cast<gc_image_header*>(image), mapped);
  return kOk;
}

}  // namespace gcrt
