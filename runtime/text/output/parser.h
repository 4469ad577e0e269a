#pragma once
// What a model said, taken apart as it arrives: reasoning, content, calls of tools with their arguments as JSON.
//
// Text goes in in pieces, cut anywhere. What comes out only ever grows: a piece that may yet turn out to be a marker is
// held back, and what was given out is never taken back or changed, so the end is the same for any cutting. This is
// why there is no second parser for whole answers: a whole answer is one piece.
//
// A call is only ever one of a tool that was offered. Its arguments grow as JSON text; `complete` says that they are
// one whole JSON object. An answer that was cut leaves the last call as it arrived, not complete: to be shown, not to
// be executed. What cannot be a call although it began as one (an unknown tool, JSON that is none) is an error:
// push() says kErrInput, message() why, and rest() is the text from there on.
//
// The parser is a state machine over the text that has not been used, driven by a row of the format table (format.h).
// A state either moves on or waits for more; headers wait until they are whole (a few dozen bytes), text and values
// flow. Values in tags become JSON by the types in the tool's schema.
#include <stdint.h>

#include "runtime/base/allocator.h"
#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/output/format.h"
#include "runtime/text/output/json_value.h"
#include "runtime/text/output/tools.h"

namespace gcrt {

// What a piece of text added: bytes [begin, end) of the content, of the reasoning, or of call `call`'s arguments.
struct OutputDelta {
  enum Kind : uint8_t { kContent, kReasoning, kCallBegin, kCallId, kArguments, kCallEnd } kind;
  uint32_t call;  // from 0; of the last four kinds
  size_t begin, end;
};

struct OutputCall {
  explicit OutputCall(Allocator a) : id(a), arguments(a) {}
  uint32_t tool = 0;    // of the tools
  Vec<char> id;         // as the model wrote it, in formats that have one; some write it after the arguments
  Vec<char> arguments;  // JSON
  bool complete = false;
};

struct OutputOptions {
  bool in_reasoning = false;   // the prompt has opened it: OutputFormat::opens_reasoning()
  bool parallel_calls = true;  // else the answer ends with its first call
};

class OutputParser {
 public:
  explicit OutputParser(Allocator a = libc_allocator());

  // For one answer. `format` and `tools` outlive the parser; without tools nothing is a call.
  Status begin(const OutputFormat& format, const ToolSet& tools, const OutputOptions& options);
  // UTF-8. kErrInput: what has arrived is malformed; from then on nothing more comes out, whatever is pushed.
  Status push(Str text);
  // The end of the answer: gives out what was held back.
  Status finish();

  // What was added since the last clear_deltas().
  Span<const OutputDelta> deltas() const { return deltas_; }
  void clear_deltas() { deltas_.clear(); }

  Str content() const { return str(content_); }
  Str reasoning() const { return str(reasoning_); }
  size_t calls() const { return calls_.size(); }
  const OutputCall& call(size_t i) const { return calls_[i]; }
  Str call_name(size_t i) const { return tools_->name(calls_[i].tool); }

  // For a budget of reasoning, and to end the generation after the only call that was allowed.
  bool in_reasoning() const { return in_reasoning_; }
  bool done() const { return state_ == State::kDone; }
  // Why it failed, one line, and the text that could not be used.
  Str message() const { return message_; }
  Str rest() const { return str(raw_).sub(min_of(at_, undo_)); }

 private:
  enum class State : uint8_t {
    kText,
    kHeader,     // kHeaders: until header_close
    kSection,    // between calls
    kObject,     // {"name": ...}
    kArguments,  // one JSON value
    kParams,     // between tags of arguments
    kValue,      // in one
    kNested,     // tags within tags
    kPython,     // within f(...)
    kCode,       // behind code_open
    kTail,
    kDone,
    kFailed,
  };
  enum class Step : uint8_t {
    kMove,
    kWait,   // until more text is there
    kPlain,  // the marker is none
  };
  enum class Match : uint8_t { kNo, kYes, kCut };
  enum class Marker : uint8_t {
    kThinkOpen,
    kThinkClose,
    kWrapOpen,
    kWrapClose,
    kSkip,
    kSection,
    kHead,
    kHeader,
    kCode
  };
  struct Mark {
    Str text;
    Marker what;
    bool in_content, in_reasoning;
  };
  struct Captured {
    Str name, id, key, type;
  };
  enum class ObjectAt : uint8_t { kOpen, kKey, kColon, kValue, kComma };
  enum class Member : uint8_t { kOther, kName, kArguments, kId, kFunction };
  enum class ValueAs : uint8_t { kText, kJson, kEither };
  struct Level {  // of kNested
    Str schema;
    char kind;  // '{', '[', 's'calar, or 0: not known yet
    uint32_t members;
  };
  static constexpr size_t kNoUndo = SIZE_MAX;

