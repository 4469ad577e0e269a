#pragma once
// Where a chat's messages come from: a terminal with the line editor, or lines of standard input.
#include "runtime/apps/cli/app.h"
#include "runtime/apps/cli/chat/line_editor.h"
#include "runtime/apps/cli/terminal.h"
#include "runtime/base/vec.h"

namespace gcrt {

struct InputSettings {
  Str prompt = "> ";
  bool people = false;     // somebody looks at standard output and types: lines have a prompt
  bool multiline = false;  // Enter begins a new line
  Str before, after;       // colours of what is typed
  Span<const Str> completions;
};

class ChatInput {
 public:
  enum class Got : uint8_t { kMessage, kEnd, kFailed };  // kFailed has been reported

  ChatInput(App& app, const InputSettings& settings)
      : app_(app),
        settings_(settings),
        editor_(app.memory, {settings.multiline, settings.completions, settings.before, settings.after}) {}

  // Does the terminal say that it takes an editor's commands?
  static bool terminal_edits();
  // From now on messages are edited. False: standard input and output are no terminal.
  bool open_terminal() { return terminal_.open(); }
  // The next message: what was edited, or a line, with those that follow a backslash at its end.
  Got next(Vec<char>* message);
  // All that is left of standard input; a last newline is left out.
  Got rest(Vec<char>* message);
  // Around an answer.
  void answer_begins();

 private:
  Got edit(Vec<char>* message);
  bool act(LineEditor::Event event, bool* done, Got* got);
  bool line(Vec<char>* message, bool* end);
  bool fill(bool* end);
  void draw(bool leave);

  App& app_;
  InputSettings settings_;
  Terminal terminal_;
  LineEditor editor_;
  char buffer_[4096];  // read and not used
  size_t at_ = 0, used_ = 0;
};

}  // namespace gcrt
