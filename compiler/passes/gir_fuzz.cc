// libFuzzer's entry: any bytes as the text of a graph. What does not parse is the user's error; what parses and is well
// formed prints to itself and goes through all passes.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "compiler/base/error.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"
#include "compiler/ir/verify.h"
#include "compiler/passes/pass.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gc::ir::Graph g;
  try {
    g = gc::ir::parse({reinterpret_cast<const char*>(data), size});
  } catch (const gc::UserError&) {
    return 0;
  }
  try {
    gc::ir::verify(g);
  } catch (const gc::InternalError&) {  // not well formed, as texts may be
    return 0;
  }
  const std::string text = gc::ir::print(g);
  if (gc::ir::print(gc::ir::parse(text)) != text) std::abort();
  gc::passes::run_passes(g);  // an error that leaves here is a finding
  return 0;
}
