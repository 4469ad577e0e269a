#include "runtime/core/cuda/device.h"

#include <string.h>

#include "runtime/core/session.h"

extern "C" {
// The compiler's.
__attribute__((visibility("hidden"))) extern const unsigned char gc_cuda_blob[];
__attribute__((visibility("hidden"))) extern const uint64_t gc_cuda_blob_size;
}

namespace gcrt::cuda {
namespace {

// Weights go up through two buffers of pinned memory, one being filled from the mapped file while the other one is copied:
// the driver copies from unpinned memory at a third of the speed, and can't pin pages of a file that is mapped read-only.
constexpr uint64_t kBuffer = 16 << 20;

const gc_cuda_image* the_image(Span<char> message) {
  const auto* image = reinterpret_cast<const gc_cuda_image*>(gc_cuda_blob);
  const bool good = gc_cuda_blob_size >= sizeof *image && image->size == gc_cuda_blob_size &&
                    image->version == GC_CUDA_VERSION &&
                    memcmp(image->magic, GC_CUDA_MAGIC, sizeof image->magic) == 0;
  if (good) return image;
  format_to(message, "this file's code for CUDA is damaged or of another version");
  return nullptr;
}

}  // namespace

const gc_cuda_cubin* cubin_for(const gc_cuda_image& image, uint32_t major, uint32_t minor) {
  const auto* all =
      reinterpret_cast<const gc_cuda_cubin*>(reinterpret_cast<const uint8_t*>(&image) + image.cubins);
  const gc_cuda_cubin* best = nullptr;
  for (uint32_t i = 0; i < image.n_cubins; ++i) {
    const gc_cuda_cubin& c = all[i];
    if (c.major != major || c.minor > minor || (c.exact && c.minor != minor)) continue;
    if (best == nullptr || c.minor >= best->minor) best = &c;
  }
  return best;
}

Status CudaDevice::failed(const char* what, int error, Span<char> message) const {
  format_to(message, "GPU ", gpu_, " (", Str(name_), "): ", what, ": ", driver_.why(error));
  return kErrSystem;
}

Status CudaDevice::open(uint32_t gpu, const gc_cuda_image& image, Span<const uint8_t> weights,
                        Span<char> message) {
  gpu_ = gpu;
  image_ = &image;
  if (const Status s = driver_.open(message); s != kOk) return s;
  int n = 0, device = 0, major = 0, minor = 0;
  if (const int e = driver_.device_count(&n); e != 0) {
    format_to(message, "the CUDA driver can't count devices: ", driver_.why(e));
    return kErrSystem;
  }
  if (n <= 0 || gpu >= static_cast<uint32_t>(n)) {
    if (n <= 0)
      format_to(message, "the CUDA driver has no device");
    else
      format_to(message, "--gpu ", gpu, ": there are GPUs 0 to ", n - 1);
    return kErrArgument;
  }
  if (const int e = driver_.device_get(&device, static_cast<int>(gpu)); e != 0)
    return failed("can't be had", e, message);
  if (driver_.device_name(name_, sizeof name_, device) != 0) name_[0] = 0;
  name_[sizeof name_ - 1] = 0;
  int unknown = driver_.device_attribute(&major, kMajor, device);
  if (unknown == 0) unknown = driver_.device_attribute(&minor, kMinor, device);
  if (unknown != 0) return failed("doesn't say what it is", unknown, message);
  if (const int e = driver_.context_retain(&context_, device); e != 0)
    return failed("can't be used", e, message);
  if (const int e = driver_.context_use(context_); e != 0) return failed("can't be used", e, message);
  if (const Status s = load_code(static_cast<uint32_t>(major), static_cast<uint32_t>(minor), message);
      s != kOk)
    return s;
  return upload(weights, message);
}

Status CudaDevice::load_code(uint32_t major, uint32_t minor, Span<char> message) {
  const gc_cuda_cubin* cubin = cubin_for(*image_, major, minor);
  if (cubin == nullptr) {
    Writer w(message.data(), message.size());
    format(w, "GPU ", gpu_, " (", Str(name_), ") is of compute capability ", major, ".", minor,
           ", and this file has code for");
    const auto* all = table<gc_cuda_cubin>(image_->cubins);
    for (uint32_t i = 0; i < image_->n_cubins; ++i)
      format(w, i == 0 ? " " : ", ", all[i].major, ".", all[i].minor, all[i].exact ? "a" : "");
    return kErrUnsupported;
  }
  void* module = nullptr;
  if (const int e = driver_.module_load(&module, table<uint8_t>(cubin->offset)); e != 0)
    return failed("the kernels can't be loaded", e, message);
  if (!functions_.resize(image_->n_kernels)) return kErrMemory;
  for (uint32_t i = 0; i < image_->n_kernels; ++i) {
    const char* name = table<gc_cuda_kernel>(image_->kernels)[i].name;
    if (const int e = driver_.module_function(&functions_[i], module, name); e != 0)
      return failed(name, e, message);
  }
  return kOk;
}

Status CudaDevice::upload(Span<const uint8_t> weights, Span<char> message) {
  weights_ = get(weights.size());
  if (weights_ == nullptr) {
    Writer w(message.data(), message.size());
    format(w, "not enough memory: the weights need ", weights.size(), " bytes, ");
    say_free(w);
    return kErrMemory;
  }
  void *stream = nullptr, *events[2] = {};
  uint8_t* buffers[2] = {};
  int error = driver_.stream_make(&stream, 0);
  for (int i = 0; i < 2 && error == 0; ++i) {
    error = driver_.event_make(&events[i], 0);
    if (error == 0) error = driver_.pinned_get(reinterpret_cast<void**>(&buffers[i]), kBuffer, 0);
  }
  for (uint64_t at = 0, turn = 0; at < weights.size() && error == 0; at += kBuffer, ++turn) {
    const uint64_t n = min_of<uint64_t>(kBuffer, weights.size() - at);
    const int i = static_cast<int>(turn % 2);
    if (turn >= 2) error = driver_.event_wait(events[i]);
    if (error != 0) break;
    memcpy(buffers[i], weights.data() + at, n);
    error = driver_.write_async(reinterpret_cast<uint64_t>(weights_) + at, buffers[i], n, stream);
    if (error == 0) error = driver_.event_record(events[i], stream);
  }
  if (stream != nullptr) {
    const int e = driver_.stream_wait(stream);
    if (error == 0) error = e;
  }
  for (int i = 0; i < 2; ++i) {
    if (buffers[i] != nullptr) note(driver_.pinned_put(buffers[i]));
    if (events[i] != nullptr) note(driver_.event_end(events[i]));
  }
  if (stream != nullptr) note(driver_.stream_end(stream));
  return error == 0 ? kOk : failed("the weights can't be copied there", error, message);
}

uint8_t* CudaDevice::get(uint64_t bytes) {
  use();
  uint64_t at = 0;
  return driver_.memory_get(&at, bytes) == 0 ? reinterpret_cast<uint8_t*>(at) : nullptr;
}
void CudaDevice::put(uint8_t* at) {
  use();
  note(driver_.memory_put(reinterpret_cast<uint64_t>(at)));
}
void CudaDevice::zero(uint8_t* at, uint64_t bytes) {
  use();
  note(driver_.zero(reinterpret_cast<uint64_t>(at), 0, bytes));
}
void CudaDevice::copy(uint8_t* to, const uint8_t* from, uint64_t bytes) {
  use();
  note(driver_.copy(reinterpret_cast<uint64_t>(to), reinterpret_cast<uint64_t>(from), bytes));
}
void CudaDevice::write(uint8_t* to, const void* from, uint64_t bytes) {
  use();
  note(driver_.write(reinterpret_cast<uint64_t>(to), from, bytes));
}
void CudaDevice::read(void* to, const uint8_t* from, uint64_t bytes) {
  use();
  note(driver_.read(to, reinterpret_cast<uint64_t>(from), bytes));
}
void CudaDevice::say_failure(Writer& w) {
  format(w, "GPU ", gpu_, " (", Str(name_),
         "): a step failed: ", driver_.why(__atomic_load_n(&last_, __ATOMIC_RELAXED)));
}
void CudaDevice::say_free(Writer& w) {
  use();
  size_t free = 0, total = 0;
  format(w, "GPU ", gpu_, " (", Str(name_), ") has ");
  if (driver_.memory_info(&free, &total) == 0)
    format(w, free, " bytes free");
  else
    format(w, "no more");
}

}  // namespace gcrt::cuda

