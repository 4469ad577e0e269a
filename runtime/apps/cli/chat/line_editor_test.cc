// The editor by its keys, its picture through a small terminal.
#include "runtime/apps/cli/chat/line_editor.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "runtime/apps/cli/chat/char_width.h"
#include "runtime/apps/cli/output.h"
#include "runtime/text/utf8.h"

namespace gcrt {
namespace {

using Event = LineEditor::Event;

// As much of a terminal as the editor uses: rows of cells, a cursor that waits in the last column before it wraps.
class Screen {
 public:
  explicit Screen(size_t columns) : columns_(columns), rows_(1) {}

  void write(const std::string& bytes) {
    for (size_t at = 0; at < bytes.size();) {
      if (bytes[at] == '\x1b') {
        at = sequence(bytes, at + 2);
      } else if (bytes[at] == '\r') {
        x_ = 0, ++at;
      } else if (bytes[at] == '\n') {
        down(), ++at;
      } else {
        uint32_t code = 0;
        const size_t n = char_bytes({bytes.data(), bytes.size()}, at, &code);
        put(bytes.substr(at, n), static_cast<size_t>(char_width(code)));
        at += n;
      }
    }
  }
  // Rows without blanks at the end, '\n' between; the cursor as '|'.
  std::string picture() const {
    std::string all;
    for (size_t r = 0; r < rows_.size(); ++r) {
      std::string row;
      for (size_t c = 0; c < rows_[r].size() || (r == y_ && c <= x_); ++c) {
        if (r == y_ && c == x_) row += '|';
        if (c < rows_[r].size()) row += rows_[r][c];
      }
      while (!row.empty() && row.back() == ' ') row.pop_back();
      all += (r ? "\n" : "") + row;
    }
    return all;
  }

 private:
  size_t sequence(const std::string& bytes, size_t at) {
    size_t n = 0;
    for (; isdigit(bytes[at]); ++at) n = 10 * n + static_cast<size_t>(bytes[at] - '0');
    switch (bytes[at]) {
      case 'A':
        EXPECT_GE(y_, n);
        y_ -= n;
        break;
      case 'C':
        x_ += n;
        break;
      case 'J':
        rows_.resize(y_ + 1);
        rows_[y_].resize(std::min(x_, rows_[y_].size()));
        break;
      default:
        ADD_FAILURE() << bytes[at];
    }
    return at + 1;
  }
  void down() {
    if (++y_ == rows_.size()) rows_.emplace_back();
  }
  void put(const std::string& cell, size_t width) {
    if (x_ + width > columns_) down(), x_ = 0;
    std::vector<std::string>& row = rows_[y_];
    if (row.size() < x_ + std::max<size_t>(width, 1)) row.resize(x_ + std::max<size_t>(width, 1), " ");
    if (width == 0) {
      row[x_ ? x_ - 1 : 0] += cell;
      row.resize(row.size() - (row.back() == " "));
      return;
    }
    row[x_] = cell;
    if (width == 2) row[x_ + 1] = "";
    x_ += width;
  }

  size_t columns_, x_ = 0, y_ = 0;
  std::vector<std::vector<std::string>> rows_;
};

class LineEditorTest : public testing::Test {
 protected:
  Event type(const std::string& bytes) {
    Event event = Event::kNone;
    for (char c : bytes) event = editor_->push(static_cast<uint8_t>(c));
    return event;
  }
  std::string text() const { return {editor_->text().data(), editor_->text().size()}; }
  // Types, and tells the text with '|' at the cursor.
  std::string after(const std::string& bytes) {
    type(bytes);
    return text().insert(editor_->cursor(), "|");
  }
  void start(EditorSettings settings = {}) {
    editor_.emplace(libc_allocator(), settings);
    editor_->begin("> ");
  }
  void SetUp() override { start(); }
  // What draw() or leave() writes goes to the screen.
  std::string picture(Screen& screen, size_t rows = 24, bool leave = false, size_t columns = 10) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    {
      Output out(ends[1]);
      leave ? editor_->leave(out, columns, rows) : editor_->draw(out, columns, rows);
    }
    close(ends[1]);
    std::string bytes(65536, 0);
    bytes.resize(static_cast<size_t>(read(ends[0], bytes.data(), bytes.size())));
    close(ends[0]);
    screen.write(bytes);
    return screen.picture();
  }

