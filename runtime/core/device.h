#pragma once
// A machine beside the CPU that runs the steps of a program compiled for it, with memory of its own. A model that is opened on
// one has the device's program in place of a CPU's; a session then keeps its states there and hands each step over whole.
//
// There is one kind, cuda/, and it is linked into files that have code for it alone: the functions below are weak, and null
// in others. No pure virtual functions: they would need the C++ library.
#include <stdint.h>

#include "runtime/abi/program.h"
#include "runtime/base/allocator.h"
#include "runtime/base/format.h"
#include "runtime/base/span.h"
#include "runtime/base/status.h"

namespace gcrt {

struct Model;
struct SessionOptions;

// The name that programs for it have as their ISA.
inline constexpr char kDeviceName[] = "cuda";
inline bool is_for_device(const gc_program& program) { return Str(program.isa) == kDeviceName; }

// A session's part of the device.
class DeviceSession {
 public:
  // Runs the step: rows, outputs, seqs and pools as for a CPU. The outputs' logits go to f32[n_outputs, stride].
  virtual Status step(const gc_step&, float* /*logits*/, uint64_t /*stride*/) { return kErrUnsupported; }
  virtual void close() {}

 protected:
  ~DeviceSession() = default;
};

class Device {
 public:
  // Memory of the device that can't be read from here; null: there isn't so much.
  virtual uint8_t* get(uint64_t /*bytes*/) { return nullptr; }
  virtual void put(uint8_t*) {}
  // Whether it failed shows in the next step.
  virtual void zero(uint8_t* /*at*/, uint64_t /*bytes*/) {}
  virtual void copy(uint8_t* /*to*/, const uint8_t* /*from*/, uint64_t /*bytes*/) {}
  virtual void write(uint8_t* /*to*/, const void* /*from*/, uint64_t /*bytes*/) {}
  virtual void read(void* /*to*/, const uint8_t* /*from*/, uint64_t /*bytes*/) {}
  // `options` with defaults filled in. kErrMemory: `message` says what is needed and what is free.
  virtual Status begin(const SessionOptions& /*options*/, Allocator /*allocator*/,
                       DeviceSession** /*session*/, Span<char> /*message*/) {
    return kErrUnsupported;
  }
  // "GPU 0 (NAME) has N bytes free", for messages.
  virtual void say_free(Writer&) {}
  // "GPU 0 (NAME): a step failed: WHY", of the last failure.
  virtual void say_failure(Writer&) {}

 protected:
  ~Device() = default;
};

// Of `info`. `runs`: the file has code for it.
struct DeviceInfo {
  char name[128];
  uint64_t bytes, free;
  uint32_t major, minor;
  bool runs;
};

}  // namespace gcrt

extern "C" {
// Puts the model, opened for a CPU or not at all, on device number `gpu`: program and device. `message` says in one line why
// not: no driver, no such device, no code for it, no room for the weights. The device is there as long as the process.
__attribute__((weak)) gcrt::Status gc_open_device(uint32_t gpu, gcrt::Allocator allocator, gcrt::Model* model,
                                                  gcrt::Span<char> message);
// The devices of this machine, the first `n`: how many there are, or why that can't be said as a message and -1.
__attribute__((weak)) int gc_list_devices(gcrt::DeviceInfo* devices, int n, gcrt::Span<char> message);
}
