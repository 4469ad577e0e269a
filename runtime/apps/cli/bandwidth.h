#pragma once
// What this machine's memory gives when the workers do nothing but read: the bound of generation.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/core/threads.h"

namespace gcrt {

// Bytes per second, the best of several passes of all workers over `data`, each over its own part. Data that fits
// the caches gives the caches' bandwidth, which is the bound of a model of that size.
double measure_read_bandwidth(WorkerPool& pool, Span<const uint8_t> data);

// The same of two passes: what the memory gives at this moment. Machines that others use too change within seconds, so what
// is compared with it has to run beside it.
double read_bandwidth_now(WorkerPool& pool, Span<const uint8_t> data);

}  // namespace gcrt
