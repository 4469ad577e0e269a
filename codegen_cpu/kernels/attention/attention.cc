#include "codegen_cpu/kernels/attention/attention.h"

#include "codegen_cpu/kernels/attention/elements.h"
#include "codegen_cpu/kernels/attention/int_products.h"
#include "codegen_cpu/kernels/attention/prompt.h"
#include "codegen_cpu/kernels/attention/rows.h"
#include "codegen_cpu/kernels/attention/tiles.h"
#include "codegen_cpu/kernels/attention/unit.h"
#include "codegen_cpu/kv_layout.h"
#include "compiler/base/error.h"
#include "compiler/base/strings.h"

namespace gc::cpu {

using llvm::Value;

std::string attn_unsupported(const AttnSpec& spec) {
  if (spec.heads % spec.kv_heads != 0)
    return cat(spec.heads, " query heads on ", spec.kv_heads, " key heads");
  if (spec.rope.dims % 2 != 0 || spec.rope.dims > spec.k_dim) {
    return cat("RoPE of ", spec.rope.dims, " dimensions of heads of ", spec.k_dim);
  }
  if (spec.every > 0 && (spec.window > 0 || spec.ahead || spec.alibi != 0))
    return "compressed keys with windows, ALiBi or later ones";
  if (spec.buckets > 0 && (!spec.ahead || spec.sinks)) return "biases of distances but in encoders";
  if (spec.chosen > 0 && spec.kv_heads != 1) return cat("chosen positions of ", spec.kv_heads, " key heads");
  if (spec.chosen > 0 && (spec.window > 0 || spec.ahead || spec.alibi != 0))
    return "chosen positions with windows, ALiBi or later keys";
  if (spec.k_dim % 2 != 0) return cat("key heads of ", spec.k_dim, " (odd)");
  if (spec.out == ir::Elem::Q16 && spec.v_dim % 32 != 0) {
    return cat("quantized attention output for value heads of ", spec.v_dim, " (not a multiple of 32)");
  }
  return "";
}

bool attn_has_bf16(const Isa& isa, const AttnSpec& spec) {
  return isa.has_bf16dot && !spec.ahead && spec.kv_type == GC_KV_BF16 && spec.k_dim % 32 == 0 &&
         spec.v_dim % 32 == 0;
}

bool attn_has_ints(const AttnSpec& spec) {
  return !spec.ahead && kv_has_scales(spec.kv_type) && spec.k_dim % kKvScaleBlock == 0 &&
         spec.v_dim % kKvScaleBlock == 0;
}

namespace {

// A worker's scratch: q [group][k_dim], p [group][64], two records, then what the range's kernel wants.
struct ScratchLayout {
  std::int64_t p, total, part, wide, bytes;
};

ScratchLayout scratch_layout(const AttnSpec& spec) {
  auto round = [](std::int64_t n) { return (n + 63) / 64 * 64; };
  const std::int64_t p = round(spec.group() * spec.k_dim * 4);
  const std::int64_t total = p + round(spec.group() * GC_KV_BLOCK * 4);
  const std::int64_t record = attn_partial_bytes(spec), part = total + record, wide = part + record;
  return {p, total, part, wide, wide + attn_wide_bytes(spec)};
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
  emit_angles(v, spec.rope, angles, a["rope_fine"], a["rope_coarse"], unit.at);
  Value* head = e.at(k, unit.kv_head, spec.k_dim * 4);
  emit_head(v, spec, angles, head, spec.k_norm ? a["k_norm_w"] : nullptr, key_buffer, nullptr);

  Value* block = emit_block(e, spec, emit_blocks(e, spec, a, unit), b.CreateLShr(unit.pos, 6));
  Value* slot = b.CreateAnd(unit.pos, e.i64(GC_KV_BLOCK - 1));
  store_key(v, spec, key_buffer, block, slot);
  store_value(v, spec, e.at(values, unit.kv_head, spec.v_dim * 4),
              e.at(block, kv_part_bytes(spec.k_dim, spec.kv_type)), slot);
}

llvm::Function* append(Emitter& e, const AttnSpec& spec, bool joined) {
  check(spec);
  AttnSpec key = spec;  // what storing keys and values depends on
  key.q_norm = key.sinks = key.sums = false;
  key.cap = 0, key.scale = 1, key.window = 0, key.alibi = 0, key.buckets = 0, key.chosen = 0;
  key.out = ir::Elem::F32;
  key.bf16 = key.ints = false;
  std::vector<Arg> args = joined ? std::vector<Arg>{in("qkv"), i64("qs")}
                                 : std::vector<Arg>{in("k"), i64("ks"), in("v"), i64("vs")};
  for (const Arg& arg :
       {in("k_norm_w"), in("rope_fine"), in("rope_coarse"), i64("unit_begin"), i64("unit_end")}) {
    args.push_back(arg);
  }
  return e.function(
      attn_name(joined ? "attn_append" : "kv_append", key), with_state(args), [&](const Args& a) {
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
          const auto store = [&] { append_unit(v, key, a, unit, angles, key_buffer, k, values); };
          if (key.every == 0) return store();
          Value* past = e.b().CreateURem(e.b().CreateAdd(unit.at, e.i64(1)), e.i64(key.every));
          e.if_then(e.b().CreateICmpEQ(past, e.i64(0)), store);
        });
      });
}

