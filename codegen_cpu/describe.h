// The constants that the runtime finds a file's programs and its model by (runtime/abi/program.h): gc_program of each
// ISA, gc_programs, gc_the_model.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "codegen_cpu/emitter.h"
#include "compiler/base/model_info.h"
#include "compiler/plan/plan.h"

namespace gc::cpu {

// Entries by kind and KV type; null where the program has none.
using Entries = std::array<std::array<llvm::Function*, GC_KV_TYPES>, GC_ENTRY_KINDS>;

// Defines the hidden constants "<prefix>program" and "<prefix>peak".
void describe_program(Emitter& e, const plan::Plan& plan, const Entries& entries);

// The same for a machine beside the CPU, whose ISA is that one's name: code that reads weights, and entries that refuse to run
// here, of one KV type.
void describe_device_program(Emitter& e, const plan::Plan& plan, int kv_type);

// What is said of the model beside its ModelInfo.
struct ModelFacts {
  struct FormatUse {
    std::string format;
    uint32_t tensors = 0;
    uint64_t file_bytes = 0, image_bytes = 0;
  };
  std::string compiler;  // "gguf-compile 0.1"
  std::vector<FormatUse> formats;
  uint64_t touched_bytes = 0;    // of the file's tensors that a generated token reads
  std::string tokenizer_symbol;  // of the frozen tokenizer's blob, empty: none
  uint64_t tokenizer_bytes = 0;
  std::string chat_template_origin;  // where ModelInfo::chat_template is from
  std::string chat_program_symbol;   // of the compiled template's blob, empty: none
  uint64_t chat_program_bytes = 0;
  uint32_t chat_output = 0;         // gc_model::chat_output
  std::string prompt_cache_symbol;  // of the states that the file brings along, empty: none
  uint64_t prompt_cache_bytes = 0;
  std::vector<uint64_t> code_ids;  // of the programs, in order of the prefixes
};

// A module that defines gc_programs, gc_code_ids and gc_prompt_peaks (the ISAs' by prefix, best first), gc_n_programs and
// gc_the_model.
std::unique_ptr<llvm::Module> describe_model(llvm::LLVMContext& context, const Isa& plainest,
                                             const std::vector<std::string>& prefixes, const ModelInfo& info,
                                             const ModelFacts& facts);

}  // namespace gc::cpu
