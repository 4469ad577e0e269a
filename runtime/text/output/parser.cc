#include "runtime/text/output/parser.h"

#include <string.h>

#include "runtime/base/format.h"
#include "runtime/text/output/scan.h"
#include "runtime/text/utf8.h"

namespace gcrt {
using namespace output;
namespace {

constexpr size_t kMaxName = 256;     // bytes of what stands where a name or id belongs
constexpr size_t kMaxHeader = 1024;  // bytes of a header
constexpr size_t kCompactAt = 4096;  // used bytes of the raw text that are worth moving the rest

// A word of a header: up to a space or the next token.
Str header_word(Str header, Str before) {
  const size_t at = find(header, before);
  if (at == kNowhere) return {};
  const Str s = header.sub(at + before.size());
  size_t n = 0;
  while (n < s.size() && !is_space(s[n]) && s[n] != '<') ++n;
  return s.sub(0, n);
}

// Bytes at the end of `s` that begin a character without ending it.
size_t cut_character(Str s) {
  for (size_t back = 1; back <= 3 && back <= s.size(); ++back) {
    const uint8_t c = static_cast<uint8_t>(s[s.size() - back]);
    if (c < 0x80) return 0;
    if (c >= 0xC0) return utf8_next(s.sub(s.size() - back)) == 0 ? back : 0;
  }
  return 0;
}

}  // namespace

OutputParser::OutputParser(Allocator a)
    : raw_(a),
      content_(a),
      reasoning_(a),
      space_(a),
      calls_(a),
      deltas_(a),
      marks_(a),
      early_(a),
      scratch_(a),
      word_(a),
      id_(a),
      json_(a),
      levels_(a) {}

Status OutputParser::begin(const OutputFormat& format, const ToolSet& tools, const OutputOptions& options) {
  format_ = &format, row_ = &format.row(), tools_ = &tools;
  parallel_ = options.parallel_calls, final_ = false;
  state_ = row_->flags & kHeaders ? State::kHeader : State::kText;
  failure_ = kOk;
  message_[0] = 0;
  raw_.clear(), content_.clear(), reasoning_.clear(), space_.clear(), calls_.clear(), deltas_.clear();
  visible_ = at_ = part_begin_ = 0;
  undo_ = kNoUndo;
  in_reasoning_ = was_marked_ = options.in_reasoning;
  wrapped_ = calling_ = listed_ = list_ended_ = skipping_ = fenced_ = bare_ = false;
  opening_ = true;
  return make_marks() ? kOk : kErrMemory;
}

bool OutputParser::make_marks() {
  marks_.clear();
  memset(first_, 0, sizeof first_);
  const bool headers = row_->flags & kHeaders;
  bool ok = add_mark(row_->think_open, Marker::kThinkOpen, true, false) &&
            add_mark(row_->think_close, Marker::kThinkClose, true, true) &&
            add_mark(row_->wrap_open, Marker::kWrapOpen, true, false) &&
            add_mark(row_->wrap_close, Marker::kWrapClose, true, false) &&
            add_mark(row_->header_open, Marker::kHeader, true, true);
  for (const char* skip : row_->skip) ok = ok && add_mark(skip, Marker::kSkip, true, headers);
  if (!tools_->size() || row_->shape == CallShape::kNone) return ok;
  const bool thinking = row_->flags & kCallsInThinking;
  ok = ok && add_mark(row_->section_open, Marker::kSection, true, thinking);
  if (!row_->section_open || (row_->flags & kBareCall))
    ok = ok && add_mark(row_->head, Marker::kHead, true, thinking);
  return ok && add_mark(row_->code_open, Marker::kCode, true, false);
}

bool OutputParser::add_mark(const char* pattern, Marker what, bool in_content, bool in_reasoning) {
  if (!pattern) return true;
  const Str text = literal_head(pattern);
  if (text.empty()) return true;
  first_[static_cast<uint8_t>(text[0])] = true;
  return marks_.push({text, what, in_content, in_reasoning});
}

Status OutputParser::push(Str text) {
  if (failure_ != kOk) return failure_;
  if (state_ == State::kDone) return kOk;
  if (!append(raw_, text)) return failure_ = kErrMemory;
  visible_ = raw_.size() - cut_character(str(raw_));
  return run();
}

Status OutputParser::finish() {
  if (failure_ != kOk || state_ == State::kDone) return failure_;
  final_ = true;
  visible_ = raw_.size();
  if (run() != kOk) return failure_;
  if (calling_) {
    const size_t from = calls_.back().arguments.size();
    if (!json_.flush(calls_.back().arguments) ||
        !delta(OutputDelta::kArguments, from, calls_.back().arguments.size()))
      return failure_ = kErrMemory;
  }
  const bool markup = in_reasoning_ || (was_marked_ && at_start());
  if (state_ == State::kText && !markup && !space_.empty()) {
    const size_t from = content_.size();
    if (!content_.append(space_.span()) || !delta(OutputDelta::kContent, from, content_.size()))
      return failure_ = kErrMemory;
  }
  space_.clear();
  return failure_;
}

Status OutputParser::run() {
  while (state_ != State::kFailed && step() != Step::kWait) {
    const bool between = state_ == State::kText || state_ == State::kSection;
    if (!parallel_ && between && !calls_.empty() && calls_.back().complete) {
      state_ = State::kDone;
      break;
    }
  }
  const size_t keep = min_of(at_, undo_);
  if (state_ != State::kFailed && keep > kCompactAt && keep > raw_.size() / 2) {
    memmove(raw_.data(), raw_.data() + keep, raw_.size() - keep);
    raw_.truncate(raw_.size() - keep);
    at_ -= keep, visible_ -= keep;
    if (undo_ != kNoUndo) undo_ -= keep;
  }
  return failure_;
}

OutputParser::Step OutputParser::step() {
  switch (state_) {
    case State::kText:
      return text();
    case State::kHeader:
      return header();
    case State::kSection:
      return section();
    case State::kObject:
      return object();
    case State::kArguments:
      return arguments();
    case State::kParams:
      return params();
    case State::kValue:
      return value();
    case State::kNested:
      return nested();
    case State::kPython:
      return python();
    case State::kCode:
      return code();
    case State::kTail:
      return tail();
    case State::kDone:
    case State::kFailed:
      break;
  }
  return Step::kWait;
}

// ---- Text ----

// The first mark from byte `from` on. Null: none, or *cut says that at byte *at one may begin.
const OutputParser::Mark* OutputParser::find_mark(Str rest, size_t from, size_t* at, bool* cut) const {
  *cut = false;
  for (size_t i = from; i < rest.size(); ++i) {
    if (!first_[static_cast<uint8_t>(rest[i])]) continue;
    const Str here = rest.sub(i);
    const Mark* found = nullptr;
    for (const Mark& m : marks_) {
      if (in_reasoning_ ? !m.in_reasoning : !m.in_content) continue;
      if (here.starts_with(m.text)) {
        if (!found || m.text.size() > found->text.size()) found = &m;
      } else if (!final_ && m.text.starts_with(here)) {
        *cut = true;
      }
    }
    if (!found && !*cut) continue;
    *at = i;
    return *cut ? nullptr : found;
  }
  return nullptr;
}

OutputParser::Step OutputParser::text() {
  Str rest = unread();
  if (rest.empty()) return Step::kWait;
  if (!in_reasoning_ && at_start() && calls_.empty() && tools_->size()) {
    const Match bare = bare_call(rest);
    if (bare == Match::kCut && !final_) return Step::kWait;
    if (bare == Match::kYes) {
      undo_ = at_;
      bare_ = true;
      listed_ = list_ended_ = false;
      state_ = State::kSection;
      return Step::kMove;
    }
  }
  size_t from = 0;
  for (;;) {
    size_t at = 0;
    bool cut = false;
    const Mark* mark = find_mark(rest, from, &at, &cut);
    const size_t plain_bytes = mark || cut ? at : rest.size();
    if (plain_bytes > 0) {  // a mark right behind one that was plain included
      if (!put_text(rest.sub(0, plain_bytes))) return no_memory();
      take(plain_bytes);
      rest = unread();
    }
    if (!mark) return Step::kWait;
    const Step s = act(*mark);
    if (s != Step::kPlain) return s;
    from = 1;
  }
}

// The mark begins the unread text.
OutputParser::Step OutputParser::act(const Mark& mark) {
  switch (mark.what) {
    case Marker::kThinkOpen:
      if (!at_start() && !(row_->flags & kThinkAnywhere)) return Step::kPlain;
      take(mark.text.size());
      open_part(true);
      return Step::kMove;
    case Marker::kThinkClose:
      // Some models close what was never opened, to say that they did not think.
      if (!in_reasoning_ && !at_start() && !(row_->flags & kThinkAnywhere)) return Step::kPlain;
      take(mark.text.size());
      open_part(false);
      return Step::kMove;
    case Marker::kWrapOpen:
      if (!at_start()) return Step::kPlain;
      wrapped_ = true;
      break;
    case Marker::kWrapClose:
      if (!wrapped_) return Step::kPlain;
      wrapped_ = false;
      break;
    case Marker::kSkip:
      break;
    case Marker::kSection:
      return begin_section(row_->section_open);
    case Marker::kHead:
    case Marker::kCode:
      undo_ = at_;
      bare_ = false;
      listed_ = list_ended_ = false;
      state_ = State::kSection;
      if (mark.what == Marker::kHead) return Step::kMove;
      take(mark.text.size());
      state_ = State::kCode;
      return Step::kMove;
    case Marker::kHeader: {
      if (row_->reasoning_to) {
        take(mark.text.size());
        open_part(false);
        state_ = State::kHeader;
        opening_ = false;
        return Step::kMove;
      }
      const Str rest = unread().sub(mark.text.size());
      const size_t end = find(rest.sub(0, kMaxHeader), row_->header_close);
      if (end == kNowhere) return rest.size() < kMaxHeader && !final_ ? Step::kWait : Step::kPlain;
      return read_header(rest.sub(0, end), mark.text.size() + end + strlen(row_->header_close), false);
    }
  }
  take(mark.text.size());
  open_part(in_reasoning_ && !(row_->flags & kHeaders));
  return Step::kMove;
}

OutputParser::Step OutputParser::begin_section(const char* pattern) {
  size_t used = 0;
  Captured none;
  const Match m = match(unread(), pattern, &used, &none);
  if (m == Match::kNo || (m == Match::kCut && final_)) return Step::kPlain;
  if (m == Match::kCut) return Step::kWait;
  undo_ = at_;
  bare_ = false;
  take(used);
  listed_ = Str(pattern).ends_with("[");
  list_ended_ = false;
  state_ = State::kSection;
  return Step::kMove;
}

// Does the answer begin as a call without a marker?
OutputParser::Match OutputParser::bare_call(Str rest) const {
  const bool object = row_->shape == CallShape::kObject && (row_->flags & kBareCall);
  const bool list = row_->flags & kBareList;
  if (!object && !list) return Match::kNo;
  size_t i = 0;
  while (i < rest.size() && is_space(rest[i])) ++i;
  if (i == rest.size()) return Match::kNo;  // white space waits by itself
  if (rest[i] == '{') return object || (list && row_->shape == CallShape::kObject) ? Match::kYes : Match::kNo;
  return list && rest[i] == '[' ? Match::kYes : Match::kNo;
}

// What looked like the beginning of calls is text.
OutputParser::Step OutputParser::plain() {
  at_ = undo_;
  undo_ = kNoUndo;
  state_ = State::kText;
  const Str rest = unread();
  size_t n = 0;
  while (n < rest.size() && is_space(rest[n])) ++n;
  n = min_of(n + 1, rest.size());
  if (!put_text(rest.sub(0, n))) return no_memory();
  take(n);
  return Step::kMove;
}

void OutputParser::open_part(bool reasoning) {
  space_.clear();
  in_reasoning_ = reasoning;
  was_marked_ = true;
  part_begin_ = reasoning ? reasoning_.size() : content_.size();
}

// Appends text to the current part; white space at its end waits for what follows.
bool OutputParser::put_text(Str text) {
  size_t end = text.size();
  while (end && is_space(text[end - 1])) --end;
  if (!end) return append(space_, text);
  Vec<char>& to = in_reasoning_ ? reasoning_ : content_;
  const size_t from = to.size();
  if (at_start() && was_marked_) {
    space_.clear();
    while (is_space(text[0])) text = text.sub(1), --end;
    if (part_begin_ && !to.push('\n')) return false;  // a second part is a paragraph of its own
  }
  if (!to.append(space_.span()) || !append(to, text.sub(0, end))) return false;
  space_.clear();
  return append(space_, text.sub(end)) &&
         delta(in_reasoning_ ? OutputDelta::kReasoning : OutputDelta::kContent, from, to.size());
}

// ---- Headers ----

OutputParser::Step OutputParser::header() {
  const Str rest = unread();
  bool begins = !row_->reasoning_to, may_begin = begins;
  if (!begins) {  // an answer without any header is content
    const Str starts[] = {row_->header_open, "<|channel|>", " to=", "to=", row_->header_close};
    for (Str start : starts) {
      begins = begins || rest.starts_with(start);
      may_begin = may_begin || start.starts_with(rest);
    }
  }
  const size_t end = begins ? find(rest.sub(0, kMaxHeader), row_->header_close) : kNowhere;
  if (end != kNowhere) return read_header(rest.sub(0, end), end + strlen(row_->header_close), opening_);
  if ((begins || may_begin) && rest.size() < kMaxHeader) return Step::kWait;
  state_ = State::kText;
  return Step::kMove;
}

OutputParser::Step OutputParser::read_header(Str header, size_t bytes, bool first) {
  Str to, channel;
  if (row_->reasoning_to) {
    to = header_word(header, "to=");
    channel = header_word(header, "<|channel|>");
  } else {
    to = json_trim(header);
  }
  const Str part = to.empty() ? channel : to;
  bool content = part.empty();
  for (const char* name : row_->content_to) content = content || (name && part == name);
  const bool reasoning = !content && row_->reasoning_to && part == row_->reasoning_to;
  const bool call = !content && !reasoning && !to.empty() && tools_->size();
  Str name = to;
  if (call && tools_->find(name) < 0 && name.starts_with("functions.")) name = name.sub(strlen("functions."));
  if (call && row_->shape == CallShape::kJson) {
    if (!first && !row_->reasoning_to && tools_->find(name) < 0) return Step::kPlain;
    open_part(false);
    if (!begin_call(name, {})) return Step::kMove;
    take(bytes);
    return json_arguments(JsonValue::Dialect::kJson, JsonValue::Root::kObject);
  }
  if (!first && !row_->reasoning_to && !content) return Step::kPlain;
  take(bytes);
  open_part(reasoning || (!call && !content && row_->reasoning_to && channel == row_->reasoning_to));
  state_ = State::kText;
  return Step::kMove;
}

// ---- What all share ----

// kCut: so far it fits, and the text ends.
OutputParser::Match OutputParser::match(Str rest, const char* pattern, size_t* used,
                                        Captured* captured) const {
  size_t i = 0;
  for (const char* p = pattern; *p;) {
    if (*p == '~') {
      while (i < rest.size() && is_space(rest[i])) ++i;
      ++p;
      continue;
    }
    if (*p != '%') {
      if (i == rest.size()) return Match::kCut;
      if (rest[i] != *p) return Match::kNo;
      ++i, ++p;
      continue;
    }
    const char what = p[1];
    p += 2;
    const bool word = *p == '~' || !*p;
    const Str until = literal_head(p);
    size_t n = 0;
    for (;; ++n) {
      if (n > kMaxName) return Match::kNo;
      if (i + n == rest.size()) return Match::kCut;
      const Str here = rest.sub(i + n);
      if (!until.empty() && here.starts_with(until)) break;
      if (!until.empty() && until.starts_with(here)) return Match::kCut;
      if (word && (is_space(here[0]) || here[0] == '<' || here[0] == '{')) break;
      if (here[0] == '\n') return Match::kNo;
    }
    if (!n) return Match::kNo;
    Str& to = what == 'n'   ? captured->name
              : what == 'i' ? captured->id
              : what == 'k' ? captured->key
                            : captured->type;
    to = rest.sub(i, n);
    i += n;
  }
  *used = i;
  return Match::kYes;
}

OutputParser::Step OutputParser::fail(const char* what, Str quoted) {
  Writer w(message_);
  w.put(what);
  if (!quoted.empty()) {
    w.put(": '");
    size_t n = 0, bytes = 0;
    for (; n < quoted.size() && n < 80; n += bytes) {
      const int one = utf8_next(quoted.sub(n));
      bytes = one > 0 ? static_cast<size_t>(one) : 1;
      const bool shown = one > 0 && static_cast<uint8_t>(quoted[n]) >= 0x20 && quoted[n] != 0x7F;
      w.put(shown ? quoted.sub(n, bytes) : Str(" "));
    }
    w.put(n < quoted.size() ? "...'" : "'");
  }
  state_ = State::kFailed;
  failure_ = kErrInput;
  return Step::kWait;
}

OutputParser::Step OutputParser::no_memory() {
  state_ = State::kFailed;
  failure_ = kErrMemory;
  return Step::kWait;
}

// Joined to the one before where that goes on.
bool OutputParser::delta(OutputDelta::Kind kind, size_t begin, size_t end) {
  const bool text =
      kind == OutputDelta::kContent || kind == OutputDelta::kReasoning || kind == OutputDelta::kArguments;
  if (text && begin == end) return true;
  const uint32_t call = kind == OutputDelta::kContent || kind == OutputDelta::kReasoning || calls_.empty()
                            ? 0
                            : static_cast<uint32_t>(calls_.size() - 1);
  if (text && !deltas_.empty()) {
    OutputDelta& last = deltas_.back();
    if (last.kind == kind && last.call == call && last.end == begin) {
      last.end = end;
      return true;
    }
  }
  return deltas_.push({kind, call, begin, end});
}

}  // namespace gcrt
