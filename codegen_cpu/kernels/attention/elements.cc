#include "codegen_cpu/kernels/attention/elements.h"

#include "codegen_cpu/kv_layout.h"
#include "compiler/base/error.h"
#include "compiler/base/strings.h"

namespace gc::cpu {

using llvm::Value;

namespace {

constexpr int kKeyVectors = GC_KV_BLOCK / Vec::kLanes;

// Elements of types without scales.
Value* narrowed(Vec& v, int kv_type, Value* x) {
  switch (kv_type) {
    case GC_KV_F32:
      return x;
    case GC_KV_F16:
      return v.to_f16(x);
  }
  throw_internal("KV type ", kv_type, " has no elements of their own");
}

void scatter(Emitter& e, Value* elements, Value* p, std::int64_t stride, int count, std::int64_t bytes) {
  for (int i = 0; i < count; ++i) {
    e.store(e.b().CreateExtractElement(elements, i), e.at(p, i * stride), static_cast<unsigned>(bytes));
  }
}

// The two vectors of a block of `n` <= 32 dimensions, and how many lanes of each count.
struct Halves {
  Value* x[2] = {};
  int count[2];
};

// Blocks of 32 dimensions: body(first dimension, how many).
void over_blocks(Emitter& e, std::int64_t dim, const std::function<void(Value*, int)>& body) {
  const std::int64_t whole = dim / kKvScaleBlock * kKvScaleBlock;
  if (whole > 0) e.for_range(0, whole, kKvScaleBlock, [&](Value* d) { body(d, int{kKvScaleBlock}); });
  if (whole < dim) body(e.i64(whole), static_cast<int>(dim - whole));
}

Halves halves(int n) {
  Halves h;
  h.count[0] = std::min(n, Vec::kLanes);
  h.count[1] = n - h.count[0];
  return h;
}

// x [dim] in blocks of 32: elements(first dimension, <16 x i8> with their offset, count) and scale(block, f16). The scale is
// the largest magnitude / 127; the elements are rounded by the scale that is stored, not by the one before its rounding.
void quantize_blocks(Vec& v, Value* x, std::int64_t dim,
                     const std::function<void(Value*, Value*, int)>& elements,
                     const std::function<void(Value*, Value*)>& scale) {
  Emitter& e = v.e();
  llvm::IRBuilder<>& b = e.b();
  over_blocks(e, dim, [&](Value* d, int n) {
    Halves h = halves(n);
    Value* most = v.zero();
    for (int i = 0; i < 2; ++i) {
      if (h.count[i] == 0) continue;
      h.x[i] = v.load(e.at(x, b.CreateAdd(d, e.i64(i * Vec::kLanes)), std::int64_t{4}), h.count[i]);
      most = v.max(v.abs(h.x[i]), most);
    }
    Value* exact = b.CreateFMul(v.reduce_max(most), e.f32(1.0 / 127));
    Value* half = b.CreateFPTrunc(exact, e.f16());
    Value* wide = b.CreateFPExt(half, e.f32());
    Value* none = b.CreateFCmpOEQ(wide, e.f32(0));
    Value* by = b.CreateSelect(none, e.f32(0), b.CreateFDiv(e.f32(1), wide));
    scale(b.CreateUDiv(d, e.i64(kKvScaleBlock)), half);
    for (int i = 0; i < 2; ++i) {
      if (h.count[i] == 0) continue;
      Value* q = b.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, v.mul(h.x[i], v.splat(by)));
      q = v.max(v.min(q, v.splat(127.0)), v.splat(-127.0));  // scales below f16's normal range are coarse
      Value* bytes = b.CreateTrunc(b.CreateFPToSI(q, v.type(b.getInt32Ty())), v.type(b.getInt8Ty()));
      bytes = b.CreateXor(bytes, llvm::ConstantInt::get(bytes->getType(), kKvByteOffset));
      elements(b.CreateAdd(d, e.i64(i * Vec::kLanes)), bytes, h.count[i]);
    }
  });
}

// Dimensions d and d + 1 of all positions.
void widen_key_pairs(Vec& v, Value* keys, Value* d, Value* wide) {
  Emitter& e = v.e();
  for (int c = 0; c < kKeyVectors; ++c) {
    const std::int64_t at = std::int64_t{c} * Vec::kLanes * 4;
    const auto [first, second] = load_pairs(v, e.at(keys, d, GC_KV_BLOCK * 2, at));
    v.store(first, e.at(wide, at));
    v.store(second, e.at(wide, GC_KV_BLOCK * 4 + at));
  }
}

// A key as pairs of dimensions, which are all its own.
void store_key_pairs(Vec& v, const AttnSpec& spec, Value* x, Value* keys, Value* slot) {
  Emitter& e = v.e();
  llvm::IRBuilder<>& b = e.b();
  constexpr std::int64_t kStride = GC_KV_BLOCK * 4;  // from pair to pair
  Value* column = e.at(keys, slot, std::int64_t{4});
  v.over(spec.k_dim, [&](Value* d, int count) {
    Value* elements = v.to_bf16(v.load(e.at(x, d, std::int64_t{4}), count));
    Value* pairs = b.CreateBitCast(elements, llvm::FixedVectorType::get(b.getInt32Ty(), Vec::kLanes / 2));
    scatter(e, pairs, e.at(column, d, kStride / 2), kStride, count / 2, 4);
  });
}

// A value into its half of the pairs, of which another worker may be writing the other.
void store_value_pairs(Vec& v, const AttnSpec& spec, Value* x, Value* values, Value* slot) {
  Emitter& e = v.e();
  llvm::IRBuilder<>& b = e.b();
  Value* odd = b.CreateAnd(slot, e.i64(1));
  Value* row = e.at(values, b.CreateLShr(slot, 1), spec.v_dim * 4);
  std::vector<llvm::Constant*> lanes;
  for (int i = 0; i < 2 * Vec::kLanes; ++i) lanes.push_back(b.getInt1(i % 2 == 0));
  llvm::Constant* first = llvm::ConstantVector::get(lanes);
  Value* mask = b.CreateSelect(b.CreateICmpEQ(odd, e.i64(0)), first, llvm::ConstantExpr::getNot(first));
  v.over(spec.v_dim, [&](Value* i, int count) {
    Value* elements = v.to_bf16(v.load(e.at(x, i, std::int64_t{4}), count));
    Value* to = e.at(row, i, std::int64_t{4});
    if (!e.isa().has_avx512 || count < Vec::kLanes)
      return scatter(e, elements, e.at(to, odd, std::int64_t{2}), 4, count, 2);
    std::vector<int> twice;
    for (int l = 0; l < Vec::kLanes; ++l) twice.push_back(l), twice.push_back(l);
    b.CreateMaskedStore(b.CreateShuffleVector(elements, twice), to, llvm::Align(2), mask);
  });
}

void widen_key_row(Vec& v, const AttnSpec& spec, Value* keys, Value* d, Value* wide) {
  Emitter& e = v.e();
  const std::int64_t element = kv_element_bytes(spec.kv_type);
  for (int c = 0; c < kKeyVectors; ++c) {
    Value* from = e.at(keys, d, GC_KV_BLOCK * element, c * Vec::kLanes * element);
    v.store(load_kv(v, spec.kv_type, from), e.at(wide, std::int64_t{c} * Vec::kLanes * 4));
  }
}

// Dimensions d to d + 3 of all positions; scratch has room for what is past the last.
void widen_key_quads(Vec& v, Value* keys, Value* d, Value* wide, const Vec::Values& scales) {
  Emitter& e = v.e();
  for (int c = 0; c < kKeyVectors; ++c) {
    const std::int64_t at = std::int64_t{c} * Vec::kLanes * 4;
    const Vec::Values x = load_quads(v, e.at(keys, d, GC_KV_BLOCK, at));
    for (int i = 0; i < 4; ++i) v.store(v.mul(x[i], scales[c]), e.at(wide, i * GC_KV_BLOCK * 4 + at));
  }
}

// A key as quads of dimensions, which are all its own; a last one has room for four.
void store_key_quads(Vec& v, const AttnSpec& spec, Value* x, Value* keys, Value* slot) {
  Emitter& e = v.e();
  llvm::IRBuilder<>& b = e.b();
  constexpr std::int64_t kStride = GC_KV_BLOCK * 4;  // from quad to quad
  Value* column = e.at(keys, slot, std::int64_t{4});
  quantize_blocks(
      v, x, spec.k_dim,
      [&](Value* d, Value* q, int count) {
        Value* quads = b.CreateBitCast(q, llvm::FixedVectorType::get(b.getInt32Ty(), Vec::kLanes / 4));
        scatter(e, quads, e.at(column, d, kStride / 4), kStride, (count + 3) / 4, 4);
      },
      [&](Value* block, Value* half) {
        Value* scales = kv_scales_at(e, keys, spec.k_dim, b.CreateMul(block, e.i64(kKvScaleBlock)));
        e.store(half, e.at(scales, slot, std::int64_t{2}), 2);
      });
}

// A value into its bytes of the quads, of which other workers may be writing the others.
void store_value_quads(Vec& v, const AttnSpec& spec, Value* x, Value* values, Value* slot) {
  Emitter& e = v.e();
  llvm::IRBuilder<>& b = e.b();
  Value* quads = e.at(values, b.CreateLShr(slot, 2), spec.v_dim * 4);
  Value* row = e.at(quads, b.CreateAnd(slot, e.i64(3)));
  quantize_blocks(
      v, x, spec.v_dim,
      [&](Value* d, Value* q, int count) { scatter(e, q, e.at(row, d, std::int64_t{4}), 4, count, 1); },
      [&](Value* block, Value* half) {
        Value* scales = kv_scales_at(e, values, spec.v_dim, b.CreateMul(block, e.i64(kKvScaleBlock)));
        e.store(half, e.at(scales, slot, std::int64_t{2}), 2);
      });
}

}  // namespace

