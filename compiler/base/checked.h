// Arithmetic on sizes that come from a file, where a wrapped product is an attack.
#pragma once

#include <concepts>
#include <cstdint>

namespace gc {

// False when the result does not fit T; *out is then unspecified.
template <std::integral T>
[[nodiscard]] constexpr bool checked_add(T a, T b, T* out) {
  return !__builtin_add_overflow(a, b, out);
}

template <std::integral T>
[[nodiscard]] constexpr bool checked_mul(T a, T b, T* out) {
  return !__builtin_mul_overflow(a, b, out);
}

// [offset, offset + length) lies within [0, size).
constexpr bool range_fits(std::uint64_t offset, std::uint64_t length, std::uint64_t size) {
  return offset <= size && length <= size - offset;
}

constexpr bool is_power_of_2(std::uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

// Smallest multiple of `alignment` (a power of 2) that is >= value; false when that does not fit.
[[nodiscard]] constexpr bool checked_align_up(std::uint64_t value, std::uint64_t alignment,
                                              std::uint64_t* out) {
  if (!checked_add(value, alignment - 1, out)) return false;
  *out &= ~(alignment - 1);
  return true;
}

// For values known to be far from the limit.
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

}  // namespace gc
