#include "codegen_cpu/kernels/attention/attention.h"

#include <cstddef>

#include "codegen_cpu/backend.h"
#include "codegen_cpu/section/parts.h"
#include "llvm/ADT/SmallVector.h"

namespace gc::cpu {
namespace {

using ir::OpKind;

constexpr std::int64_t kLeastQueries = 16;  // of a worker's share of prompt rows, of one kv head

class Attention : Scope {
 public:
  explicit Attention(const Scope& scope) : Scope(scope) {}

  void block(const Op& op) {
    const AttnCall c = attn_call(op);
    const Rows qkv = rows_of(op.inputs[0]);
    Value* fine = rope_table(op, "rope_fine");
    Value* coarse = rope_table(op, "rope_coarse");
    call(attn_append(e_, c.spec), c.head,
         {qkv.base, qkv.stride, weight_or_null(op, "k_norm"), fine, coarse, c.lo, c.hi});
    emit_attention_over(op, c, qkv, weight_or_null(op, "q_norm"), fine, coarse);
  }

  // Over keys and values that an earlier op has appended: as many heads of the same rows, so those of a row alone in its
  // sequence come from this worker here too.
  void again(const Op& op) {
    const AttnCall c = attn_call(op);
    Value* none = llvm::ConstantPointerNull::get(b_.getPtrTy());
    emit_attention_over(op, c, rows_of(op.inputs[0]), none, none, none);
  }

  // The step's index keys, then each row's choice.
  void choose(const Op& op) {
    const ChooseSpec spec = choose_spec(plan_.graph, op, kv_type_);
    const AttnCall c = call_of(op, spec.state());
    const Rows q = rows_of(op.inputs[0]), k = rows_of(op.inputs[1]), w = rows_of(op.inputs[2]),
               y = rows_of(op.results[0]);
    Value* none = llvm::ConstantPointerNull::get(b_.getPtrTy());
    call(kv_append(e_, c.spec), c.head,
         {k.base, k.stride, k.base, e_.i64(0), none, none, none, c.lo, c.hi});  // values of no dimensions
    attend_whole_rows(c, [&](Value* lo, Value* hi) {
      call(choose_positions(e_, spec), c.head,
           {q.base, q.stride, w.base, w.stride, y.base, y.stride, lo, hi, frame_.ptr(Slot::scratch)});
    });
  }

  // q, k and v apart, already normed and turned: attention, attention_sums, attention_chosen.
  void apart(const Op& op) {
    const AttnCall c = attn_call(op);
    const Rows q = rows_of(op.inputs[0]), k = rows_of(op.inputs[1]), v = rows_of(op.inputs[2]);
    Value* none = llvm::ConstantPointerNull::get(b_.getPtrTy());
    call(kv_append(e_, c.spec), c.head, {k.base, k.stride, v.base, v.stride, none, none, none, c.lo, c.hi});
    emit_attention_over(op, c, q, none, none, none);
  }

 private:
  // What all attention kernels are given first, and this worker's units of rows x kv heads.
  struct AttnCall {
    AttnSpec spec;
    llvm::SmallVector<Value*, 4> head;  // step, group, block_bytes, state_offset
    Value *lo, *hi;
  };
  AttnCall attn_call(const Op& op) { return call_of(op, attn_spec(plan_.graph, op, kv_type_)); }
  AttnCall call_of(const Op& op, const AttnSpec& spec) {
    const plan::StatePlan& at = plan_.states[op.state.index];
    AttnCall c;
    c.spec = spec;
    c.head = {frame_.ptr(Slot::step), e_.i64(at.group), e_.i64(plan_.groups[at.group].block_bytes[kv_type_]),
              constant(at.offset[kv_type_])};
    Value* units = b_.CreateMul(frame_.i64(Slot::n_rows), e_.i64(c.spec.kv_heads));
    auto bound = [&](Value* j) {
      return b_.CreateCall(share_units(e_), {units, j, frame_.i64(Slot::workers)});
    };
    c.lo = bound(frame_.i64(Slot::worker));
    c.hi = bound(b_.CreateAdd(frame_.i64(Slot::worker), e_.i64(1)));
    return c;
  }
  // Prompt rows and generated ones have kernels of their own.
  bool roles_apart(const AttnCall& c) { return attn_has_bf16(e_.isa(), c.spec) || attn_has_ints(c.spec); }
  void call(llvm::Function* f, llvm::SmallVector<Value*, 4> head, llvm::ArrayRef<Value*> rest) {
    head.append(rest.begin(), rest.end());
    b_.CreateCall(f, head);
  }

