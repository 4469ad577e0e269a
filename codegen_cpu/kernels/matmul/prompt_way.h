// How prompt rows are multiplied, by facts of the ISA.
#pragma once

#include <cstdint>
#include <string_view>

#include "codegen_cpu/isa.h"
#include "compiler/ir/ir.h"
#include "compiler/quant/formats.h"

namespace gc::cpu {

// Tiles: tile_matmul.h; the others: dot_ways.h.
enum class PromptWay : std::uint8_t { Tiles, Bf16, Pairs, Bytes };

PromptWay prompt_way(const Isa& isa);
// The instruction that multiplies: "vdpbf16ps".
std::string_view prompt_unit(const Isa& isa);
// The form of the rows that the way reads.
ir::Elem prompt_input(PromptWay way);
// Formats that have the way: those of blocks, and on tiles BF16 and F16.
bool has_prompt_matmul(PromptWay way, Format format);
// What a worker needs for a product of k columns.
std::int64_t prompt_scratch_bytes(const Isa& isa, std::int64_t k);

}  // namespace gc::cpu
