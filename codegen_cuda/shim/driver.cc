// A libcuda.so.1 without a GPU, for tests: device memory is this machine's, and launches run the kernels of an emitted source,
// which this file and shim.cc are linked with, as fibers. It is stricter than the real one:
//
//   - streams do nothing until somebody waits for them, so memory that is used again too early shows;
//   - device memory begins as NaN, and addresses of a step that are none of the device's are refused;
//   - a thread that has not said which context it uses gets nothing done.
//
// GC_FAKE_CUDA_DEVICES (1), GC_FAKE_CUDA_CC (90: compute capability 9.0), GC_FAKE_CUDA_BYTES (8 GiB: memory) say what it is.
// GC_FAKE_CUDA_FAIL=NAME:N[:ERROR]: the function of that name fails from its N-th call on (ERROR, 719: "unspecified launch failure"),
// as a device that is lost does.
// Kernels must come as cubins, ELF files, but what they hold is not looked at.
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "codegen_cuda/shim/shim.h"
#include "runtime/abi/cuda_step.h"

#define API extern "C" __attribute__((visibility("default"))) int

extern "C" void gc_shim_launch(void* kernel, const unsigned* grid, const gc::device::Step* step,
                               const gc::device::At* at, std::uint64_t seed);

namespace {

using gc::device::At;
using gc::device::Step;

enum {
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNotFound = 500,
  kLost = 719
};

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// The error that this call of a function is to end with, or 0.
int injected(const char* function) {
  static const char* const text = std::getenv("GC_FAKE_CUDA_FAIL");
  static std::atomic<std::uint64_t> calls{0};
  const std::size_t n = std::strlen(function);
  if (text == nullptr || std::strncmp(text, function, n) != 0 || text[n] != ':') return 0;
  char* end = nullptr;
  const std::uint64_t first = std::strtoull(text + n + 1, &end, 10);
  if (++calls < first) return 0;
  return *end == ':' ? std::atoi(end + 1) : kLost;
}
#define MAY_FAIL \
  if (const int error = injected(__func__)) return error;

int device_count() { return static_cast<int>(setting("GC_FAKE_CUDA_DEVICES", 1)); }
std::uint64_t total_bytes() { return setting("GC_FAKE_CUDA_BYTES", std::uint64_t{8} << 30); }

struct Event;
struct Work {
  std::function<void()> run;
  Event* event = nullptr;
};
struct Stream {
  std::deque<Work> queue;
};
struct Event {
  Stream* in = nullptr;  // until it has happened
};

std::recursive_mutex mutex;
std::map<std::uint64_t, std::uint64_t> memory;  // begin -> bytes
std::uint64_t used = 0;
std::set<Stream*> streams;
thread_local void* current = nullptr;
char context;
int contexts = 0;
std::uint64_t seed = 1;

bool is_device(std::uint64_t at, std::uint64_t bytes) {
  auto next = memory.upper_bound(at);
  if (next == memory.begin()) return false;
  --next;
  return at - next->first <= next->second && bytes <= next->second - (at - next->first);
}
bool is_device(const void* at, std::uint64_t bytes) {
  return is_device(reinterpret_cast<std::uint64_t>(at), bytes);
}

void run_first(Stream* s) {
  Work work = std::move(s->queue.front());
  s->queue.pop_front();
  if (work.event) work.event->in = nullptr;
  if (work.run) work.run();
}
void run_all(Stream* s) {
  while (!s->queue.empty()) run_first(s);
}
// What the stream of no name does waits for all others.
void run_everything() {
  for (Stream* s : streams) run_all(s);
}

[[noreturn]] void fault(const char* what) {
  std::fprintf(stderr, "fake CUDA driver: %s\n", what);
  std::abort();
}

// What a kernel would read through must be the device's, when it runs.
void check(const Step& s) {
  if (!is_device(s.rows, s.n_rows * sizeof *s.rows) || !is_device(s.outputs, s.n_outputs * sizeof *s.outputs))
    fault("rows or outputs are not in device memory");
  if (!is_device(s.weights, 1) || !is_device(s.arena, 1)) fault("weights or arena are not in device memory");
  if (s.n_outputs != 0 && !is_device(s.logits, s.n_outputs * static_cast<std::uint64_t>(s.logits_stride) * 4))
    fault("logits are not in device memory");
  for (gc::device::u32 i = 0; i < s.n_rows; i++) {
    const gc::device::Seq* seq = s.seqs + s.rows[i].seq;
    if (!is_device(seq, sizeof *seq)) fault("a sequence is not in device memory");
    for (int g = 0; g < gc::device::kMaxGroups; g++) {
      const gc::device::Table& t = seq->tables[g];
      if (t.n != 0 && (!is_device(t.blocks, t.n * 4) || !is_device(s.pools[g], 1)))
        fault("a table or pool is not in device memory");
    }
  }
}

using Lock = std::lock_guard<std::recursive_mutex>;

}  // namespace

