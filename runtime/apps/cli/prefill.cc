// `OUT prefill -f FILE -o CACHE`: the states after a text, as the compiler's --prompt-cache-file puts them into a file. Of a
// model with a chat template the text is the system's message, and the states are those of what every conversation with
// it begins with.
#include "runtime/apps/cli/app.h"
#include "runtime/apps/cli/whole_file.h"
#include "runtime/core/prompt_cache.h"
#include "runtime/generate/conversation.h"
#include "runtime/text/chat_template.h"

namespace gcrt {
namespace {

// The tokens at the beginning of every conversation.
bool chat_ids(App& app, const Tokenizer& tokenizer, Str text, Vec<int32_t>* ids) {
  ChatTemplate chat_template;
  if (chat_template.open({gc_the_model.chat_program, gc_the_model.chat_program_bytes}) != kOk) {
    app.fail("the chat template in this file is damaged");
    return false;
  }
  // Two messages that begin differently: what their prompts share is the system's part, whatever the template puts where.
  Vec<int32_t> other(app.memory);
  constexpr Str kMessages[] = {"What?", "1"};
  for (Str message : kMessages) {
    Conversation talk(chat_template, tokenizer, app.memory);
    if (!talk.set_system(text) || !talk.add("user", message)) {
      app.fail("not enough memory for the system's message");
      return false;
    }
    if (const Status s = talk.prompt({}, app.note()); s != kOk) {
      app.fail_status(s);
      return false;
    }
    if (!(ids->empty() ? ids : &other)->copy(talk.ids())) {
      app.fail("not enough memory for the tokens");
      return false;
    }
  }
  ids->truncate(common_prefix(*ids, other));
  return true;
}

}  // namespace

int gc_command_prefill(App& app, const Options& options) {
  if (options.words.n != 0 || options.file == nullptr || options.output == nullptr)
    return app.fail("a text and where its states go: -f FILE -o FILE");
  Model model;
  Tokenizer tokenizer;
  Vec<char> text(app.memory);
  Vec<int32_t> ids(app.memory);
  if (!open_model(app, options, &model) || !open_tokenizer(app, &tokenizer)) return kExitError;
  if (!tokenizer.available()) return app.fail("this file has no tokenizer");
  if (!must_generate(app, model) || !read_input(app, options.file, &text)) return kExitError;
  if (str(text).ends_with("\n")) text.pop();
  if (gc_the_model.chat_program != nullptr) {
    if (!chat_ids(app, tokenizer, str(text), &ids)) return kExitError;
  } else if (const Status s = tokenizer.encode(
                 str(text), {.add_special = true, .parse_special = true, .literal = {}}, ids);
             s != kOk) {
    return app.fail_status(s);
  }
  if (ids.empty()) return app.fail("the text has no tokens");

  SessionOptions sizes = session_options(options);
  sizes.n_ctx = 0;
  Session session;
  if (!start_session(app, model, sizes, &session)) return kExitError;
  if (ids.size() >= session.options().n_ctx)
    return app.fail("the text has ", ids.size(), " tokens, and the context ", session.options().n_ctx);
  if (const Status s = session.prompt(0, ids, nullptr); s != kOk) return app.fail_status(s);
  Vec<uint8_t> record(app.memory);
  if (!write_record(session, 0, ids, str(text), &record)) return app.fail("not enough memory for the states");
  WholeFile file(app, options.output);
  const bool written =
      file.open_for_writing() && file.write_all(record.data(), record.size()) && file.commit();
  return written ? kExitOk : kExitError;
}

}  // namespace gcrt
