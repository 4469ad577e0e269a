// libFuzzer's entry: any bytes as a model file. What opens is read to its last byte, described and searched for a
// vocabulary; what does not must end in an error of the user's.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/base/error.h"
#include "frontends/gguf/inspect.h"
#include "frontends/gguf/reader.h"
#include "frontends/gguf/vocab.h"

namespace {

void read_all(const std::string& path) {
  const gc::gguf::File file = gc::gguf::File::open(path);
  volatile std::uint64_t sum = 0;
  for (const gc::gguf::Tensor& tensor : file.tensors()) {
    for (std::uint8_t byte : tensor.data) sum = sum + byte;
    file.release(tensor);
  }
  for (bool json : {false, true}) {
    std::ostringstream out;
    gc::gguf::inspect(file, {.json = json}, out);
  }
  for (const gc::gguf::KeyValue& kv : file.metadata()) {
    try {
      file.per_layer_u32(kv.key, 2);
    } catch (const gc::UserError&) {  // most keys are something else
    }
  }
  std::vector<std::string> warnings;
  gc::gguf::read_vocab(file, &warnings);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int fd = ::memfd_create("model", MFD_CLOEXEC);
  if (fd < 0 || ::write(fd, data, size) != static_cast<ssize_t>(size)) std::abort();
  try {
    read_all("/proc/self/fd/" + std::to_string(fd));
  } catch (const gc::InternalError&) {
    std::abort();
  } catch (const gc::Error&) {  // the file's fault
  }
  ::close(fd);
  return 0;
}
