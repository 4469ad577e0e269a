// Chooses how a model's answers are read from its chat template: the row of the format table whose markers the template
// shows, and the variables by which it is told to think. Kept as the number that OutputFormat::open() takes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace gc::text {

// `program` is the same template frozen (jinja_freeze.h): variables are found there, since prose has the words too.
std::uint32_t freeze_output(std::string_view template_text, std::span<const std::uint8_t> program);

}  // namespace gc::text
