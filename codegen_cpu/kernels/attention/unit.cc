#include "codegen_cpu/kernels/attention/unit.h"

#include <cstddef>

#include "codegen_cpu/kernels/norm/norm.h"
#include "codegen_cpu/kernels/row_out/row_out.h"
#include "codegen_cpu/kv_layout.h"
#include "compiler/base/error.h"
#include "compiler/base/strings.h"

namespace gc::cpu {

using llvm::Value;

PartialLayout partial_layout(const AttnSpec& spec) {
  const std::int64_t padded = (spec.group() + Vec::kLanes - 1) / Vec::kLanes * Vec::kLanes;
  const std::int64_t bytes = (2 * padded + spec.group() * spec.v_dim) * 4;
  return {padded * 4, 2 * padded * 4, (bytes + 63) / 64 * 64};
}

std::string attn_name(const char* kernel, const AttnSpec& spec) {
  std::string name = cat(kernel, "_", spec.heads, "x", spec.k_dim, "_kv", spec.kv_heads, "x", spec.v_dim, "_",
                         kv_type_name(spec.kv_type), "_w", spec.window, spec.ring ? "_ring" : "", "_s",
                         float_name(spec.scale));
  if (spec.cap != 0) name += cat("_cap", float_name(spec.cap));
  if (spec.alibi != 0) name += cat("_alibi", float_name(spec.alibi));
  if (spec.q_norm || spec.k_norm) {
    name += cat(spec.q_norm ? "_qn" : "", spec.k_norm ? "_kn" : "", "_eps", float_name(spec.eps));
  }
  if (spec.rope.dims > 0)
    name += cat(spec.rope.neox ? "_neox" : "_pairs", spec.rope.dims, "_fine", spec.rope.fine);
  if (spec.sinks) name += "_sinks";
  return name + elem_suffix(spec.out);
}

Unit emit_unit(Emitter& e, const AttnSpec& spec, Value* step, Value* unit) {
  llvm::IRBuilder<>& b = e.b();
  Unit u;
  u.row = b.CreateUDiv(unit, e.i64(spec.kv_heads));
  u.kv_head = b.CreateURem(unit, e.i64(spec.kv_heads));
  Value* row = e.at(e.member_ptr(step, offsetof(gc_step, rows)), u.row, std::int64_t{sizeof(gc_row)});
  u.pos = b.CreateZExt(e.member_i32(row, offsetof(gc_row, pos)), b.getInt64Ty());
  u.seq = b.CreateZExt(e.member_i32(row, offsetof(gc_row, seq)), b.getInt64Ty());
  u.lo = e.i64(0);
  if (spec.window > 0) {
    Value* first = b.CreateSub(u.pos, e.i64(spec.window - 1));
    u.lo = b.CreateSelect(b.CreateICmpSGT(first, e.i64(0)), first, e.i64(0));
  }
  return u;
}

Blocks emit_blocks(Emitter& e, const AttnSpec& spec, const Args& a, const Unit& unit) {
  static_assert(offsetof(gc_seq, tables) == 0);
  llvm::IRBuilder<>& b = e.b();
  Value* seq = e.at(e.member_ptr(a["step"], offsetof(gc_step, seqs)), unit.seq, std::int64_t{sizeof(gc_seq)});
  Value* table = e.at(seq, a["group"], std::int64_t{sizeof(gc_table)});
  Value* pool = e.load(
      e.ptr(), e.at(e.member_ptr(a["step"], offsetof(gc_step, pools)), a["group"], std::int64_t{8}), 8);
  Blocks blocks;
  blocks.table = e.member_ptr(table, offsetof(gc_table, blocks));
  blocks.n = b.CreateZExt(e.member_i32(table, offsetof(gc_table, n)), b.getInt64Ty());
  const std::int64_t head = kv_head_bytes(spec.k_dim, spec.v_dim, spec.kv_type);
  blocks.base = e.at(e.at(pool, a["state_offset"]), unit.kv_head, head);
  blocks.bytes = a["block_bytes"];
  return blocks;
}

Value* emit_block(Emitter& e, const AttnSpec& spec, const Blocks& blocks, Value* block) {
  llvm::IRBuilder<>& b = e.b();
  Value* entry = spec.ring ? b.CreateURem(block, blocks.n) : block;
  Value* physical = e.load(b.getInt32Ty(), e.at(blocks.table, entry, std::int64_t{4}), 4);
  return e.at(blocks.base, b.CreateZExt(physical, b.getInt64Ty()), blocks.bytes);
}

Value* load_kv(Vec& v, int kv_type, Value* p, int count) {
  switch (kv_type) {
    case GC_KV_F32:
      return v.load(p, count);
    case GC_KV_F16:
      return v.load_f16(p, count);
    case GC_KV_BF16:
      return v.load_bf16(p, count);
  }
  throw_internal("no kernels for KV type ", kv_type);
}

void store_kv(Vec& v, int kv_type, Value* x, Value* p, int count) {
  switch (kv_type) {
    case GC_KV_F32:
      return v.store(x, p, count);
    case GC_KV_F16:
      return v.store_f16(x, p, count);
    case GC_KV_BF16:
      return v.store_bf16(x, p, count);
  }
  throw_internal("no kernels for KV type ", kv_type);
}

void scatter_kv(Vec& v, int kv_type, Value* x, Value* p, std::int64_t stride, int count) {
  Emitter& e = v.e();
  const std::int64_t bytes = kv_element_bytes(kv_type);
  Value* elements = kv_type == GC_KV_F32 ? x : kv_type == GC_KV_F16 ? v.to_f16(x) : v.to_bf16(x);
  for (int i = 0; i < count; ++i) {
    e.store(e.b().CreateExtractElement(elements, i), e.at(p, i * stride), static_cast<unsigned>(bytes));
  }
}

void emit_head(Vec& v, const AttnSpec& spec, const Angles& angles, Value* x, Value* norm_w, Value* y,
               Value* by) {
  Emitter& e = v.e();
  Value* r = norm_w ? v.splat(emit_rms(e, x, spec.k_dim, spec.eps)) : nullptr;
  auto load = [&](Value* i, int count) {
    Value* a = v.load(e.at(x, i, std::int64_t{4}), count);
    return norm_w ? v.mul(v.mul(a, r), v.load(e.at(norm_w, i, std::int64_t{4}), count)) : a;
  };
  emit_turned(v, spec.rope, angles, spec.k_dim, load, y, by);
}

}  // namespace gc::cpu
