// Commands beside compiling: inspect, tokenize, apply-template, parse-output, check-grammar, the lists. Each is a thin
// shell over the code it shows.
#pragma once

#include <CLI/CLI.hpp>
#include <istream>
#include <optional>
#include <ostream>
#include <string>

#include "compiler/text/chosen_template.h"
#include "compiler/text/grammar_tool.h"
#include "compiler/text/template_tool.h"
#include "compiler/text/tokenize_tool.h"

namespace gc {

int list_architectures(std::ostream& out);
int list_formats(std::ostream& out);
// The cost table of products of generated rows, and what it chooses.
int list_costs(std::ostream& out);

class Commands {
 public:
  explicit Commands(CLI::App& app);  // adds the subcommands
  // Runs the one that was given; nothing when none was.
  std::optional<int> run(std::istream& in, std::ostream& out);

 private:
  int run_inspect(std::ostream& out);
  int run_tokenize(std::istream& in, std::ostream& out);
  int run_apply_template(std::istream& in, std::ostream& out);
  int run_check_grammar(std::istream& in, std::ostream& out);
  int run_parse_output(std::istream& in, std::ostream& out);

  CLI::App* inspect_;
  CLI::App* tokenize_;
  CLI::App* apply_template_;
  CLI::App* check_grammar_;
  CLI::App* parse_output_;
  std::string model_;
  bool json_ = false;
  std::string weights_, values_;
  text::TokenizeOptions tokenize_options_;
  std::string context_;
  text::TemplateOptions template_options_;
  text::ApplyTemplateOptions apply_template_options_;
  std::string grammar_, json_schema_;
};

}  // namespace gc
