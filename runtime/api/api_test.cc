#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "runtime/api/model.h"
#include "runtime/generate/testdata/fake_model.h"

namespace {

using fake::byte;

// Memory of a handle: what is out, and a failure on demand.
struct Memory {
  std::atomic<int64_t> blocks{0}, bytes{0};
  int fail_after = -1;  // allocations that still work; -1: all

  static void* allocate(void* user, size_t bytes, size_t align) {
    auto* m = static_cast<Memory*>(user);
    if (m->fail_after == 0) return nullptr;
    if (m->fail_after > 0) --m->fail_after;
    ++m->blocks, m->bytes += static_cast<int64_t>(bytes);
    void* p = nullptr;
    return posix_memalign(&p, std::max(align, sizeof(void*)), bytes) == 0 ? p : nullptr;
  }
  static void release(void* user, void* p, size_t bytes, size_t) {
    auto* m = static_cast<Memory*>(user);
    --m->blocks, m->bytes -= static_cast<int64_t>(bytes);
    free(p);
  }
  gcm_allocator hooks() { return {allocate, release, this}; }
};

class Api : public ::testing::Test {
 protected:
  void SetUp() override {
    const gcm_allocator hooks = memory_.hooks();
    gcm_model_options options;
    gcm_model_options_init(&options);
    options.allocator = &hooks;
    ASSERT_EQ(gcm_model_open(&options, &model_, why_, sizeof why_), GCM_OK) << why_;
  }
  void TearDown() override {
    gcm_generator_free(generator_);
    gcm_session_free(session_);
    gcm_model_close(model_);
    EXPECT_EQ(memory_.blocks, 0);
    EXPECT_EQ(memory_.bytes, 0);
  }
  gcm_session_options sizes(uint32_t n_ctx = 32, uint32_t n_seqs = 1) {
    gcm_session_options o;
    gcm_session_options_init(&o);
    o.n_ctx = n_ctx, o.n_seqs = n_seqs, o.threads = 2, o.n_batch = 8, o.n_outputs = 4;
    return o;
  }
  void start(const gcm_session_options& options) {
    ASSERT_EQ(gcm_session_create(model_, &options, &session_, why_, sizeof why_), GCM_OK) << why_;
  }
  void start_generator(gcm_generator_options options) {
    gcm_sampler_options greedy;
    gcm_sampler_options_init(model_, &greedy);
    greedy.temperature = 0;
    ASSERT_EQ(gcm_generator_create(session_, &greedy, &options, &generator_, why_, sizeof why_), GCM_OK)
        << why_;
  }
  std::vector<int32_t> ids(const char* text, uint32_t flags = 0) {
    std::vector<int32_t> out(64);
    size_t n = 0;
    EXPECT_EQ(gcm_tokenize(model_, text, strlen(text), flags, out.data(), out.size(), &n), GCM_OK);
    out.resize(n);
    return out;
  }
  int best(const float* logits) {
    return static_cast<int>(std::max_element(logits, logits + fake::kVocab) - logits);
  }

