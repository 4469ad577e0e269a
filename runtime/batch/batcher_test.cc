#include "runtime/batch/batcher.h"

#include <math.h>

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/batch/testdata/test_server.h"

namespace gcrt {
namespace {

TEST(Batcher, EndsInEveryWay) {
  Started s;
  Answer a = s.ask({.prompt = text_ids("w")});
  EXPECT_EQ(a.end, End::kEog);
  EXPECT_EQ(a.text, "xyz");
  EXPECT_EQ(a.times.tokens, 4u);
  EXPECT_EQ(a.times.steps, 3u);
  EXPECT_EQ(a.times.prompt_tokens, 2u);
  a = s.ask({.prompt = text_ids("a"), .generate = {.max_tokens = 2}});
  EXPECT_EQ(a.end, End::kLength);
  EXPECT_EQ(a.text, "bc");
  a = s.ask({.prompt = text_ids("a"), .generate = {.max_tokens = 0}});
  EXPECT_EQ(a.end, End::kLength);
  EXPECT_EQ(a.text, "");
  EXPECT_EQ(a.times.tokens, 0u);
  a = s.ask({.prompt = text_ids("0")});
  EXPECT_EQ(a.end, End::kContext);
  EXPECT_EQ(a.text, std::string(fake::kContext - 1, '0'));
  a = s.ask({.prompt = {fake::kHello}, .stops = {"nothing", "world"}});
  EXPECT_EQ(a.end, End::kStop);
  EXPECT_EQ(a.stop, 1);
  EXPECT_EQ(a.text, " ");
  a = s.ask({.prompt = {fake::kHello}, .stops = {"world!!"}});
  EXPECT_EQ(a.end, End::kEog);
  EXPECT_EQ(a.text, " world!");  // what was held back is released
  a = s.ask({.prompt = text_ids("a"), .wanted = 3});
  EXPECT_EQ(a.end, End::kCaller);
  EXPECT_EQ(a.text, "bcd");
  a = s.ask({.prompt = text_ids("a"), .generate = {.max_tokens = 5}, .forced = {byte('x'), byte('b')}});
  EXPECT_EQ(a.text, "bxbcd");
  a = s.ask({.prompt = Ids(fake::kContext, byte('a'))});
  EXPECT_EQ(a.end, End::kContext);
  EXPECT_EQ(a.text, "b");
}

TEST(Batcher, RefusesWhatCannotBe) {
  Started s;
  EXPECT_EQ(s.ask({.prompt = {}}).submitted, kErrArgument);
  Answer a = s.ask({.prompt = {300}});
  EXPECT_EQ(a.submitted, kErrArgument);
  EXPECT_EQ(a.why, "token 300: the model has 300 tokens");
  a = s.ask({.prompt = Ids(65, 5)});
  EXPECT_EQ(a.submitted, kErrInput);
  EXPECT_EQ(a.why, "the prompt has 65 tokens, and the context 64");
  a = s.ask({.prompt = {5}, .bias = {{300, 1.0f}}});
  EXPECT_EQ(a.submitted, kErrArgument);
  EXPECT_NE(a.why, "");
  a = s.ask({.prompt = {5}, .stops = {""}});
  EXPECT_EQ(a.submitted, kErrInput);
  EXPECT_EQ(a.why, "a stop string is empty");
  EXPECT_EQ(s.ask({.prompt = {5}, .slot = 4}).why, "slot 4: there are 4");
  char why[64];
  uint64_t id = 1;
  BatchRequest r;
  const int32_t prompt[] = {5};
  r.prompt = prompt;
  EXPECT_EQ(s.batcher().submit(r, &id, why), kErrArgument);  // nobody to tell the end
  r.kind = BatchRequest::kEmbed;
  r.on_end = [](void*, const EndEvent&) {};
  EXPECT_EQ(s.batcher().submit(r, &id, why), kErrUnsupported);
  EXPECT_EQ(id, 0u);
  EXPECT_EQ(s.batcher().metrics().requests, 0u);
}

// Requests of all kinds; number 7 of each ten ends with an error.
std::vector<Ask> mixed_asks(size_t n) {
  std::mt19937 random(5);
  std::vector<Ask> asks;
  const SamplerOptions warm{.temperature = 3, .top_k = 40, .top_p = 1, .min_p = 0},
      all{.temperature = 3, .top_k = 0, .top_p = 1, .min_p = 0},
      penalized{.temperature = 0, .presence_penalty = 2};
  for (size_t i = 0; i < n; ++i) {
    Ask a{.prompt = text_ids("the same")};
    for (size_t more = random() % 50; more > 0; --more) a.prompt.push_back(byte('a' + random() % 20));
    a.generate = {.max_tokens = 1 + static_cast<int64_t>(random() % 30), .seed = i};
    a.cache = i % 11 != 3;
    switch (i % 10) {
      case 0:
        a.n_probs = fake::kVocab;
        break;
      case 1:
        a.sampling = warm;
        break;
      case 2:
        a.sampling = all;
        a.generate.ignore_eog = true;
        a.bias = {{byte('N'), -INFINITY}};
        break;
      case 3:
        a.sampling = penalized;
        break;
      case 4:
        a.grammar = "root ::= [a-f]+ \"x\" [0-9]+";
        a.sampling = warm;
        break;
      case 5:
        a.bias = {{byte('q'), 9.5f}};
        a.stops = {"qr", "cd"};
        break;
      case 6:
        a.n_probs = 3;
        a.sampling = all;
        a.grammar = "root ::= [a-f]+ \"x\" [0-9]+";
        break;
      case 7:
        a.prompt.push_back(byte('N'));
        break;
      case 8:
        a.generate.context_shift = true, a.generate.keep = 4;
        a.sampling = warm;
        a.generate.max_tokens = 90;
        a.generate.ignore_eog = true;
        break;
      default:
        break;
    }
    asks.push_back(a);
  }
  return asks;
}

TEST(Batcher, AnswersDontDependOnCompany) {
  const std::vector<Ask> asks = mixed_asks(60);
  std::vector<Answer> alone;
  {
    Started s({.slots = 1, .n_ctx = 80, .prefixes = 0});
    for (const Ask& a : asks) alone.push_back(s.ask(a));
  }
  for (size_t i = 0; i < asks.size(); ++i) EXPECT_EQ(alone[i].status, i % 10 == 7 ? kErrNan : kOk) << i;
  for (const gc_program* program : {&fake::kProgram, &fake::kChoosing})
    for (const uint32_t workers : {1u, 3u})
      for (const uint32_t slots : {2u, 7u, 16u}) {
        Started s({.slots = slots,
                   .n_ctx = 80,
                   .n_ubatch = 40,
                   .workers = workers,
                   .prefixes = slots == 7 ? 0u : 3u},
                  *program);
        std::vector<size_t> numbers(asks.size());
        std::vector<std::thread> clients;
        for (size_t c = 0; c < 6; ++c)
          clients.emplace_back([&, c] {
            std::mt19937 random(static_cast<uint32_t>(c));
            for (size_t i = c; i < asks.size(); i += 6) {
              numbers[i] = s.submit(asks[i]);
              if (random() % 3 == 0) s.wait(numbers[i]);
              std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
            }
          });
        for (std::thread& t : clients) t.join();
        for (size_t i = 0; i < asks.size(); ++i)
          expect_equal(s.wait(numbers[i]), alone[i],
                       std::to_string(slots) + " slots, " + std::to_string(workers) + " workers, request " +
                           std::to_string(i));
        const BatchMetrics m = s.batcher().metrics();
        EXPECT_EQ(m.requests, asks.size());
        EXPECT_EQ(m.failed, 6u);
        EXPECT_EQ(m.waiting, 0u);
      }
}

TEST(Batcher, KeptPromptsAreNotReadAgain) {
  Started s({.n_ctx = 200, .prefixes = 4});
  const std::string system(100, 's');
  const Ask first{.prompt = text_ids(system + "abc"), .generate = {.max_tokens = 5}, .n_probs = fake::kVocab};
  Answer a = s.ask(first);
  EXPECT_EQ(a.times.kept_tokens, 0u);
  EXPECT_EQ(a.times.prompt_tokens, 104u);
  const Ask second{
      .prompt = text_ids(system + "abd"), .generate = {.max_tokens = 5}, .n_probs = fake::kVocab};
  Answer b = s.ask(second);
  EXPECT_EQ(b.times.kept_tokens, 103u);
  EXPECT_EQ(b.times.prompt_tokens, 1u);
  Answer again = s.ask(first);
  EXPECT_EQ(again.times.kept_tokens, 103u);  // all but the last token, whose output is wanted
  // What was generated comes back as a prompt, and is read as one.
  Ask turn = first;
  turn.prompt.insert(turn.prompt.end(), a.tokens.begin(), a.tokens.end());
  turn.prompt.push_back(byte('k'));
  Answer next = s.ask(turn);
  EXPECT_EQ(next.times.kept_tokens, 104u);
  EXPECT_EQ(next.times.prompt_tokens, 6u);
  Ask cold = second;
  cold.cache = false;
  Answer c = s.ask(cold);
  EXPECT_EQ(c.times.kept_tokens, 0u);
  expect_equal(b, c, "kept and cold");
  expect_equal(a, again, "again");
  turn.cache = false;
  expect_equal(next, s.ask(turn), "next turn");
  EXPECT_EQ(s.batcher().metrics().kept_tokens, 103u + 103u + 104u);
  EXPECT_EQ(s.batcher().metrics().prefixes,
            2u);  // a turn's prompt takes the place of the one that it begins with
}

TEST(Batcher, PromptsThatComeTogetherAreReadOnce) {
  Server s;
  s.open({.slots = 8, .n_ctx = 500, .n_ubatch = 64, .workers = 1, .prefixes = 0});
  std::vector<Ask> asks;
  for (int i = 0; i < 8; ++i)
    asks.push_back({.prompt = text_ids(std::string(300, 's') + std::string(1 + i, 'a')),
                    .generate = {.max_tokens = 3},
                    .n_probs = fake::kVocab});
  std::vector<size_t> numbers;
  for (const Ask& a : asks) numbers.push_back(s.submit(a));
  s.start();
  std::vector<Answer> got;
  for (size_t n : numbers) got.push_back(s.wait(n));
  uint64_t read = 0;
  for (const Answer& a : got) read += a.times.prompt_tokens;
  EXPECT_LT(read, 302u + 8 * 10u);
  for (size_t i = 0; i < asks.size(); ++i) {
    asks[i].cache = false;
    expect_equal(got[i], s.ask(asks[i]), std::to_string(i));
  }
}

TEST(Batcher, GoesOnWithoutWhomItWaitedFor) {
  Server s;
  s.open({.slots = 2, .n_ctx = 600, .n_ubatch = 33, .workers = 1});
  const Ids prompt = text_ids(std::string(100, 's') + std::string(300, 'S'));  // 'S' takes its time
  const size_t first = s.submit({.prompt = prompt, .generate = {.max_tokens = 20}});
  const size_t second = s.submit({.prompt = prompt, .generate = {.max_tokens = 3}});
  s.batcher().cancel(s.id(first));
  s.start();
  EXPECT_EQ(s.wait(first).status, kErrAborted);
  EXPECT_EQ(s.wait(second).text, "SSS");
}

TEST(Batcher, OldPromptsMakeRoom) {
  // Two contexts of blocks for all: what is kept must go when slots grow.
  Started s({.slots = 2, .n_ctx = 640, .prefixes = 8});
  for (int round = 0; round < 3; ++round)
    for (char c = 'a'; c < 'j'; ++c) {
      const Answer a = s.ask(
          {.prompt = text_ids(std::string(500, c)), .generate = {.max_tokens = 100, .ignore_eog = true}});
      EXPECT_EQ(a.status, kOk) << a.message;
      EXPECT_EQ(a.times.tokens, 100u);
      EXPECT_EQ(a.times.prompt_tokens, 501u);  // used longest ago: gone when it would be wanted
    }
  const BatchMetrics m = s.batcher().metrics();
  EXPECT_EQ(m.failed, 0u);
  EXPECT_EQ(m.prefixes, 2u);  // 20 blocks
}

TEST(Batcher, QueueIsLimited) {
  Server s;
  s.open({.slots = 2, .workers = 1, .queue = 3});
  std::vector<size_t> taken;
  for (int i = 0; i < 5; ++i) taken.push_back(s.submit({.prompt = text_ids("y")}));
  const Answer a = s.ask({.prompt = text_ids("y")});
  EXPECT_EQ(a.submitted, kErrFull);
  EXPECT_EQ(a.why, "the queue is full: 5 requests wait");
  EXPECT_EQ(s.batcher().metrics().refused, 1u);
  EXPECT_EQ(s.batcher().metrics().waiting, 5u);
  s.batcher().cancel(s.id(taken[3]));
  s.start();
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(s.wait(taken[i]).status, i == 3 ? kErrAborted : kOk);
  EXPECT_EQ(s.wait(taken[3]).slot, -1);
  EXPECT_EQ(s.ask({.prompt = text_ids("y")}).text, "z");
}

TEST(Batcher, CancelsWhatRuns) {
  Started s({.slots = 2, .n_ctx = 4000});
  const size_t slow = s.submit({.prompt = text_ids("S")});
  s.wait_tokens(slow, 3);
  s.batcher().cancel(s.id(slow));
  const Answer a = s.wait(slow);
  EXPECT_EQ(a.status, kErrAborted);
  EXPECT_EQ(a.message, "cancelled");
  EXPECT_LT(a.tokens.size(), 2000u);
  s.batcher().cancel(s.id(slow));  // not known any more
  s.batcher().cancel(12345);
  EXPECT_EQ(s.ask({.prompt = text_ids("y")}).text, "z");
  EXPECT_EQ(s.batcher().metrics().cancelled, 1u);
}

TEST(Batcher, ACertainSlot) {
  Started s({.slots = 4, .n_ctx = 4000});
  for (int32_t slot : {2, 0, 3}) EXPECT_EQ(s.ask({.prompt = text_ids("y"), .slot = slot}).slot, slot);
  const size_t slow = s.submit({.prompt = text_ids("S"), .slot = 1, .wanted = 30});
  const size_t behind = s.submit({.prompt = text_ids("y"), .slot = 1});
  s.wait_tokens(slow, 1);
  EXPECT_EQ(s.ask({.prompt = text_ids("y")}).text, "z");  // passes who waits for the slot
  EXPECT_EQ(s.wait(behind).slot, 1);
  EXPECT_EQ(s.wait(slow).tokens.size(), 30u);
}

TEST(Batcher, StopsGracefullyAndAtOnce) {
  {
    Started s({.slots = 1, .n_ctx = 4000});
    const size_t slow = s.submit({.prompt = text_ids("S"), .wanted = 40}),
                 waits = s.submit({.prompt = text_ids("y")});
    s.wait_tokens(slow, 1);
    s.batcher().stop(60'000'000'000);
    EXPECT_EQ(s.wait(slow).end, End::kCaller);
    EXPECT_EQ(s.wait(waits).status, kErrAborted);
    EXPECT_EQ(s.wait(waits).message, "the server stops");
    EXPECT_EQ(s.ask({.prompt = text_ids("y")}).submitted, kErrAborted);
  }
  Started s({.slots = 1, .n_ctx = 4000});
  const size_t slow = s.submit({.prompt = text_ids("S")});
  s.wait_tokens(slow, 1);
  s.batcher().stop(0);
  EXPECT_EQ(s.wait(slow).status, kErrAborted);
  EXPECT_LT(s.wait(slow).tokens.size(), 3000u);
  Server never;
  never.open({.workers = 1});
  const size_t waits = never.submit({.prompt = text_ids("y")});
  never.batcher().stop(0);
  EXPECT_EQ(never.wait(waits).status, kErrAborted);
}

TEST(Batcher, SlotsAreSavedAndRestored) {
  const Ask ask{
      .prompt = text_ids(std::string(90, 'p') + "a"), .generate = {.max_tokens = 3}, .n_probs = 5, .slot = 1};
  Vec<uint8_t> bytes;
  char why[256] = "";
  size_t n = 0;
  Answer cold;
  {
    Started s({.n_ctx = 200});
    EXPECT_EQ(s.batcher().save_slot(1, &bytes, &n, why), kErrArgument);
    EXPECT_EQ(Str(why), Str("nothing is kept of slot 1"));
    EXPECT_EQ(s.batcher().save_slot(9, &bytes, &n, why), kErrArgument);
    cold = s.ask(ask);
    ASSERT_EQ(s.batcher().save_slot(1, &bytes, &n, why), kOk) << why;
    EXPECT_EQ(n, 92u);
    SlotState states[4];
    s.batcher().slot_states(states);
    EXPECT_EQ(states[1].held, 92u);
    EXPECT_EQ(states[1].request, 0u);
    EXPECT_EQ(states[0].held, 0u);
  }
  Started s({.slots = 2, .n_ctx = 300});
  ASSERT_EQ(s.batcher().restore_slot(0, bytes, &n, why), kOk) << why;
  EXPECT_EQ(n, 92u);
  Answer warm = s.ask(ask);
  EXPECT_EQ(warm.times.kept_tokens, 91u);
  expect_equal(cold, warm, "restored");
  ASSERT_EQ(s.batcher().erase_slot(0, &n, why), kOk);
  EXPECT_EQ(n, 92u);
  EXPECT_EQ(s.batcher().erase_slot(0, &n, why), kErrArgument);
  EXPECT_EQ(s.ask(ask).times.kept_tokens, 0u);
  // Bytes that are nothing of the kind, damaged or cut.
  EXPECT_EQ(s.batcher().restore_slot(0, {}, &n, why), kErrInput);
  EXPECT_EQ(s.batcher().restore_slot(0, bytes.span().sub(0, bytes.size() - 16), &n, why), kErrInput);
  for (size_t at = 3; at < bytes.size(); at += 997) {
    bytes[at] ^= 4;
    const Status status = s.batcher().restore_slot(0, bytes, &n, why);
    if (status == kOk) {
      EXPECT_GT(at, bytes.size() - 16);  // padding
    }
    bytes[at] ^= 4;
  }
  Started small({.slots = 1, .n_ctx = 64});
  EXPECT_EQ(small.batcher().restore_slot(0, bytes, &n, why), kErrFull);
  small.batcher().stop(0);
  EXPECT_EQ(small.batcher().restore_slot(0, bytes, &n, why), kErrAborted);
}

TEST(Batcher, IsAskedFromAllSidesAtOnce) {
  Started s({.slots = 3, .n_ctx = 80, .n_ubatch = 40, .workers = 2, .prefixes = 3});
  const std::vector<Ask> asks = mixed_asks(60);
  std::atomic<bool> over{false};
  std::thread watcher([&] {
    Vec<uint8_t> bytes;
    char why[256];
    size_t n = 0;
    SlotState states[3];
    for (uint32_t i = 0; !over; ++i) {
      s.batcher().slot_states(states);
      EXPECT_LE(s.batcher().metrics().running, 3u);
      if (s.batcher().save_slot(i % 3, &bytes, &n, why) == kOk)
        EXPECT_EQ(s.batcher().restore_slot((i + 1) % 3, bytes, &n, why), kOk) << why;
      if (i % 5 == 0) s.batcher().erase_slot(i % 3, &n, why);
      s.batcher().cancel(1 + i % 60);
    }
  });
  std::vector<size_t> numbers;
  for (const Ask& a : asks) numbers.push_back(s.submit(a));
  for (size_t n : numbers) {
    const Answer a = s.wait(n);
    EXPECT_TRUE(a.status == kOk || a.status == kErrAborted || n % 10 == 7) << a.message;
  }
  EXPECT_EQ(s.ask({.prompt = text_ids(std::string(40, 'x'))}).text, "yz");
  over = true;
  watcher.join();
}

TEST(Batcher, StartsFromWhatTheFileBringsAlong) {
  const std::string system(60, 's');
  Vec<uint8_t> record;
  {
    char why[256] = "";
    size_t n = 0;
    Started s({.slots = 1, .n_ctx = 200});
    s.ask({.prompt = text_ids(system)});
    ASSERT_EQ(s.batcher().save_slot(0, &record, &n, why), kOk) << why;
  }
  gc_model facts = gc_the_model;
  facts.prompt_cache = record.data();
  facts.prompt_cache_bytes = record.size();
  Server s;
  s.open({.slots = 1, .n_ctx = 200, .workers = 1, .prefixes = 2}, fake::kProgram, facts);
  s.start();
  EXPECT_EQ(s.batcher().metrics().kept_tokens, 0u);
  Ask ask{.prompt = text_ids(system + "abc"), .generate = {.max_tokens = 5}, .n_probs = fake::kVocab};
  const Answer warm = s.ask(ask);
  EXPECT_EQ(warm.times.kept_tokens, 61u);
  // Driven out by others, it is brought back.
  for (char c = 'a'; c < 'h'; ++c)
    s.ask({.prompt = text_ids(std::string(50, c)), .generate = {.max_tokens = 1}});
  EXPECT_EQ(s.ask(ask).times.kept_tokens, 61u);
  EXPECT_EQ(
      s.ask({.prompt = text_ids(system.substr(0, 20)), .generate = {.max_tokens = 1}}).times.kept_tokens,
      20u);
  ask.cache = false;
  const Answer cold = s.ask(ask);
  EXPECT_EQ(cold.times.kept_tokens, 0u);
  expect_equal(warm, cold, "from the file and cold");
}

TEST(Batcher, LongPromptsDontStarveWhoGenerates) {
  // 2 ms a token of output alone: a prompt's rows cost nothing here, but they come in pieces.
  Started s({.slots = 2, .n_ctx = 4000, .n_ubatch = 34});
  const size_t talker = s.submit({.prompt = text_ids("S"), .wanted = 60});
  s.wait_tokens(talker, 1);
  const Answer reader = s.ask({.prompt = text_ids(std::string(1000, 'r')), .generate = {.max_tokens = 1}});
  EXPECT_GE(reader.prompt_calls, 1000u / 34);
  EXPECT_EQ(s.wait(talker).tokens.size(), 60u);
  const BatchMetrics m = s.batcher().metrics();
  EXPECT_GT(m.busy_slots, m.steps);  // both went on together
}

// Counts what is taken and not given back.
struct Counting {
  std::atomic<int64_t> bytes{0}, blocks{0};
  Allocator allocator() {
    return {[](void* self, size_t bytes, size_t align) -> void* {
              static_cast<Counting*>(self)->bytes += static_cast<int64_t>(bytes);
              ++static_cast<Counting*>(self)->blocks;
              const Allocator libc = libc_allocator();
              return libc.get(bytes, align);
            },
            [](void* self, void* p, size_t bytes, size_t align) {
              static_cast<Counting*>(self)->bytes -= static_cast<int64_t>(bytes);
              --static_cast<Counting*>(self)->blocks;
              libc_allocator().put(p, bytes, align);
            },
            this};
  }
};

TEST(Batcher, MemoryIsFlat) {
  Counting memory;
  {
    Server s(memory.allocator());
    s.open({.slots = 4, .n_ctx = 80, .n_ubatch = 40, .workers = 2, .prefixes = 3});
    s.start();
    const std::vector<Ask> asks = mixed_asks(50);
    int64_t after[3];
    for (int64_t& bytes : after) {
      std::vector<size_t> numbers;
      for (const Ask& a : asks) numbers.push_back(s.submit(a.grammar.empty() ? a : Ask{.prompt = a.prompt}));
      for (size_t i = 0; i < numbers.size(); i += 5) s.batcher().cancel(s.id(numbers[i]));
      for (size_t n : numbers) s.wait(n);
      while (s.batcher().metrics().running != 0) std::this_thread::yield();
      bytes = memory.bytes;
    }
    // What is kept is a few hundred ids, which ones depends on who was cancelled in time.
    EXPECT_LE(std::abs(after[2] - after[1]), 3 * 80 * 4 * 2);
    EXPECT_GT(after[1], 0);
  }
  EXPECT_EQ(memory.bytes, 0);
  EXPECT_EQ(memory.blocks, 0);
}

TEST(Batcher, SaysWhatItTakes) {
  Started s({.slots = 3, .n_ctx = 640, .prefixes = 2, .prefix_tokens = 128});
  EXPECT_EQ(s.batcher().memory().kv, (3 * 10 + 2) * (64u << 10));
  EXPECT_EQ(s.batcher().memory().logits, 3 * 304 * 4u);
  EXPECT_EQ(s.batcher().options().n_ubatch, 512u);
  char why[256] = "";
  Batcher batcher;
  EXPECT_EQ(batcher.init({&fake::kProgram, &gc_the_model, nullptr}, nullptr, {.n_ctx = 1u << 21}, why),
            kErrArgument);
  EXPECT_EQ(Str(why),
            Str("a context of 2097152 is more than the 1048576 positions that this file was compiled for"));
}

}  // namespace
}  // namespace gcrt
