#include "runtime/generate/generator.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/generate/grammar_constraint.h"
#include "runtime/generate/testdata/fake_model.h"

namespace gcrt {
namespace {

using fake::byte;

struct Outcome {
  Status status = kOk;
  End end = End::kEog;
  std::string text;
  std::vector<std::string> pieces;
  std::vector<int32_t> tokens;
  std::string message;
  GenerateTimes times;
};

class GeneratorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = {&fake::kProgram, &gc_the_model, nullptr};
    ASSERT_EQ(tokenizer_.open({gc_the_model.tokenizer, gc_the_model.tokenizer_bytes}), kOk);
  }
  // Greedy unless the options have a chain.
  void start(GenerateOptions options, SamplerOptions sampling = {.temperature = 0}, uint32_t n_ctx = 0) {
    char text[256] = "";
    ASSERT_EQ(session_.init(model_, {.n_ctx = n_ctx, .n_ubatch = 4, .workers = 2}, libc_allocator(), text),
              kOk);
    Vec<SamplerStage> chain;
    ASSERT_EQ(default_chain(sampling, chain), kOk);
    options.chain = chain;
    ASSERT_EQ(generator_.init(&session_, 0, &tokenizer_, options, text), kOk) << text;
  }
  Outcome run(const std::vector<int32_t>& prompt, bool whole = false) {
    Outcome r;
    char text[256] = "";
    auto on_token = [](void* user, int32_t token, Str piece) {
      auto* self = static_cast<std::pair<GeneratorTest*, Outcome*>*>(user);
      Outcome& run = *self->second;
      if (token >= 0) run.tokens.push_back(token);
      run.pieces.emplace_back(piece.data(), piece.size());
      run.text += run.pieces.back();
      if (self->first->abort_at_ == run.tokens.size()) self->first->session_.abort();
      return self->first->end_at_ != run.tokens.size();
    };
    std::pair<GeneratorTest*, Outcome*> both(this, &r);
    const Span<const int32_t> ids(prompt.data(), prompt.size());
    r.status = whole ? generator_.generate_whole(ids, on_token, &both, &r.end, text)
                     : generator_.generate(ids, on_token, &both, &r.end, text);
    r.message = text;
    r.times = generator_.times();
    return r;
  }

  Model model_;
  Tokenizer tokenizer_;
  Session session_;
  Generator generator_;
  size_t abort_at_ = SIZE_MAX, end_at_ = SIZE_MAX;
};

TEST_F(GeneratorTest, EndsWithTheModel) {
  start({});
  const Outcome r = run({fake::kBos, byte('w')});
  ASSERT_EQ(r.status, kOk) << r.message;
  EXPECT_EQ(r.end, End::kEog);
  EXPECT_EQ(r.text, "xyz");
  EXPECT_EQ(r.times.prompt_tokens, 2u);
  EXPECT_EQ(r.times.tokens, 4u);  // with the one that ends it
  EXPECT_EQ(r.times.steps, 3u);
}

TEST_F(GeneratorTest, EndsAtItsLength) {
  start({.max_tokens = 2});
  const Outcome r = run({byte('a')});
  EXPECT_EQ(r.end, End::kLength);
  EXPECT_EQ(r.text, "bc");
  EXPECT_EQ(r.times.steps, 1u);  // the last token is not run
}

TEST_F(GeneratorTest, OfLengthZeroRunsThePromptAlone) {
  start({.max_tokens = 0});
  const Outcome r = run({byte('a'), byte('b')});
  EXPECT_EQ(r.end, End::kLength);
  EXPECT_EQ(r.text, "");
  EXPECT_EQ(session_.kv().length(0), 2u);
}

TEST_F(GeneratorTest, StopStringOverTwoTokens) {
  const Str stops[] = {"nothing", "world"};
  start({.stops = stops});
  const Outcome r = run({fake::kHello});
  EXPECT_EQ(r.end, End::kStop);
  EXPECT_EQ(r.text, " ");
}