  Memory memory_;
  char why_[256] = "";
  gcm_model* model_ = nullptr;
  gcm_session* session_ = nullptr;
  gcm_generator* generator_ = nullptr;
};

TEST_F(Api, ModelInfo) {
  gcm_model_info info = {};
  info.size = sizeof info;
  ASSERT_EQ(gcm_model_get_info(model_, &info), GCM_OK);
  EXPECT_STREQ(info.isa, "test");
  EXPECT_EQ(info.n_vocab, 300u);
  EXPECT_EQ(info.token_bos, fake::kBos);
  EXPECT_EQ(info.token_eot, -1);
  // A caller that knows fewer fields gets those.
  gcm_model_info old = {};
  old.size = offsetof(gcm_model_info, license);
  ASSERT_EQ(gcm_model_get_info(model_, &old), GCM_OK);
  EXPECT_STREQ(old.architecture, "fake");
  EXPECT_EQ(old.license, nullptr);
  old.size = sizeof old + 8;
  EXPECT_EQ(gcm_model_get_info(model_, &old), GCM_ERR_ARGUMENT);
  EXPECT_STREQ(gcm_status_text(GCM_ERR_FULL), "no room");
  EXPECT_STREQ(gcm_status_text(77), "unknown status");
}

TEST_F(Api, OpensByIsa) {
  gcm_model_options options;
  gcm_model_options_init(&options);
  options.isa = "z80";
  gcm_model* other = nullptr;
  EXPECT_EQ(gcm_model_open(&options, &other, why_, sizeof why_), GCM_ERR_ISA);
  EXPECT_EQ(other, nullptr);
  EXPECT_NE(std::string(why_).find("z80"), std::string::npos) << why_;
  EXPECT_EQ(gcm_model_open(&options, &other, nullptr, 0), GCM_ERR_ISA);
  options.isa = "test";
  EXPECT_EQ(gcm_model_open(&options, &other, nullptr, 0), GCM_OK);
  gcm_model_close(other);
}

TEST_F(Api, Text) {
  EXPECT_EQ(ids("ab", GCM_TEXT_SPECIAL), (std::vector<int32_t>{fake::kBos, byte('a'), byte('b')}));
  EXPECT_EQ(ids("</s>"), (std::vector<int32_t>{byte('<'), byte('/'), byte('s'), byte('>')}));
  EXPECT_EQ(ids("</s>", GCM_TEXT_PARSE), (std::vector<int32_t>{fake::kEos}));
  int32_t few[1] = {};
  size_t n = 0;
  EXPECT_EQ(gcm_tokenize(model_, "abc", 3, 0, few, 1, &n), GCM_ERR_FULL);
  EXPECT_EQ(n, 3u);
  EXPECT_EQ(few[0], byte('a'));
  EXPECT_EQ(gcm_tokenize(model_, "abc", 3, 0, nullptr, 0, &n), GCM_ERR_FULL);

  const int32_t both[] = {byte('a'), fake::kEos};
  char text[8] = {};
  ASSERT_EQ(gcm_detokenize(model_, both, 2, 0, text, sizeof text, &n), GCM_OK);
  EXPECT_EQ(std::string(text, n), "a");
  ASSERT_EQ(gcm_detokenize(model_, both, 2, GCM_TEXT_SPECIAL, text, sizeof text, &n), GCM_OK);
  EXPECT_EQ(std::string(text, n), "a</s>");
  EXPECT_EQ(gcm_token_is_end(model_, fake::kEos), 1);
  EXPECT_EQ(gcm_token_is_end(model_, byte('a')), 0);
  EXPECT_EQ(gcm_token_find(model_, "</s>"), fake::kEos);
  EXPECT_EQ(gcm_token_find(model_, "nosuch"), -1);
}

TEST_F(Api, ModelsThatGenerateHaveNoEmbeddings) {
  gcm_model_info info = {};
  info.size = sizeof info;
  ASSERT_EQ(gcm_model_get_info(model_, &info), GCM_OK);
  EXPECT_EQ(info.n_embedding, 0u);
  start(sizes());
  const int32_t one[] = {byte('a')};
  float out[4] = {};
  size_t n = 77;
  EXPECT_EQ(gcm_embed(session_, one, 1, GCM_POOLING_USUAL, 1, out, 4, &n), GCM_ERR_UNSUPPORTED);
  EXPECT_EQ(n, 0u);
  EXPECT_NE(std::string(gcm_session_error(session_)).find("no encoder"), std::string::npos);
}

TEST_F(Api, PairsOfTexts) {
  // The vocabulary adds BOS alone.
  int32_t ids[8] = {};
  size_t n = 0;
  ASSERT_EQ(gcm_tokenize_pair(model_, "a", 1, "bc", 2, ids, 8, &n), GCM_OK);
  EXPECT_EQ(std::vector<int32_t>(ids, ids + n),
            (std::vector<int32_t>{fake::kBos, byte('a'), byte('b'), byte('c')}));
  EXPECT_EQ(gcm_tokenize_pair(model_, "a", 1, "bc", 2, ids, 2, &n), GCM_ERR_FULL);
  EXPECT_EQ(n, 4u);
  EXPECT_EQ(gcm_tokenize_pair(model_, nullptr, 1, "bc", 2, ids, 8, &n), GCM_ERR_ARGUMENT);
}

TEST_F(Api, ChatNeedsOneKindOfInput) {
  gcm_chat chat;
  gcm_chat_init(&chat);
  size_t n = 0;
  char text[256];
  EXPECT_EQ(gcm_chat_text(model_, &chat, text, sizeof text, &n, why_, sizeof why_), GCM_ERR_ARGUMENT);
  const gcm_message messages[] = {{"user", "a \"quoted\" word"}};
  chat.messages = messages, chat.n_messages = 1;
  ASSERT_EQ(gcm_chat_text(model_, &chat, text, sizeof text, &n, why_, sizeof why_), GCM_OK) << why_;
  const std::string from_messages(text, n);
  EXPECT_NE(from_messages.find("\"quoted\""), std::string::npos) << from_messages;
  const std::string json = "[{\"role\": \"user\", \"content\": \"a \\\"quoted\\\" word\"}]";
  chat.messages = nullptr;
  chat.json = json.data(), chat.json_bytes = json.size();
  ASSERT_EQ(gcm_chat_text(model_, &chat, text, sizeof text, &n, why_, sizeof why_), GCM_OK) << why_;
  EXPECT_EQ(std::string(text, n), from_messages);
  chat.json_bytes -= 2;
  EXPECT_EQ(gcm_chat_text(model_, &chat, text, sizeof text, &n, why_, sizeof why_), GCM_ERR_INPUT);
  chat.json_bytes += 2;
  int32_t tokens[256];
  EXPECT_EQ(gcm_chat_tokens(model_, &chat, tokens, 256, &n, why_, sizeof why_), GCM_OK) << why_;
  EXPECT_GT(n, 10u);
}

TEST_F(Api, StepsAndLogits) {
  start(sizes());
  EXPECT_EQ(gcm_logits(session_, 0), nullptr);
  const std::vector<int32_t> prompt = ids("abcdefghijk");
  ASSERT_EQ(gcm_prefill(session_, 0, prompt.data(), prompt.size()), GCM_OK);
  EXPECT_EQ(best(gcm_logits(session_, 0)), byte('l'));
  ASSERT_EQ(gcm_decode(session_, 0, byte('p')), GCM_OK);
  EXPECT_EQ(best(gcm_logits(session_, 0)), byte('q'));
  EXPECT_EQ(gcm_logits(session_, 1), nullptr);
  EXPECT_EQ(gcm_length(session_, 0), 12u);
  EXPECT_EQ(gcm_decode(session_, 0, 300), GCM_ERR_ARGUMENT);
  EXPECT_EQ(gcm_logits(session_, 0), nullptr);
  EXPECT_STREQ(gcm_session_error(session_), "token 300: the model has 300 tokens");
  EXPECT_EQ(gcm_decode(session_, 1, 3), GCM_ERR_ARGUMENT);
  EXPECT_EQ(gcm_prefill(session_, 0, prompt.data(), 0), GCM_ERR_ARGUMENT);
  const std::vector<int32_t> large(21, 5);
  EXPECT_EQ(gcm_prefill(session_, 0, large.data(), large.size()), GCM_ERR_FULL);
  EXPECT_EQ(gcm_length(session_, 0), 12u);
  EXPECT_EQ(gcm_truncate(session_, 0, 3), 3u);
  EXPECT_EQ(gcm_length(session_, 0), 3u);
}

TEST_F(Api, BatchOfSequences) {
  start(sizes(32, 3));
  const gcm_token prompts[] = {{byte('a'), 0, 0, 0}, {byte('b'), 0, 0, 1}, {byte('x'), 2, 0, 1}};
  ASSERT_EQ(gcm_step(session_, prompts, 3), GCM_OK) << gcm_session_error(session_);
  EXPECT_EQ(best(gcm_logits(session_, 0)), byte('c'));
  EXPECT_EQ(best(gcm_logits(session_, 1)), byte('y'));
  const gcm_token mixed[] = {{byte('1'), 1, 0, 1}, {byte('c'), 0, 1, 1}, {byte('y'), 2, 1, 0}};
  ASSERT_EQ(gcm_step(session_, mixed, 3), GCM_OK) << gcm_session_error(session_);
  EXPECT_EQ(best(gcm_logits(session_, 0)), byte('2'));
  EXPECT_EQ(best(gcm_logits(session_, 1)), byte('d'));
  EXPECT_EQ(gcm_length(session_, 0), 3u);
  EXPECT_EQ(gcm_length(session_, 2), 2u);
  const gcm_token disordered[] = {{byte('c'), 0, 1, 0}, {byte('1'), 1, 0, 1}};
  EXPECT_EQ(gcm_step(session_, disordered, 2), GCM_ERR_ARGUMENT);
  const std::vector<gcm_token> many(9, gcm_token{5, 0, 0, 0}), outputs(5, gcm_token{5, 0, 0, 1});
  EXPECT_EQ(gcm_step(session_, many.data(), many.size()), GCM_ERR_ARGUMENT);
  EXPECT_EQ(gcm_step(session_, outputs.data(), outputs.size()), GCM_ERR_ARGUMENT);
  EXPECT_EQ(gcm_length(session_, 0), 3u);
}

TEST_F(Api, MemoryIsWhatItSaid) {
  const gcm_session_options options = sizes(64, 2);
  gcm_memory said = {};
  said.size = sizeof said;
  ASSERT_EQ(gcm_session_memory(model_, &options, &said, why_, sizeof why_), GCM_OK) << why_;
  EXPECT_EQ(said.kv, 2u * (64 << 10));
  EXPECT_EQ(said.logits, 4u * 304 * 4);
  const int64_t before = memory_.bytes;
  start(options);
  const int64_t taken = memory_.bytes - before;
  const auto promised = static_cast<int64_t>(said.kv + said.scratch + said.logits);
  EXPECT_GE(taken, promised);
  EXPECT_LT(taken, promised + 8000);  // the handle and its lists
  // Steps take nothing.
  const std::vector<int32_t> prompt = ids("abcdefghijk");
  const int64_t blocks = memory_.blocks;
  memory_.fail_after = 0;
  EXPECT_EQ(gcm_prefill(session_, 0, prompt.data(), prompt.size()), GCM_OK);
  EXPECT_EQ(gcm_decode(session_, 0, 5), GCM_OK);
  EXPECT_EQ(memory_.blocks, blocks);
  gcm_session_options type = options;
  type.kv_type = GCM_KV_Q8_0;
  EXPECT_EQ(gcm_session_memory(model_, &type, &said, why_, sizeof why_), GCM_ERR_UNSUPPORTED);
}

TEST_F(Api, SurvivesEveryFailingAllocation) {
  const gcm_session_options options = sizes();
  int n = 0;
  for (;; ++n) {
    memory_.fail_after = n;
    const int64_t blocks = memory_.blocks;
    const gcm_status s = gcm_session_create(model_, &options, &session_, why_, sizeof why_);
    if (s == GCM_OK) break;
    ASSERT_EQ(s, GCM_ERR_MEMORY);
    ASSERT_EQ(session_, nullptr);
    ASSERT_EQ(memory_.blocks, blocks);
    ASSERT_NE(why_[0], 0);
  }
  EXPECT_GT(n, 8);
  for (n = 0;; ++n) {
    memory_.fail_after = n;
    if (gcm_generator_create(session_, nullptr, nullptr, &generator_, why_, sizeof why_) == GCM_OK) break;
    ASSERT_EQ(generator_, nullptr);
  }
  EXPECT_GT(n, 4);
  memory_.fail_after = -1;
}

TEST_F(Api, CallersThreads) {
  int runs = 0;
  const gcm_pool pool = {[](void* user, uint32_t workers, void (*job)(void*, uint32_t), void* context) {
                           ++*static_cast<int*>(user);
                           std::vector<std::thread> threads;
                           for (uint32_t w = 1; w < workers; ++w) threads.emplace_back(job, context, w);
                           job(context, 0);
                           for (std::thread& t : threads) t.join();
                         },
                         &runs, 3};
  gcm_session_options options = sizes();
  options.pool = &pool;
  start(options);
  const std::vector<int32_t> prompt = ids("abcdefghijk");  // two steps
  ASSERT_EQ(gcm_prefill(session_, 0, prompt.data(), prompt.size()), GCM_OK);
  EXPECT_EQ(best(gcm_logits(session_, 0)), byte('l'));
  EXPECT_EQ(runs, 2);
}

TEST_F(Api, SavesAndRestores) {
  start(sizes(32, 2));
  const std::vector<int32_t> prompt = ids("abcdefghijk");
  ASSERT_EQ(gcm_prefill(session_, 0, prompt.data(), prompt.size()), GCM_OK);
  std::vector<uint8_t> bytes(gcm_saved_bytes(session_, 0));
  ASSERT_GT(bytes.size(), 1000u);
  EXPECT_EQ(gcm_save(session_, 0, bytes.data(), bytes.size() - 1), GCM_ERR_FULL);
  ASSERT_EQ(gcm_save(session_, 0, bytes.data(), bytes.size()), GCM_OK);
  ASSERT_EQ(gcm_decode(session_, 0, byte('q')), GCM_OK);
  const std::vector<float> expected(gcm_logits(session_, 0), gcm_logits(session_, 0) + 300);
  ASSERT_EQ(gcm_restore(session_, 1, bytes.data(), bytes.size()), GCM_OK) << gcm_session_error(session_);
  EXPECT_EQ(gcm_length(session_, 1), 11u);
  ASSERT_EQ(gcm_decode(session_, 1, byte('q')), GCM_OK);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), gcm_logits(session_, 0)));

  gcm_session* other = nullptr;
  auto restore = [&](gcm_session_options options, uint64_t size) {
    EXPECT_EQ(gcm_session_create(model_, &options, &other, nullptr, 0), GCM_OK);
    const gcm_status s = gcm_restore(other, 0, bytes.data(), size);
    const std::string why = gcm_session_error(other);
    EXPECT_EQ(gcm_length(other, 0), 0u);
    gcm_session_free(other);
    return std::make_pair(s, why);
  };
  gcm_session_options f32 = sizes();
  f32.kv_type = GCM_KV_F32;
  EXPECT_EQ(
      restore(f32, bytes.size()),
      std::make_pair(GCM_ERR_INPUT, std::string("these saved bytes have a KV cache of f16, and this session "
                                                "has f32")));
  EXPECT_EQ(
      restore(sizes(10), bytes.size()),
      std::make_pair(GCM_ERR_FULL, std::string("the saved sequence has 11 tokens, and the context 10")));
  EXPECT_EQ(restore(sizes(), 50).first, GCM_ERR_INPUT);
  EXPECT_EQ(restore(sizes(), bytes.size() - 1).second, "these saved bytes are cut off");
  bytes[bytes.size() - 100] ^= 1;
  EXPECT_EQ(restore(sizes(), bytes.size()).second, "these saved bytes are damaged");
  bytes[88] ^= 1;  // the code's id
  EXPECT_EQ(restore(sizes(), bytes.size()).second,
            "these saved bytes were computed by another build of this model");
  bytes[24] ^= 1;  // the ISA's name
  EXPECT_EQ(restore(sizes(), bytes.size()).second,
            "these saved bytes were computed with uest, and this is test");
  bytes[16] ^= 1;
  EXPECT_EQ(restore(sizes(), bytes.size()).second, "these saved bytes are another model's");
}

