#include "codegen_cpu/kernels/recurrent/recurrent.h"
#include "codegen_cpu/kernels/recurrent/slots.h"
#include "codegen_cpu/vec/math.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/base/strings.h"

namespace gc::cpu {

using llvm::Value;

namespace {

// `count` channels from byte `at` of each row on.
void emit_channels(Emitter& e, const ConvSpec& spec, const Args& a, const Slots& slots, Value* at,
                   int count) {
  Vec v(e);
  auto& b = e.b();
  const std::int64_t row_bytes = 4 * spec.channels;
  const std::int64_t before = spec.kept / spec.dilation;  // taps but the last
  Vec::Values taps;
  for (std::int64_t j = 0; j <= before; ++j)
    taps.push_back(v.load(e.at(e.at(a["taps"], at), j * row_bytes), count));
  Value* bias = spec.bias ? v.load(e.at(a["bias"], at), count) : v.zero();
  e.for_range(e.i64(0), slots.n_rows(), 1, [&](Value* t) {
    const Slots::Row row = slots.of(t);
    Value* state = e.at(row.state, at);
    Vec::Values x;
    for (std::int64_t j = 0; j < spec.kept; ++j)
      x.push_back(b.CreateSelect(row.first, v.zero(), v.load(e.at(state, j * row_bytes), count)));
    x.push_back(v.load(e.at(e.at(a["x"], t, a["xs"]), at), count));
    Value* y = bias;
    for (std::int64_t j = 0; j <= before; ++j) y = v.fma(taps[j], x[j * spec.dilation], y);
    for (std::int64_t j = 0; j < spec.kept; ++j) v.store(x[j + 1], e.at(state, j * row_bytes), count);
    if (spec.fn) y = activation(v, *spec.fn, y);
    v.store(y, e.at(e.at(a["y"], t, a["ys"]), at), count);
  });
}

}  // namespace

llvm::Function* conv(Emitter& e, const ConvSpec& spec) {
  const std::string name = cat("conv_", spec.channels, "x", spec.kept / spec.dilation + 1,
                               spec.dilation > 1 ? cat("_by", spec.dilation) : "", spec.bias ? "_bias" : "",
                               spec.fn ? cat("_", ir::name(*spec.fn)) : "");
  const std::vector<Arg> args = {in("step"), i64("group"), i64("slot_bytes"), i64("offset"),
                                 in("x"),    i64("xs"),    in("taps"),        in("bias"),
                                 out("y"),   i64("ys"),    i64("lo"),         i64("hi")};
  return e.function(name, args, [&, spec](const Args& a) {
    const Slots slots(e, a);
    for_units(e, a, spec.channels,
              [&](Value* at, int count) { emit_channels(e, spec, a, slots, at, count); });
  });
}

}  // namespace gc::cpu
