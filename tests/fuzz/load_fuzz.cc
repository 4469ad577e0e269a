// libFuzzer's entry: any bytes as a model, through the whole front end to a graph and on through all passes. What the file
// has wrong is an error of the user's; anything else that leaves is a finding.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "compiler/base/error.h"
#include "compiler/ir/verify.h"
#include "compiler/passes/pass.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int fd = ::memfd_create("model", MFD_CLOEXEC);
  if (fd < 0 || ::write(fd, data, size) != static_cast<ssize_t>(size)) std::abort();
  try {
    gc::gguf::LoadedModel model =
        gc::gguf::load_model(gc::gguf::File::open("/proc/self/fd/" + std::to_string(fd)));
    gc::ir::verify(model.graph);
    gc::passes::run_passes(std::move(model.graph));
  } catch (const gc::InternalError&) {
    std::abort();
  } catch (const gc::Error&) {  // the file's fault
  }
  ::close(fd);
  return 0;
}
