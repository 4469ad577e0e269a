// Objects as a code generator makes them, from LLVM IR text.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace gc::link {

std::vector<std::uint8_t> emit_object(std::string_view ir);

}  // namespace gc::link
