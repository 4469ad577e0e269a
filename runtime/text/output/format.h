#pragma once
// How a model writes its reasoning, its answer and its calls of tools: one row of a table (formats.cc) for each way
// that published models do it. Which row a model uses follows from its chat template, whose text shows the very
// markers that the model was trained on; this is decided once, when the model is compiled, and kept as a few bytes.
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"

namespace gcrt {

enum class CallShape : uint8_t {
  kNone,    // the format has no calls
  kObject,  // {"name": "f", "arguments": {...}}: alone, in a row, or in a list
  kKeyed,   // {"f": {...}} in a list
  kJson,    // the head names the tool; its arguments are one JSON object
  kTagged,  // the head names the tool; each argument has a tag of its own
  kNested,  // as kTagged, and objects and arrays are tags within tags
  kDict,    // the head names the tool; {key:<|"|>text<|"|>,other:1}
  kPython,  // f(key=value, ...) in a list
};

enum OutputFlags : uint16_t {
  kBareCall = 1,           // a call may also begin without the section's marker
  kBareList = 2,           // a list of calls may begin the answer without any marker
  kPaddedValues = 4,       // values of arguments stand on lines of their own
  kCdataValues = 8,        // ... may be wrapped in <![CDATA[ ]]>
  kNameInId = 16,          // the head has an id "functions.NAME:NUMBER" and no name
  kThinkAnywhere = 32,     // reasoning may follow content (its marker is a special token)
  kCallsInThinking = 128,  // calls may stand within the reasoning
  kHeaders = 64,           // each part begins with a header that says for whom it is
};

// A row. Markers are literal text; those named "pattern" also have
//   ~   white space, any or none
//   %n  the tool's name   %i  the call's id   %k  an argument's name   %t  its type: "true" or "string" for text
// and a placeholder reads up to the literal after it.
struct OutputRow {
  const char* name;
  const char* about;
  // The template's text has all of `all` and none of `none`.
  const char* all[4];
  const char* none[2];

  const char* think_open;
  const char* think_close;
  const char* wrap_open;   // around the answer; taken away where it begins
  const char* wrap_close;  // ... and where it ends, if it began
  const char* skip[6];     // special tokens that say nothing

  CallShape shape;
  uint16_t flags;
  const char* section_open;   // pattern; what calls are within, if anything
  const char* section_close;  // pattern
  const char* head;           // pattern; begins a call, for the shapes that have a head
  const char* tail;           // pattern; ends it
  const char* param_open;     // pattern; kTagged. kNested: the mark before every tag
  const char* param_close;
  const char* json_open;  // kTagged: pattern; all arguments at once as JSON
  const char* json_close;

  // Begins an answer that is NAME.call(key=value, ...), or code for the tool that runs it (python, ipython or
  // code_interpreter), up to its end.
  const char* code_open;

  // kHeaders: a header is what stands between the two.
  const char* header_open;
  const char* header_close;
  const char* reasoning_to;   // the channel or recipient of reasoning
  const char* content_to[3];  // ... of the answer

  // reasoning_effort's values where they are not low, medium, high: on, off, low, medium, high.
  const char* efforts[5];
};

// How a template is told whether and how much to think: one kind for each variable that templates have for it.
enum class ThinkSwitch : uint8_t {
#define OUTPUT_SWITCH(id, name, on, off, low, medium, high) id,
#include "runtime/text/output/switches.def"
#undef OUTPUT_SWITCH
  kCount,
};

enum class Thinking : uint8_t {
  kDefault,  // as the template does by itself
  kOff,
  kOn,
  kLow,
  kMedium,
  kHigh,
};

// What is kept of a template: the row, and above it a bit for each ThinkSwitch that the template reads. 0 is the generic
// row. Compiler and runtime are of one build, so rows have no names here.
constexpr uint32_t kSwitchShift = 16;
static_assert(static_cast<uint32_t>(ThinkSwitch::kCount) <= 16);
constexpr uint32_t frozen_output(uint16_t row, uint32_t switches) { return row | switches << kSwitchShift; }

class OutputFormat {
 public:
  // Content alone, and <think>: what is assumed of an unknown template.
  OutputFormat();
  // kErrImage: there is no such row or switch.
  Status open(uint32_t frozen);

  const OutputRow& row() const { return *row_; }
  Str name() const { return row_->name; }
  bool has_calls() const { return row_->shape != CallShape::kNone; }
  // Does the answer to this prompt begin inside the reasoning?
  bool opens_reasoning(Str prompt) const;
  // What ends the reasoning, for a budget: given to the model as if it had said it. Empty: the format has no such
  // text (its reasoning is a message of its own).
  Str reasoning_close() const;
  // What a call begins with, for a grammar that forces one. Empty: a call may begin with the answer.
  Str call_trigger() const;
  // Can the template be told to think or not?
  bool has_switch() const { return switches_ != 0; }
  // Appends the members (`,"enable_thinking":false`) that tell the template, for an object that has others already.
  // False: out of memory.
  [[nodiscard]] bool append_switches(Thinking thinking, Vec<char>& json) const;

 private:
  const OutputRow* row_;
  uint32_t switches_ = 0;
};

// The table, for whoever chooses a row.
Span<const OutputRow> output_rows();
// The row whose markers the template shows; 0, the generic one, when none has them.
uint16_t recognise_output(Str template_text);
// The variable's name, by which a compiler finds it in a template.
Str switch_name(ThinkSwitch s);

}  // namespace gcrt
