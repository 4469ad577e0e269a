// cuda_run MODEL.gguf --tokens 1,2,3: runs a model's CUDA kernels on this machine's CPU, through the shim of
// codegen_cuda/shim (each CUDA thread a fiber), and writes the logits of all tokens as raw little-endian f32. What is run is
// the very source that NVRTC compiles, compiled by clang++ for the host.
//
//   -o FILE                the logits; --source FILE: the CUDA source
//   --decode, --chunk N    tokens in steps of one, of N; default one step
//   --kv f32|f16|bf16      type of keys and values, default f32
//   --seed N               of the order in which threads and blocks run; results must not depend on it
//   --sequences N          the tokens as N sequences at once, of which the last one's logits are written
//   --ways                 also one by one, in chunks, among other sequences and in other orders: the same bits, or exit code 1
//   --root DIR             where the sources of codegen_cuda are; --clang PROGRAM
//   --cubin ARCH,... --nvrtc LIBRARY      compile for these too: prints what ptxas says of each kernel
#include <dlfcn.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "codegen_cuda/backend.h"
#include "codegen_cuda/nvrtc/nvrtc.h"
#include "codegen_cuda/program.h"
#include "compiler/base/error.h"
#include "compiler/passes/pass.h"
#include "compiler/plan/plan.h"
#include "compiler/tools/read_file.h"
#include "compiler/weights.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/reader.h"

namespace gc {
namespace {

struct Args {
  std::string model, output, source, kv = "f32", root = ".", clang = "clang++-22", nvrtc;
  std::vector<int32_t> tokens;
  std::vector<std::string> archs;
  int64_t chunk = 0, sequences = 1;
  uint64_t seed = 1;
  bool decode = false, ways = false;
};

int kv_type_of(const std::string& name) {
  const std::map<std::string, int> types = {{"f32", GC_KV_F32}, {"f16", GC_KV_F16}, {"bf16", GC_KV_BF16}};
  const auto at = types.find(name);
  if (at == types.end()) throw_user("--kv ", name, ": expected f32, f16 or bf16");
  return at->second;
}

// The image in memory.
class MemorySink : public link::WeightSink {
 public:
  MemorySink(const link::WeightImage& image, int64_t bytes) : image_(image), done_(image.sections.size()) {
    image_bytes_.resize(static_cast<size_t>(bytes) + 64);
  }
  void append(size_t section, std::span<const uint8_t> bytes) override {
    const link::ImageSection& s = image_.sections[section];
    GC_CHECK(done_[section] + bytes.size() <= s.size);
    std::memcpy(base() + s.offset + done_[section], bytes.data(), bytes.size());
    done_[section] += bytes.size();
  }
  uint8_t* base() {
    return image_bytes_.data() + (64 - reinterpret_cast<uintptr_t>(image_bytes_.data()) % 64) % 64;
  }

