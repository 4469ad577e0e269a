#include "runtime/apps/server/generation.h"

#include <boost/asio/post.hpp>
#include <chrono>
#include <new>

#include "runtime/apps/server/line_indent.h"

namespace gcrt::serve {
namespace {

constexpr int kRetrySeconds = 1;

std::string text_of(Str s) { return {s.ptr, s.len}; }

}  // namespace

ApiError engine_error(const Service& service, std::size_t n, Status status, const std::string& message) {
  switch (status) {
    case kErrFull: {
      ApiError e(429, "rate_limit_error", "the queue is full: try again later", "", "rate_limit_exceeded");
      e.retry_seconds = kRetrySeconds;
      return e;
    }
    case kErrAborted: {
      ApiError e(503, "unavailable_error", "the server is going down", "", "unavailable");
      e.retry_seconds = kRetrySeconds;
      return e;
    }
    case kErrInput: {
      ApiError e(400, "exceed_context_size_error",
                 message.empty() ? "the prompt has " + std::to_string(n) + " tokens, and the context " +
                                       std::to_string(service.engine->n_ctx())
                                 : message,
                 "", "context_length_exceeded");
      e.more = {{"n_prompt_tokens", n}, {"n_ctx", service.engine->n_ctx()}};
      return e;
    }
    case kErrArgument:
    case kErrUnsupported:
      return {400, "invalid_request_error", message.empty() ? "the request cannot be run" : message};
    case kErrMemory:
      return {500, "server_error", "out of memory"};
    default:
      return {500, "server_error", message.empty() ? "the engine failed" : message};
  }
}

// ---- A choice: one request of the engine ----

class Choice : public std::enable_shared_from_this<Choice> {
 public:
  Choice(std::shared_ptr<Job> job, std::shared_ptr<const Plan> plan, std::size_t index)
      : service_(job->service_),
        job_(std::move(job)),
        plan_(std::move(plan)),
        index_(index),
        indent_(plan_->n_indent) {}

  // Throws ApiError.
  void submit();
  void cancel() {
    if (const std::uint64_t id = id_.load()) service_.engine->cancel(id);
  }

 private:
  void prompt_read(std::uint64_t request, std::size_t done, std::size_t kept);
  bool token(const TokenEvent& event);
  bool within_limits(const Piece& piece);
  void ended(const EndEvent& event);
  void read(Str text, Piece& piece);
  void take_parsed(Status parsed, Piece& piece);
  bool watch_reasoning(const TokenEvent& event);
  TokenProbs probs_of(const TokenProb& p) const { return {p.id, token_bytes(service_, p.id), p.logprob, {}}; }
  void pass_on(Piece piece);

