// Turns a chat template into the program that the runtime executes in place (runtime/text/jinja/program.h). The same
// text gives the same bytes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/jinja/program.h"

namespace gc::text {

struct FrozenTemplate {
  std::vector<std::uint8_t> program;
  std::vector<std::string> warnings;  // one line each, for people
};

// Throws UserError "line N: ..." for what is no template, UnsupportedError for what is one that we cannot run, both by
// the name of what is wrong.
FrozenTemplate freeze_template(std::string_view source);

// Collects nodes, children before their parents.
class ProgramBuilder {
 public:
  using Op = gcrt::jinja::Op;

  std::uint32_t add(Op op, std::uint32_t line, const std::vector<std::uint32_t>& children = {},
                    std::uint32_t arg = 0, std::uint8_t sub = 0);
  std::uint32_t string(std::string_view text);  // its index
  std::uint32_t number(std::uint64_t bits);
  const gcrt::jinja::Node& node(std::uint32_t i) const { return nodes_[i]; }
  std::uint32_t child(std::uint32_t node, std::uint32_t k) const { return refs_[nodes_[node].first + k]; }
  const std::string& text(std::uint32_t i) const { return strings_[i]; }
  void set_sub(std::uint32_t node, std::uint8_t sub) { nodes_[node].sub = sub; }
  std::vector<std::uint8_t> finish(std::uint32_t root) const;

 private:
  std::vector<gcrt::jinja::Node> nodes_;
  std::vector<std::uint32_t> refs_;
  std::vector<std::uint64_t> numbers_;
  std::vector<std::string> strings_;
  std::map<std::string, std::uint32_t, std::less<>> string_index_;
};

}  // namespace gc::text
