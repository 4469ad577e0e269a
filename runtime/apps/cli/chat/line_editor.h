#pragma once
// Editing of a message on a terminal: keys in, text and a picture of it out. It knows no terminal, so tests drive it by
// bytes; chat_input.h connects the two.
//
// Of our own rather than a library's: readline's licence would pass to every compiled model; Debian's static libedit
// adds 360 kB with libbsd and terminfo, wants a terminfo database and a locale at run time, which a bare container has
// not, and edits one line, while messages have several and arrive by bracketed paste.
//
// Keys are those of Emacs that readline made everyone's. Enter ends the message; Alt-Enter, Ctrl-J, or Enter after a
// backslash begin a new line (with `enter_begins_line` Enter does, and Alt-Enter ends). Up and down go through the
// lines of the message, and from the first or last one through earlier messages.
//
// A picture is drawn from its first row on: cursor up, erase what is below, write the rows. Of messages taller than the
// terminal the rows around the cursor are shown.
#include <stdint.h>

#include "runtime/apps/cli/chat/keys.h"
#include "runtime/base/span.h"
#include "runtime/base/vec.h"

namespace gcrt {

class Output;

struct EditorSettings {
  bool enter_begins_line = false;
  Span<const Str> completions;  // of the first word, by Tab: "/exit", "/help"
  Str before = "", after = "";  // around all of the picture: colours
};

class LineEditor {
 public:
  enum class Event : uint8_t {
    kNone,
    kDone,       // text() is complete
    kEnd,        // Ctrl-D in an empty message
    kInterrupt,  // Ctrl-C
    kSuspend,    // Ctrl-Z
    kFailed,     // no memory
  };

  explicit LineEditor(Allocator a, const EditorSettings& settings = {})
      : settings_(settings), text_(a), killed_(a), draft_(a), rows_(a), history_(a) {}
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // An empty message after a prompt, at the beginning of a row.
  void begin(Str prompt);
  Event push(uint8_t byte);
  Str text() const { return str(text_); }
  size_t cursor() const { return cursor_; }
  // Anything typed before stays. False: no memory.
  bool add_history(Str text);

  // Over what was drawn before; columns and rows of the terminal, 2 at least.
  void draw(Output& out, size_t columns, size_t rows);
  // The cursor goes to the row after the picture. What comes next is drawn below.
  void leave(Output& out, size_t columns, size_t rows);
  // The picture is gone (the screen was cleared, another program wrote).
  void forget_picture() { drawn_row_ = 0; }

 private:
  struct Row {
    size_t begin, end;  // of text_
    size_t indent;      // columns before it
  };
  Event handle(const Press& press);
  Event handle_control(uint32_t letter);
  void handle_alt(uint32_t code);
  void handle_in_paste(const Press& press);
  Event enter();
  void insert(Str piece);
  void insert_code(uint32_t code);
  void erase(size_t from, size_t to);
  void kill(size_t from, size_t to);
  void set_text(Str text);
  void vertical(bool up);
  void recall(bool up);
  void transpose();
  void complete();
  size_t line_begin(size_t at) const;
  size_t line_end(size_t at) const;
  size_t word_left(size_t at) const;
  size_t word_right(size_t at) const;
  bool lay_out(size_t columns, size_t* row, size_t* column);
  void show_row(Output& out, const Row& row) const;

  EditorSettings settings_;
  Str prompt_;
  size_t prompt_width_ = 0;
  Vec<char> text_;  // UTF-8
  size_t cursor_ = 0;
  Vec<char> killed_, draft_;
  Vec<Row> rows_;
  size_t first_row_ = 0;  // the uppermost one that is shown
  size_t drawn_row_ = 0;  // the cursor's, counted from the first one shown
  Vec<Vec<char>> history_;
  size_t at_history_ = 0;  // history_.size(): the message that is being written
  KeyDecoder keys_;
  bool in_paste_ = false, failed_ = false;
};

}  // namespace gcrt
