#include "runtime/apps/cli/chat/chat_input.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

namespace gcrt {
namespace {

bool more_is_there() {
  pollfd in = {0, POLLIN, 0};
  return poll(&in, 1, 0) > 0;
}

}  // namespace

bool ChatInput::terminal_edits() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment
  const char* term = getenv("TERM");
  return term != nullptr && *term != 0 && Str(term) != "dumb";
}

void ChatInput::answer_begins() {
  if (terminal_.is_open()) terminal_.answer();
}

ChatInput::Got ChatInput::next(Vec<char>* message) {
  message->clear();
  if (terminal_.is_open()) return edit(message);
  for (const char* prompt = "> ";; prompt = "  ") {
    bool end = false;
    if (settings_.people) {
      app_.out.print(prompt);
      app_.out.flush();
    }
    if (!line(message, &end)) return Got::kFailed;
    if (end && message->empty()) return Got::kEnd;
    if (end || !str(*message).ends_with("\\")) return Got::kMessage;
    message->back() = '\n';
  }
}

ChatInput::Got ChatInput::rest(Vec<char>* message) {
  message->clear();
  for (bool end = false; !end;) {
    if (!message->append(Span<const char>(buffer_ + at_, used_ - at_))) {
      app_.fail("not enough memory for the message");
      return Got::kFailed;
    }
    if (!fill(&end)) return Got::kFailed;
  }
  if (str(*message).ends_with("\n")) message->pop();
  return message->empty() ? Got::kEnd : Got::kMessage;
}

// Appends the next line without its end.
bool ChatInput::line(Vec<char>* message, bool* end) {
  for (*end = false; !*end;) {
    for (; at_ < used_; ++at_) {
      if (buffer_[at_] == '\n') {
        ++at_;
        return true;
      }
      if (message->push(buffer_[at_])) continue;
      app_.fail("not enough memory for the message");
      return false;
    }
    if (!fill(end)) return false;
  }
  return true;
}

// Reads more into the empty buffer. A change of the terminal's size counts as nothing read.
bool ChatInput::fill(bool* end) {
  at_ = used_ = 0;
  const ssize_t n = read(0, buffer_, sizeof buffer_);
  if (n < 0 && errno != EINTR) {
    app_.fail("cannot read standard input: ", strerrordesc_np(errno));
    return false;
  }
  *end = n == 0;
  if (n > 0) used_ = static_cast<size_t>(n);
  return true;
}

void ChatInput::draw(bool leave) {
  size_t columns = 0, rows = 0;
  terminal_.size(&columns, &rows);
  if (leave)
    editor_.leave(app_.out, columns, rows);
  else
    editor_.draw(app_.out, columns, rows);
  app_.out.flush();
}

ChatInput::Got ChatInput::edit(Vec<char>* message) {
  app_.out.flush();
  terminal_.edit();
  editor_.begin(settings_.prompt);
  Got got = Got::kMessage;
  for (bool done = false, end = false; !done;) {
    while (at_ < used_ && !done) {
      const LineEditor::Event event = editor_.push(static_cast<uint8_t>(buffer_[at_++]));
      if (event != LineEditor::Event::kNone && !act(event, &done, &got)) return Got::kFailed;
    }
    if (done) break;
    if (!more_is_there()) draw(false);  // a long paste is drawn once
    if (!fill(&end)) return Got::kFailed;
    if (end) done = true, got = Got::kEnd;
  }
  draw(true);
  terminal_.answer();
  if (got != Got::kMessage) return got;
  if (append(*message, editor_.text()) && editor_.add_history(editor_.text())) return got;
  app_.fail("not enough memory for the message");
  return Got::kFailed;
}

bool ChatInput::act(LineEditor::Event event, bool* done, Got* got) {
  switch (event) {
    case LineEditor::Event::kNone:
      return true;
    case LineEditor::Event::kDone:
      *done = true;
      return true;
    case LineEditor::Event::kEnd:
      *done = true;
      *got = Got::kEnd;
      return true;
    case LineEditor::Event::kInterrupt: {  // the message is given up
      const bool empty = editor_.text().empty();
      draw(true);
      if (empty) app_.out.print("(Ctrl-D or /exit to leave)\r\n");
      editor_.begin(settings_.prompt);
      return true;
    }
    case LineEditor::Event::kSuspend:
      draw(true);
      terminal_.suspend();
      editor_.forget_picture();
      return true;
    case LineEditor::Event::kFailed:
      app_.fail("not enough memory for the message");
      return false;
  }
  return false;
}

}  // namespace gcrt
