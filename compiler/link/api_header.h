// The C header of a model that is made into a library: the runtime's own (runtime/api/model.h, carried as text), with the
// model's prefix in place of gcm_. What the header declares is what the library defines, so the linker reads the names
// of the API's functions from here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gc::link {

// "gemma3" of "out/libgemma3.so", "gemma_3_270m" of "gemma-3-270m.o", "m4b" of "4b.a".
std::string prefix_from(std::string_view output_path);
// Throws UserError unless symbols may begin with it.
void check_prefix(std::string_view prefix);

// Functions that the header declares (after GCM_API), with the header's own prefix.
std::vector<std::string> api_functions(std::string_view header);
// The same under another prefix: "gcm_model_open" -> "gemma3_model_open", "GCM_OK" -> "GEMMA3_OK".
std::string with_prefix(std::string_view text, std::string_view prefix);
// The header for users: `about` says in lines of text which model it is.
std::string make_header(std::string_view header, std::string_view prefix,
                        const std::vector<std::string>& about);

}  // namespace gc::link
