// A GGUF model as a graph.
//
// An architecture is a row of arch.def and one file that is read top to bottom: its keys, its tensors, its graph.
// What many of them share lies in keys.h and tensors.h (checked reading), decoder.h (facts of every decoder) and
// compiler/blocks (pieces of graphs).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/base/model_info.h"
#include "compiler/ir/ir.h"
#include "frontends/gguf/reader.h"

namespace gc::gguf {

struct LoadedModel {
  ir::Graph graph;  // of one step, only plain ops; verified
  ModelInfo info;
  std::vector<std::string> warnings;  // one line each, for the user
};

struct Architecture {
  std::string_view name;
  LoadedModel (*load)(const File&);
  std::string_view about;
};

// In order of names.
std::span<const Architecture> list_architectures();

// Throws UserError when the file contradicts itself or lacks something, UnsupportedError when it asks for what its
// architecture's graph here does not do, or is of an architecture that is not in arch.def.
LoadedModel load_model(const File& file);

#define ARCH(name, load, about) LoadedModel load(const File& file);
#include "frontends/gguf/arch/arch.def"
#undef ARCH

}  // namespace gc::gguf
