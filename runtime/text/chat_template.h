#pragma once
// The model's chat template: from messages to the prompt that the model was trained on, and which parts of it are text
// that somebody wrote and not markup. The program was made at compile time (jinja/program.h); opening it checks it and
// keeps views, so one template serves any number of threads.
#include <stdint.h>

#include "runtime/base/allocator.h"
#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/jinja/program.h"
#include "runtime/text/special.h"

namespace gcrt {

struct TemplateVariable {
  Str name, value;
};

struct RenderOptions {
  int64_t now = 0;                            // seconds since 1970, UTC
  int64_t utc_offset = 0;                     // seconds east; strftime_now tells local time
  Span<const TemplateVariable> defaults;      // strings for what the context lacks: bos_token, eos_token
  uint64_t max_steps = 50'000'000;            // bound of its time: seconds
  uint64_t max_memory = uint64_t{256} << 20;  // bytes
};

struct Rendered {
  Vec<char> text;
  // Parts that come from the contents of messages, tools and documents, ascending: EncodeOptions::literal.
  Vec<TextRange> literal;
};

class ChatTemplate {
 public:
  // `program` stays mapped. kErrImage: damaged, or of another version.
  Status open(Span<const uint8_t> program) { return program_.open(program); }
  bool available() const { return !program_.empty(); }

  // `context` is JSON: an object of the template's variables (messages, tools, add_generation_prompt, enable_thinking,
  // ...), or the array of messages alone. As transformers does it, tools and documents are none when they are missing,
  // and add_generation_prompt is true. kErrInput: the context is malformed, or the template raised an error, which
  // `message` tells in one line.
  Status render(Str context, const RenderOptions& options, Rendered& out, Span<char> message,
                Allocator allocator = libc_allocator()) const;

 private:
  jinja::Program program_;
};

// For whoever makes a context: `s` with quotes, as a JSON string. Bytes that are not UTF-8 become U+FFFD.
bool append_json_string(Vec<char>& out, Str s);

}  // namespace gcrt
