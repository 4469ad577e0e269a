#include "codegen_cpu/readers.h"

#include <map>

#include "codegen_cpu/kernels/head/two_streams.h"
#include "codegen_cpu/kernels/row_decode/row_decode.h"
#include "compiler/base/strings.h"
#include "compiler/quant/layouts.h"
#include "compiler/quant/two_streams.h"

namespace gc::cpu {
namespace {

using llvm::Value;
using plan::Packed;

// void(section, i64 row, out).
llvm::Function* reader_of(Emitter& e, Format format, const Packed& p) {
  const std::vector<Arg> args = {in("section"), i64("row"), out("y")};
  if (!p.two_streams)
    return e.function(cat("read_row_", name(format), "_", p.cols), args, [&](const Args& a) {
      e.b().CreateCall(row_decode(e, format, p.cols), {a["section"], a["row"], a["y"], e.f32(1)});
    });
  // The panel is put together first.
  return e.function(cat("read_row_two_streams_", p.rows, "x", p.cols), args, [&](const Args& a) {
    llvm::IRBuilder<>& b = e.b();
    const std::int64_t panels = (p.rows + kPanelRows - 1) / kPanelRows;
    Value* panel = b.CreateUDiv(a["row"], e.i64(kPanelRows));
    Value* joined = e.stack(panel_bytes(format, p.cols));
    Value* lower = e.at(a["section"], panels * upper_panel_bytes(p.cols));
    b.CreateCall(join_panels(e, p.cols), {e.at(a["section"], panel, upper_panel_bytes(p.cols)),
                                          e.at(lower, panel, lower_panel_bytes(p.cols)), e.i64(1), joined});
    b.CreateCall(row_decode(e, format, p.cols),
                 {joined, b.CreateURem(a["row"], e.i64(kPanelRows)), a["y"], e.f32(1)});
  });
}

}  // namespace

Readers make_readers(Emitter& e, const plan::Plan& plan) {
  Readers all;
  std::map<std::pair<std::string, llvm::Function*>, std::size_t> known;
  for (const Packed& p : plan.packed) {
    const Format format = plan.graph.weight(p.weight).format;
    const bool flat = p.kind != Packed::Kind::Panels;
    const std::string text(flat ? name(Format::F32) : name(format));
    llvm::Function* read = flat ? nullptr : reader_of(e, format, p);
    const auto [it, fresh] = known.try_emplace({text, read}, all.readers.size());
    if (fresh) all.readers.push_back({text, read});
    all.sections.push_back({it->second, flat ? 1 : p.rows, flat ? p.bytes / 4 : p.cols});
  }
  return all;
}

}  // namespace gc::cpu
