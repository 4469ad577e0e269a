// `OUT chat`: a conversation with the model. On a terminal messages are edited, elsewhere they are the lines of
// standard input; answers alone go to standard output there, so that `OUT chat < questions > answers` works.
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "runtime/apps/cli/app.h"
#include "runtime/apps/cli/chat/answer.h"
#include "runtime/apps/cli/chat/chat_input.h"
#include "runtime/apps/cli/sampling.h"
#include "runtime/apps/cli/whole_file.h"
#include "runtime/core/prompt_cache.h"
#include "runtime/generate/conversation.h"
#include "runtime/generate/generator.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/output/format.h"
#include "runtime/text/utf8.h"

namespace gcrt {
namespace {

enum class ChatCommand : uint8_t {
#define CHAT_COMMAND(kind, name, argument, help) kind,
#include "runtime/apps/cli/chat/chat_commands.def"
#undef CHAT_COMMAND
};
struct ChatCommandRow {
  ChatCommand kind;
  Str name, argument, help;
};
constexpr ChatCommandRow kChatCommands[] = {
#define CHAT_COMMAND(kind, name, argument, help) {ChatCommand::kind, name, argument, help},
#include "runtime/apps/cli/chat/chat_commands.def"
#undef CHAT_COMMAND
};
constexpr size_t kCommandRows = sizeof kChatCommands / sizeof kChatCommands[0];

constexpr Str kGreen = "\x1b[32m", kDim = "\x1b[2m", kPlain = "\x1b[0m";

// "/save file.json": the word, and what follows it without the blanks between. False: this is a message ("/usr/bin").
bool split_command(Str text, Str* word, Str* argument) {
  size_t n = 1;
  if (text.empty() || text[0] != '/') return false;
  while (n < text.size() && text[n] >= 'a' && text[n] <= 'z') ++n;
  if (n == 1 || (n < text.size() && text[n] != ' ' && text[n] != '\n')) return false;
  *word = text.sub(0, n);
  while (n < text.size() && (text[n] == ' ' || text[n] == '\n')) ++n;
  *argument = text.sub(n);
  return true;
}

// What makes a text unfit as a message; null: nothing.
const char* wrong_text(Str text) {
  for (size_t at = 0; at < text.size();) {
    if (text[at] == 0) return "a zero byte";
    const int n = utf8_next(text.sub(at));
    if (n <= 0) return "bytes that are not UTF-8";
    at += static_cast<size_t>(n);
  }
  return nullptr;
}

class Chat {
 public:
  Chat(App& app, const Options& options)
      : app_(app),
        options_(options),
        talk_(template_, tokenizer_, app.memory),
        grammar_(app.memory),
        generator_(app.memory),
        answer_(app.out, app.memory),
        switches_(app.memory),
        close_(app.memory) {}

  int run();

 private:
  enum class Then : uint8_t { kGoOn, kLeave, kFail };

  bool open();
  bool set_up();
  bool read_system();
  bool first_message(Vec<char>* message, bool* there);
  int talk();
  Then take(Str text);
  Then command(Str word, Str argument);
  Then say(Str text);
  Then answer();
  PromptOptions prompt_options() const;
  void print_prompt();
  Status generate(End* end);
  Then show_system(Str text);
  Then save(Str path);
  Then load(Str path);
  void help();
  void print_times();
  template <class... Parts>
  Then complain(const Parts&... parts);
  template <class... Parts>
  void note(const Parts&... parts);
  static bool on_token(void* self, int32_t token, Str text);
  bool set_reasoning();
  Status begin_answer();

