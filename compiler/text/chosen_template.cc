#include "compiler/text/chosen_template.h"

#include "compiler/base/error.h"
#include "compiler/base/mapped_file.h"
#include "compiler/text/builtin_templates.h"
#include "compiler/text/jinja_freeze.h"
#include "compiler/text/output_freeze.h"

namespace gc::text {
namespace {

// The file's own names come first: "tool_use" is another template in every file.
ChosenTemplate by_name(const Vocab& vocab, const std::string& name) {
  for (const NamedTemplate& t : vocab.named_templates)
    if (t.name == name) return {std::string(t.text), cat("the model's '", name, "'"), {}, 0, {}};
  return {builtin_template(name), cat("built in: ", name), {}, 0, {}};
}

}  // namespace

ChosenTemplate choose_template(const Vocab& vocab, const TemplateOptions& options) {
  if (!options.name.empty() + !options.file.empty() + options.none > 1)
    throw_user("--chat-template, --chat-template-file and --no-template exclude each other");
  if (options.none) return {};
  if (!options.name.empty()) return by_name(vocab, options.name);
  if (!options.file.empty()) {
    ChosenTemplate chosen{read_text_file(options.file), "given to the compiler", {}, 0, {}};
    if (chosen.source.empty()) throw_user(quote(options.file, kWholePath), ": the chat template is empty");
    return chosen;
  }
  if (vocab.chat_template.empty()) return {};
  return {std::string(vocab.chat_template), "the model's own", {}, 0, {}};
}

ChosenTemplate choose_and_freeze_template(const Vocab& vocab, const TemplateOptions& options) {
  ChosenTemplate chosen = choose_template(vocab, options);
  if (chosen.source.empty()) return chosen;
  const char* const ways =
      "(--chat-template NAME or --chat-template-file FILE takes another, --no-template none)";
  try {
    FrozenTemplate frozen = freeze_template(chosen.source);
    chosen.program = std::move(frozen.program);
    chosen.output = freeze_output(chosen.source, chosen.program);
    for (const std::string& warning : frozen.warnings)
      chosen.warnings.push_back(cat("chat template: ", warning));
  } catch (const UnsupportedError& e) {
    throw_unsupported("chat template, ", chosen.origin, ": ", e.what(), " ", ways);
  } catch (const UserError& e) {
    throw_user("chat template, ", chosen.origin, ": ", e.what(), " ", ways);
  }
  return chosen;
}

}  // namespace gc::text