TEST_F(Api, Sampler) {
  gcm_sampler_options options;
  gcm_sampler_options_init(model_, &options);
  EXPECT_FLOAT_EQ(options.temperature, 0.8f);
  EXPECT_EQ(options.top_k, 40);
  options.temperature = 0;
  const gcm_logit_bias bias[] = {{7, -INFINITY}};
  options.bias = bias, options.n_bias = 1;
  gcm_sampler* sampler = nullptr;
  ASSERT_EQ(gcm_sampler_create(model_, &options, &sampler, why_, sizeof why_), GCM_OK) << why_;
  std::vector<float> logits(300);
  logits[7] = 9, logits[8] = 8;
  int32_t id = -1;
  ASSERT_EQ(gcm_sample(sampler, logits.data(), &id), GCM_OK);
  EXPECT_EQ(id, 8);
  EXPECT_EQ(gcm_accept(sampler, 8), GCM_OK);
  EXPECT_EQ(gcm_accept(sampler, 300), GCM_ERR_ARGUMENT);
  logits[9] = NAN;
  EXPECT_EQ(gcm_sample(sampler, logits.data(), &id), GCM_ERR_NAN);
  gcm_sampler_free(sampler);
  // A chain by names, seeded.
  options.chain = "top_k;temperature";
  options.temperature = 1;
  options.seed = 5;
  int32_t first[2][8];
  for (auto& run : first) {
    ASSERT_EQ(gcm_sampler_create(model_, &options, &sampler, why_, sizeof why_), GCM_OK) << why_;
    std::vector<float> flat(300);
    for (int32_t& t : run) ASSERT_EQ(gcm_sample(sampler, flat.data(), &t), GCM_OK);
    gcm_sampler_free(sampler);
  }
  EXPECT_EQ(memcmp(first[0], first[1], sizeof first[0]), 0);
  options.chain = "top_k;nosuch";
  EXPECT_EQ(gcm_sampler_create(model_, &options, &sampler, why_, sizeof why_), GCM_ERR_INPUT);
  EXPECT_NE(std::string(why_).find("nosuch"), std::string::npos) << why_;
  EXPECT_EQ(sampler, nullptr);
}

