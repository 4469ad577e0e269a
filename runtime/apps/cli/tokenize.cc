// `OUT tokenize TEXT`: one token a line with its text, or with --ids all ids on one line.
#include "runtime/apps/cli/app.h"

namespace gcrt {
namespace {

bool read_text(App& app, const Options& options, Vec<char>* out) {
  const char* word = options.words.n == 1 ? options.words.values[0] : options.prompt;
  const int sources =
      (options.words.n != 0) + (options.prompt != nullptr) + (options.file != nullptr) + options.from_stdin;
  if (options.words.n > 1 || sources != 1) {
    app.fail(sources == 0 ? "nothing to tokenize: TEXT, -f FILE or --stdin"
                          : "more than one text: quote it, or give one of TEXT, -f FILE and --stdin");
    return false;
  }
  if (word == nullptr) return read_input(app, options.from_stdin ? "-" : options.file, out);
  if (append(*out, word)) return true;
  app.fail("not enough memory for the text");
  return false;
}

// Text in quotes, with escapes for what would break the line or the terminal.
void put_quoted(Output& out, Str text) {
  out.put('\'');
  for (char c : text) {
    if (c == '\n') {
      out.put("\\n");
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7f || c == '\'' || c == '\\') {
      char escape[8];
      Writer w(escape);
      w.put("\\x").put_hex(static_cast<uint8_t>(c), 2);
      out.put(w.text());
    } else {
      out.put(c);
    }
  }
  out.put("'\n");
}

}  // namespace

int gc_command_tokenize(App& app, const Options& options) {
  Tokenizer tokenizer;
  if (!open_tokenizer(app, &tokenizer)) return kExitError;
  if (!tokenizer.available()) return app.fail("this file has no tokenizer");
  Vec<char> text(app.memory), piece(app.memory);
  Vec<int32_t> ids(app.memory);
  if (!read_text(app, options, &text)) return kExitError;
  const EncodeOptions encode{.add_special = options.add_bos, .parse_special = options.special, .literal = {}};
  if (const Status s = tokenizer.encode(str(text), encode, ids); s != kOk) return app.fail_status(s);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (options.ids) {
      app.out.print(i ? "," : "", ids[i]);
      continue;
    }
    piece.clear();
    if (const Status s = tokenizer.append_piece(ids[i], true, piece); s != kOk) return app.fail_status(s);
    char number[16];
    Writer w(number);
    w.put_int(ids[i]);
    app.out.print(Right{w.text(), 6}, " -> ");
    put_quoted(app.out, str(piece));
  }
  if (options.ids) app.out.print("\n");
  return app.done();
}

}  // namespace gcrt