  // A row's keys are needed by rows of its own sequence: when each has one row, by the worker that appended them.
  // Else workers meet; and as a later row of a prompt sees more, each takes one share from either end, unless the shares
  // would have so few queries that products and reads of keys were not worth their while: behind a long context few rows see
  // as much as one another.
  void attend_whole_rows(const AttnCall& c, const std::function<void(Value* lo, Value* hi)>& attend) {
    Value* flags = e_.member_i32(frame_.ptr(Slot::step), offsetof(gc_step, flags));
    Value* alone = b_.CreateICmpNE(b_.CreateAnd(flags, e_.i32(GC_STEP_ONE_ROW_EACH)), e_.i32(0));
    e_.if_then(b_.CreateNot(alone), [&] { frame_.meet(); });
    Value* worker = frame_.i64(Slot::worker);
    Value* both = b_.getTrue();
    if (attn_has_bf16(e_.isa(), c.spec)) {
      Value* queries = b_.CreateMul(frame_.i64(Slot::n_rows), e_.i64(c.spec.group()));
      both = b_.CreateICmpUGE(queries, b_.CreateMul(frame_.i64(Slot::workers), e_.i64(2 * kLeastQueries)));
    }
    Value* ends = b_.CreateSelect(both, e_.i64(2), e_.i64(1));
    Value* shares = b_.CreateMul(frame_.i64(Slot::workers), ends);
    Value* units = b_.CreateMul(frame_.i64(Slot::n_rows), e_.i64(c.spec.kv_heads));
    auto bound = [&](Value* j) { return b_.CreateCall(share_units(e_), {units, j, shares}); };
    Value* one = e_.i64(1);
    Value* other = b_.CreateSub(b_.CreateSub(shares, one), worker);
    e_.for_range(e_.i64(0), b_.CreateSelect(alone, one, ends), 1, [&](Value* i) {
      Value* j = b_.CreateSelect(b_.CreateICmpEQ(i, e_.i64(0)), worker, other);
      attend(b_.CreateSelect(alone, c.lo, bound(j)),
             b_.CreateSelect(alone, c.hi, bound(b_.CreateAdd(j, one))));
    });
  }

  // Units [lo, hi) by the roles of their rows: body(spec with the form of the result and the unit, its rows, units).
  template <class Body>
  void over_unit_roles(const Op& op, const AttnCall& c, Value* lo, Value* hi, const Body& body) {
    const ir::ValueId y = op.results[0];
    const bool apart = roles_apart(c);
    auto part = [&](const Span& rows) {
      AttnSpec spec = c.spec;
      spec.out = form(y, rows);
      spec.bf16 = rows.prompt && attn_has_bf16(e_.isa(), spec);
      spec.ints = !rows.prompt && attn_has_ints(spec);
      auto units = [&](Value* row) { return between(b_.CreateMul(row, e_.i64(spec.kv_heads)), lo, hi); };
      body(spec, rows_of(y, rows), units(rows.lo), units(rows.hi));
    };
    Value* n = frame_.i64(Slot::n_rows);
    if (apart) return over_roles_apart(e_.i64(0), n, part);
    over_roles({y}, e_.i64(0), n, part);
  }

