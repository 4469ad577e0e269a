// The bundles inside this compiler, by target.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace gc::link {

// For LinkInput::carried. Throws UnsupportedError for a target that this build carries nothing for.
std::span<const std::uint8_t> bundle_for(std::string_view target);

}  // namespace gc::link