struct Collected {
  std::string text;
  int tokens = 0, end_at = -1;
  gcm_session* cancel = nullptr;
  static int token(void* user, int32_t id, const char* text, size_t n) {
    auto* c = static_cast<Collected*>(user);
    c->text.append(text, n);
    c->tokens += id >= 0;
    if (c->cancel) gcm_cancel(c->cancel);
    return c->tokens == c->end_at;
  }
};

TEST_F(Api, Generates) {
  start(sizes());
  gcm_generator_options options;
  gcm_generator_options_init(&options);
  const char* stops[] = {"stu"};
  options.stops = stops, options.n_stops = 1;
  start_generator(options);
  const std::vector<int32_t> prompt = ids("op");
  Collected got;
  gcm_generated result = {};
  result.size = sizeof result;
  ASSERT_EQ(gcm_generate(generator_, prompt.data(), prompt.size(), Collected::token, &got, &result), GCM_OK);
  EXPECT_EQ(got.text, "qr");
  EXPECT_EQ(result.end, GCM_END_STOP);
  EXPECT_EQ(result.last_token, byte('u'));
  EXPECT_EQ(result.prompt_tokens, 2u);
  EXPECT_EQ(result.tokens, 5u);
  // The next turn begins with what was not run.
  const int32_t next[] = {result.last_token, byte('x')};
  Collected rest;
  ASSERT_EQ(gcm_generate(generator_, next, 2, Collected::token, &rest, &result), GCM_OK);
  EXPECT_EQ(rest.text, "yz");
  EXPECT_EQ(result.end, GCM_END_TOKEN);
  EXPECT_EQ(result.last_token, -1);
  // And without anybody who listens.
  EXPECT_EQ(gcm_generate(generator_, prompt.data(), 1, nullptr, nullptr, nullptr), GCM_OK);
  EXPECT_EQ(gcm_generate(generator_, prompt.data(), 0, nullptr, nullptr, nullptr), GCM_ERR_ARGUMENT);
  EXPECT_STREQ(gcm_session_error(session_), "the prompt has no tokens");
}

