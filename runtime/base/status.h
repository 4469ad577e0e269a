#pragma once
// Status codes of the runtime. 0 is success and every error is negative, as in the C seam, so that a code can
// cross it unchanged. Functions that can fail return a Status (or a negative count); text for people goes
// into a caller's buffer through runtime/base/format.h.

namespace gcrt {

using Status = int;

enum : int {
  kOk = 0,
  kErrArgument = -1,     // the caller passed something that is never valid
  kErrMemory = -2,       // the allocator returned null
  kErrFormat = -3,       // embedded data fails its own check
  kErrVersion = -4,      // embedded data of another version
  kErrUnsupported = -5,  // valid, but not in this program (a tokenizer that was left out, say)
  kErrRange = -6,        // an id, index or parameter out of its range
  kErrNumeric = -7,      // NaN where a number is needed
};

}  // namespace gcrt