  std::optional<LineEditor> editor_;
};

const char kUp[] = "\x1b[A", kDown[] = "\x1b[B", kRight[] = "\x1b[C", kLeft[] = "\x1b[D", kHome[] = "\x1b[H",
           kEnd[] = "\x1bOF", kDelete[] = "\x1b[3~";

TEST_F(LineEditorTest, TypesAndErases) {
  EXPECT_EQ(after("hello"), "hello|");
  EXPECT_EQ(after("\x7f\x7f"), "hel|");
  EXPECT_EQ(after(std::string(kLeft) + kLeft + "X"), "hX|el");
  EXPECT_EQ(after(kDelete), "hX|l");
  EXPECT_EQ(after(std::string(kHome) + "a" + kEnd + "z"), "ahXlz|");
  EXPECT_EQ(type("\r"), Event::kDone);
  EXPECT_EQ(text(), "ahXlz");
}

TEST_F(LineEditorTest, MovesByCharactersNotBytes) {
  EXPECT_EQ(after("aé漢e\u0301🙂"), "aé漢e\u0301🙂|");
  EXPECT_EQ(after(kLeft), "aé漢e\u0301|🙂");
  EXPECT_EQ(after(kLeft), "aé漢|e\u0301🙂");
  EXPECT_EQ(after("\x7f\x7f"), "a|e\u0301🙂");
  EXPECT_EQ(after(std::string(kRight) + kDelete), "ae\u0301|");
}

TEST_F(LineEditorTest, BytesThatAreNoCharacters) {
  EXPECT_EQ(after("a\xFF"), "a\uFFFD|");
  EXPECT_EQ(after("\xC3z"), "a\uFFFDz|");
  EXPECT_EQ(after(std::string("\0\x1c", 2)), "a\uFFFDz|");
}

TEST_F(LineEditorTest, EmacsKeys) {
  EXPECT_EQ(after("one two three\x02\x02"), "one two thr|ee");
  EXPECT_EQ(after("\x17"), "one two |ee");
  EXPECT_EQ(after("\x19"), "one two thr|ee");
  EXPECT_EQ(after("\x1b"
                  "b"),
            "one two |three");
  EXPECT_EQ(after("\x1b[1;5D"), "one |two three");
  EXPECT_EQ(after("\x1b"
                  "d"),
            "one | three");
  EXPECT_EQ(after("\x05\x1b\x7f"), "one  |");
  EXPECT_EQ(after("ab\x14"), "one  ba|");
  EXPECT_EQ(after("\x01\x06\x0b"), "o|");
  EXPECT_EQ(after("\x15"), "|");
  EXPECT_EQ(after("\x19"), "o|");
}

TEST_F(LineEditorTest, Events) {
  EXPECT_EQ(type("\x04"), Event::kEnd);
  EXPECT_EQ(type("x\x01\x04"), Event::kNone);  // with text it erases
  EXPECT_EQ(text(), "");
  EXPECT_EQ(type("\x03"), Event::kInterrupt);
  EXPECT_EQ(type("\x1a"), Event::kSuspend);
  EXPECT_EQ(type("\x1b[99;99;99x\x1b[?1;2c"), Event::kNone);
  EXPECT_EQ(text(), "");
}

TEST_F(LineEditorTest, SeveralLines) {
  EXPECT_EQ(type("ab\\\r"), Event::kNone);
  EXPECT_EQ(after("longer\x1b\r\nx"), "ab\nlonger\n\nx|");
  EXPECT_EQ(after(std::string(kUp) + kUp), "ab\n|longer\n\nx");
  EXPECT_EQ(after(std::string(kEnd) + kUp), "ab|\nlonger\n\nx");
  EXPECT_EQ(after(kDown), "ab\nlo|nger\n\nx");
  EXPECT_EQ(after("\x0b\x0b"), "ab\nlo|\nx");
  EXPECT_EQ(type("\r"), Event::kDone);
}

TEST_F(LineEditorTest, PastesAsItIs) {
  EXPECT_EQ(type("\x1b[200~one\r\ttwo\nthree\x03\x1b[201~"), Event::kNone);
  EXPECT_EQ(after("!"), "one\n\ttwo\nthree!|");
  EXPECT_EQ(type("\r"), Event::kDone);
}

TEST_F(LineEditorTest, EnterMayBeginALine) {
  start({.enter_begins_line = true});
  EXPECT_EQ(type("a\rb"), Event::kNone);
  EXPECT_EQ(text(), "a\nb");
  EXPECT_EQ(type("\x1b\r"), Event::kDone);
}

TEST_F(LineEditorTest, History) {
  for (const char* line : {"first", "second\nof two", "second\nof two"})
    ASSERT_TRUE(editor_->add_history(line));
  editor_->begin("> ");
  type("draft");
  EXPECT_EQ(after(kUp), "second\nof two|");
  EXPECT_EQ(after(kUp), "second|\nof two");
  EXPECT_EQ(after(kUp), "first|");
  EXPECT_EQ(after(kUp), "first|");
  EXPECT_EQ(after(kDown), "second\nof two|");
  EXPECT_EQ(after("\x0e"), "draft|");
  EXPECT_EQ(after("\x10\x10\x10"), "first|");
}

TEST_F(LineEditorTest, Completes) {
  const Str words[] = {"/save", "/system", "/exit"};
  start({.completions = words});
  EXPECT_EQ(after("/e\t"), "/exit|");
  type("\x15");
  EXPECT_EQ(after("/s\t"), "/s|");
  EXPECT_EQ(after("y\t"), "/system|");
  EXPECT_EQ(after(" \t"), "/system \t|");
  type("\x15");
  EXPECT_EQ(after("\t"), "|");
}

TEST_F(LineEditorTest, DrawsRowsThatWrap) {
  Screen screen(10);
  EXPECT_EQ(picture(screen), "> |");
  type("1234567");
  EXPECT_EQ(picture(screen), "> 1234567|");
  type("8");
  EXPECT_EQ(picture(screen), "> 12345678\n|");
  type("90");
  EXPECT_EQ(picture(screen), "> 12345678\n90|");
  type(std::string(kLeft) + kLeft + kLeft);
  EXPECT_EQ(picture(screen), "> 1234567|8\n90");
  type("\x7f\x7f\x7f");
  EXPECT_EQ(picture(screen), "> 1234|890");
  EXPECT_EQ(picture(screen, 24, true), "> 1234890\n|");
}

TEST_F(LineEditorTest, DrawsLinesAndWideCharacters) {
  Screen screen(10);
  type(
      "漢漢漢a漢\x0a"
      "bc");
  EXPECT_EQ(picture(screen), "> 漢漢漢a\n漢\n  bc|");
  type(std::string(kUp) + kUp);
  EXPECT_EQ(picture(screen), "> 漢|漢漢a\n漢\n  bc") << text() << editor_->cursor();
  type("\x15\x0b\x0b");
  EXPECT_EQ(picture(screen), "> |bc");
  type("12345678\x01");  // a line as wide as the screen, and another one
  type("\x05\x0ax");
  EXPECT_EQ(picture(screen), "> 12345678\nbc\n  x|");
}

TEST_F(LineEditorTest, ShowsWhatFits) {
  Screen screen(10);
  type("1\n2\n3\n4\n5");
  EXPECT_EQ(picture(screen, 3), "  3\n  4\n  5|");
  type(std::string(kUp) + kUp + kUp);
  EXPECT_EQ(picture(screen, 3), "  2|\n  3\n  4");
  type(kUp);
  EXPECT_EQ(picture(screen, 3), "> 1|\n  2\n  3");
  EXPECT_EQ(picture(screen, 3, true), "  3\n  4\n  5\n|");
}

// Any keys in any order: the cursor stays between characters, and the picture is what drawing anew would give.
TEST_F(LineEditorTest, AnyKeys) {
  const char* const kKeys[] = {"a",
                               "b c",
                               "漢",
                               "e\u0301",
                               "🙂",
                               "\x1b[A",
                               "\x1b[B",
                               "\x1b[C",
                               "\x1b[D",
                               "\x01",
                               "\x05",
                               "\x0b",
                               "\x15",
                               "\x17",
                               "\x19",
                               "\x14",
                               "\x0a",
                               "\x7f",
                               "\x1b[3~",
                               "\x1b"
                               "b",
                               "\x1b"
                               "f",
                               "\x1b"
                               "d",
                               "\t",
                               "\x1b[200~x\ry\x1b[201~",
                               "\xC3",
                               "\xFF",
                               "\x1b[1;5C"};
  uint64_t state = 1;
  auto random = [&state](size_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(state >> 33) % n;
  };
  ASSERT_TRUE(editor_->add_history("old\nmessage") && editor_->add_history("another"));
  editor_->begin("> ");
  Screen screen(10);
  for (int i = 0; i < 3000; ++i) {
    type(kKeys[random(std::size(kKeys))]);
    const Str text = editor_->text();
    ASSERT_LE(editor_->cursor(), text.size());
    for (size_t at = 0; at < text.size();) {
      const int n = utf8_next(text.sub(at));
      ASSERT_GT(n, 0);
      ASSERT_FALSE(at < editor_->cursor() && editor_->cursor() < at + static_cast<size_t>(n));
      at += static_cast<size_t>(n);
    }
    if (random(3) != 0) continue;
    const std::string now = picture(screen, 12);
    Screen fresh(10);
    editor_->forget_picture();
    ASSERT_EQ(picture(fresh, 12), now) << i;
    if (text.size() > 200) type("\x15\x0b");
  }
}

TEST(CharWidth, Characters) {
  EXPECT_EQ(char_width('a'), 1);
  EXPECT_EQ(char_width(0xE9), 1);
  EXPECT_EQ(char_width(0x301), 0);
  EXPECT_EQ(char_width(0x200D), 0);
  EXPECT_EQ(char_width(0x6F22), 2);
  EXPECT_EQ(char_width(0x1F642), 2);
  EXPECT_EQ(char_width(0x10FFFF), 1);
  EXPECT_EQ(text_width("aé漢"), 4);
}

}  // namespace
}  // namespace gcrt
