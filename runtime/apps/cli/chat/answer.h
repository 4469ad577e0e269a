#pragma once
// An answer as it arrives: taken apart into reasoning and content, kept, and shown.
#include "runtime/apps/cli/output.h"
#include "runtime/base/vec.h"
#include "runtime/text/output/parser.h"

namespace gcrt {

struct AnswerStyle {
  bool terminal = false;  // control characters stay away, reasoning is shown
  bool colors = false;
};

class Answer {
 public:
  Answer(Output& out, Allocator a) : out_(out), parser_(a), tools_(a), content_(a), reasoning_(a) {}

  // `raw`: all of it is content, as it comes.
  Status begin(const OutputFormat& format, bool in_reasoning, bool raw, const AnswerStyle& style);
  // Text of the model, special tokens as text. What can be shown is in the output then.
  Status push(Str text);
  // The end: shows the rest, and the line is ended.
  Status finish();

  Str content() const { return str(content_); }
  Str reasoning() const { return str(reasoning_); }
  bool empty() const { return content_.empty() && reasoning_.empty(); }
  bool in_reasoning() const { return !raw_ && parser_.in_reasoning(); }

 private:
  enum class Part : uint8_t { kNone, kReasoning, kContent };
  Status take(Status parsed);
  Status add(Part part, Str text);
  void show(Part part, Str text);
  void enter(Part part);

  Output& out_;
  AnswerStyle style_;
  OutputParser parser_;
  ToolSet tools_;  // none
  Vec<char> content_, reasoning_;
  bool raw_ = false, line_open_ = false;
  Part part_ = Part::kNone;  // that is being shown
};

}  // namespace gcrt