TEST_F(Api, GeneratesWholeSequences) {
  start(sizes());
  gcm_generator_options options;
  gcm_generator_options_init(&options);
  options.max_tokens = 2;
  start_generator(options);
  gcm_generated result = {};
  result.size = sizeof result;
  std::vector<int32_t> all = ids("op");
  Collected got;
  ASSERT_EQ(gcm_generate_whole(generator_, all.data(), all.size(), Collected::token, &got, &result), GCM_OK);
  EXPECT_EQ(got.text, "qr");
  all = ids("opqx");
  Collected next;
  ASSERT_EQ(gcm_generate_whole(generator_, all.data(), all.size(), Collected::token, &next, &result), GCM_OK);
  EXPECT_EQ(next.text, "yz");
  EXPECT_EQ(result.prompt_tokens, 1u);  // "opq" was there
  EXPECT_EQ(gcm_length(session_, 0), 5u);
}

TEST_F(Api, GrammarsSayWhatComes) {
  start(sizes());
  gcm_generator_options options;
  gcm_generator_options_init(&options);
  options.grammar = "root ::= \"x\" [0-9] \"!\"";
  start_generator(options);
  const std::vector<int32_t> prompt = ids("a");
  Collected got;
  ASSERT_EQ(gcm_generate(generator_, prompt.data(), prompt.size(), Collected::token, &got, nullptr), GCM_OK)
      << gcm_session_error(session_);
  EXPECT_EQ(got.text.size(), 3u);
  EXPECT_EQ(got.text[0], 'x');
  EXPECT_EQ(got.text[2], '!');
  gcm_generator* none = nullptr;
  options.grammar = "root ::= (";
  EXPECT_EQ(gcm_generator_create(session_, nullptr, &options, &none, why_, sizeof why_), GCM_ERR_INPUT);
  EXPECT_NE(why_[0], 0);
  options.grammar = "root ::= \"a\"", options.json_schema = "{}";
  EXPECT_EQ(gcm_generator_create(session_, nullptr, &options, &none, why_, sizeof why_), GCM_ERR_ARGUMENT);
  EXPECT_EQ(none, nullptr);
}