void join(Emitter& e, const AttnSpec& spec, Value* total, Value* part) {
  e.b().CreateCall(attn_join(e, spec.group(), spec.v_dim), {total, part, e.i64(spec.group())});
}

void finish(Vec& v, const AttnSpec& spec, const Args& a, const Unit& unit, Value* total) {
  Emitter& e = v.e();
  const PartialLayout at = partial_layout(spec.group(), spec.v_dim);
  emit_finish(v, spec, a, unit, total, e.at(total, at.l), e.at(total, at.o));
}

struct Ranges {
  Value *first, *last;  // of a unit, inclusive
};

Ranges ranges_of(Emitter& e, const Unit& unit) {
  static_assert(kAttnRange == 512);
  return {e.b().CreateLShr(unit.lo, 9), e.b().CreateLShr(unit.last, 9)};
}

// The unit's queries into the scratch, as range_record() wants them.
void prepare_queries(Vec& v, const AttnSpec& spec, const Args& a, const Unit& unit, const Angles& angles) {
  Value* scratch = a["scratch"];
  emit_queries(v, spec, a, unit, angles, scratch);
  if (spec.ints)
    IntProducts::quantize_queries(v.e(), spec, scratch, v.e().at(scratch, scratch_layout(spec).wide));
}

// The record of range `range` of a unit, whose queries are in the scratch, into `partial`.
void range_record(Emitter& e, const AttnSpec& spec, const Unit& unit, const Blocks& blocks, Value* scratch,
                  Value* partial, Value* range, Value* bias, Value* chosen) {
  llvm::IRBuilder<>& b = e.b();
  llvm::Function* kernel = attn_range(e, spec);
  Value* begin = b.CreateMul(range, e.i64(kAttnRange));
  Value* end = b.CreateAdd(begin, e.i64(kAttnRange));
  Value* past = b.CreateAdd(unit.last, e.i64(1));
  Value* lo = b.CreateSelect(b.CreateICmpSGT(begin, unit.lo), begin, unit.lo);
  Value* hi = b.CreateSelect(b.CreateICmpSLT(end, past), end, past);
  const ScratchLayout at = scratch_layout(spec);
  b.CreateCall(kernel, {scratch, e.at(scratch, at.p), partial, blocks.table, blocks.n, blocks.base,
                        blocks.bytes, lo, hi, unit.pos, unit.kv_head, e.at(scratch, at.wide), bias, chosen});
}

Unit unit_of(Emitter& e, const AttnSpec& spec, const Args& a, Value* row, Value* head) {
  llvm::IRBuilder<>& b = e.b();
  return emit_unit(e, spec, a["step"], b.CreateAdd(b.CreateMul(row, e.i64(spec.kv_heads)), head));
}

