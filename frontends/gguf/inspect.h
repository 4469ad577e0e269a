// `gguf-compile inspect`: what a model file holds, for people or as JSON. Long arrays are shortened, strings of the
// file are made safe for a terminal.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <ostream>

#include "frontends/gguf/reader.h"

namespace gc::gguf {

struct InspectOptions {
  bool json = false;
  std::uint64_t array_items = 8;  // shown of an array that is longer than twice as many
};

// The file as one JSON object: file, bytes, version, alignment, shards, architecture, name, values, metadata,
// tensors, types. Callers that know more of the model add their own members.
nlohmann::ordered_json describe(const File& file, const InspectOptions& options);
// Indented, with bytes that are no UTF-8 as U+FFFD.
void print_json(const nlohmann::ordered_json& json, std::ostream& out);

// Prints the file; returns the process's exit code.
int inspect(const File& file, const InspectOptions& options, std::ostream& out);

}  // namespace gc::gguf