  Service& service_;
  std::shared_ptr<Job> job_;  // until the end, which may come while submit() still runs
  std::shared_ptr<const Plan> plan_;
  std::size_t index_;
  std::atomic<std::uint64_t> id_{0};
  std::unique_ptr<Constraint> constraint_;
  OutputParser parser_;
  bool raw_ = true;
  Utf8Stream utf8_{Utf8Stream::Invalid::kReplace};
  Vec<char> safe_;
  std::int64_t reasoned_ = 0;
  LineIndent indent_;
  using Clock = std::chrono::steady_clock;
  Clock::time_point began_ = Clock::now();  // the request, then its first token
  bool spoke_ = false, new_line_ = false;
  bool limited_ = false;          // one of the plan's limits ended it
  std::shared_ptr<Choice> self_;  // while the engine has it
};

void Choice::submit() {
  const std::shared_ptr<Job> job = job_;
  const Plan& plan = *plan_;
  if (plan.grammar)
    constraint_ = service_.grammars.make(plan.grammar->kind, plan.grammar->text, plan.grammar->param);
  raw_ = plan.format == nullptr;
  if (!raw_) {
    if (parser_.begin(*plan.format, plan.tools, plan.output) != kOk) throw std::bad_alloc();
    if (constraint_ && plan.said_before.empty()) constraint_->suspend(parser_.in_reasoning());
    Piece before;
    if (!plan.said_before.empty()) read(str(plan.said_before), before);
    if (!before.empty()) pass_on(std::move(before));
  }
  std::vector<Str> stops, breakers;
  for (const std::string& s : plan.stops) stops.push_back(str(s));
  for (const std::string& s : plan.breakers) breakers.push_back(str(s));
  BatchRequest r;
  r.prompt = {plan.prompt.ids.data(), plan.prompt.ids.size()};
  r.generate.max_tokens = plan.max_tokens;
  r.generate.ignore_eog = plan.ignore_eog;
  r.generate.show_special = plan.show_special;
  r.generate.seed = plan.seed + index_;
  if (constraint_) r.generate.constraint = constraint_->hooks();
  r.generate.chain = {plan.chain.data(), plan.chain.size()};
  r.generate.bias = {plan.bias.data(), plan.bias.size()};
  if (plan.own_breakers) r.generate.dry_breakers = {breakers.data(), breakers.size()};
  r.generate.stops = {stops.data(), stops.size()};
  r.n_probs = plan.n_probs;
  r.cache_prompt = plan.cache_prompt;
  r.slot = plan.slot;
  r.shared = plan.prompt.fixed;
  r.user = this;
  if (job->progress_ || plan.most_prompt_ms > 0)
    r.on_prompt = [](void* user, std::uint64_t id, std::size_t done, std::size_t kept) {
      static_cast<Choice*>(user)->prompt_read(id, done, kept);
    };
  r.on_token = [](void* user, const TokenEvent& event) {
    try {
      return static_cast<Choice*>(user)->token(event);
    } catch (const std::bad_alloc&) {
      return false;
    }
  };
  r.on_end = [](void* user, const EndEvent& event) { static_cast<Choice*>(user)->ended(event); };
  self_ = shared_from_this();
  std::uint64_t id = 0;
  std::string message;
  const Status s = service_.engine->submit(r, &id, &message);
  if (s != kOk) {
    self_.reset();
    throw engine_error(service_, plan.prompt.ids.size(), s, message);
  }
  id_ = id;
  if (job->cancelled_) cancel();
}

// On the engine's thread, as all that follows here.
void Choice::prompt_read(std::uint64_t request, std::size_t done, std::size_t kept) {
  if (plan_->most_prompt_ms > 0 && done != plan_->prompt.ids.size() &&
      Clock::now() - began_ > std::chrono::milliseconds(plan_->most_prompt_ms)) {
    limited_ = true;
    service_.engine->cancel(request);
  }
  if (!job_->progress_) return;
  boost::asio::post(service_.loop, [job = job_, i = index_, done, kept] { job->prompt_read(i, done, kept); });
}

bool Choice::token(const TokenEvent& event) {
  if (job_->cancelled_) return false;
  Piece piece;
  safe_.clear();
  if (utf8_.push(event.text, safe_) != kOk) return false;
  if (event.id >= 0) piece.ids.push_back(event.id);
  if (event.id >= 0 && plan_->n_probs >= 0) {
    piece.probs.push_back(probs_of(event.chosen.id >= 0 ? event.chosen : TokenProb{event.id, 0}));
    for (const TokenProb& p : event.likeliest) piece.probs.back().likeliest.push_back(probs_of(p));
  }
  piece.times = event.times;
  read(gcrt::str(safe_), piece);
  const bool goes_on = within_limits(piece);
  pass_on(std::move(piece));
  if (!goes_on) return false;
  if (raw_) return true;
  return watch_reasoning(event) && !parser_.done();
}

bool Choice::within_limits(const Piece& piece) {
  if (plan_->most_predict_ms <= 0) return !limited_;
  if (!spoke_) began_ = Clock::now(), spoke_ = true;
  new_line_ = new_line_ || piece.content.find('\n') != piece.content.npos;
  if (new_line_ && Clock::now() - began_ > std::chrono::milliseconds(plan_->most_predict_ms)) limited_ = true;
  return !limited_;
}

// A budget closes it; a grammar begins after it.
bool Choice::watch_reasoning(const TokenEvent& event) {
  const bool reasons = parser_.in_reasoning();
  if (reasons && event.id >= 0 && ++reasoned_ == plan_->reasoning_budget &&
      !service_.engine->force(event.request, {plan_->reasoning_close.data(), plan_->reasoning_close.size()}))
    return false;
  if (constraint_ && plan_->said_before.empty()) constraint_->suspend(reasons);
  return true;
}

void Choice::read(Str text, Piece& piece) {
  if (text.empty()) return;
  if (raw_)
    limited_ = !indent_.push(view(text), piece.content) || limited_;
  else
    take_parsed(parser_.push(text), piece);
}

// What the parser gave. What it cannot read is content as it is, and so is all that follows.
void Choice::take_parsed(Status parsed, Piece& piece) {
  for (const OutputDelta& d : parser_.deltas()) {
    switch (d.kind) {
      case OutputDelta::kContent:
        piece.content += text_of(parser_.content().sub(d.begin, d.end - d.begin));
        break;
      case OutputDelta::kReasoning:
        piece.reasoning += text_of(parser_.reasoning().sub(d.begin, d.end - d.begin));
        break;
      case OutputDelta::kCallBegin: {
        const std::string said = text_of(gcrt::str(parser_.call(d.call).id));
        piece.calls.push_back({d.call, true, said.empty() ? make_id(service_, "call_") : said,
                               text_of(parser_.call_name(d.call)), ""});
        break;
      }
      case OutputDelta::kArguments: {
        const std::string more =
            text_of(gcrt::str(parser_.call(d.call).arguments).sub(d.begin, d.end - d.begin));
        if (!piece.calls.empty() && piece.calls.back().call == d.call)
          piece.calls.back().arguments += more;
        else
          piece.calls.push_back({d.call, false, "", "", more});
        break;
      }
      case OutputDelta::kCallId:
      case OutputDelta::kCallEnd:
        break;
    }
  }
  parser_.clear_deltas();
  if (parsed == kOk) return;
  raw_ = true;
  piece.content += text_of(parser_.rest());
}

void Choice::pass_on(Piece piece) {
  if (piece.empty()) return;
  boost::asio::post(service_.loop, [job = job_, i = index_, piece = std::move(piece)]() mutable {
    job->came(i, std::move(piece));
  });
}

void Choice::ended(const EndEvent& event) {
  Piece rest;
  safe_.clear();
  if (event.status == kOk && utf8_.finish(safe_) == kOk) read(gcrt::str(safe_), rest);
  if (event.status == kOk && !raw_) {
    if (!plan_->said_after.empty() && event.end == End::kEog) read(str(plan_->said_after), rest);
    if (!raw_) take_parsed(parser_.finish(), rest);
  }
  if (!limited_) rest.content += indent_.rest();
  pass_on(std::move(rest));
  Ending ending;
  const bool limited = limited_ && (event.status == kOk || event.status == kErrAborted);
  ending.status = limited ? kOk : event.status;
  ending.message = text_of(event.message);
  ending.end = limited ? End::kLength : event.end;
  ending.stop = event.stop;
  ending.slot = event.slot;
  ending.seed = event.seed;
  ending.times = event.times;
  ending.reasoning_tokens = static_cast<std::uint64_t>(reasoned_);
  const std::shared_ptr<Choice> self = std::move(self_);
  // The constraint goes with the last reference, on the event loop.
  boost::asio::post(service_.loop, [self, ending = std::move(ending)]() mutable {
    self->job_->ended(self->index_, std::move(ending));
    self->job_.reset();
  });
}

// ---- The job ----

Job::Job(Service& service, std::shared_ptr<Exchange> exchange, std::unique_ptr<Format> format, bool stream)
    : service_(service),
      exchange_(std::move(exchange)),
      format_(std::move(format)),
      stream_(stream),
      silence_(service.loop) {}
Job::~Job() = default;

void Job::add(std::shared_ptr<const Plan> plan, std::size_t prompt) {
  plans_.push_back(std::move(plan));
  answers_.emplace_back();
  answers_.back().prompt = prompt;
  ++running_;
}

void Job::start() {
  for (std::size_t i = 0; i < plans_.size(); ++i)
    choices_.push_back(std::make_shared<Choice>(shared_from_this(), plans_[i], i));
  const std::vector<std::shared_ptr<Choice>> choices = choices_;
  exchange_->on_gone([weak = weak_from_this()] {
    if (const auto job = weak.lock()) job->cancel();
  });
  if (stream_ && ping_seconds_ > 0)
    boost::asio::post(service_.loop, [self = shared_from_this()] { self->wait_for_silence(); });
  for (const auto& choice : choices) {
    if (cancelled_) break;
    try {
      choice->submit();
    } catch (const std::exception& e) {
      const auto* known = dynamic_cast<const ApiError*>(&e);
      const ApiError error = known != nullptr ? *known : ApiError(500, "server_error", "out of memory");
      boost::asio::post(service_.loop, [self = shared_from_this(), error] { self->fail(error); });
      break;
    }
  }
}

void Job::came(std::size_t choice, Piece piece) {
  if (dead_) return;
  Answer& a = answers_[choice];
  a.reasoning += piece.reasoning;
  a.content += piece.content;
  for (const CallPiece& c : piece.calls) {
    if (c.call >= a.calls.size()) a.calls.resize(c.call + 1);
    if (c.begins) a.calls[c.call] = {c.id, c.name, ""};
    a.calls[c.call].arguments += c.arguments;
  }
  a.ids.insert(a.ids.end(), piece.ids.begin(), piece.ids.end());
  for (const TokenProbs& p : piece.probs) a.probs.push_back(p);
  if (!stream_) return;
  begin();
  say(format_->piece(*this, choice, piece));
}

void Job::prompt_read(std::size_t choice, std::size_t done, std::size_t kept) {
  if (dead_ || !stream_) return;
  begin();
  say(format_->progress(*this, choice, done, kept));
}

void Job::say(std::string events) {
  silent_ = silent_ && events.empty();
  exchange_->write(std::move(events));
}

void Job::wait_for_silence() {
  silent_ = true;
  silence_.expires_after(std::chrono::seconds(ping_seconds_));
  silence_.async_wait([weak = weak_from_this()](const boost::system::error_code& e) {
    const auto job = weak.lock();
    if (e || job == nullptr || job->dead_) return;
    if (job->silent_) {
      job->begin();
      job->say(":\n\n");
    }
    job->wait_for_silence();
  });
}

// The response begins with what is there first: until then an error still has its own status.
void Job::begin() {
  if (begun_) return;
  begun_ = true;
  exchange_->begin(200, "text/event-stream", {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}});
  exchange_->write(format_->begin(*this));
}

