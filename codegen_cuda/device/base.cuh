// The vocabulary of all kernels: types, and what NVIDIA's headers would bring, as single PTX instructions. Device code
// includes nothing, so NVRTC needs no headers and an emitted source stands alone.
//
// With GC_SHIM the same sources are C++ for the host (codegen_cuda/shim/shim.h): beside each instruction stands what it
// does, as a scalar body.
//
// Products and sums are joined to one rounding only where fmaf() says so (-fmad=false, -ffp-contract=off): a kernel's bits
// then don't depend on what a compiler made of the code around, and the host's are the device's but for expf, tanhf and erff.
#ifndef GC_BASE_CUH_
#define GC_BASE_CUH_

namespace gc::device {

constexpr int kThreads = 128;  // of every block
constexpr int kWarps = kThreads / 32;
constexpr int kPanelRows = 16;
constexpr int kGroupCols = 256;
constexpr int kActBlock = 32;

enum class Domain { Tokens, Outputs };  // of a launch's rows
template <Domain domain>
__device__ inline int rows_of(const Step& s) {
  return domain == Domain::Tokens ? int(s.n_rows) : int(s.n_outputs);
}

__device__ inline int lane() { return threadIdx.x % 32; }
__device__ inline int warp() { return threadIdx.x / 32; }

// acc + the four products of unsigned bytes of `a` with signed bytes of `b`.
__device__ inline int dot4_u8_s8(u32 a, u32 b, int acc) {
#ifdef GC_SHIM
  for (int i = 0; i < 4; i++) acc += int(a >> (8 * i) & 255) * int(i8(b >> (8 * i)));
  return acc;
#else
  int y;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "r"(acc));
  return y;
#endif
}

// Byte i of the result is the byte of (b:a) that nibble i of `select` names.
__device__ inline u32 permute_bytes(u32 a, u32 b, u32 select) {
#ifdef GC_SHIM
  const unsigned long long both = (unsigned long long)b << 32 | a;
  u32 y = 0;
  for (int i = 0; i < 4; i++) y |= u32(both >> (8 * (select >> (4 * i) & 7)) & 255) << (8 * i);
  return y;
#else
  u32 y;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "r"(select));
  return y;
#endif
}

__device__ inline float f32_of_bits(u32 bits) {
#ifdef GC_SHIM
  return gc_shim::bit_cast<float>(bits);
#else
  return __uint_as_float(bits);
#endif
}
__device__ inline u32 bits_of_f32(float x) {
#ifdef GC_SHIM
  return gc_shim::bit_cast<u32>(x);
#else
  return __float_as_uint(x);
#endif
}

__device__ inline float minus_infinity() { return f32_of_bits(0xff800000u); }

__device__ inline float f32_of_f16(u32 h) {
#ifdef GC_SHIM
  return gc_shim::f32_of_f16(u16(h));
#else
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(u16(h)));
  return y;
#endif
}
__device__ inline u16 f16_of_f32(float x) {  // nearest, ties to even
#ifdef GC_SHIM
  return gc_shim::f16_of_f32(x);
#else
  u16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
#endif
}
__device__ inline float f32_of_bf16(u32 h) { return f32_of_bits(h << 16); }
__device__ inline u16 bf16_of_f32(float x) {  // nearest, ties to even
  const u32 bits = bits_of_f32(x);
  return u16((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// 16 and 8 bytes of weights, which are read once: they go past the first-level cache's lines.
struct alignas(16) Words4 {
  u32 w[4];
};
struct alignas(8) Words2 {
  u32 w[2];
};
__device__ inline Words4 load16(const u8* p) {
#ifdef GC_SHIM
  return *reinterpret_cast<const Words4*>(p);
#else
  Words4 y;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(y.w[0]), "=r"(y.w[1]), "=r"(y.w[2]), "=r"(y.w[3])
               : "l"(p));
  return y;
#endif
}
__device__ inline Words2 load8(const u8* p) { return *reinterpret_cast<const Words2*>(p); }

// Where launches may overlap: what the launch in front wrote is there from here on. A step's launches all begin so.
__device__ inline void wait_for_previous() {
#if !defined(GC_SHIM) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Over all lanes of a warp, all of which call it; each gets the result, of one fixed order.
__device__ inline float warp_sum(float x) {
  for (int i = 16; i > 0; i /= 2) x += __shfl_xor_sync(0xffffffffu, x, i);
  return x;
}
__device__ inline float warp_max(float x) {
  for (int i = 16; i > 0; i /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, i));
  return x;
}
// Over all threads of the block. `shared`: kWarps floats.
__device__ inline float block_sum(float x, float* shared) {
  x = warp_sum(x);
  __syncthreads();  // whoever still reads what an earlier sum left there
  if (lane() == 0) shared[warp()] = x;
  __syncthreads();
  float sum = shared[0];
  for (int i = 1; i < kWarps; i++) sum += shared[i];
  return sum;
}

enum class Fn { gelu_tanh, gelu_erf, gelu_quick, silu, relu, relu2, sigmoid, tanh, softplus, root_softplus, signed_root, elu_excess, exp };

template <Fn fn>
__device__ inline float apply(float x) {
  switch (fn) {
    case Fn::gelu_tanh:
      return 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
    case Fn::gelu_erf:
      return 0.5f * x * (1 + erff(x * 0.7071067812f));
    case Fn::gelu_quick:
      return x / (1 + expf(-1.702f * x));
    case Fn::silu:
      return x / (1 + expf(-x));
    case Fn::relu:
      return fmaxf(x, 0);
    case Fn::relu2:
      return fmaxf(x, 0) * fmaxf(x, 0);
    case Fn::sigmoid:
      return 1 / (1 + expf(-x));
    case Fn::tanh:
      return tanhf(x);
    case Fn::softplus:
      return fmaxf(x, 0) + log1pf(expf(-fabsf(x)));
    case Fn::root_softplus:
      return sqrtf(fmaxf(x, 0) + log1pf(expf(-fabsf(x))));
    case Fn::signed_root:
      return x == 0 ? 0 : copysignf(sqrtf(fmaxf(fabsf(x), 1e-6f)), x);
    case Fn::elu_excess:
      return x < 0 ? expm1f(x) - x : 0;
    case Fn::exp:
      return expf(x);
  }
  return x;
}

}  // namespace gc::device

#endif  // GC_BASE_CUH_