// One row of `attn` or `attn_chosen`, range by range. chosen: the row's positions, or null.
void whole_row(Vec& v, const AttnSpec& spec, const Args& a, const Angles& angles, Value* row, Value* head,
               Value* bias, Value* chosen) {
  Emitter& e = v.e();
  llvm::IRBuilder<>& b = e.b();
  const ScratchLayout at = scratch_layout(spec);
  Value* total = e.at(a["scratch"], at.total);
  Value* part = e.at(a["scratch"], at.part);
  Unit unit = unit_of(e, spec, a, row, head);
  if (spec.chosen > 0) unit.lo = e.i64(0), unit.last = e.i64(spec.chosen - 1);
  const Blocks blocks = emit_blocks(e, spec, a, unit);
  prepare_queries(v, spec, a, unit, angles);
  const Ranges ranges = ranges_of(e, unit);
  range_record(e, spec, unit, blocks, a["scratch"], total, ranges.first, bias, chosen);
  Value* next = b.CreateAdd(ranges.first, e.i64(1));
  e.for_range(next, b.CreateAdd(ranges.last, e.i64(1)), 1, [&](Value* range) {
    range_record(e, spec, unit, blocks, a["scratch"], part, range, bias, chosen);
    join(e, spec, total, part);
  });
  finish(v, spec, a, unit, total);
}

// The biases of a group's heads by distance, so that a block's 64 lie one after the other: see Tiles::bias.
void spread_bias(Emitter& e, const AttnSpec& spec, Value* of_buckets, Value* head, Value* out) {
  std::vector<float> first(kBiasFloats);  // of a bucket's heads: an index
  for (std::int64_t i = 0; i < kBiasFloats; ++i)
    first[i] =
        static_cast<float>(spec.heads * ir::distance_bucket(i - kBiasCentre, spec.buckets, spec.ahead));
  llvm::IRBuilder<>& b = e.b();
  Value* index = e.floats(first);
  Value* heads = e.at(of_buckets, head, spec.group() * 4);
  e.for_range(0, spec.group(), 1, [&](Value* g) {
    e.for_range(0, kBiasFloats, 1, [&](Value* i) {
      Value* at = b.CreateFPToSI(e.load(e.f32(), e.at(index, i, std::int64_t{4}), 4), b.getInt64Ty());
      Value* x = e.load(e.f32(), e.at(heads, b.CreateAdd(at, g), std::int64_t{4}), 4);
      e.store(x, e.at(e.at(out, g, kBiasFloats * 4), i, std::int64_t{4}), 4);
    });
  });
}

// How many rows from `row` on, of those before `end`, are consecutive positions of its sequence: at most `limit`.
Value* run_length(Emitter& e, const AttnSpec& spec, Value* step, Value* row, Value* end, std::int64_t limit) {
  llvm::IRBuilder<>& b = e.b();
  auto unit = [&](Value* r) { return emit_unit(e, spec, step, b.CreateMul(r, e.i64(spec.kv_heads))); };
  const Unit first = unit(row);
  Value* left = b.CreateSub(end, row);
  Value* most = e.i64(limit);
  Value* n = b.CreateSelect(b.CreateICmpSLT(left, most), left, most);
  return e.for_range(e.i64(1), n, 1, {e.i64(1)}, [&](Value* i, const Emitter::Values& in) {
    const Unit u = unit(b.CreateAdd(row, i));
    Value* next =
        b.CreateAnd(b.CreateICmpEQ(u.seq, first.seq), b.CreateICmpEQ(u.at, b.CreateAdd(first.at, i)));
    next = b.CreateAnd(next, b.CreateICmpEQ(in[0], i));
    return Emitter::Values{b.CreateAdd(in[0], b.CreateZExt(next, b.getInt64Ty()))};
  })[0];
}

}  // namespace

llvm::Function* attn_append(Emitter& e, const AttnSpec& spec) { return append(e, spec, true); }
llvm::Function* kv_append(Emitter& e, const AttnSpec& spec) { return append(e, spec, false); }

// The same of rows that see all, and of those that don't.
static AttnSpec dense(AttnSpec spec) {
  spec.chosen = 0;
  return spec;
}
static AttnSpec sparse(AttnSpec spec) {
  spec.bf16 = spec.ints = false;
  return spec;
}

std::int64_t attn_scratch_bytes(const Isa& isa, const AttnSpec& spec) {
  if (spec.chosen > 0)
    return std::max(attn_scratch_bytes(isa, dense(spec)), scratch_layout(sparse(spec)).bytes);
  if (spec.bf16) return attn_prompt_scratch_bytes(isa, spec);
  if (spec.ints) return scratch_layout(spec).bytes;
  return std::max(scratch_layout(spec).bytes, attn_rows_scratch_bytes(spec));
}
std::int64_t attn_partial_bytes(const AttnSpec& spec) {
  return partial_layout(spec.group(), spec.v_dim).bytes;
}

