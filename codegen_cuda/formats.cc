#include "codegen_cuda/formats.h"

#include "codegen_cuda/source.h"
#include "compiler/base/error.h"
#include "compiler/quant/layouts.h"

namespace gc::cuda {
namespace {

const char* scale_name(ScaleKind kind) {
  switch (kind) {
    case ScaleKind::None:
      return "None";
    case ScaleKind::F16:
      return "F16";
    case ScaleKind::U8:
      return "U8";
    case ScaleKind::I8:
      return "I8";
    case ScaleKind::Low4:
      return "Low4";
    case ScaleKind::High4:
      return "High4";
    case ScaleKind::I7:
      return "I7";
    case ScaleKind::Bit:
      return "Bit";
    case ScaleKind::Odd7:
      return "Odd7";
    case ScaleKind::OddBit:
      return "OddBit";
    case ScaleKind::Mask:
      return "Mask";
    case ScaleKind::E8M0:
      return "E8M0";
    case ScaleKind::UE4M3:
      return "UE4M3";
  }
  throw_internal("scale kind");
}

// F64 is packed as F32.
const char* float_name(Format format) {
  return format == Format::F16 ? "F16" : format == Format::BF16 ? "BF16" : "F32";
}

std::string float_struct(Format format) {
  const char* bytes = format == Format::F16    ? "K * 32"
                      : format == Format::BF16 ? "(K + 1) / 2 * 64"
                                               : "K * 64";
  return cat("struct ", format_type(format),
             " {\n  static constexpr FloatKind kind = FloatKind::", float_name(format),
             ";\n  template <int K>\n  static __host__ __device__ constexpr int panel_bytes() {\n",
             "    return ", bytes, ";\n  }\n};\n");
}

// "return i == 0 ? a : i == 1 ? b : c;"
template <class Get>
std::string choose(int n, Get get) {
  std::string text = "return ";
  for (int i = 0; i + 1 < n; ++i) text += cat("i == ", i, " ? ", get(i), " : ");
  return cat(text, get(n - 1), ";");
}

std::string method(const char* head, const std::string& body) {
  return cat("  static __host__ __device__ constexpr ", head, " { ", body, " }\n");
}

std::string group_text(const Layout& l, std::int64_t cols) {
  if (cols == 0 || cols % l.entry_cols != 0 || cols % info(l.format).block_values != 0)
    return "Group{0, 0, 0, 0}";
  const Layout::Group g = l.group(cols);
  return cat("Group{", g.scales, ", ", g.mins, ", ", g.quants, ", ", g.bytes, "}");
}

}  // namespace

std::string undecodable(Format format) {
  if (!has_layout(format)) return cat("tensors of type ", name(format), " have no kernels");
  const Layout& l = layout_for(format);
  if (l.index().values > 0)
    return cat("tensors of type ", name(format), ": indices of codebooks and trellises");
  if (l.values().size() > 16) return cat("tensors of type ", name(format), ": tables of more than 16 values");
  if (l.min == ScaleKind::Mask) return cat("tensors of type ", name(format), ": shifts in bits of their own");
  return "";
}

std::string format_type(Format format) { return std::string(name(format)); }

std::string format_struct(Format format) {
  const Layout& l = layout_for(format);
  if (l.is_float()) return float_struct(format);
  GC_CHECK(undecodable(format).empty());
  int planes = 0;
  while (l.planes[static_cast<size_t>(planes)].bits != 0) ++planes;
  const auto plane = [&](int i) { return l.planes[static_cast<size_t>(i)]; };
  std::string text =
      cat("struct ", format_type(format), " {\n  static constexpr FloatKind kind = FloatKind::None;\n");
  text += cat("  static constexpr int planes = ", planes, ", offset = ", l.offset,
              ", scale_cols = ", l.scale_cols, ", entry_cols = ", l.entry_cols, ", supers = ", l.supers(),
              ", block_bytes = ", l.quant_bytes(), ", shift = ", l.min_is_shift() ? l.shift() : 0, ";\n");
  text += cat("  static constexpr bool super_f32 = ", l.super_bytes() == 4 ? "true" : "false",
              ", has_table = ", l.values().empty() ? "false" : "true", ";\n");
  text += cat("  static constexpr float unit = ", literal(l.unit), ";\n");
  text += cat("  static constexpr ScaleKind scale = ScaleKind::", scale_name(l.scale),
              ", min = ScaleKind::", scale_name(l.min), ";\n");
  text += method("int bits(int i)", choose(planes, [&](int i) { return int{plane(i).bits}; }));
  text += method("int at(int i)", choose(planes, [&](int i) { return int{plane(i).at}; }));
  text += method("u32 table(int i)", choose(4, [&](int i) {
                   std::uint32_t word = 0;
                   for (size_t b = 0; b < 4 && !l.values().empty(); ++b)
                     word |= std::uint32_t{l.values()[static_cast<size_t>(i) * 4 + b]} << (8 * b);
                   return cat(word, "u");
                 }));
  text +=
      cat("  template <int K>\n  static __host__ __device__ constexpr Group group(bool tail) {\n    if "
          "(!tail) return ",
          group_text(l, kGroupCols), ";\n    switch (K % 256) {\n");
  for (std::int64_t cols = 32; cols < kGroupCols; cols += 32)
    text += cat("      case ", cols, ":\n        return ", group_text(l, cols), ";\n");
  text += "    }\n    return Group{0, 0, 0, 0};\n  }\n";
  text +=
      "  template <int K>\n  static __host__ __device__ constexpr int panel_bytes() {\n"
      "    return K / 256 * group<K>(false).bytes + group<K>(true).bytes;\n  }\n};\n";
  return text;
}

}  // namespace gc::cuda
