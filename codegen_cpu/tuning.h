// A tuning file: block shapes that were measured on a machine for a model, for later compiles. Text, a line a product:
//
//   gguf-compile 0.1 tuning 1
//   isa sapphirerapids
//   q8_0 640 row_panels=4 ahead=4096 tile_rows=3 chunk_groups=3
//   ...
//   isa x86-64-v4-vnni
//   ...
//
// Whose compiler, ISA or products are others' is refused: shapes of another kernel mean nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen_cpu/kernels/matmul/shapes.h"

namespace gc::cpu {

struct Tuning {
  std::string isa;
  std::vector<TunedProduct> products;
};

std::string print_tuning(std::string_view compiler, const std::vector<Tuning>& tunings);
// Throws UserError naming the line.
std::vector<Tuning> parse_tuning(std::string_view compiler, std::string_view text);

// The tuning of the ISA; throws UserError when there is none or it lacks one of `products`.
const Tuning& tuning_for(const std::vector<Tuning>& tunings, const Isa& isa,
                         const std::vector<TunedProduct>& products);

}  // namespace gc::cpu