  App& app_;
  const Options& options_;
  Model model_;
  Tokenizer tokenizer_;
  ChatTemplate template_;
  OutputFormat format_;
  Session session_;
  Conversation talk_;
  GrammarConstraint grammar_;
  Generator generator_;
  ChatInput* input_ = nullptr;
  bool people_ = false, colors_ = false, interrupted_ = false;
  Answer answer_;
  Vec<char> switches_;    // of reasoning, for the template
  Vec<int32_t> close_;    // the tokens that end reasoning
  int64_t budget_ = -1;   // tokens of reasoning
  int64_t reasoned_ = 0;  // of this answer
};

// A failure that ends the chat where nobody can react to it.
template <class... Parts>
Chat::Then Chat::complain(const Parts&... parts) {
  app_.fail(parts...);
  return people_ ? Then::kGoOn : Then::kFail;
}

template <class... Parts>
void Chat::note(const Parts&... parts) {
  if (!people_) return;
  app_.out.print(colors_ ? kDim : Str(), parts..., colors_ ? kPlain : Str(), "\n");
}

bool Chat::open() {
  if (!open_model(app_, options_, &model_) || !open_tokenizer(app_, &tokenizer_)) return false;
  if (gc_the_model.chat_program == nullptr || !tokenizer_.available()) {
    app_.fail(tokenizer_.available() ? "this file has no chat template: compile it with --chat-template NAME "
                                       "or --chat-template-file FILE"
                                     : "this file has no tokenizer, and so no chat");
    return false;
  }
  if (template_.open({gc_the_model.chat_program, gc_the_model.chat_program_bytes}) == kOk &&
      format_.open(gc_the_model.chat_output) == kOk)
    return true;
  app_.fail("the chat template in this file is damaged");
  return false;
}

bool Chat::set_up() {
  if (!open() || !set_reasoning() || !read_system()) return false;
  SessionOptions sizes = session_options(options_);
  sizes.most_k = kMostChosen;
  return must_generate(app_, model_) && start_session(app_, model_, sizes, &session_) &&
         start_grammar(app_, options_, tokenizer_, &grammar_) &&
         start_generator(app_, options_, &session_, tokenizer_, {0, true, grammar_.constraint()},
                         &generator_);
}

// What the flags say of reasoning, as variables of the template and as a budget.
bool Chat::set_reasoning() {
  Thinking thinking = Thinking::kDefault;
  switch (static_cast<Reasoning>(options_.reasoning)) {
    case Reasoning::kAuto:
      break;
    case Reasoning::kOn:
      thinking = Thinking::kOn;
      break;
    case Reasoning::kOff:
      thinking = Thinking::kOff;
      break;
  }
  switch (static_cast<Effort>(options_.reasoning_effort)) {
    case Effort::kUnset:
      break;
    case Effort::kLow:
      thinking = Thinking::kLow;
      break;
    case Effort::kMedium:
      thinking = Thinking::kMedium;
      break;
    case Effort::kHigh:
      thinking = Thinking::kHigh;
      break;
  }
  budget_ = options_.reasoning_budget;
  // Where the template cannot be told, reasoning that it opens is closed at once.
  if (thinking == Thinking::kOff && !format_.has_switch()) budget_ = 0;
  const Str close = format_.reasoning_close();
  if (options_.reasoning_budget >= 0 && close.empty()) {
    app_.fail("--reasoning-budget: this model's reasoning has no end that could be put in");
    return false;
  }
  if (options_.reasoning_effort != 0 && !format_.has_switch()) {
    app_.fail("--reasoning-effort: this model's template knows no such thing");
    return false;
  }
  const EncodeOptions encode{.add_special = false, .parse_special = true, .literal = {}};
  if (format_.append_switches(thinking, switches_) && tokenizer_.encode(close, encode, close_) == kOk)
    return true;
  app_.fail("not enough memory");
  return false;
}

bool Chat::read_system() {
  if (options_.system != nullptr && options_.system_file != nullptr) {
    app_.fail("more than one system's message: -sys and -sysf exclude each other");
    return false;
  }
  Vec<char> text(app_.memory);
  if (options_.system_file != nullptr) {
    if (!read_input(app_, options_.system_file, &text)) return false;
    if (str(text).ends_with("\n")) text.pop();
  } else if (options_.system != nullptr) {
    if (!(options_.escape ? unescape(options_.system, &text) : append(text, options_.system))) {
      app_.fail("not enough memory for the system's message");
      return false;
    }
  } else if (!append(text, first_record(gc_the_model).text)) {  // the one whose states this file has
    app_.fail("not enough memory for the system's message");
    return false;
  }
  if (const char* wrong = wrong_text(str(text)); wrong != nullptr) {
    app_.fail("the system's message has ", wrong);
    return false;
  }
  if (talk_.set_system(str(text))) return true;
  app_.fail("not enough memory for the system's message");
  return false;
}

// Of -p or -f. False after a failure that has been reported.
bool Chat::first_message(Vec<char>* message, bool* there) {
  *there = options_.prompt != nullptr || options_.file != nullptr;
  if (!*there) return true;
  if (options_.prompt != nullptr && options_.file != nullptr) {
    app_.fail("more than one message: -p and -f exclude each other");
    return false;
  }
  if (options_.file != nullptr) {
    if (!read_input(app_, options_.file, message)) return false;
    if (str(*message).ends_with("\n")) message->pop();
    return true;
  }
  if (options_.escape ? unescape(options_.prompt, message) : append(*message, options_.prompt)) return true;
  app_.fail("not enough memory for the message");
  return false;
}

int Chat::run() {
  if (options_.words.n != 0)
    return app_.fail("unexpected argument '", options_.words.values[0],
                     "': the first message is given with -p");
  if (!set_up()) return kExitError;
  Str names[kCommandRows];
  for (size_t i = 0; i < kCommandRows; ++i) names[i] = kChatCommands[i].name;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment
  const char* no_color = getenv("NO_COLOR");
  const bool plain = options_.simple_io || !ChatInput::terminal_edits();
  const bool wanted = isatty(1) != 0 && !plain && (no_color == nullptr || *no_color == 0);
  colors_ = options_.color == static_cast<uint32_t>(Color::kOn) ||
            (options_.color == static_cast<uint32_t>(Color::kAuto) && wanted);
  InputSettings settings;
  people_ = isatty(0) != 0 && isatty(1) != 0;
  settings.people = people_;
  settings.multiline = options_.multiline;
  settings.completions = names;
  if (colors_) settings.before = kGreen, settings.after = kPlain;
  ChatInput input(app_, settings);
  input_ = &input;
  if (people_ && !plain) input.open_terminal();
  return talk();
}

int Chat::talk() {
  Vec<char> message(app_.memory);
  bool there = false;
  if (!first_message(&message, &there)) return kExitError;
  if (people_ && !options_.single_turn)
    note(Line{*gc_the_model.name ? gc_the_model.name : gc_the_model.architecture},
         ": /help tells the commands, Ctrl-C stops an answer, Ctrl-D leaves");
  for (;;) {
    ChatInput::Got got = ChatInput::Got::kMessage;
    if (there)
      app_.out.print(people_ && colors_ ? kGreen : Str(), people_ ? "> " : "", people_ ? str(message) : Str(),
                     people_ && colors_ ? kPlain : Str(), people_ ? "\n" : "");
    else
      got = options_.single_turn && isatty(0) == 0 ? input_->rest(&message) : input_->next(&message);
    if (got == ChatInput::Got::kFailed) return kExitError;
    if (got == ChatInput::Got::kEnd) {
      if (options_.single_turn) return app_.fail("there is no message");
      return app_.done();
    }
    const Then then = there || options_.single_turn ? say(str(message)) : take(str(message));
    there = false;
    if (then == Then::kFail) return kExitError;
    if (interrupted_ && !people_) return app_.done(kExitInterrupted);
    if (then == Then::kLeave || options_.single_turn || !app_.out.ok()) return app_.done();
  }
}

// ---- Messages and commands ----

Chat::Then Chat::take(Str text) {
  Str word, argument;
  if (split_command(text, &word, &argument)) return command(word, argument);
  if (text.starts_with("//")) text = text.sub(1);  // "//x" says "/x"
  bool blank = true;
  for (char c : text) blank = blank && (c == ' ' || c == '\n' || c == '\t' || c == '\r');
  return blank ? Then::kGoOn : say(text);
}

Chat::Then Chat::command(Str word, Str argument) {
  const ChatCommandRow* row = nullptr;
  for (const ChatCommandRow& each : kChatCommands)
    if (each.name == word) row = &each;
  if (row == nullptr)
    return complain("there is no command ", word,
                    ", see /help; a message that begins with / begins with // here");
  if (row->argument.empty() && !argument.empty()) return complain(word, " takes no '", argument, "'");
  if (row->argument == "FILE" && argument.empty()) return complain(word, " FILE: no file is named");
  switch (row->kind) {
    case ChatCommand::kHelp:
      help();
      return Then::kGoOn;
    case ChatCommand::kClear:
      talk_.clear();
      note("The conversation is forgotten.");
      return Then::kGoOn;
    case ChatCommand::kSystem:
      return show_system(argument);
    case ChatCommand::kRegen:
      return talk_.drop_answer() ? answer() : complain("there is no message to answer");
    case ChatCommand::kSave:
      return save(argument);
    case ChatCommand::kLoad:
      return load(argument);
    case ChatCommand::kExit:
      return Then::kLeave;
  }
  return Then::kGoOn;
}

void Chat::help() {
  for (const ChatCommandRow& row : kChatCommands) {
    char name[32];
    Writer w(name);
    format(w, row.name, row.argument.empty() ? "" : " ", row.argument);
    app_.out.print("  ", Left{w.text(), 16}, row.help, "\n");
  }
  if (people_)
    app_.out.print(
        "A line that ends with \\ goes on on the next one; Alt-Enter begins one too. Up and down bring "
        "earlier "
        "messages.\n");
}

Chat::Then Chat::show_system(Str text) {
  if (text == "-") {
    if (!talk_.set_system(Str())) return complain("not enough memory for the system's message");
    note("It is gone.");
    return Then::kGoOn;
  }
  if (text.empty()) {
    const ChatMessage* system = talk_.system();
    if (system == nullptr)
      note("There is no system's message.");
    else
      app_.out.print(str(system->content), "\n");
    return Then::kGoOn;
  }
  if (const char* wrong = wrong_text(text); wrong != nullptr)
    return complain("the system's message has ", wrong);
  if (!talk_.set_system(text)) return complain("not enough memory for the system's message");
  note("From now on.");
  return Then::kGoOn;
}

Chat::Then Chat::save(Str path) {
  Vec<char> name(app_.memory), json(app_.memory);
  bool ok = append(name, path) && name.push(0) && append(json, "{\"messages\": [");
  for (const ChatMessage& m : talk_.messages()) {
    const bool first = &m == talk_.messages().begin();
    ok = ok && append(json, first ? "\n  " : ",\n  ") && append_message_json(m, json);
  }
  if (!ok || !append(json, "\n]}\n")) return complain("not enough memory to save the conversation");
  WholeFile file(app_, name.data());
  if (!file.open_for_writing() || !file.write_all(json.data(), json.size()) || !file.commit())
    return people_ ? Then::kGoOn : Then::kFail;
  note("Kept in ", Line{path}, ".");
  return Then::kGoOn;
}

Chat::Then Chat::load(Str path) {
  Vec<char> name(app_.memory), json(app_.memory);
  if (!append(name, path) || !name.push(0)) return complain("not enough memory to load a conversation");
  if (!read_input(app_, name.data(), &json)) return people_ ? Then::kGoOn : Then::kFail;
  Vec<ChatMessage> messages(app_.memory);
  app_.message[0] = 0;
  if (read_messages_json(str(json), messages, app_.note(), app_.memory) != kOk)
    return complain("'", path, "': ", Str(app_.message));
  talk_.messages() = static_cast<Vec<ChatMessage>&&>(messages);
  note("A conversation of ", talk_.messages().size(), " messages.");
  return Then::kGoOn;
}

// ---- Answers ----

Chat::Then Chat::say(Str text) {
  if (const char* wrong = wrong_text(text); wrong != nullptr) return complain("the message has ", wrong);
  if (!talk_.add("user", text)) return complain("not enough memory for the message");
  return answer();
}

PromptOptions Chat::prompt_options() const {
  PromptOptions prompt;
  prompt.variables = options_.template_variables;
  prompt.switches = str(switches_);
  prompt.now = time(nullptr);
  tm local = {};
  const time_t clock = static_cast<time_t>(prompt.now);
  if (localtime_r(&clock, &local) != nullptr) prompt.utc_offset = local.tm_gmtoff;
  // What shifts needs room to answer in before it does.
  const size_t n_ctx = session_.options().n_ctx;
  prompt.room = options_.context_shift ? n_ctx - n_ctx / 4 : n_ctx;
  prompt.drop_turns = options_.context_shift;
  return prompt;
}

void Chat::print_prompt() {
  const char* comma = "";
  for (int32_t id : talk_.ids()) {
    app_.err.print(comma, id);
    comma = ",";
  }
  app_.err.print("\n");
  app_.err.flush();
}

// To the last message. It goes again when there is no answer at all, or templates would refuse the next one.
Chat::Then Chat::answer() {
  const size_t before = talk_.messages().size();
  End end = End::kEog;
  app_.message[0] = 0;
  Status s = talk_.prompt(prompt_options(), app_.note());
  if (s == kOk && options_.verbose_prompt) print_prompt();
  if (s == kOk) s = generate(&end);
  app_.out.flush();
  interrupted_ = s == kOk && end == End::kAborted;
  if (s != kOk || (interrupted_ && answer_.empty()))
    talk_.messages().truncate(before - 1);
  else if (!talk_.add("assistant", answer_.content(), answer_.reasoning()))
    s = kErrMemory;
  if (s == kErrFull)
    return complain(Str(app_.message),
                    ": /clear begins anew, -c N gives more, --context-shift forgets the oldest turns");
  if (s != kOk) {
    app_.fail_status(s);
    return people_ ? Then::kGoOn : Then::kFail;
  }
  if (interrupted_) note("(stopped)");
  if (options_.verbose) print_times();
  if (end == End::kContext)
    return complain("the context of ", session_.options().n_ctx,
                    " tokens is full: /clear begins anew, -c N gives more, --context-shift goes on");
  return Then::kGoOn;
}

Status Chat::generate(End* end) {
  const bool in_reasoning = format_.opens_reasoning(talk_.text());
  const bool raw =
      options_.special || options_.reasoning_format == static_cast<uint32_t>(ReasoningFormat::kNone);
  Status s = answer_.begin(format_, in_reasoning, raw, {people_, people_ && colors_});
  reasoned_ = 0;
  if (s == kOk && in_reasoning && budget_ == 0) s = generator_.force(close_) ? kOk : kErrMemory;
  if (s != kOk) return s;
  grammar_.suspend(answer_.in_reasoning());
  generator_.set_keep(static_cast<int64_t>(talk_.fixed()));
  input_->answer_begins();
  catch_interrupt(&session_);
  s = generator_.generate_whole(talk_.ids(), on_token, this, end, app_.note());
  release_interrupt();
  const Status finished = answer_.finish();
  return s == kOk ? finished : s;
}

bool Chat::on_token(void* self, int32_t token, Str text) {
  Chat* chat = static_cast<Chat*>(self);
  if (chat->answer_.push(text) != kOk) return false;
  const bool reasons = chat->answer_.in_reasoning();
  if (reasons && token >= 0 && ++chat->reasoned_ == chat->budget_ && !chat->generator_.force(chat->close_))
    return false;
  chat->grammar_.suspend(reasons);
  return chat->app_.out.flush();
}

void Chat::print_times() {
  const GenerateTimes& t = generator_.times();
  const auto rate = [](uint64_t n, int64_t ns) {
    return Fixed{ns > 0 ? static_cast<double>(n) * 1e9 / static_cast<double>(ns) : 0, 1};
  };
  app_.err.print(colors_ ? kDim : Str(), "[prompt: ", t.prompt_tokens, " tokens, ",
                 rate(t.prompt_tokens, t.prompt_ns), " a second, ", t.kept_tokens,
                 " kept; answer: ", t.tokens, " tokens, ", rate(t.steps, t.generate_ns), " a second]",
                 colors_ ? kPlain : Str(), "\n");
  app_.err.flush();
}

}  // namespace

int gc_command_chat(App& app, const Options& options) { return Chat(app, options).run(); }

}  // namespace gcrt
