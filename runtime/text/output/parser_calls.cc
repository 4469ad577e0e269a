// Sections of calls, and calls whose arguments are one value: JSON objects, Gemma's notation, Python.
#include <string.h>

#include "runtime/text/output/parser.h"
#include "runtime/text/output/scan.h"

namespace gcrt {
using namespace output;
namespace {

constexpr size_t kMaxWord = 256;  // bytes of a key, name or id in JSON

// Tools that code is for.
constexpr const char* kCodeTools[] = {"python", "ipython", "code_interpreter"};
constexpr const char* kArgumentsFollow[] = {"~,~\"parameters\"", "~,~\"arguments\""};

bool is_word(char c) {
  return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || c == '.' || c == '-';
}

// Bytes of the JSON string at s[0], or 0 when its end is not there.
size_t string_bytes(Str s) {
  for (size_t i = 1; i < s.size(); ++i) {
    if (s[i] == '\\')
      ++i;
    else if (s[i] == '"')
      return i + 1;
  }
  return 0;
}

}  // namespace

// ---- Between calls ----

OutputParser::Step OutputParser::section() {
  const Str rest = unread();
  size_t i = 0;
  while (i < rest.size() && (is_space(rest[i]) || (undo_ == kNoUndo && (rest[i] == ',' || rest[i] == ';'))))
    ++i;
  if (undo_ == kNoUndo) {
    take(i);
    i = 0;
  } else if (i > kMaxSpace) {
    return plain();
  }
  if (unread().size() == i) return Step::kWait;
  switch (row_->shape) {
    case CallShape::kObject:
    case CallShape::kKeyed:
      return section_list(unread(), i);
    case CallShape::kPython:
      return section_python(unread(), i);
    case CallShape::kJson:
    case CallShape::kTagged:
    case CallShape::kNested:
    case CallShape::kDict:
      return section_head(unread());
    case CallShape::kNone:
      break;
  }
  return leave_section();
}

OutputParser::Step OutputParser::section_list(Str rest, size_t from) {
  if (!list_ended_) {
    const char c = rest[from];
    if (c == '[' && !listed_) {
      listed_ = true;
      take(from + 1);
      return Step::kMove;
    }
    if (c == ']' && listed_) {
      list_ended_ = true;
      take(from + 1);
      return Step::kMove;
    }
    if (c == '{') {
      take(from + 1);
      state_ = State::kObject;
      object_at_ = ObjectAt::kKey;
      object_depth_ = 0;
      named_ = has_arguments_ = false;
      early_.clear();
      id_.clear();
      return Step::kMove;
    }
  }
  return close_section(rest);
}

OutputParser::Step OutputParser::section_python(Str rest, size_t from) {
  if (!list_ended_) {
    if ((rest[from] == '[' && !listed_) || (rest[from] == ']' && listed_)) {
      (listed_ ? list_ended_ : listed_) = true;
      take(from + 1);
      return Step::kMove;
    }
    size_t n = 0;
    while (from + n < rest.size() && is_word(rest[from + n])) ++n;
    if (n && n <= kMaxWord) {
      if (from + n == rest.size()) return Step::kWait;
      if (rest[from + n] == '(') {
        if (!begin_call(rest.sub(from, n), {})) return Step::kMove;
        take(from + n + 1);
        members_ = 0;
        value_begun_ = false;
        state_ = State::kPython;
        return put_args("{") ? Step::kMove : no_memory();
      }
    }
  }
  return close_section(rest);
}

OutputParser::Step OutputParser::section_head(Str rest) {
  Captured got;
  size_t used = 0;
  const Match m = match(rest, row_->head, &used, &got);
  if (m == Match::kCut && !final_) return Step::kWait;
  if (m != Match::kYes) return close_section(rest);
  if (row_->flags & kNameInId) {
    const Str prefix = "functions.";
    size_t digits = 0;
    while (digits < got.id.size() && got.id[got.id.size() - 1 - digits] >= '0' &&
           got.id[got.id.size() - 1 - digits] <= '9')
      ++digits;
    const size_t colon = got.id.size() - digits;
    if (!digits || colon < 2 || got.id[colon - 1] != ':') return fail("a call's id without a number", got.id);
    got.name = got.id.sub(0, colon - 1);
    if (got.name.starts_with(prefix)) got.name = got.name.sub(prefix.size());
  }
  if (!begin_call(got.name, got.id)) return Step::kMove;
  take(used);
  switch (row_->shape) {
    case CallShape::kDict:
      return json_arguments(JsonValue::Dialect::kGemma, JsonValue::Root::kObject);
    case CallShape::kTagged:
      state_ = State::kParams;
      break;
    case CallShape::kNested:
      state_ = State::kNested;
      levels_.clear();
      if (!levels_.push({tools_->parameters(calls_.back().tool), '{', 0})) return no_memory();
      break;
    case CallShape::kNone:
    case CallShape::kObject:
    case CallShape::kKeyed:
    case CallShape::kPython:
    case CallShape::kJson:
      return json_arguments(JsonValue::Dialect::kJson, JsonValue::Root::kObject);
  }
  members_ = 0;
  return put_args("{") ? Step::kMove : no_memory();
}

OutputParser::Step OutputParser::close_section(Str rest) {
  if (!row_->section_close) return leave_section();
  Captured none;
  size_t used = 0;
  const Match m = match(rest, row_->section_close, &used, &none);
  if (m == Match::kCut && !final_) return Step::kWait;
  if (m == Match::kYes) {
    take(used);
    undo_ = kNoUndo;
  } else if (m == Match::kCut && undo_ == kNoUndo) {
    take(rest.size());
  }
  return leave_section();
}

OutputParser::Step OutputParser::leave_section() {
  if (undo_ != kNoUndo) return plain();
  state_ = State::kText;
  open_part(false);
  return Step::kMove;
}

// ---- Calls ----

// False: the call cannot be, or memory ran out; the state says so.
bool OutputParser::begin_call(Str name, Str id) {
  const int32_t tool = tools_->find(name);
  if (tool < 0) {
    fail("a call of a tool that was not offered", name);
    return false;
  }
  OutputCall call(calls_.allocator());
  call.tool = static_cast<uint32_t>(tool);
  if (!calls_.push(static_cast<OutputCall&&>(call)) || !delta(OutputDelta::kCallBegin, 0, 0)) {
    no_memory();
    return false;
  }
  undo_ = kNoUndo;
  calling_ = true;
  if (in_reasoning_) open_part(false);
  return id.empty() || set_id(id);
}

bool OutputParser::set_id(Str id) {
  Vec<char>& to = calls_.back().id;
  if (!to.empty()) return true;
  if (append(to, id) && delta(OutputDelta::kCallId, 0, id.size())) return true;
  no_memory();
  return false;
}

bool OutputParser::end_call() {
  calling_ = false;
  calls_.back().complete = true;
  if (delta(OutputDelta::kCallEnd, 0, 0)) return true;
  no_memory();
  return false;
}

bool OutputParser::put_args(Str json) {
  Vec<char>& to = calls_.back().arguments;
  const size_t from = to.size();
  return append(to, json) && delta(OutputDelta::kArguments, from, to.size());
}

OutputParser::Step OutputParser::json_arguments(JsonValue::Dialect dialect, JsonValue::Root root) {
  json_.begin(dialect, root);
  skipping_ = false;
  state_ = State::kArguments;
  return Step::kMove;
}

OutputParser::Step OutputParser::arguments() {
  if (skipping_) scratch_.clear();
  Vec<char>& to = skipping_ ? scratch_ : calling_ ? calls_.back().arguments : early_;
  const size_t from = to.size();
  size_t used = 0;
  const JsonValue::Result r = json_.read(unread(), final_, &used, to);
  const Str bad = unread().sub(used, 40);
  take(used);
  if (calling_ && !skipping_ && !delta(OutputDelta::kArguments, from, to.size())) return no_memory();
  switch (r) {
    case JsonValue::Result::kMore:
      return Step::kWait;
    case JsonValue::Result::kMemory:
      return no_memory();
    case JsonValue::Result::kBad:
      return fail("arguments that are no JSON object, at", bad);
    case JsonValue::Result::kDone:
      break;
  }
  if (calling_ && !skipping_ && !end_call()) return Step::kMove;
  const bool object = row_->shape == CallShape::kObject || row_->shape == CallShape::kKeyed;
  state_ = object ? State::kObject : State::kTail;
  object_at_ = ObjectAt::kComma;
  return Step::kMove;
}

// What closes a call; it may be missing.
OutputParser::Step OutputParser::tail() {
  const char* const pattern = fenced_ ? row_->json_close : row_->tail;
  if (pattern) {
    Captured none;
    size_t used = 0;
    take(skip_space(unread()));
    const Match m = match(unread(), pattern, &used, &none);
    if (m == Match::kCut && !final_) return Step::kWait;
    if (m == Match::kYes) take(used);
    if (m == Match::kCut && final_) take(unread().size());
  }
  if (!fenced_) return after_call();
  fenced_ = false;
  return Step::kMove;
}

OutputParser::Step OutputParser::after_call() {
  if (row_->section_open) {
    state_ = State::kSection;
    return Step::kMove;
  }
  state_ = State::kText;
  open_part(false);
  return Step::kMove;
}

// ---- {"name": ..., "arguments": ...} ----

OutputParser::Step OutputParser::object() {
  const size_t space = skip_space(unread());
  if (undo_ == kNoUndo) {
    take(space);
  } else if (space > kMaxSpace) {
    return plain();
  }
  const Str rest = undo_ == kNoUndo ? unread() : unread().sub(space);
  if (rest.empty()) return Step::kWait;
  const char c = rest[0];
  if (object_at_ == ObjectAt::kKey || object_at_ == ObjectAt::kComma) {
    if (object_at_ == ObjectAt::kKey && c == '"') {
      take(unread().size() - rest.size());
      return object_key(rest);
    }
    const bool comma = object_at_ == ObjectAt::kComma && c == ',';
    if (!comma && c != '}')
      return undo_ != kNoUndo ? plain() : fail("a call that is no JSON object, at", rest.sub(0, 40));
    if (!comma && undo_ != kNoUndo) return plain();
    take(1);
    object_at_ = ObjectAt::kKey;
    return comma ? Step::kMove : object_end();
  }
  take(unread().size() - rest.size());
  if (object_at_ == ObjectAt::kColon || object_at_ == ObjectAt::kOpen) {
    const bool colon = object_at_ == ObjectAt::kColon;
    if (c != (colon ? ':' : '{'))
      return undo_ != kNoUndo ? plain() : fail("a call that is no JSON object, at", rest.sub(0, 40));
    take(1);
    object_at_ = colon ? ObjectAt::kValue : ObjectAt::kKey;
    // Arguments are an object: its brace is known before it is there.
    if (!colon || member_ != Member::kArguments) return Step::kMove;
    if (calling_) return put_args("{") ? Step::kMove : no_memory();
    early_.clear();
    return early_.push('{') ? Step::kMove : no_memory();
  }
  return object_value(rest);
}

OutputParser::Step OutputParser::object_key(Str rest) {
  const size_t n = string_bytes(rest);
  if (n > kMaxWord || (!n && rest.size() > kMaxWord))
    return undo_ != kNoUndo ? plain() : fail("a call with a key that does not end");
  if (!n) return Step::kWait;
  const Str key = rest.sub(0, n);
  auto is = [key](const char* name) { return json_is_string(key, name); };
  if (row_->shape == CallShape::kKeyed) {
    word_.clear();
    if (!json_unescape(key, word_)) return no_memory();
    if (!begin_call(str(word_), {})) return Step::kMove;
    named_ = has_arguments_ = true;
    member_ = Member::kArguments;
  } else if (is("name") || is("tool_name")) {
    member_ = Member::kName;
  } else if (is("arguments") || is("parameters")) {
    member_ = has_arguments_ ? Member::kOther : Member::kArguments;
    has_arguments_ = true;
  } else if (is("id") || is("tool_call_id")) {
    member_ = Member::kId;
  } else if (is("function")) {
    member_ = Member::kFunction;
  } else if (undo_ != kNoUndo && !is("type")) {
    return plain();  // some other object
  } else {
    member_ = Member::kOther;
  }
  take(n);
  object_at_ = ObjectAt::kColon;
  return Step::kMove;
}

OutputParser::Step OutputParser::object_value(Str rest) {
  if (member_ == Member::kArguments)
    return json_arguments(JsonValue::Dialect::kJson, JsonValue::Root::kOpened);
  if (member_ == Member::kFunction && rest[0] == '{' && object_depth_ < 4) {
    ++object_depth_;
    object_at_ = ObjectAt::kOpen;
    return Step::kMove;
  }
  const bool name = member_ == Member::kName || member_ == Member::kFunction;
  if (!name && (member_ != Member::kId || rest[0] != '"')) {
    json_.begin(JsonValue::Dialect::kJson, JsonValue::Root::kAny);
    skipping_ = true;
    state_ = State::kArguments;
    return Step::kMove;
  }
  if (rest[0] != '"') return undo_ != kNoUndo ? plain() : fail("a call without a name");
  const size_t n = string_bytes(rest);
  if (n > kMaxWord || (!n && rest.size() > kMaxWord)) return fail("a call with too long a name or id");
  if (!n) return Step::kWait;
  word_.clear();
  if (!json_unescape(rest.sub(0, n), word_)) return no_memory();
  if (name && !named_) {
    if (bare_ && undo_ != kNoUndo && tools_->find(str(word_)) < 0) {
      const Match other = other_object(rest.sub(n));
      if (other == Match::kYes) return plain();
      if (other == Match::kCut && !final_) return Step::kWait;
    }
    named_ = true;
    if (!begin_call(str(word_), str(id_))) return Step::kMove;
    if (has_arguments_) {
      if (!put_args(str(early_))) return no_memory();
      if (!end_call()) return Step::kMove;
    }
  } else if (!name) {
    if (named_ ? !set_id(str(word_)) : !id_.copy(word_.span())) return no_memory();
  }
  take(n);
  object_at_ = ObjectAt::kComma;
  return Step::kMove;
}

// Is what goes on after an unknown name some object that is no call? An answer may be JSON with a "name".
OutputParser::Match OutputParser::other_object(Str rest) const {
  if (has_arguments_) return Match::kNo;
  Captured none;
  size_t used = 0;
  bool cut = false;
  for (const char* pattern : kArgumentsFollow) {
    const Match m = match(rest, pattern, &used, &none);
    if (m == Match::kYes) return Match::kNo;
    cut = cut || m == Match::kCut;
  }
  return cut ? Match::kCut : Match::kYes;
}

OutputParser::Step OutputParser::object_end() {
  if (object_depth_) {
    --object_depth_;
    object_at_ = ObjectAt::kComma;
    return Step::kMove;
  }
  if (!named_) return fail("a call without a name");
  if (calling_) {  // it had no arguments
    if (!put_args("{}")) return no_memory();
    if (!end_call()) return Step::kMove;
  }
  state_ = State::kSection;
  return Step::kMove;
}

// ---- f(key=value, ...) ----

OutputParser::Step OutputParser::python() {
  if (!value_begun_) {
    take(skip_space(unread()));
    Str rest = unread();
    if (rest.empty()) return Step::kWait;
    if (rest[0] == ')') {
      take(1);
      if (!put_args("}")) return no_memory();
      state_ = State::kSection;
      end_call();
      return Step::kMove;
    }
    size_t n = 0;
    if (rest[0] == ',' && members_) n = 1 + skip_space(rest.sub(1));
    const size_t key = n;
    while (n < rest.size() && is_word(rest[n])) ++n;
    const size_t end = n;
    n += skip_space(rest.sub(n));
    if (n > kMaxSpace) return fail("a call that is no Python call, at", rest.sub(0, 40));
    if (n == rest.size()) return Step::kWait;
    if (rest[n] == ')' && end == key) {  // a comma at the end
      take(n);
      return Step::kMove;
    }
    if (end == key || rest[n] != '=' || (members_ && !key))
      return fail("a call that is no Python call, at", rest.sub(0, 40));
    if (!put_key(rest.sub(key, end - key))) return no_memory();
    take(n + 1);
    json_.begin(JsonValue::Dialect::kLoose, JsonValue::Root::kAny);
    value_begun_ = true;
  }
  Vec<char>& to = calls_.back().arguments;
  const size_t from = to.size();
  size_t used = 0;
  const JsonValue::Result r = json_.read(unread(), final_, &used, to);
  take(used);
  if (!delta(OutputDelta::kArguments, from, to.size()) || r == JsonValue::Result::kMemory) return no_memory();
  if (r == JsonValue::Result::kMore) return Step::kWait;
  if (r == JsonValue::Result::kBad) return fail("a value that is none, at", unread().sub(0, 40));
  value_begun_ = false;
  return Step::kMove;
}

// ---- Code ----

OutputParser::Step OutputParser::begin_code() {
  const size_t space = skip_space(unread());
  const Str rest = unread().sub(space);
  if (rest.empty()) return Step::kWait;
  if (rest[0] == '{' && row_->shape == CallShape::kObject) {
    state_ = State::kSection;
    return Step::kMove;
  }
  size_t n = 0;
  while (n < rest.size() && is_word(rest[n])) ++n;
  if (n == rest.size() && n <= kMaxWord && !final_) return Step::kWait;
  Str runner;
  for (const char* name : kCodeTools)
    if (runner.empty() && tools_->find(name) >= 0) runner = name;
  const Str called = Str(".call");
  if (n < rest.size() && n <= kMaxWord && rest[n] == '(' && rest.sub(0, n).ends_with(called)) {
    const Str name = rest.sub(0, n - called.size());
    if (runner.empty() || tools_->find(name) >= 0) {
      if (!begin_call(name, {})) return Step::kMove;
      take(space + n + 1);
      members_ = 0;
      value_begun_ = false;
      state_ = State::kPython;
      return put_args("{") ? Step::kMove : no_memory();
    }
  }
  if (runner.empty()) return plain();
  if (!begin_call(runner, {})) return Step::kMove;
  take(space);
  value_as_ = ValueAs::kText;
  return put_args("{\"code\":\"") ? Step::kMove : no_memory();
}

// All that comes is code.
OutputParser::Step OutputParser::code() {
  if (!calling_) return begin_code();
  const Str rest = unread();
  if (!put_string_piece(rest)) return no_memory();
  take(rest.size());
  if (!final_) return Step::kWait;
  if (!put_args("\"}")) return no_memory();
  state_ = State::kText;
  open_part(false);
  end_call();
  return Step::kMove;
}

}  // namespace gcrt