Value* load_kv(Vec& v, int kv_type, Value* p, int count) {
  switch (kv_type) {
    case GC_KV_F32:
      return v.load(p, count);
    case GC_KV_F16:
      return v.load_f16(p, count);
  }
  throw_internal("KV type ", kv_type, " has no elements of their own");
}

std::pair<Value*, Value*> load_pairs(Vec& v, Value* p, int count) {
  llvm::IRBuilder<>& b = v.e().b();
  llvm::Type* words = v.type(b.getInt32Ty());
  Value* x = b.CreateBitCast(v.load(p, count), words);
  auto as_f32 = [&](Value* bits) { return b.CreateBitCast(bits, v.type()); };
  return {as_f32(b.CreateShl(x, 16)), as_f32(b.CreateAnd(x, llvm::ConstantInt::get(words, 0xffff0000u)))};
}

Vec::Values load_quads(Vec& v, Value* p, int count) {
  llvm::IRBuilder<>& b = v.e().b();
  Value* words = b.CreateBitCast(v.load(p, count), v.type(b.getInt32Ty()));
  Vec::Values x;
  for (int i = 0; i < 4; ++i) {
    Value* byte = b.CreateAnd(b.CreateLShr(words, 8 * i), llvm::ConstantInt::get(words->getType(), 255));
    x.push_back(v.sub(b.CreateSIToFP(byte, v.type()), v.splat(double{kKvByteOffset})));
  }
  return x;
}

