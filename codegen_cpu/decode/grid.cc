#include "codegen_cpu/decode/grid.h"

#include <array>
#include <string>
#include <vector>

#include "codegen_cpu/vec/lut.h"
#include "compiler/base/error.h"
#include "compiler/base/strings.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace gc::cpu {
namespace {

using llvm::Value;

llvm::FixedVectorType* bytes64(Emitter& e) { return llvm::FixedVectorType::get(e.b().getInt8Ty(), 64); }
llvm::Constant* splat(llvm::Type* type, std::uint64_t n) { return llvm::ConstantInt::get(type, n); }

std::uint8_t code_of(const IndexInfo& x, std::size_t index, int j) {
  return static_cast<std::uint8_t>(x.grid[index] >> (x.code_bits * j) & ((1 << x.code_bits) - 1));
}

// Where the further bits of vector v's indices are.
Value* high_at(Emitter& e, const Layout& layout, Value* quants, int v) {
  return e.at(quants, 64 * v * layout.index().high_bits - layout.high_bytes());
}

// ---- Byte permutations ----

// An entry as two bytes: of 8 codes of 2 bits four each, of 4 codes two each, in nibbles.
std::uint8_t half_entry(const IndexInfo& x, std::size_t index, int half) {
  const int n = x.values / 2, bits = 8 / n;
  int byte = 0;
  for (int j = 0; j < n; ++j) byte |= code_of(x, index, half * n + j) << (bits * j);
  return static_cast<std::uint8_t>(byte);
}

// half_entry of 64 indices: `low` their lowest 8 bits, above[j] (<64 x i1>) bit 7 + j.
Value* look_up(Emitter& e, const IndexInfo& x, int half, Value* low, const std::vector<Value*>& above) {
  auto& b = e.b();
  const auto part = [&](std::size_t first) {
    std::vector<std::uint8_t> table;
    for (std::size_t i = 0; i < 64; ++i) table.push_back(half_entry(x, first + i, half));
    return llvm::ConstantDataVector::get(e.context(), table);
  };
  std::vector<Value*> level;
  for (std::size_t first = 0; first < x.grid.size(); first += 128)
    level.push_back(b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpermi2var_qi_512, {},
                                      {part(first), low, part(first + 64)}));
  for (std::size_t j = 0; level.size() > 1; ++j) {
    std::vector<Value*> next;
    for (std::size_t i = 0; i < level.size(); i += 2)
      next.push_back(b.CreateSelect(above[j], level[i + 1], level[i]));
    level = next;
  }
  return level[0];
}

// 8 bits from bit at[c] of its half of a 64-bit word on, in byte c of that half.
Value* spread(Emitter& e, Value* v, const std::array<int, 4>& at) {
  std::vector<std::uint8_t> from;
  for (int i = 0; i < 64; ++i) from.push_back(static_cast<std::uint8_t>(i / 4 % 2 * 32 + at[i % 4]));
  return e.b().CreateIntrinsic(llvm::Intrinsic::x86_avx512_pmultishift_qb_512, {},
                               {llvm::ConstantDataVector::get(e.context(), from), v});
}

// Bytes of the lower or upper 8 of each 16 of a and b, in turn.
Value* interleaved(Emitter& e, Value* a, Value* b, bool upper) {
  std::vector<int> mask;
  for (int i = 0; i < 64; ++i) mask.push_back(i / 16 * 16 + (upper ? 8 : 0) + i % 16 / 2 + (i % 2) * 64);
  return e.b().CreateShuffleVector(a, b, mask);
}

// Codes of 8 steps, in the low bits of bytes that have others above.
std::vector<Value*> spread_codes(Emitter& e, const Layout& layout, Value* quants, Value* i) {
  auto& b = e.b();
  const IndexInfo& x = layout.index();
  auto* type = bytes64(e);
  Value* p = e.at(quants, i, layout.quant_bytes());
  Value* bit = b.CreateShl(b.getInt8(1), b.CreateTrunc(i, b.getInt8Ty()));
  std::vector<Value*> steps;
  for (int v = 0; v < x.vectors(); ++v) {
    Value* low = e.load(type, e.at(p, 64 * v), 64);
    std::vector<Value*> above = {b.CreateICmpSLT(low, splat(type, 0))};
    for (int j = 0; j < x.high_bits; ++j) {
      Value* high = e.load(type, e.at(high_at(e, layout, quants, v), 64 * j), 64);
      above.push_back(b.CreateICmpNE(b.CreateAnd(high, b.CreateVectorSplat(64, bit)), splat(type, 0)));
    }
    Value *first = look_up(e, x, 0, low, above), *second = look_up(e, x, 1, low, above);
    if (x.values == 8) {
      for (int g = 0; g < 4; ++g)
        for (Value* half : {first, second})
          steps.push_back(spread(e, half, {8 * g, 8 * g + 2, 8 * g + 4, 8 * g + 6}));
    } else {
      for (const bool upper : {false, true}) {
        Value* entries = interleaved(e, first, second, upper);
        for (int g = 0; g < 2; ++g)
          steps.push_back(spread(e, entries, {16 * g, 16 * g + 4, 16 * g + 8, 16 * g + 12}));
      }
    }
  }
  return steps;
}

// ---- Loads ----

