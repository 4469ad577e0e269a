#pragma once
// A batcher over the fake model, requests as values that can be asked again, and the answers.
#include <gtest/gtest.h>
#include <string.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/batch/batcher.h"
#include "runtime/generate/grammar_constraint.h"
#include "runtime/generate/testdata/fake_model.h"

namespace gcrt {

using fake::byte;
using Ids = std::vector<int32_t>;

inline Span<const int32_t> span(const Ids& ids) { return {ids.data(), ids.size()}; }

inline Ids text_ids(const std::string& text) {
  Ids ids = {fake::kBos};
  for (char c : text) ids.push_back(byte(c));
  return ids;
}

// What is asked for, in a form that can be asked again.
struct Ask {
  Ids prompt;
  GenerateOptions generate;
  SamplerOptions sampling = {.temperature = 0};
  int32_t n_probs = -1;
  bool cache = true;
  int32_t slot = -1;
  size_t shared = 0;
  std::string grammar;
  std::vector<LogitBias> bias;
  std::vector<Str> stops;
  Ids forced;              // after the first token
  size_t wanted = 999999;  // tokens until on_token says no
};

struct Answer {
  Status submitted = kOk;
  std::string why;
  uint64_t id = 0;
  Status status = kOk;
  std::string message, text;
  End end = End::kAborted;
  Ids tokens;
  std::vector<uint32_t> probs;  // bits
  GenerateTimes times;
  int32_t slot = -1, stop = -1;
  size_t prompt_calls = 0;
  bool ended = false;
};

// Everything that must not depend on who else is there.
inline void expect_equal(const Answer& a, const Answer& b, const std::string& what) {
  EXPECT_EQ(a.status, b.status) << what;
  EXPECT_EQ(a.message, b.message) << what;
  EXPECT_EQ(a.end, b.end) << what;
  EXPECT_EQ(a.tokens, b.tokens) << what;
  EXPECT_EQ(a.text, b.text) << what;
  EXPECT_EQ(a.probs, b.probs) << what;
  EXPECT_EQ(a.stop, b.stop) << what;
}

// A batcher and the answers that it gave.
class Server {
 public:
  explicit Server(Allocator a = libc_allocator()) : batcher_(a), allocator_(a) {}
  void open(const BatchOptions& options, const gc_program& program = fake::kProgram,
            const gc_model& facts = gc_the_model) {
    ASSERT_EQ(tokenizer_.open({gc_the_model.tokenizer, gc_the_model.tokenizer_bytes}), kOk);
    char text[256] = "";
    ASSERT_EQ(batcher_.init({&program, &facts, nullptr}, &tokenizer_, options, text), kOk) << text;
  }
  void start() { ASSERT_EQ(batcher_.start(), kOk); }
  Batcher& batcher() { return batcher_; }

  // Its number.
  size_t submit(const Ask& ask) {
    std::unique_lock lock(mutex_);
    const size_t n = jobs_.size();
    jobs_.push_back(std::make_unique<Job>(allocator_));
    Job& job = *jobs_.back();
    lock.unlock();
    job.server = this;
    job.ask = ask;
    char why[256] = "";
    Vec<SamplerStage> chain;
    EXPECT_EQ(default_chain(ask.sampling, chain), kOk);
    BatchRequest r;
    r.prompt = span(ask.prompt);
    r.generate = ask.generate;
    r.generate.chain = chain;
    r.generate.bias = {ask.bias.data(), ask.bias.size()};
    r.generate.stops = {ask.stops.data(), ask.stops.size()};
    if (!ask.grammar.empty()) {
      EXPECT_EQ(job.grammar.init(GrammarConstraint::Kind::kGbnf, ask.grammar.c_str(), tokenizer_, why), kOk)
          << why;
      r.generate.constraint = job.grammar.constraint();
    }
    r.n_probs = ask.n_probs;
    r.cache_prompt = ask.cache;
    r.slot = ask.slot;
    r.shared = ask.shared;
    r.user = &job;
    r.on_prompt = on_prompt;
    r.on_token = on_token;
    r.on_end = on_end;
    uint64_t id = 0;
    const Status s = batcher_.submit(r, &id, why);
    lock.lock();
    job.answer.submitted = s;
    job.answer.why = why;
    job.answer.id = id;
    if (s != kOk) job.answer.ended = true;
    return n;
  }
  Answer wait(size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return jobs_[n]->answer.ended; });
    return jobs_[n]->answer;
  }
  Answer ask(const Ask& what) { return wait(submit(what)); }
  // Until so many tokens have come.
  void wait_tokens(size_t n, size_t tokens) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return jobs_[n]->answer.tokens.size() >= tokens; });
  }
  uint64_t id(size_t n) {
    std::unique_lock lock(mutex_);
    return jobs_[n]->answer.id;
  }

 private:
  struct Job {
    explicit Job(Allocator a) : grammar(a) {}
    Server* server = nullptr;
    Ask ask;
    GrammarConstraint grammar;
    Answer answer;
  };
  static uint32_t bits(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
  }
  static void on_prompt(void* user, uint64_t, size_t done, size_t kept) {
    Job& job = *static_cast<Job*>(user);
    std::unique_lock lock(job.server->mutex_);
    ++job.answer.prompt_calls;
    EXPECT_LE(kept, done);
    EXPECT_LE(done, job.ask.prompt.size());
  }
  static bool on_token(void* user, const TokenEvent& e) {
    Job& job = *static_cast<Job*>(user);
    std::unique_lock lock(job.server->mutex_);
    Answer& a = job.answer;
    EXPECT_FALSE(a.ended);
    a.text.append(e.text.data(), e.text.size());
    if (e.id < 0) return true;
    a.tokens.push_back(e.id);
    if (job.ask.n_probs >= 0) {
      EXPECT_EQ(e.chosen.id, e.id);
      EXPECT_EQ(e.likeliest.size(), static_cast<size_t>(job.ask.n_probs));
      a.probs.push_back(bits(e.chosen.logprob));
      for (const TokenProb& p : e.likeliest) {
        a.probs.push_back(static_cast<uint32_t>(p.id));
        a.probs.push_back(bits(p.logprob));
      }
    }
    if (a.tokens.size() == 1 && !job.ask.forced.empty()) {
      EXPECT_TRUE(job.server->batcher_.force(e.request, span(job.ask.forced)));
      EXPECT_FALSE(job.server->batcher_.force(e.request + 1, span(job.ask.forced)));
    }
    job.server->changed_.notify_all();
    return a.tokens.size() < job.ask.wanted;
  }
  static void on_end(void* user, const EndEvent& e) {
    Job& job = *static_cast<Job*>(user);
    std::unique_lock lock(job.server->mutex_);
    Answer& a = job.answer;
    EXPECT_FALSE(a.ended);
    a.status = e.status, a.end = e.end, a.times = e.times, a.slot = e.slot, a.stop = e.stop;
    a.message.assign(e.message.data(), e.message.size());
    a.ended = true;
    job.server->changed_.notify_all();
  }

  Tokenizer tokenizer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Job>> jobs_;
  Batcher batcher_;  // goes first: its stop ends the jobs
  Allocator allocator_;
};

// As started, with one worker and small steps unless told otherwise.
struct Started : Server {
  explicit Started(BatchOptions o = {}, const gc_program& program = fake::kProgram) {
    if (o.workers == 0) o.workers = 1;
    open(o, program);
    start();
  }
};

}  // namespace gcrt
