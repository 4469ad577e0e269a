#include "compiler/text/grammar_tool.h"

#include <ostream>

#include "compiler/base/error.h"
#include "compiler/base/strings.h"
#include "runtime/text/grammar.h"

namespace gc::text {

int check_grammar(GrammarKind kind, std::string_view source, std::string_view text, std::ostream& out) {
  const gcrt::Str given{source.data(), source.size()};
  gcrt::Grammar grammar;
  char message[1024] = {};
  gcrt::Status s = gcrt::kOk;
  switch (kind) {
    case GrammarKind::kGbnf:
      s = grammar.compile_gbnf(given, message);
      break;
    case GrammarKind::kJsonSchema:
      s = grammar.compile_json_schema(given, message);
      break;
  }
  if (s == gcrt::kErrUnsupported) throw_unsupported(escape_controls(message));
  if (s != gcrt::kOk) throw_user(escape_controls(message));
  gcrt::GrammarState state;
  GC_CHECK(state.init(&grammar, nullptr) == gcrt::kOk);
  for (std::size_t i = 0; i < text.size(); ++i) {
    s = state.accept_bytes({text.data() + i, 1});
    if (s == gcrt::kErrInput) {
      out << "not a sentence: byte " << i << " (" << quote(text.substr(i, 1)) << ") is not allowed there\n";
      return 2;
    }
    if (s != gcrt::kOk) throw_user("the grammar is too ambiguous for this text");
  }
  if (state.can_end()) return 0;
  out << "not a sentence: it ends too early\n";
  return 2;
}

}  // namespace gc::text