  Status run();
  Step step();
  // parser.cc: text and what begins calls in it.
  bool make_marks();
  bool add_mark(const char* pattern, Marker what, bool in_content, bool in_reasoning);
  const Mark* find_mark(Str rest, size_t from, size_t* at, bool* cut) const;
  Step text();
  Step act(const Mark& mark);
  Step begin_section(const char* pattern);
  Match bare_call(Str rest) const;
  Step header();
  Step read_header(Str header, size_t bytes, bool first);
  void open_part(bool reasoning);
  bool put_text(Str text);
  bool at_start() const { return (in_reasoning_ ? reasoning_.size() : content_.size()) == part_begin_; }
  Step plain();

  // parser_calls.cc: calls of the shapes that are JSON or Python.
  Step section();
  Step section_head(Str rest);
  Step section_list(Str rest, size_t from);
  Step section_python(Str rest, size_t from);
  Step close_section(Str rest);
  Step leave_section();
  Step object();
  Step object_key(Str rest);
  Step object_value(Str rest);
  Step object_end();
  Step json_arguments(JsonValue::Dialect dialect, JsonValue::Root root);
  Step arguments();
  Step python();
  Step code();
  Step begin_code();
  Step tail();
  Step after_call();
  Match other_object(Str rest) const;
  bool begin_call(Str name, Str id);
  bool set_id(Str id);
  bool end_call();
  bool put_args(Str json);

  // parser_params.cc: calls of the shapes that are tags.
  Step params();
  Step value();
  Step value_text();
  Step value_json();
  Step finish_value(size_t used);
  Step nested();
  Step nested_tag(Str rest);
  Step nested_scalar(Str rest);
  bool begin_param(Str key, Str type);
  bool put_key(Str key);
  bool put_string_piece(Str text);
  bool put_either();
  void choose_value(uint32_t types);
  Match follows_value(Str rest) const;

  Match match(Str rest, const char* pattern, size_t* used, Captured* captured) const;
  Step fail(const char* what, Str quoted = {});
  Step no_memory();
  Str unread() const { return str(raw_).sub(at_, visible_ - at_); }
  void take(size_t n) { at_ += n; }
  bool delta(OutputDelta::Kind kind, size_t begin, size_t end);

  const OutputFormat* format_ = nullptr;
  const OutputRow* row_ = nullptr;
  const ToolSet* tools_ = nullptr;
  bool parallel_ = true, final_ = false;
  State state_ = State::kText;
  Status failure_ = kOk;
  char message_[160] = {};

  Vec<char> raw_;          // what arrived, without what will never be looked at again
  size_t visible_ = 0;     // of it, whole characters
  size_t at_ = 0;          // of it, used
  size_t undo_ = kNoUndo;  // where a marker began that may turn out to be none
  bool bare_ = false;      // ... and there was no marker

  Vec<char> content_, reasoning_;
  Vec<char> space_;  // white space that is dropped if a marker follows
  Vec<OutputCall> calls_;
  Vec<OutputDelta> deltas_;
  Vec<Mark> marks_;
  bool first_[256] = {};  // bytes that a mark may begin with
  bool in_reasoning_ = false;
  bool was_marked_ = false;  // the part began with a marker: white space at its beginning is markup
  bool wrapped_ = false;     // wrap_open was there
  bool opening_ = true;      // the first header, which the prompt began
  size_t part_begin_ = 0;    // bytes of content or reasoning when this part began

  bool calling_ = false;  // a call has begun and not ended
  bool listed_ = false, list_ended_ = false;
  ObjectAt object_at_ = ObjectAt::kOpen;
  Member member_ = Member::kOther;
  int object_depth_ = 0;
  bool named_ = false, has_arguments_ = false, skipping_ = false;
  uint32_t members_ = 0;  // arguments so far, of the shapes that list them
  Vec<char> early_;       // arguments that came before the name
  Vec<char> scratch_, word_, id_;
  JsonValue json_;
  ValueAs value_as_ = ValueAs::kText;
  uint32_t value_types_ = 0;
  bool value_begun_ = false, value_done_ = false, cdata_ = false, fenced_ = false;
  Vec<Level> levels_;
};

}  // namespace gcrt
