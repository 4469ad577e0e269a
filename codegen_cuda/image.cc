#include "codegen_cuda/image.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "compiler/base/error.h"

namespace gc::cuda {
namespace {

class Bytes {
 public:
  // Where `n` bytes from `data` on lie from now on.
  std::uint64_t add(const void* data, std::size_t n) {
    const std::size_t at = (all_.size() + 15) / 16 * 16;
    all_.resize(at + n);
    if (n != 0) std::memcpy(&all_[at], data, n);
    return at;
  }
  template <class T>
  std::uint64_t table(const std::vector<T>& rows) {
    return add(rows.data(), rows.size() * sizeof(T));
  }
  std::vector<std::uint8_t> take() { return std::move(all_); }
  std::uint64_t size() const { return all_.size(); }

 private:
  std::vector<std::uint8_t> all_;
};

}  // namespace

std::vector<std::uint8_t> make_image(const Program& program, const plan::Plan& plan,
                                     std::span<const CompiledFor> cubins) {
  std::set<std::string> names;
  for (const auto* list : {&program.one, &program.many})
    for (const Launch& launch : *list) names.insert(launch.kernel);

  gc_cuda_image image = arena_facts(program);
  std::memcpy(image.magic, GC_CUDA_MAGIC, sizeof image.magic);
  image.version = GC_CUDA_VERSION;
  image.kv_type = static_cast<std::uint32_t>(program.kv_type);
  Bytes bytes;
  bytes.add(&image, sizeof image);

  std::vector<gc_cuda_kernel> kernels;
  for (const std::string& name : names) {
    GC_CHECK(name.size() < GC_CUDA_NAME, name);
    std::memcpy(kernels.emplace_back().name, name.data(), name.size());
  }
  image.n_kernels = static_cast<std::uint32_t>(kernels.size());
  image.kernels = bytes.table(kernels);

  const auto launches = [&](const std::vector<Launch>& from, std::uint32_t& n) {
    std::vector<gc_cuda_launch> rows;
    for (const Launch& launch : from)
      rows.push_back(
          packed(program, plan, launch,
                 static_cast<std::uint32_t>(std::distance(names.begin(), names.find(launch.kernel)))));
    n = static_cast<std::uint32_t>(rows.size());
    return bytes.table(rows);
  };
  image.one = launches(program.one, image.n_one);
  image.many = launches(program.many, image.n_many);

  std::vector<gc_cuda_cubin> table;
  for (const CompiledFor& each : cubins) {
    const auto number = static_cast<std::uint32_t>(each.arch->number);
    table.push_back({number / 10, number % 10, each.arch->name.ends_with('a'), 0,
                     bytes.add(each.cubin.data(), each.cubin.size()), each.cubin.size()});
  }
  image.n_cubins = static_cast<std::uint32_t>(table.size());
  image.cubins = bytes.table(table);
  image.size = bytes.size();
  std::vector<std::uint8_t> all = bytes.take();
  std::memcpy(all.data(), &image, sizeof image);
  return all;
}

}  // namespace gc::cuda
