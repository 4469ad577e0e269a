#pragma once
// A sequence of a session as bytes that may be kept and brought back, in this process or another, and that nothing but
// the same model run by the same code takes: states of another ISA, KV type or build were computed by other arithmetic, or
// are laid out otherwise. A checksum tells damage (not malice).
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/core/session.h"

namespace gcrt {

uint64_t saved_sequence_bytes(Session& session, uint32_t seq);
// `out` has that many bytes.
void save_sequence(Session& session, uint32_t seq, uint8_t* out);
// kErrInput, with a `message` that says what differs; kErrFull when the context is too small. The sequence is then
// empty.
Status restore_sequence(Session& session, uint32_t seq, Span<const uint8_t> bytes, Span<char> message);

// What saved bytes say they are of; false when they say nothing.
bool read_saved_kind(Span<const uint8_t> bytes, Str* isa, uint32_t* kv_type);

}  // namespace gcrt
