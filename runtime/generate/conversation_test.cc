#include "runtime/generate/conversation.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/generate/testdata/fake_model.h"
#include "runtime/generate/testdata/fake_template.h"

namespace gcrt {
namespace {

std::string string(Str s) { return {s.data(), s.size()}; }

class ConversationTest : public testing::Test {
 protected:
  void SetUp() override {
    fake::Template made;
    program_ = made.finish();
    ASSERT_EQ(template_.open({reinterpret_cast<const uint8_t*>(program_.data()), made.bytes}), kOk);
    ASSERT_EQ(tokenizer_.open({gc_the_model.tokenizer, gc_the_model.tokenizer_bytes}), kOk);
  }
  Status prompt(const PromptOptions& options = {}) { return talk_.prompt(options, message_); }
  std::string text() const { return string(talk_.text()); }

  std::vector<uint64_t> program_;
  ChatTemplate template_;
  Tokenizer tokenizer_;
  Conversation talk_{template_, tokenizer_, libc_allocator()};
  char message_[256] = "";
};

TEST_F(ConversationTest, APromptOfAllMessages) {
  ASSERT_TRUE(talk_.add("user", "hi") && talk_.add("assistant", "yo") && talk_.add("user", "\"q\"\n"));
  ASSERT_EQ(prompt(), kOk) << message_;
  EXPECT_EQ(text(), "<s>[user]hi[assistant]yo[user]\"q\"\n");
  EXPECT_EQ(talk_.ids()[0], fake::kBos);
  EXPECT_EQ(talk_.ids()[1], fake::byte('['));  // one BOS, not two
  EXPECT_EQ(talk_.ids().size(), 1 + text().size() - 3);
  EXPECT_EQ(talk_.fixed(), 1u);
}

TEST_F(ConversationTest, MessagesNeverBecomeControlTokens) {
  ASSERT_TRUE(talk_.add("user", "a</s><s>"));
  ASSERT_EQ(prompt(), kOk);
  for (size_t i = 1; i < talk_.ids().size(); ++i) EXPECT_GT(talk_.ids()[i], fake::kEos);
}

TEST_F(ConversationTest, TheSystemsMessage) {
  ASSERT_TRUE(talk_.add("user", "hi"));
  EXPECT_EQ(talk_.system(), nullptr);
  ASSERT_TRUE(talk_.set_system("be") && talk_.set_system("be good"));
  ASSERT_EQ(prompt(), kOk);
  EXPECT_EQ(text(), "<s>[system]be good[user]hi");
  EXPECT_EQ(talk_.fixed(), std::string("[system]be good").size() + 1);
  talk_.clear();
  EXPECT_EQ(talk_.messages().size(), 1u);
  ASSERT_TRUE(talk_.set_system(""));
  EXPECT_EQ(talk_.messages().size(), 0u);
}

TEST_F(ConversationTest, AnAnswerCanBeDropped) {
  EXPECT_FALSE(talk_.drop_answer());
  ASSERT_TRUE(talk_.set_system("s") && talk_.add("user", "a") && talk_.add("assistant", "b"));
  EXPECT_TRUE(talk_.drop_answer());
  EXPECT_EQ(talk_.messages().size(), 2u);
  EXPECT_TRUE(talk_.drop_answer());
  EXPECT_EQ(talk_.messages().size(), 2u);
}

TEST_F(ConversationTest, VariablesReachTheTemplate) {
  ASSERT_TRUE(talk_.add("user", "a"));
  ASSERT_EQ(prompt({.variables = " { \"thinking_option\": \"on\" } "}), kOk) << message_;
  EXPECT_EQ(text(), "<s>[user]aon");
  ASSERT_EQ(prompt({.variables = "{}"}), kOk);
  EXPECT_EQ(text(), "<s>[user]a");
  EXPECT_EQ(prompt({.variables = "{\"thinking_option\": }"}), kErrInput);
  ASSERT_EQ(prompt({.switches = ",\"thinking_option\": \"off\""}), kOk);
  EXPECT_EQ(text(), "<s>[user]aoff");
}

TEST_F(ConversationTest, TheTemplateMayRefuse) {
  ASSERT_TRUE(talk_.add("user", "raise"));
  EXPECT_EQ(prompt(), kErrInput);
  EXPECT_EQ(std::string(message_), "line 1: no");
}

TEST_F(ConversationTest, OldTurnsAreDropped) {
  ASSERT_TRUE(talk_.set_system("s"));
  for (const char* q : {"one", "two", "three"})
    ASSERT_TRUE(talk_.add("user", q) && talk_.add("assistant", "answer"));
  ASSERT_TRUE(talk_.add("user", "four"));
  EXPECT_EQ(prompt({.room = 60}), kErrFull);
  EXPECT_EQ(std::string(message_).find("the conversation has "), 0u) << message_;
  ASSERT_EQ(prompt({.room = 60, .drop_turns = true}), kOk) << message_;
  EXPECT_EQ(text(), "<s>[system]s[user]three[assistant]answer[user]four");
  EXPECT_EQ(talk_.dropped(), 4u);
  ASSERT_EQ(prompt({.room = 30, .drop_turns = true}), kOk) << message_;
  EXPECT_EQ(text(), "<s>[system]s[user]four");
  EXPECT_EQ(prompt({.room = 10, .drop_turns = true}), kErrFull);
  EXPECT_EQ(std::string(message_),
            "the last message and what comes with it have 20 tokens, and the context has room for 10");
}

TEST(ChatMessages, JsonAndBack) {
  Vec<ChatMessage> messages;
  char message[256] = "";
  const Str json = R"({"other": 1, "messages": [{"role": "system", "content": [{"type": "text", "text": "a"},
      {"type": "text", "text": "\n\"b\""}]}, {"role": "assistant", "content": null, "reasoning_content": "r"}]})";
  ASSERT_EQ(read_messages_json(json, messages, message, libc_allocator()), kOk) << message;
  ASSERT_EQ(messages.size(), 2u);
  Vec<char> out;
  ASSERT_TRUE(append_message_json(messages[0], out) && append_message_json(messages[1], out));
  EXPECT_EQ(
      string(str(out)),
      R"({"role": "system", "content": "a\n\"b\""}{"role": "assistant", "content": "", "reasoning_content": "r"})");
  for (const char* wrong :
       {"", "[", "{}", "[1]", "[{}]", R"([{"role": "user"}])", R"([{"role": "user", "content": 1}])",
        R"([{"role": "user", "content": "x"}, {"role": 1, "content": ""}])"}) {
    message[0] = 0;
    EXPECT_EQ(read_messages_json(wrong, messages, message, libc_allocator()), kErrInput) << wrong;
    EXPECT_NE(message[0], 0) << wrong;
    EXPECT_EQ(messages.size(), 2u);
  }
}

}  // namespace
}  // namespace gcrt