llvm::Function* attn(Emitter& e, const AttnSpec& spec) {
  check(spec);
  const std::vector<Arg> args = {in("q"),           i64("qs"),       in("q_norm_w"), in("rope_fine"),
                                 in("rope_coarse"), in("sinks"),     out("y"),       i64("ys"),
                                 i64("unit_begin"), i64("unit_end"), out("scratch")};
  return e.function(attn_name("attn", spec), with_state(args), [&, spec](const Args& a) {
    Vec v(e);
    llvm::IRBuilder<>& b = e.b();
    const Angles angles = make_angles(e, spec.rope);
    // Runs of rows together, and single rows where that is faster and gives the same bits; integers row by row.
    llvm::Function* rows = spec.bf16 ? attn_prompt(e, spec) : spec.ints ? nullptr : attn_rows(e, spec);
    const std::int64_t most = spec.bf16 ? attn_prompt_most(e.isa(), spec) : attn_rows_most(spec);
    const std::int64_t least = spec.bf16 ? 1 : attn_rows_least(spec);
    // The units of one kv head are consecutive rows.
    Value* null = llvm::ConstantPointerNull::get(e.b().getPtrTy());
    Value* bias = spec.buckets > 0 ? e.stack(spec.group() * kBiasFloats * 4) : null;
    e.for_range(0, spec.kv_heads, 1, [&](Value* head) {
      if (spec.buckets > 0) spread_bias(e, spec, a["sinks"], head, bias);
      auto first_row = [&](Value* unit) {
        Value* up = b.CreateSub(b.CreateAdd(unit, e.i64(spec.kv_heads - 1)), head);
        return b.CreateUDiv(up, e.i64(spec.kv_heads));
      };
      Value* begin = first_row(a["unit_begin"]);
      Value* end = first_row(a["unit_end"]);
      e.for_range(begin, end, 1, {begin}, [&](Value* row, const Emitter::Values& in) {
        return e.if_else(
            b.CreateICmpSLT(row, in[0]), [&] { return in; },
            [&] {
              auto alone = [&] {
                whole_row(v, spec, a, angles, row, head, bias, null);
                return Emitter::Values{b.CreateAdd(row, e.i64(1))};
              };
              if (spec.ints) return alone();
              Value* n = run_length(e, spec, a["step"], row, end, most);
              auto together = [&] {
                llvm::SmallVector<Value*, 17> args = {a["step"],
                                                      a["group"],
                                                      a["block_bytes"],
                                                      a["state_offset"],
                                                      a["q"],
                                                      a["qs"],
                                                      a["q_norm_w"],
                                                      a["rope_fine"],
                                                      a["rope_coarse"],
                                                      a["sinks"],
                                                      a["y"],
                                                      a["ys"],
                                                      row,
                                                      n,
                                                      head,
                                                      a["scratch"]};
                if (!spec.bf16) args.push_back(bias);
                b.CreateCall(rows, args);
                return Emitter::Values{b.CreateAdd(row, n)};
              };
              if (least == 1) return together();
              return e.if_else(b.CreateICmpSGE(n, e.i64(least)), together, alone);
            });
      });
    });
  });
}