TEST_F(GeneratorTest, HeldBackTextIsReleased) {
  const Str stops[] = {"world!!"};
  start({.stops = stops});
  const Outcome r = run({fake::kHello});
  EXPECT_EQ(r.end, End::kEog);
  EXPECT_EQ(r.text, " world!");
  EXPECT_EQ(r.pieces, (std::vector<std::string>{" ", "", "world!"}));
}

TEST_F(GeneratorTest, CharactersAreWhole) {
  start({});
  const Outcome r = run({byte('E')});
  EXPECT_EQ(r.end, End::kEog);
  EXPECT_EQ(r.pieces, (std::vector<std::string>{"", "é"}));
}

TEST_F(GeneratorTest, ACutCharacterComesOutAtTheEnd) {
  start({.max_tokens = 1});
  const Outcome r = run({byte('E')});
  EXPECT_EQ(r.text, "\xC3");
}

TEST_F(GeneratorTest, EndsAtTheContextsEnd) {
  start({});
  const Outcome r = run({byte('0')});
  EXPECT_EQ(r.status, kOk);
  EXPECT_EQ(r.end, End::kContext);
  EXPECT_EQ(r.text, std::string(fake::kContext, '0'));
  EXPECT_EQ(session_.kv().length(0), static_cast<uint32_t>(fake::kContext));
}

TEST_F(GeneratorTest, APromptMayFillTheContext) {
  start({}, {.temperature = 0}, 5);
  const Outcome r = run(std::vector<int32_t>(5, byte('a')));
  EXPECT_EQ(r.end, End::kContext);
  EXPECT_EQ(r.text, "b");
}

TEST_F(GeneratorTest, RefusesPromptsThatCannotBe) {
  start({}, {.temperature = 0}, 5);
  Outcome r = run(std::vector<int32_t>(6, byte('a')));
  EXPECT_EQ(r.status, kErrFull);
  EXPECT_EQ(r.message, "the prompt has 6 tokens, and the context 5");
  EXPECT_EQ(run({}).status, kErrArgument);
  r = run({300});
  EXPECT_EQ(r.status, kErrArgument);
  EXPECT_EQ(r.message, "token 300: the model has 300 tokens");
  EXPECT_EQ(run({-1}).status, kErrArgument);
  EXPECT_EQ(session_.kv().length(0), 0u);
}

TEST_F(GeneratorTest, IgnoresTheEnd) {
  start({.max_tokens = 3, .ignore_eog = true});
  EXPECT_EQ(run({byte('z')}).text, "|}~");
}

TEST_F(GeneratorTest, SaysThatThereAreNoNumbers) {
  start({});
  const Outcome r = run({byte('N')});
  EXPECT_EQ(r.status, kErrNan);
  EXPECT_EQ(r.message, "the model's output is not a number");
}

TEST_F(GeneratorTest, CanBeAborted) {
  start({});
  abort_at_ = 5;
  Outcome r = run({byte('0')});
  EXPECT_EQ(r.status, kOk);
  EXPECT_EQ(r.end, End::kAborted);
  EXPECT_EQ(r.text, "00000");
  // And goes on where it was: the last token of the run was not part of the state.
  abort_at_ = SIZE_MAX;
  end_at_ = 2;
  r = run({byte('0')});
  EXPECT_EQ(r.end, End::kCaller);
  EXPECT_EQ(r.text, "00");
  EXPECT_EQ(session_.kv().length(0), 7u);  // 1 + 4 of the first run, 1 + 1 of the second
}

TEST_F(GeneratorTest, AWholeSequenceKeepsWhatIsCommon) {
  start({.max_tokens = 3});
  EXPECT_EQ(run({byte('a'), byte('b')}, true).text, "cde");
  // The state has "abcd": all of it is common.
  Outcome r = run({byte('a'), byte('b'), byte('c'), byte('d'), byte('q')}, true);
  EXPECT_EQ(r.text, "rst");
  EXPECT_EQ(r.times.kept_tokens, 4u);
  EXPECT_EQ(r.times.prompt_tokens, 1u);
  EXPECT_EQ(session_.kv().length(0), 7u);
  EXPECT_EQ(generator_.in_state().size(), 7u);
  // Only the first two are common.
  r = run({byte('a'), byte('b'), byte('x')}, true);
  EXPECT_EQ(r.text, "yz");
  EXPECT_EQ(r.times.kept_tokens, 2u);
  EXPECT_EQ(session_.kv().length(0), 5u);
  // All of it is in the state: its last token runs again.
  r = run({byte('a'), byte('b')}, true);
  EXPECT_EQ(r.text, "cde");
  EXPECT_EQ(r.times.kept_tokens, 1u);
  EXPECT_EQ(run({}, true).status, kErrArgument);
}

