// The CUDA source of a program: device headers, the formats and kernels that it uses, each kernel once. It stands alone:
// NVRTC and nvcc compile it as it is, clang++ too with shim/shim.h in front.
//
// A kernel is a struct of literals and an entry that hands it to a template of kernels/<op>/<op>.cuh:
//
//   struct matmul_q5_0_640_spec { static constexpr int kColumns = 640; ... };
//   extern "C" __global__ void __launch_bounds__(128) matmul_q5_0_640(const Step s, const At a) { ... }
//
// Offsets of weights and values are parameters (device/step.h), so layers of one shape share their kernels.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "compiler/quant/formats.h"

namespace gc::cuda {

// Text of device headers by name ("device/base.cuh"), carried by the compiler.
std::string_view device_header(std::string_view name);

// "1e-06f": the very float.
std::string literal(float x);

// The members of a struct of literals.
class Fields {
 public:
  Fields& number(std::string_view name, std::int64_t value);
  Fields& flag(std::string_view name, bool value);
  Fields& real(std::string_view name, double value);
  // `type name = value`, where the type is one of device code.
  Fields& named(std::string_view type, std::string_view name, std::string_view value);
  // A line as it is.
  Fields& line(std::string_view text);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class Source {
 public:
  // The type's name in device code.
  std::string format(Format format);

  // A kernel's name: `name`, with a number behind it where others of that name differ. In `body` @ stands for the struct.
  std::string kernel(const std::string& name, const Fields& spec, const std::string& body);

  std::string text() const;
  const std::set<std::string>& kernels() const { return names_; }

 private:
  std::set<Format> formats_;
  std::map<std::string, std::string> known_;  // text of a kernel -> its name
  std::set<std::string> names_;
  std::string kernels_;
};

}  // namespace gc::cuda
