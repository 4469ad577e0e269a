// Which chat template a program gets: the file's own, one of the file's named ones or a built-in by name, or a file of
// the user's. What is chosen must be a template that runs: nothing else is put in its place silently.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/base/vocab.h"

namespace gc::text {

struct TemplateOptions {
  std::string name;   // --chat-template: of a template in the model file, or a built-in one
  std::string file;   // --chat-template-file
  bool none = false;  // --no-template
};

struct ChosenTemplate {
  std::string source;                 // Jinja; empty: there is none
  std::string origin;                 // for people: "the model's own", "built in: chatml"
  std::vector<std::uint8_t> program;  // runtime/text/jinja/program.h
  std::uint32_t output = 0;           // how its answers are read: runtime/text/output/format.h
  std::vector<std::string> warnings;  // one line each
};

// Throws UserError for a name that is none, a file that cannot be read, options that exclude each other.
ChosenTemplate choose_template(const Vocab& vocab, const TemplateOptions& options);

// The same, compiled. What is wrong with the template is an Error of one line that says which flags go around it.
ChosenTemplate choose_and_freeze_template(const Vocab& vocab, const TemplateOptions& options);

}  // namespace gc::text
