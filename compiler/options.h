// Everything the command line can say, filled by main.cc and passed down; nothing else is consulted.
#pragma once

#include <string>
#include <vector>

namespace gc {

enum class Emit { kExecutable, kObject, kArchive, kShared, kGraph, kDot, kHtml, kPlan, kLlvmIr, kAssembly };

// The head's weights in one stream or, where the format has such a layout, in two.
enum class HeadLayout { kAuto, kOne, kTwo };

struct Options {
  std::string model;
  std::string output;
  Emit emit = Emit::kExecutable;
  std::vector<std::string> cpus = {
      "native"};  // names of codegen_cpu/isa.def; native: the best this machine runs
  std::string target = "x86_64-linux-gnu";
  bool no_tokenizer = false;
  std::string chat_template;       // name of one; empty: the file's own
  std::string chat_template_file;  // Jinja source instead
  bool no_template = false;
  HeadLayout head_layout = HeadLayout::kAuto;

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