TEST_F(Api, EndsByCallbackAndCancellation) {
  start(sizes());
  gcm_generator_options options;
  gcm_generator_options_init(&options);
  start_generator(options);
  const int32_t slow = byte('S');  // for ever, 2 ms each
  gcm_generated result = {};
  result.size = sizeof result;
  Collected got;
  got.end_at = 3;
  ASSERT_EQ(gcm_generate(generator_, &slow, 1, Collected::token, &got, &result), GCM_OK);
  EXPECT_EQ(result.end, GCM_END_CALLBACK);
  EXPECT_EQ(got.tokens, 3);
  Collected cancelled;
  cancelled.cancel = session_;
  ASSERT_EQ(gcm_generate(generator_, &slow, 1, Collected::token, &cancelled, &result), GCM_OK);
  EXPECT_EQ(result.end, GCM_END_CANCELLED);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    gcm_cancel(session_);
  });
  ASSERT_EQ(gcm_generate(generator_, &slow, 1, nullptr, nullptr, &result), GCM_OK);
  other.join();
  EXPECT_TRUE(result.end == GCM_END_CANCELLED || result.end == GCM_END_CONTEXT);
}

TEST_F(Api, NullHandles) {
  gcm_model_close(nullptr);
  gcm_session_free(nullptr);
  gcm_sampler_free(nullptr);
  gcm_generator_free(nullptr);
  gcm_cancel(nullptr);
  EXPECT_EQ(gcm_decode(nullptr, 0, 0), GCM_ERR_ARGUMENT);
  EXPECT_EQ(gcm_generate(nullptr, nullptr, 0, nullptr, nullptr, nullptr), GCM_ERR_ARGUMENT);
  EXPECT_EQ(gcm_session_create(nullptr, nullptr, &session_, why_, sizeof why_), GCM_ERR_ARGUMENT);
  EXPECT_STREQ(gcm_session_error(nullptr), "no session");
}

}  // namespace
