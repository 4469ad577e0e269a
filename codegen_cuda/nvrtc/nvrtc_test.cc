// nvrtc_test [LIBRARY]: a kernel to cubins of all architectures, an error with its log, a library that isn't there.
// Needs NVRTC: tests/e2e/cuda.sh gives it the pinned one.
#include "codegen_cuda/nvrtc/nvrtc.h"

#include <gtest/gtest.h>

#include "compiler/base/error.h"

namespace gc::cuda {
namespace {

std::string library;

constexpr char kSource[] = R"(
extern "C" __global__ void twice(const float* x, float* y, int n) {
  __shared__ float s[256];
  const int i = blockIdx.x * 256 + threadIdx.x;
  s[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  if (i < n) y[i] = s[threadIdx.x] + s[255 - threadIdx.x];
}
)";

TEST(Nvrtc, CompilesForEveryArchitecture) {
  for (const Arch& arch : all_archs()) {
    const Cubin cubin = compile_cubin(kSource, "twice.cu", arch, library);
    ASSERT_GT(cubin.bytes.size(), 64u) << arch.name;
    EXPECT_EQ(std::string(cubin.bytes.begin(), cubin.bytes.begin() + 4),
              "\x7f"
              "ELF")
        << arch.name;
    ASSERT_EQ(cubin.kernels.size(), 1u) << arch.name;
    EXPECT_EQ(cubin.kernels[0].name, "twice");
    EXPECT_GT(cubin.kernels[0].registers, 4);
    EXPECT_GE(cubin.kernels[0].shared, 1024);
    EXPECT_EQ(cubin.kernels[0].spill_stores, 0);
  }
}

// Larger than a pipe holds, so both ends have to be served at once.
TEST(Nvrtc, TakesLongSources) {
  std::string source(1 << 20, ' ');
  EXPECT_FALSE(compile_cubin(source + kSource, "long.cu", all_archs()[0], library).bytes.empty());
}

TEST(Nvrtc, AnErrorHasTheLog) {
  try {
    compile_cubin("extern \"C\" __global__ void k(float* y) { *y = nothing; }", "bad.cu", all_archs()[0],
                  library);
    FAIL() << "compiled";
  } catch (const UserError& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("bad.cu for sm_80: NVRTC: bad.cu(1): error: identifier \"nothing\" is undefined"),
              std::string::npos)
        << what;
    EXPECT_EQ(what.find('\n'), std::string::npos);
  }
}

TEST(Nvrtc, ALibraryThatIsNotThere) {
  try {
    compile_cubin(kSource, "twice.cu", all_archs()[0], "/nowhere/libnvrtc.so");
    FAIL() << "compiled";
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("NVRTC cannot be used: /nowhere/libnvrtc.so: cannot open"),
              std::string::npos)
        << e.what();
  }
}

TEST(Nvrtc, AnUnknownArchitecture) { EXPECT_THROW(arch_by_name("sm_70"), UserError); }

}  // namespace
}  // namespace gc::cuda

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) gc::cuda::library = argv[1];
  return RUN_ALL_TESTS();
}
