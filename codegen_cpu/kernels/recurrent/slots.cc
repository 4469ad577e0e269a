#include "codegen_cpu/kernels/recurrent/slots.h"

#include <cstddef>

#include "runtime/abi/program.h"

namespace gc::cpu {

using llvm::Value;

Slots::Slots(Emitter& e, const Args& a) : e_(e), slot_bytes_(a["slot_bytes"]) {
  auto& b = e.b();
  Value *step = a["step"], *group = a["group"];
  rows_ = e.member_ptr(step, offsetof(gc_step, rows));
  n_rows_ = b.CreateZExt(e.member_i32(step, offsetof(gc_step, n_rows)), b.getInt64Ty());
  tables_ = e.at(e.member_ptr(step, offsetof(gc_step, seqs)), group, std::int64_t{sizeof(gc_table)},
                 offsetof(gc_seq, tables));
  Value* pools = e.member_ptr(step, offsetof(gc_step, pools));
  pool_ = e.at(e.load(e.ptr(), e.at(pools, group, std::int64_t{8}), 8), a["offset"]);
}

Slots::Row Slots::of(Value* row) const {
  auto& b = e_.b();
  Value* r = e_.at(rows_, row, std::int64_t{sizeof(gc_row)});
  Value* seq = b.CreateZExt(e_.member_i32(r, offsetof(gc_row, seq)), b.getInt64Ty());
  Value* table = e_.at(tables_, seq, std::int64_t{sizeof(gc_seq)});
  Value* slot = e_.member_i32(e_.member_ptr(table, offsetof(gc_table, blocks)), 0);
  Value* pos = e_.member_i32(r, offsetof(gc_row, pos));
  return {e_.at(pool_, b.CreateZExt(slot, b.getInt64Ty()), slot_bytes_), b.CreateICmpEQ(pos, e_.i32(0)),
          b.CreateZExt(pos, b.getInt64Ty()), e_.member_i32(r, offsetof(gc_row, token))};
}

void for_units(Emitter& e, const Args& a, std::int64_t columns,
               const std::function<void(Value* at, int count)>& emit) {
  const int tail = static_cast<int>(columns % 16);
  e.for_range(a["lo"], a["hi"], 1, [&](Value* unit) {
    Value* at = e.b().CreateShl(unit, 6);
    auto part = [&](int count) {
      emit(at, count);
      return Emitter::Values{};
    };
    if (tail == 0) {
      part(16);
      return;
    }
    e.if_else(
        e.b().CreateICmpEQ(unit, e.i64(columns / 16)), [&] { return part(tail); }, [&] { return part(16); });
  });
}

}  // namespace gc::cpu
