#include "codegen_cpu/kernels/attention/unit.h"

#include <cstddef>

#include "codegen_cpu/kernels/norm/norm.h"
#include "codegen_cpu/kernels/row_out/row_out.h"
#include "codegen_cpu/kv_layout.h"
#include "codegen_cpu/prompt_rows.h"
#include "codegen_cpu/vec/math.h"
#include "compiler/base/error.h"
#include "compiler/base/strings.h"

namespace gc::cpu {

using llvm::Value;

PartialLayout partial_layout(std::int64_t queries, std::int64_t v_dim) {
  const std::int64_t padded = (queries + Vec::kLanes - 1) / Vec::kLanes * Vec::kLanes;
  const std::int64_t bytes = (2 * padded + queries * v_dim) * 4;
  return {padded * 4, 2 * padded * 4, (bytes + 63) / 64 * 64};
}

std::string attn_name(const char* kernel, const AttnSpec& spec) {
  std::string name =
      cat(kernel, "_", spec.heads, "x", spec.k_dim, "_kv", spec.kv_heads, "x", spec.v_dim, "_",
          kv_type_name(spec.kv_type), spec.bf16 ? "_prompt" : "", spec.ints ? "_ints" : "", "_w", spec.window,
          spec.ring ? "_ring" : "", spec.ahead ? "_ahead" : "", "_s", float_name(spec.scale));
  if (spec.cap != 0) name += cat("_cap", float_name(spec.cap));
  if (spec.alibi != 0) name += cat("_alibi", float_name(spec.alibi));
  if (spec.buckets > 0) name += cat("_buckets", spec.buckets);
  if (spec.q_norm || spec.k_norm) {
    name += cat(spec.q_norm ? "_qn" : "", spec.k_norm ? "_kn" : "", "_eps", float_name(spec.eps));
  }
  if (spec.rope.dims > 0)
    name += cat(spec.rope.neox ? "_neox" : "_pairs", spec.rope.dims, "_fine", spec.rope.fine);
  if (spec.sinks) name += "_sinks";
  if (spec.sums) name += "_sums";
  if (spec.every > 0) name += cat("_every", spec.every);
  if (spec.chosen > 0) name += cat("_chosen", spec.chosen);
  return name + elem_suffix(spec.out);
}

namespace {

// i64(step, i64 seq): the last position of the step's rows of a sequence.
llvm::Function* attn_last(Emitter& e) {
  llvm::IRBuilder<>& b = e.b();
  return e.function(
      "attn_last", {in("step"), i64("seq")},
      [&](const Args& a) {
        Value* rows = e.member_ptr(a["step"], offsetof(gc_step, rows));
        Value* n = b.CreateZExt(e.member_i32(a["step"], offsetof(gc_step, n_rows)), b.getInt64Ty());
        const auto last =
            e.for_range(e.i64(0), n, 1, {e.i64(0)}, [&](Value* i, const Emitter::Values& so_far) {
              Value* row = e.at(rows, i, std::int64_t{sizeof(gc_row)});
              Value* pos = b.CreateZExt(e.member_i32(row, offsetof(gc_row, pos)), b.getInt64Ty());
              Value* seq = b.CreateZExt(e.member_i32(row, offsetof(gc_row, seq)), b.getInt64Ty());
              Value* later = b.CreateAnd(b.CreateICmpEQ(seq, a["seq"]), b.CreateICmpSGT(pos, so_far[0]));
              return Emitter::Values{b.CreateSelect(later, pos, so_far[0])};
            });
        b.CreateRet(last[0]);
      },
      b.getInt64Ty());
}

}  // namespace

Unit emit_unit(Emitter& e, const AttnSpec& spec, Value* step, Value* unit) {
  llvm::IRBuilder<>& b = e.b();
  Unit u;
  u.row = b.CreateUDiv(unit, e.i64(spec.kv_heads));
  u.kv_head = b.CreateURem(unit, e.i64(spec.kv_heads));
  Value* row = e.at(e.member_ptr(step, offsetof(gc_step, rows)), u.row, std::int64_t{sizeof(gc_row)});
  u.at = u.pos = b.CreateZExt(e.member_i32(row, offsetof(gc_row, pos)), b.getInt64Ty());
  u.none = b.getFalse();
  if (spec.every > 0) {
    Value* there = b.CreateUDiv(b.CreateAdd(u.at, e.i64(1)), e.i64(spec.every));
    u.none = b.CreateICmpEQ(there, e.i64(0));
    u.pos = b.CreateSelect(u.none, e.i64(0), b.CreateSub(there, e.i64(1)));
  }
  u.seq = b.CreateZExt(e.member_i32(row, offsetof(gc_row, seq)), b.getInt64Ty());
  u.lo = e.i64(0);
  if (spec.window > 0) {
    Value* first = b.CreateSub(u.pos, e.i64(spec.window - 1));
    u.lo = b.CreateSelect(b.CreateICmpSGT(first, e.i64(0)), first, e.i64(0));
  }
  u.last = spec.ahead ? b.CreateCall(attn_last(e), {step, u.seq}) : u.pos;
  if (spec.ahead && spec.window > 0) {
    Value* reach = b.CreateAdd(u.pos, e.i64(spec.window - 1));
    u.last = b.CreateSelect(b.CreateICmpSLT(reach, u.last), reach, u.last);
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

void emit_queries(Vec& v, const AttnSpec& spec, const Args& a, const Unit& unit, const Angles& angles,
                  Value* q) {
  Emitter& e = v.e();
  emit_angles(v, spec.rope, angles, a["rope_fine"], a["rope_coarse"], unit.at);
  Value* heads = e.at(e.at(a["q"], unit.row, a["qs"]), unit.kv_head, spec.group() * spec.k_dim * 4);
  Value* by = spec.scale == 1 ? nullptr : v.splat(spec.scale);
  e.for_range(0, spec.group(), 1, [&](Value* g) {
    emit_head(v, spec, angles, e.at(heads, g, spec.k_dim * 4), spec.q_norm ? a["q_norm_w"] : nullptr,
              e.at(q, g, spec.k_dim * 4), by);
  });
}

namespace {

Value* exp_of_difference(Vec& v, Value* a, Value* b) {
  llvm::IRBuilder<>& builder = v.e().b();
  return builder.CreateExtractElement(exp(v, v.splat(builder.CreateFSub(a, b))), std::uint64_t{0});
}

}  // namespace

llvm::Function* attn_join(Emitter& e, std::int64_t queries, std::int64_t v_dim) {
  const std::string name = cat("attn_join_", queries, "x", v_dim);
  return e.function(name, {out("total"), in("part"), i64("n")}, [&](const Args& a) {
    Vec v(e);
    llvm::IRBuilder<>& b = e.b();
    const PartialLayout at = partial_layout(queries, v_dim);
    e.for_range(e.i64(0), a["n"], 1, [&](Value* g) {
      auto scalar = [&](const char* record, std::int64_t offset) {
        return e.at(a[record], g, std::int64_t{4}, offset);
      };
      Value* m = e.load(e.f32(), scalar("total", 0), 4);
      Value* n = e.load(e.f32(), scalar("part", 0), 4);
      Value* top = b.CreateSelect(b.CreateFCmpOGT(m, n), m, n);
      Value* keep = exp_of_difference(v, m, top);
      Value* take = exp_of_difference(v, n, top);
      Value* l = b.CreateFMul(e.load(e.f32(), scalar("total", at.l), 4), keep);
      e.store(v.fma(e.load(e.f32(), scalar("part", at.l), 4), take, l), scalar("total", at.l), 4);
      e.store(top, scalar("total", 0), 4);
      Value* o = e.at(a["total"], g, v_dim * 4, at.o);
      Value* p = e.at(a["part"], g, v_dim * 4, at.o);
      v.over(v_dim, [&](Value* i, int count) {
        Value* kept = v.mul(v.load(e.at(o, i, std::int64_t{4}), count), v.splat(keep));
        Value* sum = v.fma(v.load(e.at(p, i, std::int64_t{4}), count), v.splat(take), kept);
        v.store(sum, e.at(o, i, std::int64_t{4}), count);
      });
    });
  });
}

void emit_finish(Vec& v, const AttnSpec& spec, const Args& a, const Unit& unit, Value* maxima, Value* sums,
                 Value* values) {
  Emitter& e = v.e();
  llvm::IRBuilder<>& b = e.b();
  Value* y = row_at(e, spec.out, a["y"], unit.row, a["ys"]);
  Value* first = b.CreateMul(unit.kv_head, e.i64(spec.group()));
  e.for_range(0, spec.group(), 1, [&](Value* g) {
    Value* head = b.CreateAdd(first, g);
    Value* l = e.load(e.f32(), e.at(sums, g, std::int64_t{4}), 4);
    Value* m = e.load(e.f32(), e.at(maxima, g, std::int64_t{4}), 4);
    Value* factor = e.f32(1);
    if (spec.sinks) {
      Value* sink = e.load(e.f32(), e.at(a["sinks"], head, std::int64_t{4}), 4);
      Value* top = b.CreateSelect(b.CreateFCmpOGT(m, sink), m, sink);
      factor = exp_of_difference(v, m, top);
      l = v.fma(l, factor, exp_of_difference(v, sink, top));
      m = top;
    }
    if (spec.sums) {
      GC_CHECK(spec.out == ir::Elem::F32, "sums stand behind values of f32");
      Value* sum = b.CreateFAdd(m, b.CreateExtractElement(log(v, v.splat(l)), std::uint64_t{0}));
      e.store(b.CreateSelect(unit.none, e.f32(kNoSum), sum),
              e.at(e.at(y, spec.heads * spec.v_dim * 4), head, std::int64_t{4}), 4);
    }
    Value* by = v.splat(b.CreateFDiv(factor, l));
    Value* o = e.at(values, g, spec.v_dim * 4);
    emit_row_part(v, spec.out, y, spec.heads * spec.v_dim, b.CreateMul(head, e.i64(spec.v_dim)), spec.v_dim,
                  [&](Value* i, int count) {
                    // + 0: a sum that became -0, by a factor that took it below all numbers, stays so or not with
                    // the masked positions that follow.
                    Value* sum = v.add(v.load(e.at(o, i, std::int64_t{4}), count), v.zero());
                    sum = v.mul(sum, by);
                    return spec.every > 0 ? b.CreateSelect(unit.none, v.zero(), sum) : sum;
                  });
  });
}

}  // namespace gc::cpu