llvm::Function* attn_chosen(Emitter& e, const AttnSpec& spec) {
  check(spec);
  GC_CHECK(spec.chosen > 0 && spec.rope.dims == 0 && !spec.q_norm, "queries are ready");
  const std::vector<Arg> args = {in("q"),           i64("qs"),       in("q_norm_w"), in("rope_fine"),
                                 in("rope_coarse"), in("sinks"),     out("y"),       i64("ys"),
                                 i64("unit_begin"), i64("unit_end"), out("scratch"), in("chosen"),
                                 i64("cs")};
  return e.function(attn_name("attn_chosen", spec), with_state(args), [&, spec](const Args& a) {
    Vec v(e);
    llvm::IRBuilder<>& b = e.b();
    llvm::Function* all = attn(e, dense(spec));
    const Angles angles = make_angles(e, spec.rope);
    Value* null = llvm::ConstantPointerNull::get(b.getPtrTy());
    // Units are rows.
    const auto sees_all = [&](Value* row) {
      return b.CreateICmpSLT(emit_unit(e, spec, a["step"], row).pos, e.i64(spec.chosen));
    };
    const auto alone = [&](Value* row) {
      whole_row(v, sparse(spec), a, angles, row, e.i64(0), null, e.at(a["chosen"], row, a["cs"]));
      return b.CreateAdd(row, e.i64(1));
    };
    // Rows from `row` on that see all, together.
    const auto together = [&](Value* row) {
      Value* end = e.for_range(row, a["unit_end"], 1, {row}, [&](Value* i, const Emitter::Values& in) {
        Value* on = b.CreateAnd(b.CreateICmpEQ(i, in[0]), sees_all(i));
        return Emitter::Values{b.CreateAdd(in[0], b.CreateZExt(on, b.getInt64Ty()))};
      })[0];
      b.CreateCall(
          all, {a["step"], a["group"], a["block_bytes"], a["state_offset"], a["q"], a["qs"], a["q_norm_w"],
                a["rope_fine"], a["rope_coarse"], a["sinks"], a["y"], a["ys"], row, end, a["scratch"]});
      return end;
    };
    e.for_range(a["unit_begin"], a["unit_end"], 1, {a["unit_begin"]},
                [&](Value* row, const Emitter::Values& in) {
                  return e.if_else(
                      b.CreateICmpSLT(row, in[0]), [&] { return in; },
                      [&] {
                        return e.if_else(
                            sees_all(row), [&] { return Emitter::Values{together(row)}; },
                            [&] { return Emitter::Values{alone(row)}; });
                      });
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
  const std::string every = spec.every > 0 ? cat("_every", spec.every) : "";
  return e.function(cat("attn_most_ranges_w", spec.window, every), {ptr("step"), i64("n_rows")}, body,
                    e.b().getInt64Ty());
}

llvm::Function* attn_split(Emitter& e, const AttnSpec& spec) {
  check(spec);
  GC_CHECK(!spec.bf16);
  AttnSpec key = spec;
  key.sinks = key.k_norm = key.sums = false;
  key.out = ir::Elem::F32;
  const std::vector<Arg> args = {in("q"),           i64("qs"),       in("q_norm_w"), in("rope_fine"),
                                 in("rope_coarse"), out("partials"), i64("ranges"),  i64("item_begin"),
                                 i64("item_end"),   out("scratch")};
  return e.function(attn_name("attn_split", key), with_state(args), [&](const Args& a) {
    Vec v(e);
    llvm::IRBuilder<>& b = e.b();
    const Angles angles = make_angles(e, key.rope);
    auto item = [&](Value* item, Value* index, Value* before) {
      const Unit unit = emit_unit(e, key, a["step"], index);
      const Ranges ranges = ranges_of(e, unit);
      Value* range = b.CreateAdd(ranges.first, b.CreateURem(item, a["ranges"]));
      e.if_then(b.CreateICmpSLE(range, ranges.last), [&] {
        const Blocks blocks = emit_blocks(e, key, a, unit);
        e.if_then(b.CreateICmpNE(index, before), [&] { prepare_queries(v, key, a, unit, angles); });
        Value* partial = e.at(a["partials"], item, attn_partial_bytes(key));
        Value* null = llvm::ConstantPointerNull::get(e.b().getPtrTy());
        range_record(e, key, unit, blocks, a["scratch"], partial, range, null, null);
      });
    };
    // A unit's first item is one that it has, and makes the queries for those that follow.
    e.for_range(a["item_begin"], a["item_end"], 1, {e.i64(-1)}, [&](Value* i, const Emitter::Values& in) {
      Value* index = b.CreateUDiv(i, a["ranges"]);
      item(i, index, in[0]);
      return Emitter::Values{index};
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
      e.for_range(e.i64(1), b.CreateAdd(more, e.i64(1)), 1,
                  [&](Value* i) { join(e, spec, total, e.at(total, i, attn_partial_bytes(spec))); });
      finish(v, spec, a, unit, total);
    });
  });
}

}  // namespace gc::cpu
