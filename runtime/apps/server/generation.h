#pragma once
// Answers being made: from a request's plan through the engine to pieces of an answer.
//
// The engine calls a Choice on its own thread, which waits meanwhile: there the text is taken apart into reasoning, content and
// calls (what the model may say next depends on it), and nothing more. Pieces go to the event loop, where a Job collects
// them and its Format says them in one API's way.
#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/apps/server/api_error.h"
#include "runtime/apps/server/http/exchange.h"
#include "runtime/apps/server/prompt.h"
#include "runtime/apps/server/service.h"
#include "runtime/text/output/parser.h"
#include "runtime/text/utf8.h"

namespace gcrt::serve {

struct GrammarText {
  Grammars::Kind kind = Grammars::Kind::kGbnf;
  std::string text, param;
};

// What all choices of a prompt have in common.
struct Plan {
  Prompt prompt;
  std::vector<SamplerStage> chain;
  std::vector<LogitBias> bias;
  std::vector<std::string> stops, breakers;
  bool own_breakers = false;
  std::int64_t max_tokens = -1;
  std::uint64_t seed = 0;
  bool ignore_eog = false, show_special = false, cache_prompt = true;
  std::int32_t n_probs = -1, slot = -1;
  std::optional<GrammarText> grammar;
  // How the answer is read; null: all of it is content.
  const OutputFormat* format = nullptr;
  ToolSet tools;
  OutputOptions output;
  std::int64_t reasoning_budget = -1;  // tokens
  // llama-server's limits of a completion for editors; 0 or less: none.
  std::int64_t most_prompt_ms = 0;   // from the request's arrival; then it ends without a text
  std::int64_t most_predict_ms = 0;  // from the first token, and not within the first line
  std::int64_t n_indent = 0;         // a line that is indented less ends it
  std::vector<std::int32_t> reasoning_close;
  // Of a call that is forced: what the prompt ends with, and what is taken as said at the end.
  std::string said_before, said_after;
};

struct TokenProbs {
  std::int32_t id = -1;
  std::string bytes;
  float logprob = 0;
  std::vector<TokenProbs> likeliest;
};

struct CallPiece {
  std::size_t call = 0;
  bool begins = false;
  std::string id, name;  // of one that begins
  std::string arguments;
};

struct Piece {
  std::string reasoning, content;
  std::vector<CallPiece> calls;
  std::vector<std::int32_t> ids;
  std::vector<TokenProbs> probs;
  GenerateTimes times;  // so far
  bool empty() const {
    return reasoning.empty() && content.empty() && calls.empty() && ids.empty() && probs.empty();
  }
};

struct Ending {
  Status status = kOk;
  std::string message;
  End end = End::kEog;
  std::int32_t stop = -1, slot = -1;
  std::uint64_t seed = 0, reasoning_tokens = 0;
  GenerateTimes times;
};

// All that has come of a choice.
struct Answer {
  struct Call {
    std::string id, name, arguments;
  };
  std::size_t prompt = 0;  // which of the request's
  std::string reasoning, content;
  std::vector<Call> calls;
  std::vector<std::int32_t> ids;
  std::vector<TokenProbs> probs;
  bool ended = false;
  Ending ending;

  std::uint64_t prompt_tokens() const { return ending.times.prompt_tokens + ending.times.kept_tokens; }
};

class Job;

// One API's way to say answers. All on the event loop.
class Format {
 public:
  virtual ~Format() = default;
  virtual json::value whole(const Job& job) = 0;
  // Events of a stream, as they go out.
  virtual std::string begin(const Job& job) { return {}; }
  virtual std::string piece(const Job& job, std::size_t choice, const Piece& piece) = 0;
  virtual std::string ended(const Job& job, std::size_t choice) = 0;
  virtual std::string finish(const Job& job) = 0;
  virtual std::string progress(const Job& job, std::size_t choice, std::size_t done, std::size_t kept) {
    return {};
  }
  virtual std::string failed(const ApiError& error) { return "data: " + openai_error(error) + "\n\n"; }
  virtual std::string error_body(const ApiError& error) { return openai_error(error); }
};

class Choice;

class Job : public std::enable_shared_from_this<Job> {
 public:
  Job(Service& service, std::shared_ptr<Exchange> exchange, std::unique_ptr<Format> format, bool stream);
  ~Job();

  // Before start(). The seed of choice i is the plan's plus i.
  void add(std::shared_ptr<const Plan> plan, std::size_t prompt);
  void report_progress() { progress_ = true; }
  // A stream in which nothing was said for so long gets a comment, for whoever closes connections that are silent; 0: never.
  void ping_every(std::int64_t seconds) { ping_seconds_ = seconds; }
  // From any thread. Throws ApiError when the engine takes it not.
  void start();

  Service& service() const { return service_; }
  const std::vector<Answer>& answers() const { return answers_; }
  const Plan& plan(std::size_t choice) const { return *plans_[choice]; }
  bool stream() const { return stream_; }

 private:
  friend class Choice;
  // On the event loop.
  void came(std::size_t choice, Piece piece);
  void ended(std::size_t choice, Ending ending);
  void prompt_read(std::size_t choice, std::size_t done, std::size_t kept);
  void begin();
  void say(std::string events);
  void wait_for_silence();
  void fail(const ApiError& error);
  void cancel();

  Service& service_;
  std::shared_ptr<Exchange> exchange_;
  std::unique_ptr<Format> format_;
  bool stream_, progress_ = false, begun_ = false, dead_ = false;
  std::vector<std::shared_ptr<const Plan>> plans_;
  std::vector<std::shared_ptr<Choice>> choices_;
  std::vector<Answer> answers_;
  std::size_t running_ = 0;
  std::atomic<bool> cancelled_{false};
  std::int64_t ping_seconds_ = 0;
  bool silent_ = true;  // since the timer was set
  boost::asio::steady_timer silence_;
};

// What the engine said of a request of n tokens.
ApiError engine_error(const Service& service, std::size_t n, Status status, const std::string& message);
// llama-server's "timings".
json::object timings(const GenerateTimes& times);

}  // namespace gcrt::serve
