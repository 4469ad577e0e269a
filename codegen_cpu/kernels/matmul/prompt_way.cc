#include "codegen_cpu/kernels/matmul/prompt_way.h"

#include "codegen_cpu/kernels/matmul/dot_matmul.h"
#include "codegen_cpu/kernels/matmul/tile_matmul.h"
#include "compiler/base/error.h"
#include "compiler/quant/layouts.h"

namespace gc::cpu {

PromptWay prompt_way(const Isa& isa) {
  if (isa.has_amx) return PromptWay::Tiles;
  if (isa.coarse_prompts && isa.has_vnni) return PromptWay::Bytes;
  return isa.has_bf16dot ? PromptWay::Bf16 : PromptWay::Pairs;
}

std::string_view prompt_unit(const Isa& isa) {
  switch (prompt_way(isa)) {
    case PromptWay::Tiles:
      return "tdpbf16ps";
    case PromptWay::Bf16:
      return "vdpbf16ps";
    case PromptWay::Pairs:
      if (isa.has_neon) return isa.has_i8mm ? "smmla" : isa.has_dotprod ? "sdot" : "smull";
      return isa.has_vnni ? "vpdpwssd" : "vpmaddwd";
    case PromptWay::Bytes:
      return "vpdpbusd";
  }
  throw_internal("a way of multiplying prompts");
}

ir::Elem prompt_input(PromptWay way) {
  switch (way) {
    case PromptWay::Tiles:
    case PromptWay::Bf16:
      return ir::Elem::BF16;
    case PromptWay::Pairs:
    case PromptWay::Bytes:
      return ir::Elem::Q16;
  }
  throw_internal("a way of multiplying prompts");
}

bool has_prompt_matmul(PromptWay way, Format format) {
  return has_tile_matmul(format) && (way == PromptWay::Tiles || !layout_for(format).is_float());
}

std::int64_t prompt_scratch_bytes(const Isa& isa, std::int64_t k) {
  const PromptWay way = prompt_way(isa);
  return way == PromptWay::Tiles ? tile_scratch_bytes(isa, k) : dot_scratch_bytes(isa, way);
}

}  // namespace gc::cpu
