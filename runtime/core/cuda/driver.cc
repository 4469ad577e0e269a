#include "runtime/core/cuda/driver.h"

#include <dlfcn.h>

#include "runtime/base/format.h"

namespace gcrt::cuda {

static constexpr char kLibrary[] = "libcuda.so.1";

Status Driver::open(Span<char> message) {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    format_to(message, "no CUDA driver: ", Str(dlerror()));
    return kErrSystem;
  }
  const char* missing = nullptr;
  const auto find = [&](const char* name) {
    void* at = dlsym(library, name);
    if (at == nullptr && missing == nullptr) missing = name;
    return at;
  };
#define DRIVER(name, symbol, parameters) name = reinterpret_cast<int(*) parameters>(find(#symbol));
#include "runtime/core/cuda/driver.def"
#undef DRIVER
  if (missing != nullptr) {
    format_to(message, "the CUDA driver ", kLibrary, " is too old: it has no ", missing);
    return kErrSystem;
  }
  if (const int error = init(0); error != 0) {
    format_to(message, "the CUDA driver doesn't start: ", why(error));
    return kErrSystem;
  }
  return kOk;
}

const char* Driver::why(int error) const {
  const char* text = nullptr;
  return error_string(error, &text) == 0 && text != nullptr ? text
                                                            : "an error that the driver has no text for";
}

}  // namespace gcrt::cuda
