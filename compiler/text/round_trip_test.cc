// 10,000 random Unicode strings through tokens and back, by every kind of tokenizer that loses nothing: SentencePiece
// with byte pieces, byte-pair encoding over bytes with the expressions of all kinds of models, RWKV.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "compiler/text/freeze.h"
#include "compiler/text/test_vocab.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/utf8.h"

namespace gc::text {
namespace {

using Random = std::mt19937;

std::string character(std::uint32_t code) {
  gcrt::Vec<char> out;
  EXPECT_TRUE(gcrt::utf8_append(code, out));
  return {out.data(), out.size()};
}

// Bytes as vocabularies of byte-level BPE write them.
std::string spell_bytes(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) {
    const auto is_printable = [](unsigned b) {
      return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    };
    const unsigned byte = static_cast<unsigned char>(c);
    unsigned others = 0;
    for (unsigned b = 0; b < byte; ++b) others += !is_printable(b);
    out += character(is_printable(byte) ? byte : 0x100 + others);
  }
  return out;
}

// Mostly what people write, and now and then any code point that there is, assigned or not.
std::string random_string(Random& random) {
  static constexpr struct {
    std::uint32_t first, last;
  } kBlocks[] = {
      {'a', 'z'},       {'a', 'e'},         {'A', 'Z'},         {'0', '9'},         {' ', ' '},
      {0x20, 0x7E},     {0x00, 0x1F},       {0xA0, 0x24F},      {0x300, 0x36F},     {0x370, 0x5FF},
      {0x600, 0x6FF},   {0x900, 0xDFF},     {0x1100, 0x11FF},   {0x2000, 0x206F},   {0x2100, 0x2BFF},
      {0x3000, 0x30FF}, {0x4E00, 0x9FFF},   {0xAC00, 0xD7A3},   {0xE000, 0xF8FF},   {0xFE00, 0xFFFF},
      {1, 0xD7FF},      {0xE000, 0x10FFFF}, {0x1F300, 0x1FAFF}, {0x20000, 0x2FFFF}, {'\n', '\r'}};
  std::string out;
  for (unsigned part = random() % 6; part; --part) {
    const auto& block = kBlocks[random() % std::size(kBlocks)];
    for (unsigned n = random() % 9 + 1; n; --n) {
      const auto code = block.first + static_cast<std::uint32_t>(random() % (block.last - block.first + 1));
      if (code != 0x2581) out += character(code);  // SentencePiece's own spelling of a space
    }
  }
  return out;
}

void expect_round_trips(const Vocab& vocab) {
  SCOPED_TRACE(std::string(vocab.model) + " " + std::string(vocab.pre));
  const FrozenVocab frozen = freeze(vocab, {});
  gcrt::Tokenizer tokenizer;
  ASSERT_EQ(tokenizer.open({frozen.blob.data(), frozen.blob.size()}), gcrt::kOk);
  Random random(11);
  gcrt::Vec<std::int32_t> ids;
  gcrt::Vec<char> back;
  for (int i = 0; i < 10000; ++i) {
    const std::string text = random_string(random);
    ids.clear(), back.clear();
    ASSERT_EQ(tokenizer.encode({text.data(), text.size()}, {false, false, {}}, ids), gcrt::kOk);
    ASSERT_EQ(tokenizer.decode(ids.span(), {}, back), gcrt::kOk);
    ASSERT_EQ(std::string(back.data(), back.size()), text);
  }
}

TEST(RoundTrip, SentencePiece) {
  for (const bool prefix : {true, false}) {
    TestVocab t;
    t.vocab.add_space_prefix = prefix;
    t.add("▁", -100);
    for (char c = 'a'; c <= 'z'; ++c) t.add(std::string(1, c), -50);
    Random random(5);
    for (int i = 0; i < 2000; ++i) {
      std::string piece = random() % 3 ? "" : "▁";
      for (unsigned n = random() % 4 + 1; n; --n) piece += static_cast<char>('a' + random() % 5);
      t.add(piece, -static_cast<float>(random() % 1000) / 16);
    }
    t.add("é", -3), t.add("漢", -4), t.add("  ", 0, TokenType::kUserDefined);
    expect_round_trips(t.vocab);
  }
}

TEST(RoundTrip, BytePairs) {
  std::deque<std::string> texts;
  auto keep = [&texts](std::string s) -> std::string_view { return texts.emplace_back(std::move(s)); };
  Vocab v;
  v.model = "gpt2";
  std::map<std::string, bool> have;
  auto token = [&](const std::string& s) {
    if (!have.emplace(s, true).second) return;
    v.tokens.push_back(keep(s));
    v.types.push_back(TokenType::kNormal);
  };
  for (int b = 0; b < 256; ++b) token(spell_bytes(std::string(1, static_cast<char>(b))));
  // Merges of what follows what in such texts, so that pieces end inside characters too.
  Random random(6);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = random_string(random);
    if (text.size() < 2) continue;
    const std::size_t at = random() % (text.size() - 1);
    const std::string left = spell_bytes(text.substr(at, 1)), right = spell_bytes(text.substr(at + 1, 1));
    v.merges.push_back(keep(left + " " + right));
    token(left + right);
    const std::string longer(v.tokens[256 + random() % (v.tokens.size() - 256)]);
    v.merges.push_back(keep(longer + " " + left));
    token(longer + left);
  }
  for (const char* pre :
       {"default",     "gpt-2",    "llama-bpe",  "qwen2",      "qwen35", "deepseek-llm", "deepseek-coder",
        "deepseek-v3", "falcon",   "starcoder",  "tekken",     "gpt-4o", "kimi-k2",      "bloom",
        "viking",      "superbpe", "bailingmoe", "seed-coder", "afmoe",  "exaone-moe",   "chameleon",
        "youtu",       "tiny_aya", "minicpm5",   "jais-2",     "laguna"}) {
    v.pre = pre;
    expect_round_trips(v);
  }
}

TEST(RoundTrip, Rwkv) {
  TestVocab t(false);
  t.vocab.model = "rwkv";
  t.vocab.bos = t.vocab.eos = -1;
  auto spelled = [](const std::string& bytes) {  // as the files do it
    std::string out;
    for (unsigned char c : bytes) {
      const char* hex = "0123456789abcdef";
      out += "\\x";
      out += hex[c >> 4];
      out += hex[c & 15];
    }
    return out;
  };
  for (int b = 0; b < 256; ++b) t.add(spelled(std::string(1, static_cast<char>(b))), 0);
  Random random(9);
  std::map<std::string, bool> have;
  for (int i = 0; i < 2000; ++i) {
    const std::string text = random_string(random);
    if (text.size() < 3) continue;
    const std::string piece = text.substr(random() % (text.size() - 2), random() % 4 + 2);
    if (piece.size() > 1 && have.emplace(piece, true).second) t.add(spelled(piece), 0);
  }
  expect_round_trips(t.vocab);
}

}  // namespace
}  // namespace gc::text
