#include "compiler/text/jinja_freeze.h"

#include <cstring>

#include "compiler/base/error.h"
#include "compiler/text/jinja_parser.h"

namespace gc::text {
namespace jinja = gcrt::jinja;

std::uint32_t ProgramBuilder::add(Op op, std::uint32_t line, const std::vector<std::uint32_t>& children,
                                  std::uint32_t arg, std::uint8_t sub) {
  if (children.size() > 0xFFFF)
    throw_unsupported("line ", line, ": more than 65,535 parts in one expression or block");
  jinja::Node node{op,   sub, static_cast<std::uint16_t>(children.size()),
                   line, arg, static_cast<std::uint32_t>(refs_.size())};
  refs_.insert(refs_.end(), children.begin(), children.end());
  nodes_.push_back(node);
  return static_cast<std::uint32_t>(nodes_.size() - 1);
}

std::uint32_t ProgramBuilder::string(std::string_view text) {
  if (auto found = string_index_.find(text); found != string_index_.end()) return found->second;
  const auto index = static_cast<std::uint32_t>(strings_.size());
  strings_.emplace_back(text);
  string_index_.emplace(std::string(text), index);
  return index;
}

std::uint32_t ProgramBuilder::number(std::uint64_t bits) {
  for (std::size_t i = 0; i < numbers_.size(); ++i)
    if (numbers_[i] == bits) return static_cast<std::uint32_t>(i);
  numbers_.push_back(bits);
  return static_cast<std::uint32_t>(numbers_.size() - 1);
}

std::vector<std::uint8_t> ProgramBuilder::finish(std::uint32_t root) const {
  std::vector<jinja::TextRef> refs;
  std::string text;
  for (const std::string& s : strings_) {
    refs.push_back({static_cast<std::uint32_t>(text.size()), static_cast<std::uint32_t>(s.size())});
    text += s;
  }
  jinja::Header h{};
  h.magic = jinja::kMagic;
  h.version = jinja::kVersion;
  h.n_numbers = static_cast<std::uint32_t>(numbers_.size());
  h.n_nodes = static_cast<std::uint32_t>(nodes_.size());
  h.n_refs = static_cast<std::uint32_t>(refs_.size());
  h.n_strings = static_cast<std::uint32_t>(refs.size());
  h.n_text = static_cast<std::uint32_t>(text.size());
  h.root = root;
  std::vector<std::uint8_t> out(sizeof h);
  auto put = [&out](const void* data, std::size_t bytes) {
    const std::size_t at = out.size();
    out.resize(at + bytes);
    if (bytes) std::memcpy(out.data() + at, data, bytes);
  };
  put(numbers_.data(), numbers_.size() * sizeof numbers_[0]);
  put(nodes_.data(), nodes_.size() * sizeof nodes_[0]);
  put(refs_.data(), refs_.size() * sizeof refs_[0]);
  put(refs.data(), refs.size() * sizeof refs[0]);
  put(text.data(), text.size());
  h.bytes = out.size();
  std::memcpy(out.data(), &h, sizeof h);
  return out;
}

FrozenTemplate freeze_template(std::string_view source) {
  constexpr std::size_t kMaxTemplate = std::size_t{16} << 20;
  if (source.size() > kMaxTemplate) throw_unsupported("a chat template of ", human_bytes(source.size()));
  FrozenTemplate out;
  ProgramBuilder builder;
  const std::uint32_t root = TemplateParser(source, builder, &out.warnings).run();
  out.program = builder.finish(root);
  jinja::Program check;
  GC_CHECK(check.open({out.program.data(), out.program.size()}) == gcrt::kOk,
           "the frozen template does not open");
  return out;
}

}  // namespace gc::text
