#include "codegen_cpu/kernels/matmul/block.h"

#include "codegen_cpu/vec/vec.h"
#include "compiler/base/strings.h"

namespace gc::cpu {

using llvm::Value;
using Values = Emitter::Values;

std::string Blocks::name() const { return cat("s", scale_cols, has_min ? "_min" : ""); }

llvm::Function* unpack_group(Emitter& e, const Layout& layout, const Layout* lower_layout,
                             std::string_view form, std::int64_t step_bytes,
                             const std::function<Values(Value*)>& operands) {
  const std::string name = cat("unpack_", info(layout.format).text_name, "_", form);
  return e.function(
      name, {in("base"), in("quants"), in("scales"), in("mins"), i64("blocks32"), in("lower"), out("to")},
      [&](const Args& args) {
        Vec v(e);
        const Blocks blocks(layout);
        const Unpacked at(step_bytes, blocks);
        PanelReader reader(e, layout, kGroupCols);
        const PanelReader::Supers supers = reader.supers(args["base"]);
        e.for_range(e.i64(0), args["blocks32"], 1, [&](Value* i) {
          std::vector<Value*> steps = reader.steps(args["quants"], i);
          if (lower_layout) {
            PanelReader lower(e, *lower_layout, kGroupCols);
            steps = PanelReader::joined(e, steps, lower.steps(args["lower"], i));
          }
          Value* to = e.at(args["to"], i, at.bytes);
          for (std::size_t s = 0; s < steps.size(); ++s) {
            std::int64_t begin = static_cast<std::int64_t>(s) * step_bytes;
            for (Value* operand : operands(steps[s])) {
              e.store(operand, e.at(to, begin), 64);
              begin += 64;
            }
          }
          for (int part = 0; part < blocks.parts(); ++part) {
            Value* scale = reader.scale(reader.scale_at(args["scales"], i, part), supers);
            v.store(scale, e.at(to, at.scales + 64 * part));
            if (blocks.has_min)
              v.store(reader.min(reader.min_at(args["mins"], i, part), supers, scale),
                      e.at(to, at.mins + 64 * part));
          }
        });
      });
}

Value* add_block(Emitter& e, Value* y, Value* isum, Value* d, Value* d_sum, Value* scale, Value* min) {
  Vec v(e);
  y = v.fma(e.b().CreateSIToFP(isum, v.type()), v.mul(scale, d), y);
  return min ? v.fma(min, d_sum, y) : y;
}

}  // namespace gc::cpu
