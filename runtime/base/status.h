#pragma once
// Status codes of the runtime. 0 is success and every error is negative. The values are those of gc_status in
// runtime/abi/program.h (which this room may not include), so a code crosses the C seam unchanged. Functions that
// can fail return a Status, or a count when it is not negative; text for people goes into a caller's buffer through
// runtime/base/format.h.

namespace gcrt {

using Status = int;

enum : int {
  kOk = 0,
  kErrArgument = -1,     // a size, token, position or option out of range
  kErrMemory = -2,       // an allocation failed
  kErrAborted = -3,      // the abort flag was raised
  kErrUnsupported = -4,  // this program does not have it (a tokenizer that was left out, say)
  kErrIsa = -5,          // this CPU lacks what the program was compiled for
  kErrFull = -6,         // no room
  kErrNan = -7,          // a logit is not a number
  kErrImage = -8,        // embedded data is truncated, damaged or of another version
  kErrInput = -9,        // text or bytes given that cannot be what was asked for
  kErrSystem = -10,      // the operating system refused
};

}  // namespace gcrt
