#pragma once
// NVIDIA's driver, opened by name when a device is asked for: nothing of a file needs it to start.
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"

namespace gcrt::cuda {

struct Driver {
#define DRIVER(name, symbol, parameters) int(*name) parameters = nullptr;
#include "runtime/core/cuda/driver.def"
#undef DRIVER

  // kErrSystem: there is none, or it doesn't start, or is too old; `message` says it in a line. Opened, it stays so.
  Status open(Span<char> message);
  // "invalid argument": of a result that is not 0.
  const char* why(int error) const;
};

// CUresult.
inline constexpr int kOutOfMemory = 2;
// CUdevice_attribute.
inline constexpr int kMajor = 75, kMinor = 76;

}  // namespace gcrt::cuda