 private:
  const link::WeightImage& image_;
  std::vector<size_t> done_;
  std::vector<uint8_t> image_bytes_;
};

// A folder that goes with the object.
class TempDir {
 public:
  TempDir() {
    std::string path = (std::filesystem::temp_directory_path() / "cuda_run.XXXXXX").string();
    if (!mkdtemp(path.data()))
      throw_user("cannot make a folder in ", std::filesystem::temp_directory_path().string());
    path_ = path;
  }
  TempDir(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path operator/(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  if (!out.flush()) throw_user("cannot write ", path.string());
}

using LaunchFn = void (*)(void*, const unsigned*, const device::Step*, const device::At*, uint64_t);

// The program's kernels as a library of this machine.
class Shim {
 public:
  Shim(const Args& args, const std::string& source) {
    write_file(folder_ / "program.cu", source);
    const std::string shim = args.root + "/codegen_cuda/shim/";
    const std::string command = cat(
        args.clang,
        " -std=c++17 -O2 -march=native -ffp-contract=off -shared -fPIC -fvisibility=hidden -w -I'", args.root,
        "' -DGC_SHIM", " -include '", shim, "shim.h' -x c++ '", (folder_ / "program.cu").string(), "' '",
        shim, "shim.cc' -o '", (folder_ / "program.so").string(), "'");
    if (std::system(command.c_str()) != 0) throw_user("the emitted source does not compile: ", command);
    library_ = dlopen((folder_ / "program.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library_) throw_user("cannot load the kernels: ", dlerror());
    launch_ = reinterpret_cast<LaunchFn>(symbol("gc_shim_launch"));
  }
  void* symbol(const std::string& name) const {
    void* at = dlsym(library_, name.c_str());
    if (!at) throw_user("no kernel '", name, "' in the emitted source");
    return at;
  }
  LaunchFn launch() const { return launch_; }

 private:
  TempDir folder_;
  void* library_ = nullptr;
  LaunchFn launch_ = nullptr;
};

// Tokens of some sequences, their states, and the steps that take them.
class Session {
 public:
  Session(const Args& args, const plan::Plan& plan, const cuda::Program& program, const uint8_t* weights,
          const Shim& shim)
      : args_(args), plan_(plan), program_(program), shim_(shim), facts_(cuda::arena_facts(program)) {
    const auto n = static_cast<int64_t>(args.tokens.size());
    chunk_ = args.decode ? 1 : args.chunk > 0 ? std::min(args.chunk, n) : n;
    sizes_ = {chunk_ * args.sequences, chunk_ * args.sequences, gc_cuda_ranges(n)};
    // What a kernel doesn't write before it reads it shows as NaN.
    arena_.assign(static_cast<size_t>(gc_cuda_arena(facts_, sizes_).end), 0xff);
    step_.weights = weights, step_.arena = arena_.data();
    make_states(n);
  }

  std::vector<float> run() {
    const int64_t n_vocab = plan_.graph.value(plan_.graph.outputs[0]).type.dims.back().size;
    std::vector<float> all, logits;
    const auto n = static_cast<int64_t>(args_.tokens.size());
    for (int64_t begin = 0; begin < n; begin += chunk_) {
      const int64_t rows = std::min(chunk_, n - begin);
      logits.assign(static_cast<size_t>(rows * args_.sequences * n_vocab), __builtin_nanf(""));
      run_step(begin, rows, n_vocab, logits.data());
      all.insert(all.end(), logits.end() - rows * n_vocab, logits.end());
    }
    return all;
  }

 private:
  void make_states(int64_t n) {
    seqs_.assign(static_cast<size_t>(args_.sequences), {});
    for (size_t g = 0; g < plan_.groups.size(); ++g) {
      const plan::GroupPlan& group = plan_.groups[g];
      int64_t blocks = (n + GC_KV_BLOCK - 1) / GC_KV_BLOCK;
      if (group.kind == GC_STATE_KV_RING)
        blocks = gc_ring_blocks(static_cast<uint32_t>(group.window), static_cast<uint32_t>(chunk_));
      int64_t bytes = group.block_bytes[program_.kv_type];
      if (!group.has_blocks()) blocks = 1, bytes = group.seq_bytes;
      pools_.emplace_back(static_cast<size_t>(blocks * args_.sequences * bytes), 0xff);
      step_.pools[g] = pools_.back().data();
      for (int64_t s = 0; s < args_.sequences; ++s) {  // blocks in no order that a kernel could count on
        std::vector<uint32_t>& table = tables_.emplace_back();
        for (int64_t b = blocks - 1; b >= 0; --b)
          table.push_back(static_cast<uint32_t>(b * args_.sequences + s));
      }
    }
    for (size_t g = 0; g < plan_.groups.size(); ++g)
      for (size_t s = 0; s < seqs_.size(); ++s) {
        const std::vector<uint32_t>& table = tables_[g * seqs_.size() + s];
        seqs_[s].tables[g] = {table.data(), static_cast<uint32_t>(table.size()), 0};
      }
    step_.seqs = seqs_.data();
  }

  void run_step(int64_t begin, int64_t rows, int64_t n_vocab, float* logits) {
    std::vector<device::Row> table;
    std::vector<uint32_t> outputs;
    for (int64_t s = 0; s < args_.sequences; ++s)
      for (int64_t i = begin; i < begin + rows; ++i) {
        outputs.push_back(static_cast<uint32_t>(table.size()));
        // Other sequences have other tokens: what they have must not show in the last one.
        const auto n = static_cast<int64_t>(args_.tokens.size());
        const int64_t from = (i + (args_.sequences - 1 - s) * 5) % n;
        table.push_back({args_.tokens[static_cast<size_t>(from)], static_cast<int32_t>(i),
                         static_cast<uint32_t>(s), 0, 1, 0});
      }
    const auto n = static_cast<int64_t>(table.size());
    step_.rows = table.data(), step_.outputs = outputs.data();
    step_.n_rows = step_.n_outputs = static_cast<uint32_t>(n);
    step_.n_splits = static_cast<uint32_t>(gc_cuda_ranges(begin + rows));
    step_.logits = logits, step_.logits_stride = n_vocab;
    uint64_t seed = args_.seed;
    for (const cuda::Launch& launch : cuda::launches_for(program_, n)) {
      const gc_cuda_launch packed = cuda::packed(program_, plan_, launch);
      const gc_cuda_grid grid = gc_cuda_grid_of(packed, n, n, step_.n_splits);
      const unsigned size[3] = {static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
                                static_cast<unsigned>(grid.z)};
      const device::At at = gc_cuda_operands(facts_, packed, sizes_);
      shim_.launch()(shim_.symbol(launch.kernel), size, &step_, &at, seed++);
    }
  }

  const Args& args_;
  const plan::Plan& plan_;
  const cuda::Program& program_;
  const Shim& shim_;
  const gc_cuda_image facts_;
  int64_t chunk_ = 0;
  gc_cuda_sizes sizes_{};
  device::Step step_{};
  std::vector<uint8_t> arena_;
  std::vector<std::vector<uint8_t>> pools_;
  std::vector<std::vector<uint32_t>> tables_;
  std::vector<device::Seq> seqs_;
};

// A row's bits depend on its sequence's tokens alone: not on steps, nor on other sequences, nor on who runs first.
template <class RunAs>
void compare_ways(const Args& args, const std::vector<float>& logits, RunAs run_as) {
  struct Way {
    int64_t chunk, sequences;
    uint64_t seed;
  };
  for (const Way& way : {Way{1, 1, 2}, {3, 1, 3}, {7, 1, 4}, {1, 3, 5}, {9, 2, 6}}) {
    Args a = args;
    a.decode = false, a.chunk = way.chunk, a.sequences = way.sequences, a.seed = args.seed + way.seed;
    const std::vector<float> other = run_as(a);
    if (std::memcmp(other.data(), logits.data(), 4 * logits.size()) != 0)
      throw_user("other bits in steps of ", way.chunk, " tokens of ", way.sequences, " sequences, seed ",
                 a.seed);
  }
}

void report_cubins(const Args& args, const cuda::Program& program) {
  for (const std::string& name : args.archs) {
    const cuda::Cubin cubin =
        cuda::compile_cubin(program.source, "program.cu", cuda::arch_by_name(name), args.nvrtc);
    for (const cuda::KernelUse& k : cubin.kernels) printf("%s %s\n", name.c_str(), to_string(k).c_str());
    printf("%s: %zu kernels, %zu bytes\n", name.c_str(), cubin.kernels.size(), cubin.bytes.size());
  }
}

int run(int argc, char** argv) {
  CLI::App app("Runs a model's CUDA kernels on the CPU.");
  Args args;
  app.add_option("model", args.model, "MODEL.gguf")->required();
  app.add_option("--tokens", args.tokens, "token ids")->delimiter(',');
  app.add_option("-o,--output", args.output, "logits as raw f32");
  app.add_option("--source", args.source, "write the CUDA source");
  app.add_option("--kv", args.kv, "f32, f16, bf16");
  app.add_option("--chunk", args.chunk, "tokens in a step");
  app.add_option("--sequences", args.sequences, "so many at once")->check(CLI::Range(1, 64));
  app.add_option("--seed", args.seed, "of the order of threads and blocks");
  app.add_option("--root", args.root, "of this repository");
  app.add_option("--clang", args.clang, "compiler");
  app.add_option("--cubin", args.archs, "architectures to compile for")->delimiter(',');
  app.add_option("--nvrtc", args.nvrtc, "libnvrtc");
  app.add_flag("--decode", args.decode, "one token in a step");
  app.add_flag("--ways", args.ways, "compare the bits of other ways to run the tokens");
  CLI11_PARSE(app, argc, argv);

  const gguf::File file = gguf::File::open(args.model);
  gguf::LoadedModel model = gguf::load_model(file);
  const plan::Plan plan =
      plan::make_plan(passes::run_passes(std::move(model.graph), {}), cuda::CudaBackend());
  const cuda::Program program = cuda::make_program(plan, kv_type_of(args.kv));
  if (!args.source.empty()) write_file(args.source, program.source);
  report_cubins(args, program);
  if (args.tokens.empty()) return 0;
  Progress progress("packing", static_cast<uint64_t>(plan.weights_bytes));
  const link::WeightImage image = weight_image(file, plan, progress);
  MemorySink weights(image, plan.weights_bytes);
  image.write(weights);
  const Shim shim(args, program.source);
  const auto run_as = [&](const Args& a) { return Session(a, plan, program, weights.base(), shim).run(); };
  const std::vector<float> logits = run_as(args);
  if (args.ways) compare_ways(args, logits, run_as);
  if (!args.output.empty())
    write_file(args.output, {reinterpret_cast<const char*>(logits.data()), 4 * logits.size()});
  return 0;
}

}  // namespace
}  // namespace gc

int main(int argc, char** argv) {
  return gc::tools::guarded("cuda_run", [&] { return gc::run(argc, argv); });
}