// All codes of all indices, a byte each.
llvm::GlobalVariable* table_of(Emitter& e, const Layout& layout) {
  const std::string name = cat("grid_", info(layout.format).text_name);
  if (auto* there = e.module().getNamedGlobal(name)) return there;
  const IndexInfo& x = layout.index();
  std::vector<std::uint8_t> codes;
  for (std::size_t i = 0; i < x.grid.size(); ++i)
    for (int j = 0; j < x.values; ++j) codes.push_back(code_of(x, i, j));
  auto* data = llvm::ConstantDataArray::get(e.context(), codes);
  auto* table = new llvm::GlobalVariable(e.module(), data->getType(), true, llvm::GlobalValue::PrivateLinkage,
                                         data, name);
  table->setAlignment(llvm::Align(64));
  return table;
}

// Four codes from `first` on of the index whose byte stands at `byte` of vector v (i64).
Value* four_codes(Emitter& e, const Layout& layout, Value* quants, Value* i, int v, Value* byte, int first) {
  auto& b = e.b();
  const IndexInfo& x = layout.index();
  Value* p = e.at(e.at(quants, i, layout.quant_bytes()), 64 * v);
  Value* index = b.CreateZExt(e.load(b.getInt8Ty(), e.at(p, byte), 1), b.getInt64Ty());
  for (int j = 0; j < x.high_bits; ++j) {
    Value* bits = e.load(b.getInt8Ty(), e.at(e.at(high_at(e, layout, quants, v), 64 * j), byte), 1);
    Value* bit = b.CreateAnd(b.CreateLShr(b.CreateZExt(bits, b.getInt64Ty()), i), e.i64(1));
    index = b.CreateOr(index, b.CreateShl(bit, 8 + j));
  }
  return e.load(b.getInt32Ty(), e.at(e.at(table_of(e, layout), index, x.values), first), 4);
}

}  // namespace

// A byte's bits above its code are those of the sign's plane, whose shift brings the step's sign next to the code; vpermb
// takes no notice of what is above that.
std::vector<Value*> grid_values(Emitter& e, const Layout& layout, Value* quants, Value* i) {
  auto& b = e.b();
  auto* words = llvm::FixedVectorType::get(b.getInt16Ty(), 32);
  auto* bytes = bytes64(e);
  auto* lanes = llvm::FixedVectorType::get(b.getInt32Ty(), 16);
  constexpr std::uint32_t kFirstChooses = 0xca;  // of vpternlog: a ? b : c, bit by bit
  const int sign_at = layout.index().code_bits;
  GC_CHECK(layout.planes[1].bits == 1 && layout.planes[1].at == sign_at);
  Value* signs = e.load(words, e.at(e.at(quants, i, layout.quant_bytes()), layout.index_bytes()), 64);
  std::vector<Value*> steps = spread_codes(e, layout, quants, i);
  for (int s = 0; s < 8; ++s) {
    Value* moved = s > sign_at   ? b.CreateLShr(signs, s - sign_at)
                   : s < sign_at ? b.CreateShl(signs, sign_at - s)
                                 : signs;
    // One instruction, that LLVM would make two of, since it sees which bits matter.
    const std::uint32_t code = ((1u << sign_at) - 1) * 0x01010101u;
    Value* both =
        b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_pternlog_d_512, {},
                          {splat(lanes, code), b.CreateBitCast(steps[static_cast<std::size_t>(s)], lanes),
                           b.CreateBitCast(moved, lanes), b.getInt32(kFirstChooses)});
    both = b.CreateBitCast(both, bytes);
    steps[static_cast<std::size_t>(s)] =
        lut_low_bits(e, both, layout.values().first(std::size_t{2} << sign_at));
  }
  return steps;
}

std::vector<Value*> grid_steps(Emitter& e, const Layout& layout, Value* quants, Value* i) {
  auto& b = e.b();
  const IndexInfo& x = layout.index();
  std::vector<Value*> steps;
  for (int s = 0; s < 8; ++s) {
    const int index = 4 * s / x.values;
    Value* step = llvm::PoisonValue::get(llvm::FixedVectorType::get(b.getInt32Ty(), 16));
    for (int r = 0; r < kPanelRows; ++r) {
      Value* byte = e.i64(index_byte(x.values, r, index % 4));
      Value* codes = four_codes(e, layout, quants, i, index / 4, byte, 4 * s % x.values);
      step = b.CreateInsertElement(step, codes, e.i32(r));
    }
    steps.push_back(b.CreateBitCast(step, bytes64(e)));
  }
  return steps;
}

Value* grid_row(Emitter& e, const Layout& layout, Value* quants, Value* i, Value* row) {
  auto& b = e.b();
  const IndexInfo& x = layout.index();
  const auto times = [&](Value* v, std::int64_t n) { return b.CreateMul(v, e.i64(n)); };
  // index_byte of a row that is a value.
  Value* in_four = b.CreateAnd(row, e.i64(3));
  Value* of_row =
      x.values == 8 ? times(row, 4) : b.CreateAdd(times(b.CreateLShr(row, 2), 16), times(in_four, 2));
  Value* all = llvm::PoisonValue::get(llvm::FixedVectorType::get(b.getInt32Ty(), 8));
  for (int s = 0; s < 8; ++s) {
    const int index = 4 * s / x.values;
    Value* byte = b.CreateAdd(of_row, e.i64(index_byte(x.values, 0, index % 4)));
    all = b.CreateInsertElement(all, four_codes(e, layout, quants, i, index / 4, byte, 4 * s % x.values),
                                e.i32(s));
  }
  return b.CreateBitCast(all, llvm::FixedVectorType::get(b.getInt8Ty(), 32));
}

}  // namespace gc::cpu
