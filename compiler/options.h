// Everything the command line can say, filled by main.cc and passed down; nothing else is consulted.
#pragma once

#include <string>
#include <vector>

namespace gc {

enum class Emit {
  kExecutable,
  kObject,
  kArchive,
  kShared,
  kGraph,
  kDot,
  kHtml,
  kPlan,
  kLlvmIr,
  kAssembly,
  kCuda
};

inline bool makes_library(Emit emit) {
  return emit == Emit::kObject || emit == Emit::kArchive || emit == Emit::kShared;
}
inline bool makes_artifact(Emit emit) { return emit == Emit::kExecutable || makes_library(emit); }

// The packed weights inside the output, or in OUT.weights beside it.
enum class Weights { kAuto, kEmbed, kExternal };

// The head's weights in one stream or, where the format has such a layout, in two.
enum class HeadLayout { kAuto, kOne, kTwo };

struct Options {
  std::string model;
  std::string output;
  Emit emit = Emit::kExecutable;
  // Names of codegen_cpu/isa.def or of machines; native: the best this machine runs; portable: all of the target. Empty:
  // native, or for another target than this machine's portable.
  std::vector<std::string> cpus;
  bool cpu = true, cuda = false;        // the devices that an executable has code for
  std::vector<std::string> cuda_archs;  // names of codegen_cuda/arch.def that the CUDA source is compiled for
  std::string nvrtc;                    // NVRTC's library; empty: looked for
  bool fast_int8 = false;               // prompts in 8 bits where that is faster
  std::string target;                   // empty: this machine's
  Weights weights = Weights::kAuto;
  std::string header;             // of an object, archive or shared library; empty: OUT.h
  std::string prefix;             // of its symbols; empty: from OUT
  std::vector<std::string> with;  // commands of an executable; empty: all
  bool no_tokenizer = false;
  std::string chat_template;       // name of one; empty: the file's own
  std::string chat_template_file;  // Jinja source instead
  bool no_template = false;
  std::string prompt_cache_file;  // a text whose states go into the output; empty: none
  HeadLayout head_layout = HeadLayout::kAuto;
  std::string tune;    // file that measured block shapes are written to; empty: none are measured
  std::string tuning;  // file to take them from

  std::vector<std::string> dump_after;
  std::vector<std::string> disabled_passes;
  std::string stop_after;
  bool time_passes = false;
  bool verify_ir = false;
  bool debug_values = false;  // keep every named value apart, for OUT dump
  bool keep_symbols = false;
  std::string save_temps;
  bool quiet = false;
};

}  // namespace gc