using gcrt::Status;

Status gc_open_device(uint32_t gpu, gcrt::Allocator allocator, gcrt::Model* model, gcrt::Span<char> message) {
  using gcrt::cuda::CudaDevice;
  const gc_cuda_image* image = gcrt::cuda::the_image(message);
  if (image == nullptr) return gcrt::kErrImage;
  void* at = allocator.get(sizeof(CudaDevice), alignof(CudaDevice));
  if (at == nullptr) return gcrt::kErrMemory;
  auto* device = new (gcrt_placement(), at) CudaDevice(allocator);
  // What it took of the driver goes with the process, as it does after a success.
  if (const Status s = device->open(gpu, *image, {model->weights, gc_cuda_program.weights_bytes}, message);
      s != gcrt::kOk)
    return s;
  model->program = &gc_cuda_program;
  model->device = device;
  return gcrt::kOk;
}

int gc_list_devices(gcrt::DeviceInfo* devices, int most, gcrt::Span<char> message) {
  gcrt::cuda::Driver driver;
  const gc_cuda_image* image = gcrt::cuda::the_image(message);
  if (image == nullptr || driver.open(message) != gcrt::kOk) return -1;
  int n = 0;
  if (const int e = driver.device_count(&n); e != 0) {
    format_to(message, "the CUDA driver can't count devices: ", driver.why(e));
    return -1;
  }
  for (int i = 0; i < n && i < most; ++i) {
    gcrt::DeviceInfo& d = devices[i];
    memset(&d, 0, sizeof d);
    int device = 0, major = 0, minor = 0;
    size_t bytes = 0, free = 0;
    void* context = nullptr;
    if (driver.device_get(&device, i) != 0) continue;
    if (driver.device_name(d.name, sizeof d.name, device) != 0) d.name[0] = 0;
    d.name[sizeof d.name - 1] = 0;
    if (driver.device_attribute(&major, gcrt::cuda::kMajor, device) != 0) major = 0;
    if (driver.device_attribute(&minor, gcrt::cuda::kMinor, device) != 0) minor = 0;
    if (driver.device_bytes(&bytes, device) == 0) d.bytes = bytes;
    if (driver.context_retain(&context, device) == 0) {
      if (driver.context_use(context) == 0 && driver.memory_info(&free, &bytes) == 0) d.free = free;
      driver.context_release(device);
    }
    d.major = static_cast<uint32_t>(major), d.minor = static_cast<uint32_t>(minor);
    d.runs = gcrt::cuda::cubin_for(*image, d.major, d.minor) != nullptr;
  }
  return n;
}
