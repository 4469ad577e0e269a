// A static library of one object, in the form that ar writes and linkers read: a table of symbols, then the member.
// Written here, since the member's bytes are streamed into the file and may be more than memory holds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gc::link {

// All that stands before the member's bytes, a multiple of 16. A byte of padding ('\n') follows a member of odd size.
// Throws UserError for a member of 10 GB and more, whose size the form has no room for.
std::vector<std::uint8_t> archive_head(std::string_view member_name, std::uint64_t member_size,
                                       const std::vector<std::string>& symbols);

}  // namespace gc::link
