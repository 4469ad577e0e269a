#include "compiler/cuda.h"

#include <atomic>
#include <exception>
#include <filesystem>
#include <span>

#include "codegen_cuda/backend.h"
#include "codegen_cuda/image.h"
#include "codegen_cuda/nvrtc/nvrtc.h"
#include "codegen_cuda/program.h"
#include "compiler/base/error.h"
#include "compiler/base/parallel.h"
#include "compiler/base/temp_file.h"
#include "runtime/abi/image.h"

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

// One after the other where there is one core, else at once: NVRTC runs in processes of its own. With a folder also ARCH.cubin
// and ARCH.txt there.
std::vector<cuda::CompiledFor> compile_all(const std::string& source,
                                           const std::vector<const cuda::Arch*>& archs,
                                           const std::string& nvrtc, const std::filesystem::path& folder) {
  std::vector<cuda::CompiledFor> all(archs.size());
  std::vector<std::exception_ptr> errors(archs.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < archs.size(); i = next++) try {
        cuda::Cubin cubin = cuda::compile_cubin(source, "program.cu", *archs[i], nvrtc);
        if (!folder.empty()) {
          write(folder / cat(archs[i]->name, ".cubin"), cubin.bytes);
          const std::string text = report(cubin);
          write(folder / cat(archs[i]->name, ".txt"),
                {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
        }
        all[i] = {archs[i], std::move(cubin.bytes)};
      } catch (...) {
        errors[i] = std::current_exception();
      }
  };
  run_on_threads(std::min(static_cast<int>(archs.size()), processors()), work);
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return all;
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
  compile_all(source, archs, options.nvrtc, folder);
  return source;
}

CudaPart cuda_part(const Options& options, const ir::Graph& graph) {
  std::vector<const cuda::Arch*> archs;
  for (const std::string& name : options.cuda_archs) archs.push_back(&cuda::arch_by_name(name));
  if (archs.empty())
    for (const cuda::Arch& arch : cuda::all_archs()) archs.push_back(&arch);
  CudaPart part;
  part.plan = plan::make_plan(graph, cuda::CudaBackend());
  const cuda::Program program = cuda::make_program(part.plan, CudaPart::kKvType);
  const int64_t logits = 4 * part.plan.graph.value(part.plan.graph.outputs[0]).type.dims.back().size;
  const auto bytes = [](int64_t n) { return static_cast<uint64_t>(n); };
  part.plan.arena = {};
  part.plan.arena.per_row = bytes(program.row_bytes + program.query_bytes);
  part.plan.arena.per_output = bytes(program.output_bytes + logits);
  part.plan.arena.per_split = bytes(program.partial_bytes);
  part.image = cuda::make_image(program, part.plan, compile_all(program.source, archs, options.nvrtc, {}));
  part.code_id = gc_hash(part.image.data(), part.image.size());
  for (const cuda::Arch* arch : archs) part.archs.emplace_back(arch->name);
  return part;
}

}  // namespace gc
