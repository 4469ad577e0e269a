#include "codegen_cpu/kernels/attention/attention.h"

#include "codegen_cpu/kernels/attention/unit.h"
#include "codegen_cpu/kernels/row_out/row_out.h"
#include "codegen_cpu/kv_layout.h"
#include "codegen_cpu/vec/math.h"
#include "compiler/base/error.h"
#include "compiler/base/strings.h"

namespace gc::cpu {

using llvm::Value;

std::string attn_unsupported(const AttnSpec& spec) {
  if (kv_element_bytes(spec.kv_type) == 0)
    return cat("attention over ", kv_type_name(spec.kv_type), " keys and values");
  if (spec.heads % spec.kv_heads != 0)
    return cat(spec.heads, " query heads on ", spec.kv_heads, " key heads");
  if (spec.rope.dims % 2 != 0 || spec.rope.dims > spec.k_dim) {
    return cat("RoPE of ", spec.rope.dims, " dimensions of heads of ", spec.k_dim);
  }
  if (spec.out == ir::Elem::Q16 && spec.v_dim % 32 != 0) {
    return cat("quantized attention output for value heads of ", spec.v_dim, " (not a multiple of 32)");
  }
  return "";
}

namespace {

// A worker's scratch: q [group][k_dim], p [group][64], then two records.
struct ScratchLayout {
  std::int64_t p, total, part, bytes;
};

ScratchLayout scratch_layout(const AttnSpec& spec) {
  auto round = [](std::int64_t n) { return (n + 63) / 64 * 64; };
  const std::int64_t p = round(spec.group() * spec.k_dim * 4);
  const std::int64_t total = p + round(spec.group() * GC_KV_BLOCK * 4);
  const std::int64_t part = total + partial_layout(spec).bytes;
  return {p, total, part, part + partial_layout(spec).bytes};
}

void check(const AttnSpec& spec) {
  const std::string missing = attn_unsupported(spec);
  GC_CHECK(missing.empty(), missing);
}

std::vector<Arg> with_state(std::vector<Arg> rest) {
  std::vector<Arg> args = {ptr("step"), i64("group"), i64("block_bytes"), i64("state_offset")};
  args.insert(args.end(), rest.begin(), rest.end());
  return args;
}

// Keys and values of one unit into its block. k, v: the row's k and v parts.
void append_unit(Vec& v, const AttnSpec& spec, const Args& a, const Unit& unit, const Angles& angles,
                 Value* key_buffer, Value* k, Value* values) {
  Emitter& e = v.e();
  llvm::IRBuilder<>& b = e.b();
  const std::int64_t element = kv_element_bytes(spec.kv_type);
  emit_angles(v, spec.rope, angles, a["rope_fine"], a["rope_coarse"], unit.pos);
  Value* head = e.at(k, unit.kv_head, spec.k_dim * 4);
  emit_head(v, spec, angles, head, spec.k_norm ? a["k_norm_w"] : nullptr, key_buffer, nullptr);

  Value* block = emit_block(e, spec, emit_blocks(e, spec, a, unit), b.CreateLShr(unit.pos, 6));
  Value* slot = b.CreateAnd(unit.pos, e.i64(GC_KV_BLOCK - 1));
  Value* column = e.at(block, slot, element);
  v.over(spec.k_dim, [&](Value* d, int count) {
    Value* x = v.load(e.at(key_buffer, d, std::int64_t{4}), count);
    scatter_kv(v, spec.kv_type, x, e.at(column, d, GC_KV_BLOCK * element), GC_KV_BLOCK * element, count);
  });
  Value* value = e.at(values, unit.kv_head, spec.v_dim * 4);
  Value* row = e.at(block, slot, spec.v_dim * element, kv_keys_bytes(spec.k_dim, spec.kv_type));
  v.over(spec.v_dim, [&](Value* i, int count) {
    store_kv(v, spec.kv_type, v.load(e.at(value, i, std::int64_t{4}), count), e.at(row, i, element), count);
  });
}

llvm::Function* append(Emitter& e, const AttnSpec& spec, bool joined) {
  check(spec);
  AttnSpec key = spec;  // what storing keys and values depends on
  key.q_norm = key.sinks = false;
  key.cap = 0, key.scale = 1, key.window = 0, key.alibi = 0;
  key.out = ir::Elem::F32;
  std::vector<Arg> args = joined ? std::vector<Arg>{in("qkv"), i64("qs")}
                                 : std::vector<Arg>{in("k"), i64("ks"), in("v"), i64("vs")};
  for (const Arg& arg :
       {in("k_norm_w"), in("rope_fine"), in("rope_coarse"), i64("unit_begin"), i64("unit_end")}) {
    args.push_back(arg);
  }
  return e.function(attn_name(joined ? "attn_append" : "kv_append", key), with_state(args),
                    [&](const Args& a) {
                      Vec v(e);
                      const Angles angles = make_angles(e, key.rope);
                      Value* key_buffer = e.stack(key.k_dim * 4);
                      e.for_range(a["unit_begin"], a["unit_end"], 1, [&](Value* index) {
                        const Unit unit = emit_unit(e, key, a["step"], index);
                        Value *k, *values;
                        if (joined) {
                          Value* row = e.at(a["qkv"], unit.row, a["qs"]);
                          k = e.at(row, key.heads * key.k_dim * 4);
                          values = e.at(k, key.kv_heads * key.k_dim * 4);
                        } else {
                          k = e.at(a["k"], unit.row, a["ks"]);
                          values = e.at(a["v"], unit.row, a["vs"]);
                        }
                        append_unit(v, key, a, unit, angles, key_buffer, k, values);
                      });
                    });
}

// The group's queries, ready for the product, into `q`.
void queries(Vec& v, const AttnSpec& spec, const Args& a, const Unit& unit, const Angles& angles, Value* q) {
  Emitter& e = v.e();
  emit_angles(v, spec.rope, angles, a["rope_fine"], a["rope_coarse"], unit.pos);
  Value* heads = e.at(e.at(a["q"], unit.row, a["qs"]), unit.kv_head, spec.group() * spec.k_dim * 4);
  Value* by = spec.scale == 1 ? nullptr : v.splat(spec.scale);
  e.for_range(0, spec.group(), 1, [&](Value* g) {
    emit_head(v, spec, angles, e.at(heads, g, spec.k_dim * 4), spec.q_norm ? a["q_norm_w"] : nullptr,
              e.at(q, g, spec.k_dim * 4), by);
  });
}

struct Ranges {
  Value *first, *last;  // of a unit, inclusive
};

Ranges ranges_of(Emitter& e, const Unit& unit) {
  static_assert(kAttnRange == 512);
  return {e.b().CreateLShr(unit.lo, 9), e.b().CreateLShr(unit.pos, 9)};
}

// The record of range `range` of a unit into `partial`.
void range_record(Emitter& e, const AttnSpec& spec, const Unit& unit, const Blocks& blocks, Value* q,
                  Value* p, Value* partial, Value* range) {
  llvm::IRBuilder<>& b = e.b();
  llvm::Function* kernel = attn_range(e, spec);
  Value* begin = b.CreateMul(range, e.i64(kAttnRange));
  Value* end = b.CreateAdd(begin, e.i64(kAttnRange));
  Value* past = b.CreateAdd(unit.pos, e.i64(1));
  Value* lo = b.CreateSelect(b.CreateICmpSGT(begin, unit.lo), begin, unit.lo);
  Value* hi = b.CreateSelect(b.CreateICmpSLT(end, past), end, past);
  b.CreateCall(kernel, {q, p, partial, blocks.table, blocks.n, blocks.base, blocks.bytes, lo, hi, unit.pos,
                        unit.kv_head});
}

Value* exp_of_difference(Vec& v, Value* a, Value* b) {
  llvm::IRBuilder<>& builder = v.e().b();
  return builder.CreateExtractElement(exp(v, v.splat(builder.CreateFSub(a, b))), std::uint64_t{0});
}

// void attn_join(total, part): total becomes the record of both, in this order.
llvm::Function* attn_join(Emitter& e, const AttnSpec& spec) {
  const std::string name = cat("attn_join_", spec.group(), "x", spec.v_dim);
  return e.function(name, {out("total"), in("part")}, [&](const Args& a) {
    Vec v(e);
    llvm::IRBuilder<>& b = e.b();
    const PartialLayout at = partial_layout(spec);
    e.for_range(0, spec.group(), 1, [&](Value* g) {
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
      Value* o = e.at(a["total"], g, spec.v_dim * 4, at.o);
      Value* p = e.at(a["part"], g, spec.v_dim * 4, at.o);
      v.over(spec.v_dim, [&](Value* i, int count) {
        Value* kept = v.mul(v.load(e.at(o, i, std::int64_t{4}), count), v.splat(keep));
        Value* sum = v.fma(v.load(e.at(p, i, std::int64_t{4}), count), v.splat(take), kept);
        v.store(sum, e.at(o, i, std::int64_t{4}), count);
      });
    });
  });
}

// y's part of the unit: o / l, the sinks added to l.
void finish(Vec& v, const AttnSpec& spec, const Args& a, const Unit& unit, Value* total) {
  Emitter& e = v.e();
  llvm::IRBuilder<>& b = e.b();
  const PartialLayout at = partial_layout(spec);
  Value* y = e.at(a["y"], unit.row, a["ys"]);
  Value* first = b.CreateMul(unit.kv_head, e.i64(spec.group()));
  e.for_range(0, spec.group(), 1, [&](Value* g) {
    Value* head = b.CreateAdd(first, g);
    Value* l = e.load(e.f32(), e.at(total, g, std::int64_t{4}, at.l), 4);
    Value* factor = e.f32(1);
    if (spec.sinks) {
      Value* m = e.load(e.f32(), e.at(total, g, std::int64_t{4}), 4);
      Value* sink = e.load(e.f32(), e.at(a["sinks"], head, std::int64_t{4}), 4);
      Value* top = b.CreateSelect(b.CreateFCmpOGT(m, sink), m, sink);
      factor = exp_of_difference(v, m, top);
      l = v.fma(l, factor, exp_of_difference(v, sink, top));
    }
    Value* by = v.splat(b.CreateFDiv(factor, l));
    Value* o = e.at(total, g, spec.v_dim * 4, at.o);
    emit_row_part(v, spec.out, y, spec.heads * spec.v_dim, b.CreateMul(head, e.i64(spec.v_dim)), spec.v_dim,
                  [&](Value* i, int count) { return v.mul(v.load(e.at(o, i, std::int64_t{4}), count), by); });
  });
}

}  // namespace

llvm::Function* attn_append(Emitter& e, const AttnSpec& spec) { return append(e, spec, true); }
llvm::Function* kv_append(Emitter& e, const AttnSpec& spec) { return append(e, spec, false); }

std::int64_t attn_scratch_bytes(const AttnSpec& spec) { return scratch_layout(spec).bytes; }
std::int64_t attn_partial_bytes(const AttnSpec& spec) { return partial_layout(spec).bytes; }

llvm::Function* attn(Emitter& e, const AttnSpec& spec) {
  check(spec);
  const std::vector<Arg> args = {in("q"),           i64("qs"),       in("q_norm_w"), in("rope_fine"),
                                 in("rope_coarse"), in("sinks"),     out("y"),       i64("ys"),
                                 i64("unit_begin"), i64("unit_end"), out("scratch")};
  return e.function(attn_name("attn", spec), with_state(args), [&, spec](const Args& a) {
    Vec v(e);
    llvm::IRBuilder<>& b = e.b();
    const ScratchLayout at = scratch_layout(spec);
    const Angles angles = make_angles(e, spec.rope);
    Value* p = e.at(a["scratch"], at.p);
    Value* total = e.at(a["scratch"], at.total);
    Value* part = e.at(a["scratch"], at.part);
    e.for_range(a["unit_begin"], a["unit_end"], 1, [&](Value* index) {
      const Unit unit = emit_unit(e, spec, a["step"], index);
      const Blocks blocks = emit_blocks(e, spec, a, unit);
      queries(v, spec, a, unit, angles, a["scratch"]);
      const Ranges ranges = ranges_of(e, unit);
      range_record(e, spec, unit, blocks, a["scratch"], p, total, ranges.first);
      Value* next = b.CreateAdd(ranges.first, e.i64(1));
      e.for_range(next, b.CreateAdd(ranges.last, e.i64(1)), 1, [&](Value* range) {
        range_record(e, spec, unit, blocks, a["scratch"], p, part, range);
        b.CreateCall(attn_join(e, spec), {total, part});
      });
      finish(v, spec, a, unit, total);
    });
  });
}

llvm::Function* attn_most_ranges(Emitter& e, const AttnSpec& spec) {
  AttnSpec key = spec;
  key.kv_heads = 1;  // a row is a unit then
  auto body = [&](const Args& a) {
    llvm::IRBuilder<>& b = e.b();
    const auto most =
        e.for_range(e.i64(0), a["n_rows"], 1, {e.i64(0)}, [&](Value* row, const Emitter::Values& in) {
          const Ranges ranges = ranges_of(e, emit_unit(e, key, a["step"], row));
          Value* n = b.CreateAdd(b.CreateSub(ranges.last, ranges.first), e.i64(1));
          return Emitter::Values{b.CreateSelect(b.CreateICmpSGT(n, in[0]), n, in[0])};
        });
    b.CreateRet(most[0]);
  };
  return e.function(cat("attn_most_ranges_w", spec.window), {ptr("step"), i64("n_rows")}, body,
                    e.b().getInt64Ty());
}

llvm::Function* attn_split(Emitter& e, const AttnSpec& spec) {
  check(spec);
  AttnSpec key = spec;
  key.sinks = key.k_norm = false;
  key.out = ir::Elem::F32;
  const std::vector<Arg> args = {in("q"),           i64("qs"),       in("q_norm_w"), in("rope_fine"),
                                 in("rope_coarse"), out("partials"), i64("ranges"),  i64("item_begin"),
                                 i64("item_end"),   out("scratch")};
  return e.function(attn_name("attn_split", key), with_state(args), [&](const Args& a) {
    Vec v(e);
    llvm::IRBuilder<>& b = e.b();
    const Angles angles = make_angles(e, key.rope);
    Value* p = e.at(a["scratch"], scratch_layout(key).p);
    e.for_range(a["item_begin"], a["item_end"], 1, [&](Value* item) {
      const Unit unit = emit_unit(e, key, a["step"], b.CreateUDiv(item, a["ranges"]));
      const Ranges ranges = ranges_of(e, unit);
      Value* range = b.CreateAdd(ranges.first, b.CreateURem(item, a["ranges"]));
      e.if_then(b.CreateICmpSLE(range, ranges.last), [&] {
        const Blocks blocks = emit_blocks(e, key, a, unit);
        queries(v, key, a, unit, angles, a["scratch"]);
        Value* partial = e.at(a["partials"], item, attn_partial_bytes(key));
        range_record(e, key, unit, blocks, a["scratch"], p, partial, range);
      });
    });
  });
}

llvm::Function* attn_merge(Emitter& e, const AttnSpec& spec) {
  check(spec);
  const std::vector<Arg> args = {ptr("step"), ptr("partials"), i64("ranges"),     in("sinks"),
                                 out("y"),    i64("ys"),       i64("unit_begin"), i64("unit_end")};
  return e.function(attn_name("attn_merge", spec), args, [&, spec](const Args& a) {
    Vec v(e);
    llvm::IRBuilder<>& b = e.b();
    e.for_range(a["unit_begin"], a["unit_end"], 1, [&](Value* index) {
      const Unit unit = emit_unit(e, spec, a["step"], index);
      const Ranges ranges = ranges_of(e, unit);
      Value* total = e.at(a["partials"], b.CreateMul(index, a["ranges"]), attn_partial_bytes(spec));
      Value* more = b.CreateSub(ranges.last, ranges.first);
      e.for_range(e.i64(1), b.CreateAdd(more, e.i64(1)), 1, [&](Value* i) {
        b.CreateCall(attn_join(e, spec), {total, e.at(total, i, attn_partial_bytes(spec))});
      });
      finish(v, spec, a, unit, total);
    });
  });
}

}  // namespace gc::cpu