TEST_F(GeneratorTest, AWholeSequenceTooLongForgetsNothing) {
  start({.max_tokens = 1}, {.temperature = 0}, 5);
  run({byte('a'), byte('b')}, true);
  const Outcome r = run(std::vector<int32_t>(6, byte('a')), true);
  EXPECT_EQ(r.status, kErrFull);
  EXPECT_EQ(r.message, "the prompt has 6 tokens, and the context 5");
  EXPECT_EQ(generator_.in_state().size(), 2u);
}

TEST_F(GeneratorTest, PenaltiesForgetWhatLeftTheSequence) {
  start({.max_tokens = 1}, {.temperature = 0, .presence_penalty = 2});
  EXPECT_EQ(run({byte('0')}, true).text, "2");  // '0' was there: the second best is chosen
  EXPECT_EQ(run({byte('a')}, true).text, "b");
  EXPECT_EQ(run({byte('b'), byte('a')}, true).text, "c");
}

TEST_F(GeneratorTest, ShiftsTheContext) {
  start({.max_tokens = 20, .context_shift = true, .keep = 2}, {.temperature = 0}, 8);
  const Outcome r = run({fake::kBos, byte('x'), byte('a')});
  ASSERT_EQ(r.status, kOk) << r.message;
  EXPECT_EQ(r.end, End::kLength);
  EXPECT_EQ(r.text, "bcdefghijklmnopqrstu");
  EXPECT_GT(r.times.shifts, 1u);
  const Span<const int32_t> state = generator_.in_state();
  EXPECT_LE(state.size(), 8u);
  EXPECT_EQ(state.size(), session_.kv().length(0));
  EXPECT_EQ(state[0], fake::kBos);
  EXPECT_EQ(state[1], byte('x'));
  for (size_t i = 2; i < state.size(); ++i)
    EXPECT_EQ(state[i], byte('t') - static_cast<int32_t>(state.size() - 1 - i));
}

TEST_F(GeneratorTest, AShiftKeepsOneTokenLessThanAll) {
  start({.max_tokens = 9, .context_shift = true, .keep = 100}, {.temperature = 0}, 4);
  EXPECT_EQ(run({byte('a')}).text, "bcdefghij");
}

// Lets every other token come.
struct EvenTokens {
  uint64_t bits[(fake::kVocab + 63) / 64];
  int begun = 0;
  std::vector<int32_t> accepted;
  EvenTokens() {
    for (uint64_t& w : bits) w = 0x5555555555555555u;
  }
  TokenConstraint constraint() {
    return {this,
            [](void* self) -> Status {
              ++static_cast<EvenTokens*>(self)->begun;
              return kOk;
            },
            [](void* self, const uint64_t** mask) -> Status {
              *mask = static_cast<EvenTokens*>(self)->bits;
              return kOk;
            },
            [](void* self, int32_t token) -> Status {
              static_cast<EvenTokens*>(self)->accepted.push_back(token);
              return kOk;
            }};
  }
};

TEST_F(GeneratorTest, AConstraintDecidesWhatMayCome) {
  EvenTokens even;
  start({.max_tokens = 3, .constraint = even.constraint()});
  static_assert(byte('a') % 2 == 0);
  EXPECT_EQ(run({byte('a')}).text, "ceg");  // of the best and the one after it, the even one
  EXPECT_EQ(even.accepted, (std::vector<int32_t>{byte('c'), byte('e'), byte('g')}));
  run({byte('a')}, true);
  EXPECT_EQ(even.begun, 2);
}