  // Attention of the rows, whose keys and values are appended: q at the beginning of q's rows.
  void emit_attention_over(const Op& op, const AttnCall& c, const Rows& q, Value* q_norm, Value* fine,
                           Value* coarse) {
    Value* sinks = weight_or_null(op, op.has(ir::AttrName::buckets) ? "bias" : "sinks");
    auto whole_rows = [&] {
      attend_whole_rows(c, [&](Value* lo, Value* hi) {
        over_unit_roles(op, c, lo, hi, [&](const AttnSpec& spec, const Rows& y, Value* from, Value* to) {
          llvm::SmallVector<Value*, 16> args = {q.base,
                                                q.stride,
                                                q_norm,
                                                fine,
                                                coarse,
                                                sinks,
                                                y.base,
                                                y.stride,
                                                from,
                                                to,
                                                frame_.ptr(Slot::scratch)};
          if (spec.chosen == 0) return call(attn(e_, spec), c.head, args);
          const Rows chosen = rows_of(op.inputs[3]);
          args.append({chosen.base, chosen.stride});
          call(attn_chosen(e_, spec), c.head, args);
        });
      });
    };
    if (c.spec.ahead || c.spec.chosen > 0) return whole_rows();
    if (c.spec.window > 0 && attn_ranges(c.spec.window - 1, 0) < kSplitRanges) return whole_rows();
    // Few rows over a long context, whose units don't divide evenly: workers share the ranges of positions.
    Value* step = frame_.ptr(Slot::step);
    Value* n = frame_.i64(Slot::n_rows);
    Value* units = b_.CreateMul(n, e_.i64(c.spec.kv_heads));
    Value* uneven = b_.CreateICmpNE(b_.CreateURem(units, frame_.i64(Slot::workers)), e_.i64(0));
    Value* few = b_.CreateAnd(b_.CreateICmpULE(n, e_.i64(GC_REDUNDANT_ROWS)), uneven);
    // Only one kind of rows by ranges: generated ones, where they differ.
    if (roles_apart(c)) few = b_.CreateAnd(few, b_.CreateICmpEQ(frame_.i64(Slot::n_prompt), e_.i64(0)));
    const auto counted = e_.if_else(
        few, [&] { return Emitter::Values{b_.CreateCall(attn_most_ranges(e_, c.spec), {step, n})}; },
        [&] { return Emitter::Values{e_.i64(0)}; });
    Value* ranges = counted[0];
    Value* cap = b_.CreateZExt(e_.member_i32(step, offsetof(gc_step, splits_cap)), b_.getInt64Ty());
    Value* split = b_.CreateAnd(b_.CreateICmpUGE(ranges, e_.i64(kSplitRanges)),
                                b_.CreateICmpULE(b_.CreateMul(ranges, n), cap));
    auto by_ranges = [&] {
      AttnSpec spec = c.spec;
      spec.ints = attn_has_ints(spec);
      frame_.meet();  // a range's keys may come from any worker
      Value* items = b_.CreateMul(units, ranges);
      auto bound = [&](Value* j) {
        return b_.CreateCall(share_units(e_), {items, j, frame_.i64(Slot::workers)});
      };
      Value* worker = frame_.i64(Slot::worker);
      Value* lo = bound(worker);
      Value* hi = bound(b_.CreateAdd(worker, e_.i64(1)));
      Value* partials = frame_.ptr(Slot::splits);
      call(attn_split(e_, spec), c.head,
           {q.base, q.stride, q_norm, fine, coarse, partials, ranges, lo, hi, frame_.ptr(Slot::scratch)});
      frame_.meet();
      over_unit_roles(op, c, c.lo, c.hi, [&](const AttnSpec& spec, const Rows& y, Value* from, Value* to) {
        b_.CreateCall(attn_merge(e_, spec), {step, partials, ranges, sinks, y.base, y.stride, from, to});
      });
    };
    e_.if_else(
        split,
        [&] {
          by_ranges();
          return Emitter::Values{};
        },
        [&] {
          whole_rows();
          return Emitter::Values{};
        });
  }
};

}  // namespace

void emit_attention(const Scope& scope, const ir::Op& op) {
  if (op.kind == ir::OpKind::attn_block) return Attention(scope).block(op);
  if (op.kind == ir::OpKind::attention_again) return Attention(scope).again(op);
  if (op.kind == ir::OpKind::choose_positions) return Attention(scope).choose(op);
  return Attention(scope).apart(op);
}

}  // namespace gc::cpu
