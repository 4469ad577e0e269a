#include "codegen_cuda/source.h"

#include <cstdio>

#include "codegen_cuda/formats.h"
#include "compiler/base/error.h"

namespace gc::cuda {

std::string literal(float x) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", double{x});
  std::string s = text;
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return s + "f";
}

Fields& Fields::named(std::string_view type, std::string_view name, std::string_view value) {
  text_ += cat("  static constexpr ", type, " ", name, " = ", value, ";\n");
  return *this;
}
Fields& Fields::number(std::string_view name, std::int64_t value) { return named("int", name, cat(value)); }
Fields& Fields::flag(std::string_view name, bool value) {
  return named("bool", name, value ? "true" : "false");
}
Fields& Fields::real(std::string_view name, double value) {
  return named("float", name, literal(static_cast<float>(value)));
}
Fields& Fields::line(std::string_view text) {
  text_ += cat("  ", text, "\n");
  return *this;
}

std::string Source::format(Format format) {
  formats_.insert(format);
  return format_type(format);
}

std::string Source::kernel(const std::string& name, const Fields& spec, const std::string& body) {
  const std::string text = cat(spec.text(), "\n", body);
  if (const auto known = known_.find(text); known != known_.end()) return known->second;
  std::string unique = name;
  for (int i = 2; names_.contains(unique); ++i) unique = cat(name, "_", i);
  names_.insert(unique);
  known_[text] = unique;
  kernels_ += cat("\nstruct ", unique, "_spec {\n", spec.text(), "};\n");
  kernels_ +=
      cat("extern \"C\" __global__ void __launch_bounds__(128) ", unique, "(const Step s, const At a) {\n");
  for (const char c : body) kernels_ += c == '@' ? unique + "_spec" : std::string(1, c);
  kernels_ += "}\n";
  return unique;
}

std::string Source::text() const {
  std::string text =
      "// Made by gguf-compile. nvcc -arch=sm_80 -fmad=false -cubin FILE, NVRTC and the host shim compile it "
      "as it is.\n";
  for (const char* name :
       {"runtime/abi/cuda_step.h", "device/base.cuh", "device/act.cuh", "device/decode.cuh", "device/mma.cuh",
        "kernels/norm/norm.cuh", "kernels/matmul/tensor.cuh", "kernels/matmul/matmul.cuh",
        "kernels/attention/attention.cuh", "kernels/experts/experts.cuh", "kernels/recurrent/recurrent.cuh",
        "kernels/rows/rows.cuh", "kernels/streams/streams.cuh"})
    text += cat("\n", device_header(name));
  text += "\nnamespace gc::device {\n\n";
  for (const Format format : formats_) text += cat(format_struct(format), "\n");
  return cat(text, "}  // namespace gc::device\n\nusing namespace gc::device;\n", kernels_);
}

}  // namespace gc::cuda
