// Size of one metadata value of fixed size.
#pragma once

#include <cstdint>

#include "frontends/gguf/reader.h"

namespace gc::gguf {

// 0 for strings and arrays.
constexpr std::uint64_t value_size(ValueType type) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kI8:
    case ValueType::kBool:
      return 1;
    case ValueType::kU16:
    case ValueType::kI16:
      return 2;
    case ValueType::kU32:
    case ValueType::kI32:
    case ValueType::kF32:
      return 4;
    case ValueType::kU64:
    case ValueType::kI64:
    case ValueType::kF64:
      return 8;
    case ValueType::kString:
    case ValueType::kArray:
      return 0;
  }
  return 0;
}

}  // namespace gc::gguf