void Job::ended(std::size_t choice, Ending ending) {
  if (dead_) return;
  if (ending.status != kOk) {
    ApiError error = engine_error(service_, plans_[choice]->prompt.ids.size(), ending.status, ending.message);
    // What submit() took and could not be run is nobody's mistake but ours.
    if (error.status == 400) error = ApiError(500, "server_error", error.message);
    return fail(error);
  }
  answers_[choice].ending = std::move(ending);
  answers_[choice].ended = true;
  if (stream_) {
    begin();
    exchange_->write(format_->ended(*this, choice));
  }
  if (--running_ != 0) return;
  dead_ = true;
  choices_.clear();
  if (stream_) {
    exchange_->write(format_->finish(*this));
    exchange_->end();
  } else {
    exchange_->respond(200, "application/json", dump(format_->whole(*this)));
  }
}

void Job::fail(const ApiError& error) {
  if (dead_) return;
  cancel();
  if (begun_) {
    exchange_->write(format_->failed(error));
    exchange_->end();
    return;
  }
  Headers extra;
  if (error.retry_seconds != 0) extra.emplace_back("Retry-After", std::to_string(error.retry_seconds));
  exchange_->respond(error.status, "application/json", format_->error_body(error), extra);
}

void Job::cancel() {
  dead_ = true;
  cancelled_ = true;
  for (const auto& choice : choices_) choice->cancel();
  choices_.clear();
}

json::object timings(const GenerateTimes& t) {
  const auto ms = [](std::int64_t ns) { return static_cast<double>(ns) * 1e-6; };
  const auto each = [&](std::int64_t ns, std::uint64_t n) {
    return n != 0 ? ms(ns) / static_cast<double>(n) : 0.0;
  };
  const auto rate = [&](std::int64_t ns, std::uint64_t n) {
    return ns > 0 ? static_cast<double>(n) * 1e9 / static_cast<double>(ns) : 0.0;
  };
  return {{"cache_n", t.kept_tokens},
          {"prompt_n", t.prompt_tokens},
          {"prompt_ms", ms(t.prompt_ns)},
          {"prompt_per_token_ms", each(t.prompt_ns, t.prompt_tokens)},
          {"prompt_per_second", rate(t.prompt_ns, t.prompt_tokens)},
          {"predicted_n", t.tokens},
          {"predicted_ms", ms(t.generate_ns)},
          {"predicted_per_token_ms", each(t.generate_ns, t.steps)},
          {"predicted_per_second", rate(t.generate_ns, t.steps)}};
}

}  // namespace gcrt::serve
