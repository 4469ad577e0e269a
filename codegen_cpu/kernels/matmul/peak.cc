#include "codegen_cpu/kernels/matmul/peak.h"

#include "codegen_cpu/kernels/matmul/dot_ways.h"
#include "codegen_cpu/kernels/matmul/prompt_way.h"
#include "codegen_cpu/kernels/matmul/tile_matmul.h"
#include "codegen_cpu/vec/vec.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsAArch64.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace gc::cpu {

using llvm::Value;
using Values = Emitter::Values;

namespace {

constexpr int kSteps = 8;   // on each sum, for each of n
constexpr int kShared = 4;  // sums that share a weight, with activations of their own

// Independent sums in two thirds of the registers, the weights of kShared of them each in others.
int chains(const Isa& isa) { return isa.register_bytes() / 64 * 5 / 8; }

// The pointer, but LLVM can't tell that it is, nor what lies there: neither operands nor results are known to it.
Value* opaque(Emitter& e, Value* p) {
  auto* type = llvm::FunctionType::get(e.ptr(), {e.ptr()}, false);
  return e.b().CreateCall(llvm::InlineAsm::get(type, "", "=r,0,~{memory}", true), {p});
}

// n times kSteps products on each of the sums: mac(sum, operand of the sum, operand of the step).
void registers(Emitter& e, const Args& args, llvm::Type* operand, const std::function<Value*(Value*)>& start,
               const std::function<Value*(Value*, Value*, Value*)>& mac) {
  const int n = chains(e.isa());
  Value* memory = opaque(e, e.stack(64 * (n + kSteps + 2)));
  Values w, sums(n, start(memory));
  for (int i = 0; i < n; i += kShared) w.push_back(e.load(operand, e.at(memory, 64 * std::int64_t{i}), 64));
  sums = e.for_range(e.i64(0), args["n"], 1, sums, [&](Value*, const Values& in) {
    Values acc = in;
    for (int s = 0; s < kSteps; ++s) {
      Value* from = e.at(opaque(e, memory), 4 * kShared * std::int64_t{s});
      Values x;
      for (int i = 0; i < kShared; ++i) {
        Value* word = e.load(e.b().getInt32Ty(), e.at(from, 4 * std::int64_t{i}), 4);
        x.push_back(e.b().CreateBitCast(e.b().CreateVectorSplat(16, word), operand));
      }
      for (int i = 0; i < n; ++i) acc[i] = mac(acc[i], w[i / kShared], x[i % kShared]);
    }
    return acc;
  });
  for (int i = 0; i < n; ++i) e.store(sums[i], e.at(memory, 64 * std::int64_t{i}), 64);
  opaque(e, memory);
}

// Pairs of 16 bits as signed bytes (dot_ways.cc): sums of four words, and four products of bytes for each of pairs.
constexpr int kByteSums = 16, kByteOperands = 4;
std::int64_t byte_macs(const Isa& isa) { return kSteps * kByteSums * (isa.has_i8mm ? 32 : 16) / 4; }

void byte_products(Emitter& e, const Args& args) {
  auto& b = e.b();
  auto* sum = llvm::FixedVectorType::get(b.getInt32Ty(), 4);
  auto* bytes = llvm::FixedVectorType::get(b.getInt8Ty(), 16);
  const llvm::Intrinsic::ID id =
      e.isa().has_i8mm ? llvm::Intrinsic::aarch64_neon_smmla : llvm::Intrinsic::aarch64_neon_sdot;
  Value* memory = opaque(e, e.stack(16 * kByteSums));
  Values w, x, sums(kByteSums, llvm::Constant::getNullValue(sum));
  for (int i = 0; i < kByteOperands; ++i) {
    w.push_back(e.load(bytes, e.at(memory, 16 * std::int64_t{i}), 16));
    x.push_back(e.load(bytes, e.at(memory, 16 * std::int64_t{kByteOperands + i}), 16));
  }
  sums = e.for_range(e.i64(0), args["n"], 1, sums, [&](Value*, const Values& in) {
    Values acc = in;
    for (int s = 0; s < kSteps; ++s)
      for (int i = 0; i < kByteSums; ++i)
        acc[i] = b.CreateIntrinsic(id, {sum, bytes}, {acc[i], w[i / kByteOperands], x[i % kByteOperands]});
    return acc;
  });
  for (int i = 0; i < kByteSums; ++i) e.store(sums[i], e.at(memory, 16 * std::int64_t{i}), 16);
  opaque(e, memory);
}

constexpr int kTileProducts = 8;

void tiles(Emitter& e, const Args& args) {
  const auto tile = [&](int i) { return e.b().getInt8(static_cast<std::uint8_t>(i)); };
  e.b().CreateCall(tiles_begin(e));
  for (int i = 0; i < 8; ++i) e.b().CreateIntrinsic(llvm::Intrinsic::x86_tilezero, {}, {tile(i)});
  e.for_range(e.i64(0), args["n"], 1, [&](Value*) {
    for (int i = 0; i < kTileProducts; ++i)
      e.b().CreateIntrinsic(llvm::Intrinsic::x86_tdpbf16ps, {},
                            {tile(i % 4), tile(4 + i % 2), tile(6 + i / 2 % 2)});
  });
  e.b().CreateCall(tiles_end(e));
}

}  // namespace

PromptPeak prompt_peak(Emitter& e, bool in_f32) {
  const PromptWay way = prompt_way(e.isa());
  const bool on_tiles = !in_f32 && way == PromptWay::Tiles;
  const bool by_bytes = !in_f32 && e.isa().has_dotprod;
  llvm::Function* run = e.function("prompt_peak", {i64("n")}, [&](const Args& args) {
    if (on_tiles) return tiles(e, args);
    if (by_bytes) return byte_products(e, args);
    if (in_f32) {
      Vec v(e);
      return registers(
          e, args, v.type(), [&](Value*) { return v.zero(); },
          [&](Value* sum, Value* w, Value* x) { return v.fma(w, x, sum); });
    }
    const std::unique_ptr<Dots> dots = Dots::make(e, way);
    registers(
        e, args, dots->operand_type(), [&](Value* memory) { return dots->start(memory); },
        [&](Value* sum, Value* w, Value* x) { return dots->mac(sum, w, x); });
  });
  if (on_tiles) return {prompt_unit(e.isa()), run, std::int64_t{kTileProducts} * 16 * 16 * 32};
  if (by_bytes) return {prompt_unit(e.isa()), run, byte_macs(e.isa())};
  const std::int64_t each = in_f32 ? 16 : way == PromptWay::Bytes ? 64 : 32;
  return {in_f32 ? "f32 FMA" : prompt_unit(e.isa()), run, std::int64_t{kSteps} * chains(e.isa()) * each};
}

}  // namespace gc::cpu