TEST_F(GeneratorTest, AGrammarDecidesWhatMayCome) {
  GrammarConstraint grammar(libc_allocator());
  char text[256] = "";
  ASSERT_EQ(
      grammar.init(GrammarConstraint::Kind::kGbnf, "root ::= \"b\" [cC]? \"x\" [0-9]", tokenizer_, text), kOk)
      << text;
  start({.constraint = grammar.constraint()});
  Outcome r = run({byte('a')});
  ASSERT_EQ(r.status, kOk) << r.message;
  EXPECT_EQ(r.end, End::kEog);
  EXPECT_EQ(r.text.substr(0, 3), "bcx");
  EXPECT_EQ(r.text.size(), 4u);
  EXPECT_EQ(run({byte('a')}, true).text, r.text);  // from its beginning again
  grammar.suspend(true);
  EXPECT_EQ(run({byte('w')}).text, "xyz");
}

TEST_F(GeneratorTest, AGrammarAndNoEnd) {
  GrammarConstraint grammar(libc_allocator());
  char text[256] = "";
  ASSERT_EQ(grammar.init(GrammarConstraint::Kind::kGbnf, "root ::= \"b\"", tokenizer_, text), kOk) << text;
  start({.ignore_eog = true, .constraint = grammar.constraint()});
  const Outcome r = run({byte('a')});
  EXPECT_EQ(r.text, "b");
  EXPECT_EQ(r.message, "no token may come next that is not ruled out otherwise");
}

TEST_F(GeneratorTest, TokensCanBeForced) {
  start({.max_tokens = 5});
  const int32_t forced[] = {byte('x'), byte('b')};
  ASSERT_TRUE(generator_.force(forced));
  EXPECT_EQ(run({byte('a')}).text, "xbcde");
  EXPECT_EQ(run({byte('a')}).text, "bcdef");
}

TEST_F(GeneratorTest, PenaltiesSeeThePrompt) {
  start({.max_tokens = 1}, {.temperature = 0, .presence_penalty = 2});
  EXPECT_EQ(run({byte('0')}).text, "2");
}

TEST_F(GeneratorTest, SeedsRepeat) {
  start({.max_tokens = 20, .ignore_eog = true, .seed = 7},
        {.temperature = 50, .top_k = 100, .top_p = 1, .min_p = 0});
  const Outcome first = run({byte('a')});
  Session session;
  Generator again;
  char text[256];
  ASSERT_EQ(session.init(model_, {.n_ubatch = 64, .workers = 1}, libc_allocator(), text), kOk);
  Vec<SamplerStage> chain;
  ASSERT_EQ(default_chain({.temperature = 50, .top_k = 100, .top_p = 1, .min_p = 0}, chain), kOk);
  const GenerateOptions options{.max_tokens = 20, .ignore_eog = true, .seed = 7, .chain = chain};
  ASSERT_EQ(again.init(&session, 0, &tokenizer_, options, text), kOk);
  std::vector<int32_t> tokens;
  End end = End::kEog;
  const int32_t prompt[] = {byte('a')};
  ASSERT_EQ(again.generate(
                prompt,
                [](void* user, int32_t token, Str) {
                  if (token >= 0) static_cast<std::vector<int32_t>*>(user)->push_back(token);
                  return true;
                },
                &tokens, &end, text),
            kOk);
  EXPECT_EQ(tokens, first.tokens);
  EXPECT_EQ(tokens.size(), 20u);
}

TEST_F(GeneratorTest, NoticesThatOthersMovedTheSequence) {
  start({.max_tokens = 3});
  EXPECT_EQ(run({byte('a'), byte('b')}).text, "cde");
  EXPECT_EQ(session_.kv().truncate(0, 1), 1u);
  EXPECT_EQ(run({byte('o')}).text, "pqr");
  EXPECT_EQ(generator_.in_state().size(), 4u);
  EXPECT_EQ(generator_.in_state()[0], -1);
  // Nothing of it is taken for what was asked for.
  const Outcome whole = run({byte('a'), byte('o'), byte('p')}, true);
  EXPECT_EQ(whole.text, "qrs");
  EXPECT_EQ(whole.times.prompt_tokens, 3u);
  EXPECT_EQ(whole.times.kept_tokens, 0u);
}

}  // namespace
}  // namespace gcrt
