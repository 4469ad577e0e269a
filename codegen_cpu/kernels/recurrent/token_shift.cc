#include "codegen_cpu/kernels/recurrent/recurrent.h"
#include "codegen_cpu/kernels/recurrent/slots.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/base/strings.h"

namespace gc::cpu {

using llvm::Value;

namespace {

// `count` columns from byte `at` of each row on.
void emit_columns(Emitter& e, const ShiftSpec& spec, const Args& a, const Slots& slots, Value* at,
                  int count) {
  Vec v(e);
  const std::int64_t row_bytes = 4 * spec.columns;
  e.for_range(e.i64(0), slots.n_rows(), 1, [&](Value* t) {
    const Slots::Row row = slots.of(t);
    Value* state = e.at(row.state, at);
    Value* before = e.b().CreateSelect(row.first, v.zero(), v.load(state, count));
    Value* x = v.load(e.at(e.at(a["x"], t, a["xs"]), at), count);
    v.store(x, state, count);
    Value* d = v.sub(before, x);
    Value* y = e.at(e.at(a["y"], t, a["ys"]), at);
    if (spec.mixes == 0) v.store(d, y, count);
    for (std::int64_t j = 0; j < spec.mixes; ++j) {
      Value* mix = v.load(e.at(e.at(a["mix"], at), j * row_bytes), count);
      v.store(v.fma(mix, d, x), e.at(y, j * row_bytes), count);
    }
  });
}

}  // namespace

llvm::Function* token_shift(Emitter& e, const ShiftSpec& spec) {
  const std::string name = cat("token_shift_", spec.columns, spec.mixes > 0 ? cat("_mix", spec.mixes) : "");
  const std::vector<Arg> args = {in("step"), i64("group"), i64("slot_bytes"), i64("offset"),
                                 in("x"),    i64("xs"),    in("mix"),         out("y"),
                                 i64("ys"),  i64("lo"),    i64("hi")};
  return e.function(name, args, [&, spec](const Args& a) {
    const Slots slots(e, a);
    for_units(e, a, spec.columns, [&](Value* at, int count) { emit_columns(e, spec, a, slots, at, count); });
  });
}

}  // namespace gc::cpu
