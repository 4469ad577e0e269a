#pragma once
// A GPU by NVIDIA's driver: the file's kernels for it, and the weights, uploaded once for all sessions.
#include "runtime/abi/cuda.h"
#include "runtime/abi/program.h"
#include "runtime/base/vec.h"
#include "runtime/core/cuda/driver.h"
#include "runtime/core/device.h"

// The compiler's: shapes of the device's program, whose entries are none of this machine.
extern "C" __attribute__((visibility("hidden"))) const gc_program gc_cuda_program;

namespace gcrt::cuda {

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(Allocator a) : allocator_(a), functions_(a) {}

  Status open(uint32_t gpu, const gc_cuda_image& image, Span<const uint8_t> weights, Span<char> message);

  uint8_t* get(uint64_t bytes) override;
  void put(uint8_t* at) override;
  void zero(uint8_t* at, uint64_t bytes) override;
  void copy(uint8_t* to, const uint8_t* from, uint64_t bytes) override;
  void write(uint8_t* to, const void* from, uint64_t bytes) override;
  void read(void* to, const uint8_t* from, uint64_t bytes) override;
  Status begin(const SessionOptions& options, Allocator allocator, DeviceSession** session,
               Span<char> message) override;
  void say_free(Writer& w) override;
  void say_failure(Writer& w) override;

  // Makes this thread's calls this device's, which a thread has to do before any other.
  void use() { note(driver_.context_use(context_)); }
  // Remembers a failure, until it is asked for.
  void note(int error) {
    if (error != 0) __atomic_store_n(&failed_, error, __ATOMIC_RELAXED);
  }
  bool take_failure() {
    const int error = __atomic_exchange_n(&failed_, 0, __ATOMIC_RELAXED);
    if (error != 0) __atomic_store_n(&last_, error, __ATOMIC_RELAXED);
    return error != 0;
  }

  const Driver& driver() const { return driver_; }
  const gc_cuda_image& image() const { return *image_; }
  template <class T>
  const T* table(uint64_t offset) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const uint8_t*>(image_) + offset);
  }
  void* function(uint32_t kernel) const { return functions_[kernel]; }
  uint8_t* weights() const { return weights_; }

 private:
  Status load_code(uint32_t major, uint32_t minor, Span<char> message);
  Status upload(Span<const uint8_t> weights, Span<char> message);
  Status failed(const char* what, int error, Span<char> message) const;

  Allocator allocator_;
  Driver driver_;
  uint32_t gpu_ = 0;
  char name_[128] = "";
  void* context_ = nullptr;
  const gc_cuda_image* image_ = nullptr;
  Vec<void*> functions_;  // by kernel
  uint8_t* weights_ = nullptr;
  int failed_ = 0, last_ = 0;
};

// The best of an image's cubins for a device; null: none runs there.
const gc_cuda_cubin* cubin_for(const gc_cuda_image& image, uint32_t major, uint32_t minor);

}  // namespace gcrt::cuda
