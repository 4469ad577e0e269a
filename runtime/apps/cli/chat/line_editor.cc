#include "runtime/apps/cli/chat/line_editor.h"

#include "runtime/apps/cli/chat/char_width.h"
#include "runtime/apps/cli/output.h"
#include "runtime/text/utf8.h"

namespace gcrt {
namespace {

constexpr size_t kTabWidth = 4, kMostHistory = 1000;

// What words are made of, for moving by them: not white space, not ASCII punctuation.
bool in_word(Str text, size_t at) {
  const char c = text[at];
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
         static_cast<uint8_t>(c) >= 0x80;
}
bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t'; }

int width_of(uint32_t code) { return code == '\t' ? static_cast<int>(kTabWidth) : char_width(code); }

}  // namespace

void LineEditor::begin(Str prompt) {
  prompt_ = prompt;
  prompt_width_ = static_cast<size_t>(text_width(prompt));
  text_.clear();
  draft_.clear();
  cursor_ = first_row_ = drawn_row_ = 0;
  at_history_ = history_.size();
  in_paste_ = false;
}

bool LineEditor::add_history(Str text) {
  if (text.empty() || (!history_.empty() && str(history_.back()) == text)) return true;
  Vec<char> entry(text_.allocator());
  if (history_.size() == kMostHistory) {  // the oldest goes
    for (size_t i = 1; i < history_.size(); ++i) history_[i - 1] = static_cast<Vec<char>&&>(history_[i]);
    history_.pop();
  }
  return append(entry, text) && history_.push(static_cast<Vec<char>&&>(entry));
}

// ---- Keys ----

LineEditor::Event LineEditor::push(uint8_t byte) {
  Press press;
  if (!keys_.push(byte, &press)) return Event::kNone;
  const Event event = handle(press);
  return failed_ ? Event::kFailed : event;
}

LineEditor::Event LineEditor::handle(const Press& press) {
  if (in_paste_) {
    handle_in_paste(press);
    return Event::kNone;
  }
  switch (press.key) {
    case Key::kChar:
      insert_code(press.code);
      break;
    case Key::kControl:
      return handle_control(press.code);
    case Key::kAlt:
      if (press.code == '\n' && settings_.enter_begins_line) return Event::kDone;
      handle_alt(press.code);
      break;
    case Key::kEnter:
      return enter();
    case Key::kTab:
      complete();
      break;
    case Key::kBackspace:
      erase(previous_char(text(), cursor_), cursor_);
      break;
    case Key::kDelete:
      erase(cursor_, next_char(text(), cursor_));
      break;
    case Key::kUp:
    case Key::kDown:
      vertical(press.key == Key::kUp);
      break;
    case Key::kLeft:
      cursor_ = previous_char(text(), cursor_);
      break;
    case Key::kRight:
      cursor_ = next_char(text(), cursor_);
      break;
    case Key::kWordLeft:
      cursor_ = word_left(cursor_);
      break;
    case Key::kWordRight:
      cursor_ = word_right(cursor_);
      break;
    case Key::kHome:
      cursor_ = line_begin(cursor_);
      break;
    case Key::kEnd:
      cursor_ = line_end(cursor_);
      break;
    case Key::kPasteBegin:
      in_paste_ = true;
      break;
    case Key::kPasteEnd:
    case Key::kOther:
      break;
  }
  return Event::kNone;
}

LineEditor::Event LineEditor::handle_control(uint32_t letter) {
  switch (letter) {
    case 'A':
      cursor_ = line_begin(cursor_);
      break;
    case 'B':
      cursor_ = previous_char(text(), cursor_);
      break;
    case 'C':
      return Event::kInterrupt;
    case 'D':
      if (text_.empty()) return Event::kEnd;
      erase(cursor_, next_char(text(), cursor_));
      break;
    case 'E':
      cursor_ = line_end(cursor_);
      break;
    case 'F':
      cursor_ = next_char(text(), cursor_);
      break;
    case 'J':
      insert("\n");
      break;
    case 'K': {
      const size_t end = line_end(cursor_);  // at the end of a line the newline goes
      kill(cursor_, end == cursor_ && end < text_.size() ? end + 1 : end);
      break;
    }
    case 'N':
    case 'P':
      vertical(letter == 'P');
      break;
    case 'T':
      transpose();
      break;
    case 'U':
      kill(line_begin(cursor_), cursor_);
      break;
    case 'W': {
      size_t from = cursor_;  // to white space, as shells do
      while (from > 0 && is_blank(text_[from - 1])) --from;
      while (from > 0 && !is_blank(text_[from - 1])) --from;
      kill(from, cursor_);
      break;
    }
    case 'Y':
      insert(str(killed_));
      break;
    case 'Z':
      return Event::kSuspend;
    default:
      break;
  }
  return Event::kNone;
}

void LineEditor::handle_alt(uint32_t code) {
  switch (code) {
    case '\n':
      insert("\n");
      break;
    case 'b':
      cursor_ = word_left(cursor_);
      break;
    case 'f':
      cursor_ = word_right(cursor_);
      break;
    case 'd':
      kill(cursor_, word_right(cursor_));
      break;
    case '\b':
      kill(word_left(cursor_), cursor_);
      break;
    default:
      break;
  }
}

// Between the marks of a bracketed paste keys are text: lines don't end the message, control characters are left out.
void LineEditor::handle_in_paste(const Press& press) {
  if (press.key == Key::kPasteEnd) in_paste_ = false;
  if (press.key == Key::kChar) insert_code(press.code);
  if (press.key == Key::kTab) insert("\t");
  if (press.key == Key::kEnter || (press.key == Key::kControl && press.code == 'J')) insert("\n");
}

LineEditor::Event LineEditor::enter() {
  if (settings_.enter_begins_line) {
    insert("\n");
    return Event::kNone;
  }
  if (cursor_ == 0 || text_[cursor_ - 1] != '\\') return Event::kDone;
  erase(cursor_ - 1, cursor_);
  insert("\n");
  return Event::kNone;
}

// ---- Changes ----

void LineEditor::insert(Str piece) {
  const size_t n = piece.size(), old = text_.size();
  if (n == 0) return;
  if (!text_.resize(old + n)) {
    failed_ = true;
    return;
  }
  memmove(text_.data() + cursor_ + n, text_.data() + cursor_, old - cursor_);
  memcpy(text_.data() + cursor_, piece.data(), n);
  cursor_ += n;
}

void LineEditor::insert_code(uint32_t code) {
  if (code < 0x20 || (code >= 0x7F && code < 0xA0)) return;
  Vec<char> piece(text_.allocator());
  if (utf8_append(code, piece))
    insert(str(piece));
  else
    failed_ = true;
}

void LineEditor::erase(size_t from, size_t to) {
  if (from == to) return;
  memmove(text_.data() + from, text_.data() + to, text_.size() - to);
  text_.truncate(text_.size() - (to - from));
  cursor_ = from;
}

void LineEditor::kill(size_t from, size_t to) {
  if (from == to) return;
  if (!killed_.copy(text_.span().sub(from, to - from))) failed_ = true;
  erase(from, to);
}

void LineEditor::set_text(Str text) {
  text_.clear();
  if (!append(text_, text)) failed_ = true;
  cursor_ = text_.size();
}

void LineEditor::transpose() {
  const size_t at = cursor_ == text_.size() ? previous_char(text(), cursor_) : cursor_;
  const size_t before = previous_char(text(), at), after = next_char(text(), at);
  if (before == at || at == after || text_[before] == '\n' || text_[at] == '\n') return;
  Vec<char> two(text_.allocator());
  if (!two.append(text_.span().sub(at, after - at)) || !two.append(text_.span().sub(before, at - before))) {
    failed_ = true;
    return;
  }
  memcpy(text_.data() + before, two.data(), two.size());
  cursor_ = after;
}

void LineEditor::complete() {
  for (char c : text_)
    if (is_blank(c)) return insert("\t");
  Str found;
  size_t common = 0;
  for (Str word : settings_.completions) {
    if (!word.starts_with(text())) continue;
    if (found.empty()) found = word, common = word.size();
    size_t n = 0;
    while (n < min_of(common, word.size()) && word[n] == found[n]) ++n;
    common = n;
  }
  if (!text_.empty() && !found.empty()) set_text(found.sub(0, common));
}

// ---- Moves ----

size_t LineEditor::line_begin(size_t at) const {
  while (at > 0 && text_[at - 1] != '\n') --at;
  return at;
}
size_t LineEditor::line_end(size_t at) const {
  while (at < text_.size() && text_[at] != '\n') ++at;
  return at;
}
size_t LineEditor::word_left(size_t at) const {
  while (at > 0 && !in_word(text(), at - 1)) --at;
  while (at > 0 && in_word(text(), at - 1)) --at;
  return at;
}
size_t LineEditor::word_right(size_t at) const {
  while (at < text_.size() && !in_word(text(), at)) ++at;
  while (at < text_.size() && in_word(text(), at)) ++at;
  return at;
}

// A line up or down, in about the same column; past the first or last one an earlier or later message.
void LineEditor::vertical(bool up) {
  const size_t begin = line_begin(cursor_), end = line_end(cursor_);
  if (up ? begin == 0 : end == text_.size()) return recall(up);
  const int column = text_width(text().sub(begin, cursor_ - begin));
  size_t at = up ? line_begin(begin - 1) : end + 1;
  const size_t limit = line_end(at);
  for (int x = 0; at < limit && x < column;) {
    const size_t next = next_char(text(), at);
    x += text_width(text().sub(at, next - at));
    at = next;
  }
  cursor_ = min_of(at, limit);
}

void LineEditor::recall(bool up) {
  if (up ? at_history_ == 0 : at_history_ == history_.size()) return;
  if (at_history_ == history_.size() && !draft_.copy(text_)) failed_ = true;
  at_history_ = up ? at_history_ - 1 : at_history_ + 1;
  set_text(at_history_ == history_.size() ? str(draft_) : str(history_[at_history_]));
}

// ---- The picture ----

// Cuts the text into rows of at most `columns`, and finds the cursor. False: no memory.
bool LineEditor::lay_out(size_t columns, size_t* cursor_row, size_t* cursor_column) {
  const size_t indent = prompt_width_ + 2 <= columns ? prompt_width_ : 0;
  rows_.clear();
  Row row = {0, 0, indent};
  size_t x = indent;
  for (size_t at = 0;;) {
    uint32_t code = 0;
    const bool end = at == text_.size();
    const size_t n = end ? 0 : char_bytes(text(), at, &code);
    const size_t width =
        end || code == '\n' ? 1 : static_cast<size_t>(width_of(code));  // the cursor's own column
    if (x + width > columns && !(code == '\n' && at != cursor_)) {
      row.end = at;
      if (!rows_.push(row)) return false;
      row = {at, at, 0};
      x = 0;
    }
    if (at == cursor_) *cursor_row = rows_.size(), *cursor_column = x;
    if (end) break;
    at += n;
    x += width;
    if (code != '\n') continue;
    row.end = at - 1;
    if (!rows_.push(row)) return false;
    row = {at, at, indent};
    x = indent;
  }
  row.end = text_.size();
  return rows_.push(row);
}

void LineEditor::show_row(Output& out, const Row& row) const {
  if (row.begin == 0)
    out.put(prompt_.sub(0, row.indent == 0 ? 0 : prompt_.size()));
  else
    for (size_t i = 0; i < row.indent; ++i) out.put(' ');
  for (size_t at = row.begin; at < row.end; ++at) {
    if (text_[at] == '\t')
      out.put("    ");
    else
      out.put(text_[at]);
  }
}

void LineEditor::draw(Output& out, size_t columns, size_t rows) {
  size_t row = 0, column = 0;
  if (!lay_out(max_of(columns, size_t{2}), &row, &column)) {
    failed_ = true;
    return;
  }
  const size_t height = max_of(rows, size_t{2});
  if (row < first_row_) first_row_ = row;
  if (row >= first_row_ + height) first_row_ = row - height + 1;
  if (first_row_ + height > rows_.size()) first_row_ = rows_.size() > height ? rows_.size() - height : 0;
  const size_t last = min_of(rows_.size(), first_row_ + height);
  out.put('\r');
  if (drawn_row_ != 0) out.print("\x1b[", drawn_row_, "A");
  out.print("\x1b[J", settings_.before);
  for (size_t r = first_row_; r < last; ++r) {
    if (r != first_row_) out.put("\r\n");
    show_row(out, rows_[r]);
  }
  out.print(settings_.after, "\r");
  if (last - 1 != row) out.print("\x1b[", last - 1 - row, "A");
  if (column != 0) out.print("\x1b[", column, "C");
  drawn_row_ = row - first_row_;
}

void LineEditor::leave(Output& out, size_t columns, size_t rows) {
  cursor_ = text_.size();
  draw(out, columns, rows);
  out.put("\r\n");
  drawn_row_ = 0;
}

}  // namespace gcrt