API cuInit(unsigned flags) {
  MAY_FAIL
  return flags == 0 ? 0 : kInvalidValue;
}
API cuGetErrorString(int error, const char** text) {
  *text = error == kOutOfMemory      ? "out of memory"
          : error == kInvalidContext ? "invalid device context"
          : error == kNotFound       ? "named symbol not found"
          : error == kInvalidImage   ? "device kernel image is invalid"
          : error == kLost           ? "unspecified launch failure"
                                     : "invalid argument";
  return 0;
}
API cuDeviceGetCount(int* n) {
  MAY_FAIL
  return *n = device_count(), 0;
}
API cuDeviceGet(int* device, int ordinal) {
  MAY_FAIL
  if (ordinal < 0 || ordinal >= device_count()) return 101;
  return *device = ordinal, 0;
}
API cuDeviceGetName(char* name, int size, int device) {
  MAY_FAIL
  std::snprintf(name, static_cast<std::size_t>(size), "Fake GPU %d", device);
  return 0;
}
API cuDeviceGetAttribute(int* value, int attribute, int) {
  MAY_FAIL
  const int number = static_cast<int>(setting("GC_FAKE_CUDA_CC", 90));
  if (attribute != 75 && attribute != 76) return kInvalidValue;
  return *value = attribute == 75 ? number / 10 : number % 10, 0;
}
API cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  MAY_FAIL
  return *bytes = total_bytes(), 0;
}
API cuDevicePrimaryCtxRetain(void** to, int) {
  MAY_FAIL
  const Lock lock(mutex);
  contexts++;
  return *to = &context, 0;
}
API cuDevicePrimaryCtxRelease_v2(int) {
  MAY_FAIL
  const Lock lock(mutex);
  return contexts-- > 0 ? 0 : kInvalidContext;
}
API cuCtxSetCurrent(void* to) {
  MAY_FAIL
  if (to != &context && to != nullptr) return kInvalidContext;
  return current = to, 0;
}
API cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  MAY_FAIL
  const Lock lock(mutex);
  if (!current) return kInvalidContext;
  *total = total_bytes();
  return *free = *total - used, 0;
}
API cuMemAlloc_v2(std::uint64_t* at, std::size_t bytes) {
  MAY_FAIL
  const Lock lock(mutex);
  if (!current) return kInvalidContext;
  if (bytes == 0) return kInvalidValue;
  if (bytes > total_bytes() - used) return kOutOfMemory;
  void* p = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (!p) return kOutOfMemory;
  std::memset(p, 0xff, bytes);
  *at = reinterpret_cast<std::uint64_t>(p);
  memory[*at] = bytes;
  used += bytes;
  return 0;
}
API cuMemFree_v2(std::uint64_t at) {
  MAY_FAIL
  const Lock lock(mutex);
  run_everything();
  const auto it = memory.find(at);
  if (!current || it == memory.end()) return kInvalidValue;
  used -= it->second;
  memory.erase(it);
  std::free(reinterpret_cast<void*>(at));
  return 0;
}
API cuMemHostAlloc(void** at, std::size_t bytes, unsigned) {
  MAY_FAIL
  if (!current) return kInvalidContext;
  return (*at = std::malloc(bytes)) ? 0 : kOutOfMemory;
}
API cuMemFreeHost(void* at) {
  MAY_FAIL
  const Lock lock(mutex);
  run_everything();
  std::free(at);
  return current ? 0 : kInvalidContext;
}
API cuMemsetD8_v2(std::uint64_t at, unsigned char value, std::size_t bytes) {
  MAY_FAIL
  const Lock lock(mutex);
  if (!current || !is_device(at, bytes)) return kInvalidValue;
  run_everything();
  std::memset(reinterpret_cast<void*>(at), value, bytes);
  return 0;
}
API cuMemcpyDtoD_v2(std::uint64_t to, std::uint64_t from, std::size_t bytes) {
  MAY_FAIL
  const Lock lock(mutex);
  if (!current || !is_device(to, bytes) || !is_device(from, bytes)) return kInvalidValue;
  run_everything();
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return 0;
}
API cuMemcpyHtoD_v2(std::uint64_t to, const void* from, std::size_t bytes) {
  MAY_FAIL
  const Lock lock(mutex);
  if (!current || !is_device(to, bytes) || is_device(from, 1)) return kInvalidValue;
  run_everything();
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
API cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes) {
  MAY_FAIL
  const Lock lock(mutex);
  if (!current || !is_device(from, bytes) || is_device(to, 1)) return kInvalidValue;
  run_everything();
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return 0;
}
API cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes, void* stream) {
  MAY_FAIL
  const Lock lock(mutex);
  if (!current || !is_device(to, bytes) || is_device(from, 1)) return kInvalidValue;
  static_cast<Stream*>(stream)->queue.push_back(
      {[=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); }});
  return 0;
}
API cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, void* stream) {
  MAY_FAIL
  const Lock lock(mutex);
  if (!current || !is_device(from, bytes) || is_device(to, 1)) return kInvalidValue;
  static_cast<Stream*>(stream)->queue.push_back(
      {[=] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); }});
  return 0;
}
API cuStreamCreate(void** stream, unsigned flags) {
  MAY_FAIL
  const Lock lock(mutex);
  if (!current || flags != 0) return kInvalidValue;  // 0: orders itself with the stream of no name
  auto* made = new Stream;
  streams.insert(made);
  return *stream = made, 0;
}
API cuStreamSynchronize(void* stream) {
  MAY_FAIL
  const Lock lock(mutex);
  if (!current || !streams.count(static_cast<Stream*>(stream))) return kInvalidValue;
  run_all(static_cast<Stream*>(stream));
  return 0;
}
API cuStreamDestroy_v2(void* stream) {
  MAY_FAIL
  const Lock lock(mutex);
  auto* s = static_cast<Stream*>(stream);
  if (!current || !streams.count(s)) return kInvalidValue;
  run_all(s);
  streams.erase(s);
  delete s;
  return 0;
}
API cuEventCreate(void** event, unsigned) {
  MAY_FAIL
  return *event = new Event, 0;
}
API cuEventRecord(void* event, void* stream) {
  MAY_FAIL
  const Lock lock(mutex);
  auto* e = static_cast<Event*>(event);
  auto* s = static_cast<Stream*>(stream);
  if (e->in) {  // an earlier record counts no more
    for (Work& work : e->in->queue)
      if (work.event == e) work.event = nullptr;
  }
  e->in = s;
  s->queue.push_back({{}, e});
  return 0;
}
API cuEventSynchronize(void* event) {
  MAY_FAIL
  const Lock lock(mutex);
  auto* e = static_cast<Event*>(event);
  while (e->in) run_first(e->in);
  return 0;
}
API cuEventDestroy_v2(void* event) {
  MAY_FAIL
  const Lock lock(mutex);
  cuEventSynchronize(event);
  delete static_cast<Event*>(event);
  return 0;
}
API cuModuleLoadData(void** module, const void* image) {
  MAY_FAIL
  if (!current) return kInvalidContext;
  if (std::memcmp(image, "\177ELF", 4) != 0) return kInvalidImage;
  Dl_info self;  // loaded by name and locally: the global scope doesn't have it
  if (!dladdr(reinterpret_cast<void*>(&cuInit), &self)) return kNotFound;
  *module = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  return *module ? 0 : kNotFound;
}
API cuModuleGetFunction(void** function, void* module, const char* name) {
  MAY_FAIL
  *function = dlsym(module, name);
  return *function ? 0 : kNotFound;
}
API cuLaunchKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned shared, void* stream, void** parameters, void** extra) {
  MAY_FAIL
  const Lock lock(mutex);
  if (!current || x == 0 || y == 0 || z == 0 || y > 65535 || z > 65535) return kInvalidValue;
  if (block_x != 128 || block_y != 1 || block_z != 1 || shared != 0 || extra) return kInvalidValue;
  const Step step = *static_cast<const Step*>(parameters[0]);
  const At at = *static_cast<const At*>(parameters[1]);
  static_cast<Stream*>(stream)->queue.push_back({[=] {
    check(step);
    const unsigned grid[3] = {x, y, z};
    gc_shim_launch(function, grid, &step, &at, seed++);
  }});
  return 0;
}