Value* kv_scales_at(Emitter& e, Value* part, std::int64_t dim, Value* first) {
  return e.at(part, e.b().CreateUDiv(first, e.i64(kKvScaleBlock)), std::int64_t{GC_KV_BLOCK * 2},
              kv_scales_offset(dim, GC_KV_Q8_0));
}

Vec::Values load_scaled_values(Vec& v, const AttnSpec& spec, Value* values, Value* slot, Value* at,
                               int count) {
  Emitter& e = v.e();
  llvm::IRBuilder<>& b = e.b();
  // From quad to quad as many bytes as four positions have.
  Vec::Values x = load_quads(v, e.at(e.at(values, slot, spec.v_dim), at, std::int64_t{4}), count);
  Value* scales = e.at(kv_scales_at(e, values, spec.v_dim, at), slot, std::int64_t{2});
  for (int i = 0; i < 4; ++i) {
    // The bits in all lanes, then widened: a single one would be inserted into a register and wait for its last use.
    Value* bits = v.splat(e.load(b.getInt16Ty(), e.at(scales, 2 * i), 2));
    x[i] = v.mul(x[i], b.CreateFPExt(b.CreateBitCast(bits, v.type(e.f16())), v.type()));
  }
  return x;
}

void store_key(Vec& v, const AttnSpec& spec, Value* x, Value* keys, Value* slot) {
  Emitter& e = v.e();
  if (kv_in_pairs(spec.kv_type)) return store_key_pairs(v, spec, x, keys, slot);
  if (kv_has_scales(spec.kv_type)) return store_key_quads(v, spec, x, keys, slot);
  const std::int64_t element = kv_element_bytes(spec.kv_type);
  const std::int64_t stride = GC_KV_BLOCK * element;
  Value* column = e.at(keys, slot, element);
  v.over(spec.k_dim, [&](Value* d, int count) {
    Value* elements = narrowed(v, spec.kv_type, v.load(e.at(x, d, std::int64_t{4}), count));
    scatter(e, elements, e.at(column, d, stride), stride, count, element);
  });
}

void store_value(Vec& v, const AttnSpec& spec, Value* x, Value* values, Value* slot) {
  Emitter& e = v.e();
  if (kv_has_scales(spec.kv_type)) return store_value_quads(v, spec, x, values, slot);
  const std::int64_t element = kv_element_bytes(spec.kv_type);
  Value* row = e.at(values, slot, spec.v_dim * element);
  auto load = [&](Value* i, int count) { return v.load(e.at(x, i, std::int64_t{4}), count); };
  switch (spec.kv_type) {
    case GC_KV_F32:
      return v.over(spec.v_dim, [&](Value* i, int n) { v.store(load(i, n), e.at(row, i, element), n); });
    case GC_KV_F16:
      return v.over(spec.v_dim, [&](Value* i, int n) { v.store_f16(load(i, n), e.at(row, i, element), n); });
    case GC_KV_BF16:
      return store_value_pairs(v, spec, x, values, slot);
  }
  throw_internal("KV type ", spec.kv_type);
}

