// Calls whose arguments have tags of their own, flat or nested. What stands in a tag becomes JSON by its type in the
// tool's schema: text when it can only be text, JSON (or Python) when it cannot be text, and what it looks like when
// both are allowed, which is known at its end.
#include <string.h>

#include "runtime/text/output/parser.h"
#include "runtime/text/output/scan.h"

namespace gcrt {
using namespace output;
namespace {

constexpr Str kCdataOpen = "<![CDATA[", kCdataClose = "]]>";

// Bytes at the end of `text` that `part` may begin with.
size_t begun(Str text, Str part) {
  for (size_t n = min_of(text.size(), part.size() - 1); n; --n)
    if (part.starts_with(text.sub(text.size() - n))) return n;
  return 0;
}

}  // namespace

bool OutputParser::put_key(Str key) {
  Vec<char>& to = calls_.back().arguments;
  const size_t from = to.size();
  return (!members_++ || to.push(',')) && to.push('"') && append_json_inside(to, key) && append(to, "\":") &&
         delta(OutputDelta::kArguments, from, to.size());
}

OutputParser::Step OutputParser::params() {
  take(skip_space(unread()));
  const Str rest = unread();
  if (rest.empty()) return Step::kWait;
  Captured got;
  size_t used = 0;
  const Match param = match(rest, row_->param_open, &used, &got);
  if (param == Match::kYes) {
    if (!begin_param(got.key, got.type)) return no_memory();
    take(used);
    state_ = State::kValue;
    return Step::kMove;
  }
  bool cut = param == Match::kCut;
  if (row_->json_open && !members_) {
    const Match json = match(rest, row_->json_open, &used, &got);
    if (json == Match::kYes) {
      take(used);
      fenced_ = true;
      return json_arguments(JsonValue::Dialect::kJson, JsonValue::Root::kOpened);
    }
    cut = cut || json == Match::kCut;
  }
  Match end = match(rest, row_->tail, &used, &got);
  if (end != Match::kYes && row_->section_close) {  // the call's own end may be missing
    cut = cut || end == Match::kCut;
    end = match(rest, row_->section_close, &used, &got);
    used = 0;
  }
  if (end == Match::kYes) {
    take(used);
    if (!put_args("}")) return no_memory();
    return end_call() ? after_call() : Step::kMove;
  }
  if (cut || end == Match::kCut) return Step::kWait;
  return fail("an argument's tag is missing, at", rest.sub(0, 40));
}

// The key and, if there is one, the type that the tag itself tells.
bool OutputParser::begin_param(Str key, Str type) {
  if (!put_key(key)) return false;
  const Str schema = tools_->parameters(calls_.back().tool);
  if (type.empty())
    choose_value(schema_types(schema_property(schema, schema, key), schema));
  else
    choose_value(type == "true" || type == "string" ? uint32_t{kTypeString}
                                                    : kTypeAny & ~uint32_t{kTypeString});
  value_begun_ = false;
  return true;
}

void OutputParser::choose_value(uint32_t types) {
  value_types_ = types;
  value_as_ = types == kTypeString ? ValueAs::kText : types & kTypeString ? ValueAs::kEither : ValueAs::kJson;
  value_done_ = cdata_ = false;
  scratch_.clear();
  json_.begin(JsonValue::Dialect::kLoose, JsonValue::Root::kAny);
}

// A piece of a value that is text, or may be.
bool OutputParser::put_string_piece(Str text) {
  if (value_as_ == ValueAs::kEither) return append(scratch_, text);
  Vec<char>& to = calls_.back().arguments;
  const size_t from = to.size();
  return append_json_inside(to, text) && delta(OutputDelta::kArguments, from, to.size());
}

// The whole of scratch_, as what it looks like among the types that are allowed.
bool OutputParser::put_either() {
  Vec<char> json(scratch_.allocator());
  char kind = 0;
  const JsonValue::Result r = whole_json(str(scratch_), JsonValue::Dialect::kLoose, json, &kind);
  if (r == JsonValue::Result::kMemory) return false;
  if (r == JsonValue::Result::kDone && (type_of_kind(kind) & value_types_ & ~uint32_t{kTypeString}))
    return put_args(str(json));
  json.clear();
  return json.push('"') && append_json_inside(json, str(scratch_)) && json.push('"') && put_args(str(json));
}

OutputParser::Step OutputParser::value() {
  if (!value_begun_) {
    const Str rest = unread();
    if (rest.empty()) return Step::kWait;
    if ((row_->flags & kPaddedValues) && rest[0] == '\n') take(1);
    if (row_->flags & kCdataValues) {
      if (!final_ && kCdataOpen.starts_with(rest) && rest.size() < kCdataOpen.size()) return Step::kWait;
      cdata_ = rest.starts_with(kCdataOpen);
      if (cdata_) take(kCdataOpen.size());
    }
    if (value_as_ == ValueAs::kText && !put_args("\"")) return no_memory();
    value_begun_ = true;
  }
  return value_as_ == ValueAs::kJson ? value_json() : value_text();
}

// What may follow a value's closing tag. Text may have the tag inside, so the tag alone does not end it.
OutputParser::Match OutputParser::follows_value(Str rest) const {
  const size_t space = skip_space(rest);
  if (space > kMaxSpace) return Match::kNo;
  rest = rest.sub(space);
  if (rest.empty()) return Match::kCut;
  Match best = Match::kNo;
  const char* const patterns[] = {row_->param_open, row_->tail, row_->section_close, row_->head};
  for (const char* pattern : patterns) {
    if (!pattern) continue;
    const Str head = literal_head(pattern);
    if (rest.starts_with(head)) return Match::kYes;
    if (head.starts_with(rest)) best = Match::kCut;
  }
  return best;
}

OutputParser::Step OutputParser::value_text() {
  const Str rest = unread();
  const Str close = cdata_ ? kCdataClose : Str(row_->param_close);
  const bool padded = row_->flags & kPaddedValues;
  size_t end = kNowhere, from = 0;
  Match follows = Match::kNo;
  for (;;) {
    end = find(rest, close, from);
    if (end == kNowhere) break;
    const Str after = rest.sub(end + close.size());
    follows = cdata_ ? Match::kYes : follows_value(after);
    if (follows == Match::kCut && final_) follows = Match::kYes;
    if (follows != Match::kNo) break;
    from = end + 1;
  }
  size_t n = end != kNowhere ? end : rest.size() - begun(rest, close);
  if (padded && n && rest[n - 1] == '\n') --n;
  if (!put_string_piece(rest.sub(0, n))) return no_memory();
  if (follows != Match::kYes) {
    take(n);
    return Step::kWait;
  }
  return finish_value(end + close.size());
}

// `used`: bytes of the unread text to the end of the closing tag.
OutputParser::Step OutputParser::finish_value(size_t used) {
  take(used);
  if (value_as_ == ValueAs::kEither ? !put_either() : value_as_ == ValueAs::kText && !put_args("\""))
    return no_memory();
  if (cdata_) {
    value_as_ = ValueAs::kJson;  // only the closing tag is left
    value_done_ = true;
    cdata_ = false;
    return Step::kMove;
  }
  state_ = State::kParams;
  return Step::kMove;
}

OutputParser::Step OutputParser::value_json() {
  if (!value_done_) {
    Vec<char>& to = calls_.back().arguments;
    const size_t from = to.size();
    size_t used = 0;
    const JsonValue::Result r = json_.read(unread(), final_, &used, to);
    take(used);
    if (!delta(OutputDelta::kArguments, from, to.size()) || r == JsonValue::Result::kMemory)
      return no_memory();
    if (r == JsonValue::Result::kMore) return Step::kWait;
    if (r == JsonValue::Result::kBad)
      return fail("an argument that is not of its type, at", unread().sub(0, 40));
    value_done_ = true;
  }
  take(skip_space(unread()));
  const Str rest = unread();
  const Str close = cdata_ ? kCdataClose : Str(row_->param_close);
  if (rest.starts_with(close)) {
    take(close.size());
    if (!cdata_) state_ = State::kParams;
    cdata_ = false;
    return Step::kMove;
  }
  if (close.starts_with(rest)) return Step::kWait;
  return fail("an argument that is not of its type, at", rest.sub(0, 40));
}

// ---- Tags within tags: <key>, <item>, each after param_open ----

OutputParser::Step OutputParser::nested() {
  Level& level = levels_.back();
  const Str mark = row_->param_open;
  const Str root = tools_->parameters(calls_.back().tool);
  const bool text = level.kind == 's' || (!level.kind && schema_types(level.schema, root) == kTypeString);
  if (!text) take(skip_space(unread()));
  const Str rest = unread();
  if (rest.empty()) return Step::kWait;
  const bool open =
      level.kind == 's' && value_as_ == ValueAs::kJson && !value_done_;  // a number ends at the mark
  if (rest.starts_with(mark)) return open ? nested_scalar(rest) : nested_tag(rest);
  if (mark.starts_with(rest)) return Step::kWait;
  if (level.kind == '{' || level.kind == '[')
    return fail("an argument's tag is missing, at", rest.sub(0, 40));
  if (!level.kind) {
    choose_value(schema_types(level.schema, root));
    level.kind = 's';
    if (value_as_ == ValueAs::kText && !put_args("\"")) return no_memory();
  }
  return nested_scalar(rest);
}

OutputParser::Step OutputParser::nested_scalar(Str rest) {
  const Str mark = row_->param_open;
  if (value_as_ == ValueAs::kJson) {
    const size_t end = find(rest, mark, 0);
    const size_t n = end != kNowhere ? end : rest.size() - begun(rest, mark);
    if (value_done_) {
      if (skip_space(rest.sub(0, n)) < n)
        return fail("an argument that is not of its type, at", rest.sub(0, 40));
      take(n);
      return end != kNowhere ? Step::kMove : Step::kWait;
    }
    Vec<char>& to = calls_.back().arguments;
    const size_t from = to.size();
    size_t used = 0;
    const JsonValue::Result r = json_.read(rest.sub(0, n), end != kNowhere, &used, to);
    take(used);
    if (!delta(OutputDelta::kArguments, from, to.size()) || r == JsonValue::Result::kMemory)
      return no_memory();
    if (r == JsonValue::Result::kMore && end == kNowhere) return Step::kWait;
    if (r != JsonValue::Result::kDone)
      return fail("an argument that is not of its type, at", rest.sub(0, 40));
    value_done_ = true;
    return Step::kMove;
  }
  const size_t end = find(rest, mark, 0);
  const size_t n = end != kNowhere ? end : rest.size() - begun(rest, mark);
  if (!put_string_piece(rest.sub(0, n))) return no_memory();
  take(n);
  return end != kNowhere ? Step::kMove : Step::kWait;
}

// A tag that opens or closes something. `rest` begins with the mark.
OutputParser::Step OutputParser::nested_tag(Str rest) {
  constexpr size_t kMaxTag = 256, kMaxLevels = 64;
  const Str schema = tools_->parameters(calls_.back().tool);
  const size_t mark = strlen(row_->param_open);
  Level& level = levels_.back();
  size_t n = mark;
  while (n < rest.size() && n < mark + kMaxTag && rest[n] != '>') ++n;
  if (n == rest.size()) return Step::kWait;
  const Str tag = rest.sub(mark, n - mark);  // <key or </key
  if (rest[n] != '>' || !tag.starts_with("<") || tag.size() < 2)
    return fail("an argument's tag is malformed, at", rest.sub(0, 60));
  if (tag[1] == '/') {
    if (levels_.size() == 1) {
      Captured none;
      size_t used = 0;
      if (match(rest, row_->tail, &used, &none) != Match::kYes)
        return fail("the end of a call is missing, at", rest.sub(0, 60));
      take(used);
      if (!put_args("}")) return no_memory();
      state_ = State::kSection;
      end_call();
      return Step::kMove;
    }
    bool ok = true;
    if (level.kind == 's') {
      if (value_as_ == ValueAs::kJson && !value_done_) return fail("an argument that is not of its type");
      ok = value_as_ == ValueAs::kEither ? put_either() : value_as_ == ValueAs::kJson || put_args("\"");
    } else if (!level.kind) {  // nothing within: the empty value of its type
      const uint32_t types = schema_types(level.schema, schema);
      const char* empty = types & kTypeString   ? "\"\""
                          : types & kTypeArray  ? "[]"
                          : types & kTypeObject ? "{}"
                                                : nullptr;
      if (!empty) return fail("an argument without a value");
      ok = put_args(empty);
    } else {
      ok = put_args(level.kind == '{' ? "}" : "]");
    }
    if (!ok) return no_memory();
    levels_.pop();
    take(n + 1);
    return Step::kMove;
  }
  if (level.kind == 's') return fail("a tag within an argument's text, at", rest.sub(0, 60));
  const Str key = tag.sub(1);
  if (!level.kind) {
    const uint32_t types = schema_types(level.schema, schema);
    const bool array = (types & kTypeArray) && (!(types & kTypeObject) || key == "item");
    level.kind = array ? '[' : '{';
    if (!put_args(array ? "[" : "{")) return no_memory();
  }
  if (levels_.size() == kMaxLevels) return fail("arguments nested too deep");
  const bool array = level.kind == '[';
  members_ = level.members++;
  if (array ? members_ && !put_args(",") : !put_key(key)) return no_memory();
  const Str child = array ? schema_items(level.schema, schema) : schema_property(level.schema, schema, key);
  if (!levels_.push({child, 0, 0})) return no_memory();
  take(n + 1);
  return Step::kMove;
}

}  // namespace gcrt
