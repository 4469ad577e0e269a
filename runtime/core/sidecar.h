#pragma once
// Weights in a file beside the program (--weights external): found, checked and mapped. The check at start is of its
// size and its header's checksum, which covers the checksums of all weights: it tells another model's file, one of an
// earlier compile, or one that was not copied to its end.
#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/core/session.h"

namespace gcrt {

// `path` empty: by gc_weights.sidecar, in the folder of the program or library that this code lies in.
Status map_sidecar(Str path, Image* image, Span<char> message);

}  // namespace gcrt