llvm::Function* attn_gather(Emitter& e, const AttnSpec& spec) {
  const int type = spec.kv_type;
  const std::int64_t together = kv_together(type), element = kv_element_bytes(type);
  const std::int64_t unit =
      together * element;  // of what is summed over: dimensions of a key, positions of values
  const std::int64_t values = kv_part_bytes(spec.k_dim, type);
  const std::string name = cat("attn_gather_", kv_type_name(type), "_", spec.k_dim, "x", spec.v_dim);
  const std::vector<Arg> args = {in("table"),  in("base"), i64("block_bytes"),
                                 in("chosen"), i64("n"),   out("out")};
  return e.function(name, args, [&](const Args& a) {
    llvm::IRBuilder<>& b = e.b();
    // `count` pieces of `bytes`, those of a position `at` apart.
    const auto copy = [&](Value* from, Value* to, std::int64_t count, std::int64_t bytes, std::int64_t at) {
      llvm::Type* piece = b.getIntNTy(static_cast<unsigned>(8 * bytes));
      const auto align = static_cast<unsigned>(bytes);
      e.for_range(0, count, 1, [&](Value* i) {
        e.store(e.load(piece, e.at(from, i, at), align), e.at(to, i, at), align);
      });
    };
    const auto value_row = [&](Value* part, Value* slot) {
      Value* row = e.at(part, b.CreateUDiv(slot, e.i64(together)), spec.v_dim * unit, values);
      return e.at(row, b.CreateURem(slot, e.i64(together)), element);
    };
    e.for_range(e.i64(0), a["n"], 1, [&](Value* i) {
      Value* p = b.CreateFPToSI(e.load(e.f32(), e.at(a["chosen"], i, std::int64_t{4}), 4), b.getInt64Ty());
      Value* entry = e.load(b.getInt32Ty(), e.at(a["table"], b.CreateLShr(p, 6), std::int64_t{4}), 4);
      Value* block = e.at(a["base"], b.CreateZExt(entry, b.getInt64Ty()), a["block_bytes"]);
      Value* slot = b.CreateAnd(p, e.i64(GC_KV_BLOCK - 1));
      copy(e.at(block, slot, unit), e.at(a["out"], i, unit), (spec.k_dim + together - 1) / together, unit,
           GC_KV_BLOCK * unit);
      copy(value_row(block, slot), value_row(a["out"], i), spec.v_dim, element, unit);
      for (const auto& [dim, part] :
           {std::pair{spec.k_dim, std::int64_t{0}}, std::pair{spec.v_dim, values}}) {
        const std::int64_t scales = part + kv_scales_offset(dim, type);
        copy(e.at(block, slot, std::int64_t{2}, scales), e.at(a["out"], i, std::int64_t{2}, scales),
             kv_scales(dim, type), 2, GC_KV_BLOCK * 2);
      }
    });
  });
}

llvm::Function* attn_widen_keys(Emitter& e, const AttnSpec& spec) {
  const std::string name = cat("attn_widen_keys_", kv_type_name(spec.kv_type), "_", spec.k_dim);
  return e.function(name, {in("keys"), i64("begin"), i64("end"), out("wide")}, [&](const Args& a) {
    Vec v(e);
    llvm::IRBuilder<>& b = e.b();
    if (kv_in_pairs(spec.kv_type)) {
      e.for_range(a["begin"], a["end"], 2, [&](Value* d) {
        widen_key_pairs(v, a["keys"], d,
                        e.at(a["wide"], b.CreateSub(d, a["begin"]), std::int64_t{GC_KV_BLOCK * 4}));
      });
      return;
    }
    auto to = [&](Value* d) {
      return e.at(a["wide"], b.CreateSub(d, a["begin"]), std::int64_t{GC_KV_BLOCK * 4});
    };
    if (!kv_has_scales(spec.kv_type)) {
      e.for_range(a["begin"], a["end"], 1, [&](Value* d) { widen_key_row(v, spec, a["keys"], d, to(d)); });
      return;
    }
    e.for_range(a["begin"], a["end"], kKvScaleBlock, [&](Value* first) {
      Vec::Values scales;
      Value* row = kv_scales_at(e, a["keys"], spec.k_dim, first);
      for (int c = 0; c < kKeyVectors; ++c) scales.push_back(v.load_f16(e.at(row, c * Vec::kLanes * 2)));
      Value* past = b.CreateAdd(first, e.i64(kKvScaleBlock));
      Value* end = b.CreateSelect(b.CreateICmpSLT(past, a["end"]), past, a["end"]);
      e.for_range(first, end, 4, [&](Value* d) { widen_key_quads(v, a["keys"], d, to(d), scales); });
    });
  });
}

}  // namespace gc::cpu
