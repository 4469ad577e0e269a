#include "compiler/text/output_freeze.h"

#include <cstring>

#include "compiler/base/error.h"
#include "runtime/text/jinja/program.h"
#include "runtime/text/output/format.h"

namespace gc::text {
namespace {

std::uint32_t find_switches(std::span<const std::uint8_t> bytes) {
  namespace jinja = gcrt::jinja;
  jinja::Program program;
  GC_CHECK(program.open({bytes.data(), bytes.size()}) == gcrt::kOk);
  jinja::Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::uint32_t found = 0;
  for (std::uint32_t i = 0; i < header.n_nodes; ++i) {
    const jinja::Node& node = program.node(i);
    if (node.op != jinja::Op::kName) continue;
    const gcrt::Str name = program.text(node.arg);
    for (std::uint32_t s = 0; s < static_cast<std::uint32_t>(gcrt::ThinkSwitch::kCount); ++s)
      if (name == gcrt::switch_name(static_cast<gcrt::ThinkSwitch>(s))) found |= 1u << s;
  }
  return found;
}

}  // namespace

std::uint32_t freeze_output(std::string_view template_text, std::span<const std::uint8_t> program) {
  return gcrt::frozen_output(gcrt::recognise_output({template_text.data(), template_text.size()}),
                             find_switches(program));
}

}  // namespace gc::text
