#include "compiler/cuda.h"

#include <filesystem>
#include <span>

#include "codegen_cuda/backend.h"
#include "codegen_cuda/nvrtc/nvrtc.h"
#include "codegen_cuda/program.h"
#include "compiler/base/error.h"
#include "compiler/base/temp_file.h"

namespace gc {
namespace {

std::string report(const cuda::Cubin& cubin) {
  std::string text;
  for (const cuda::KernelUse& k : cubin.kernels) text += to_string(k) + "\n";
  return text;
}

void write(const std::filesystem::path& path, std::span<const uint8_t> bytes) {
  TempFile file(path.string());
  file.append(bytes);
  file.commit();
}

}  // namespace

std::string cuda_source(const Options& options, const ir::Graph& graph) {
  std::vector<const cuda::Arch*> archs;  // known before hours are spent
  for (const std::string& name : options.cuda_archs) archs.push_back(&cuda::arch_by_name(name));
  const plan::Plan plan = plan::make_plan(graph, cuda::CudaBackend());
  std::string source = cuda::make_program(plan, GC_KV_F16).source;
  if (archs.empty()) return source;
  const std::filesystem::path folder = options.save_temps;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw_errno(error.value(), "cannot make", options.save_temps);
  for (const cuda::Arch* arch : archs) {
    const cuda::Cubin cubin = cuda::compile_cubin(source, "program.cu", *arch, options.nvrtc);
    write(folder / cat(arch->name, ".cubin"), cubin.bytes);
    const std::string text = report(cubin);
    write(folder / cat(arch->name, ".txt"), {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }
  return source;
}

}  // namespace gc
