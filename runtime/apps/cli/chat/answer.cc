#include "runtime/apps/cli/chat/answer.h"

namespace gcrt {

Status Answer::begin(const OutputFormat& format, bool in_reasoning, bool raw, const AnswerStyle& style) {
  style_ = style;
  raw_ = raw;
  line_open_ = false;
  part_ = Part::kNone;
  content_.clear();
  reasoning_.clear();
  OutputOptions options;
  options.in_reasoning = in_reasoning;
  return parser_.begin(format, tools_, options);
}

Status Answer::push(Str text) { return raw_ ? add(Part::kContent, text) : take(parser_.push(text)); }

Status Answer::finish() {
  const Status s = raw_ ? kOk : take(parser_.finish());
  if (part_ == Part::kReasoning && style_.colors) out_.put("\x1b[0m");
  if (line_open_) out_.put('\n');
  line_open_ = false;
  return s;
}

// What the parser gave. What it cannot read is shown as it is, and so is all that follows.
Status Answer::take(Status parsed) {
  if (parsed != kOk && parsed != kErrInput) return parsed;
  Status s = kOk;
  for (const OutputDelta& d : parser_.deltas()) {
    const bool reasoning = d.kind == OutputDelta::kReasoning;
    if (s != kOk || (!reasoning && d.kind != OutputDelta::kContent)) continue;
    const Str all = reasoning ? parser_.reasoning() : parser_.content();
    s = add(reasoning ? Part::kReasoning : Part::kContent, all.sub(d.begin, d.end - d.begin));
  }
  parser_.clear_deltas();
  if (s != kOk || parsed == kOk) return s;
  raw_ = true;
  return add(Part::kContent, parser_.rest());
}

Status Answer::add(Part part, Str text) {
  if (text.empty()) return kOk;
  if (!append(part == Part::kReasoning ? reasoning_ : content_, text)) return kErrMemory;
  if (part == Part::kContent || style_.terminal) show(part, text);
  return kOk;
}

void Answer::enter(Part part) {
  if (part_ == part) return;
  if (part_ != Part::kNone) out_.print(line_open_ ? "\n" : "", style_.colors ? "\x1b[0m\n" : "\n");
  if (part == Part::kReasoning) out_.put(style_.colors ? "\x1b[2m" : "[thinking] ");
  part_ = part;
  line_open_ = false;
}

// On a terminal what a model writes is text and no command.
void Answer::show(Part part, Str text) {
  enter(part);
  if (!style_.terminal) {
    out_.put(text);
  } else {
    for (size_t i = 0; i < text.size(); ++i) {
      const uint8_t c = static_cast<uint8_t>(text[i]);
      const bool c1 =
          c == 0xC2 && i + 1 < text.size() && static_cast<uint8_t>(text[i + 1]) < 0xA0;  // U+0080 on
      if (c1) ++i;
      if (!c1 && c != 0x7F && (c >= 0x20 || c == '\n' || c == '\t')) out_.put(text[i]);
    }
  }
  line_open_ = text[text.size() - 1] != '\n';
}

}  // namespace gcrt
