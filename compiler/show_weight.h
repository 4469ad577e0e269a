// `gguf-compile inspect MODEL.gguf --weights NAME [-o F]`: the values of a tensor as compiled programs multiply by them:
// packed as for a program, and read back. A line as `OUT dump` prints them; with -o all values as little-endian f32.
#pragma once

#include <ostream>
#include <string>

#include "frontends/gguf/reader.h"

namespace gc {

// `path` empty: no file.
void show_weight(const gguf::File& file, const std::string& name, const std::string& path, std::ostream& out);

}  // namespace gc
