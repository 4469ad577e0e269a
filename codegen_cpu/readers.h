// Functions that read packed weights back, for people to look at what a program multiplies by: those of embedding lookup, one
// for each format and length of rows.
#pragma once

#include <string>
#include <vector>

#include "codegen_cpu/emitter.h"
#include "compiler/plan/plan.h"

namespace gc::cpu {

struct Readers {
  struct Reader {
    std::string format;
    llvm::Function* read = nullptr;  // null: flat f32
  };
  struct Section {
    std::size_t reader = 0;
    std::int64_t rows = 0, cols = 0;
  };
  std::vector<Reader> readers;
  std::vector<Section> sections;  // of plan.packed
};

Readers make_readers(Emitter& e, const plan::Plan& plan);

}  // namespace gc::cpu
