// Words merged in windows against words merged whole, and both against looking at all pairs again for each merge: on
// vocabularies whose ranks follow how pieces are made, on such that don't, and on such with many equal ones, so that
// windows of a few symbols often disagree and have to grow.
#include "runtime/text/merger.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace gcrt {
namespace {

using Ids = std::vector<int32_t>;

// Pieces over a few letters; ids below `letters` are the letters. What two pieces become, and how good that is.
struct Rules {
  int letters = 3;
  std::vector<std::string> pieces;
  std::vector<std::vector<Merger::Joined>> joined;  // id -1: they don't

  explicit Rules(int n_letters) : letters(n_letters) {
    for (int i = 0; i < letters; ++i) pieces.emplace_back(1, static_cast<char>('a' + i));
  }
  bool find(int32_t l, int32_t r, Merger::Joined* out) const {
    *out = joined[static_cast<size_t>(l)][static_cast<size_t>(r)];
    return out->id >= 0;
  }
  void make_table() { joined.assign(pieces.size(), std::vector<Merger::Joined>(pieces.size(), {0, -1})); }
};

enum class Order { kMade, kAny, kFew };

// Byte-pair encoding: the result of each merge may be part of later ones.
Rules by_pairs(std::mt19937& random, Order order, int letters) {
  struct Made {
    size_t l, r;
    int32_t id;
  };
  Rules rules(letters);
  std::map<std::string, int32_t> known;
  for (size_t i = 0; i < rules.pieces.size(); ++i) known[rules.pieces[i]] = static_cast<int32_t>(i);
  std::vector<Made> made;
  for (int i = 0; i < 40; ++i) {
    const size_t l = random() % rules.pieces.size(), r = random() % rules.pieces.size();
    const std::string text = rules.pieces[l] + rules.pieces[r];
    if (text.size() > 9) continue;
    auto [at, fresh] = known.emplace(text, static_cast<int32_t>(rules.pieces.size()));
    if (fresh) rules.pieces.push_back(text);
    made.push_back({l, r, at->second});
  }
  rules.make_table();
  uint32_t rank = 1000;
  for (const Made& m : made) {
    Merger::Joined& j = rules.joined[m.l][m.r];
    if (j.id >= 0) continue;
    --rank;
    j = {order == Order::kMade ? rank : static_cast<uint32_t>(random() % (order == Order::kFew ? 3 : 1000)),
         m.id};
  }
  return rules;
}

// SentencePiece: any two pieces that make one, as good as that one.
Rules by_pieces(std::mt19937& random, Order order, int letters) {
  Rules rules(letters);
  std::map<std::string, int32_t> known;
  for (int i = 0; i < 40; ++i) {
    std::string text(2 + random() % 6, 0);
    for (char& c : text) c = static_cast<char>('a' + random() % static_cast<unsigned>(letters));
    if (known.emplace(text, static_cast<int32_t>(rules.pieces.size())).second) rules.pieces.push_back(text);
  }
  rules.make_table();
  std::vector<uint32_t> score;
  for (size_t i = 0; i < rules.pieces.size(); ++i)
    score.push_back(static_cast<uint32_t>(
        order == Order::kMade ? 1000 - i : random() % (order == Order::kFew ? 3 : 1000)));
  for (size_t l = 0; l < rules.pieces.size(); ++l)
    for (size_t r = 0; r < rules.pieces.size(); ++r)
      if (auto at = known.find(rules.pieces[l] + rules.pieces[r]); at != known.end())
        rules.joined[l][r] = {score[static_cast<size_t>(at->second)], at->second};
  return rules;
}

Ids naive(const Rules& rules, const std::string& word) {
  Ids ids;
  for (char c : word) ids.push_back(c - 'a');
  for (;;) {
    Merger::Joined best = {0, -1}, j;
    size_t where = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i)
      if (rules.find(ids[i], ids[i + 1], &j) && (best.id < 0 || j.goodness > best.goodness))
        best = j, where = i;
    if (best.id < 0) return ids;
    ids[where] = best.id;
    ids.erase(ids.begin() + static_cast<long>(where) + 1);
  }
}

Ids merged(const Rules& rules, const std::string& word, Merger& merger) {
  Vec<int32_t> out;
  uint32_t at = 0, end = 0;
  auto next = [&](uint32_t from, Merger::Symbol* s) {
    if (from == 0) at = 0;
    if (from == word.size()) return false;
    s->bytes = 1, s->id = word[from] - 'a';
    return true;
  };
  auto find = [&](const Merger::Symbol& l, const Merger::Symbol& r, Merger::Joined* j) {
    return rules.find(l.id, r.id, j);
  };
  auto put = [&](const Merger::Symbol& s) {
    EXPECT_EQ(s.begin, at);
    at += s.bytes;
    return out.push(s.id);
  };
  EXPECT_EQ(merger.merge(0, next, find, put, out, &end), kOk);
  EXPECT_EQ(at, word.size());
  EXPECT_EQ(end, word.size());
  return {out.begin(), out.end()};
}

std::string random_word(std::mt19937& random, int letters, size_t size) {
  std::string word(size, 0);
  // Letters, repeated ones, or a repeated part.
  const unsigned kind = random() % 4, n = static_cast<unsigned>(letters);
  if (kind == 0) {
    std::string part = random_word(random, letters, 1 + random() % 7);
    for (size_t i = 0; i < size; ++i) word[i] = part[i % part.size()];
    return word;
  }
  char c = 'a';
  for (char& at : word) {
    if (kind > 1 || random() % 8 == 0) c = static_cast<char>('a' + random() % n);
    at = c;
  }
  return word;
}

TEST(Merger, WindowsAreTheWhole) {
  std::mt19937 random(3);
  int words = 0;
  for (int round = 0; round < 500; ++round) {
    const int letters = 1 + round % 4;
    const Order order = static_cast<Order>(round / 4 % 3);
    const Rules rules = round % 2 ? by_pairs(random, order, letters) : by_pieces(random, order, letters);
    Merger whole(libc_allocator(), UINT32_MAX), small(libc_allocator(), 16),
        larger(libc_allocator(), 32 + static_cast<uint32_t>(random() % 64));
    for (int i = 0; i < 200; ++i, ++words) {
      const std::string word = random_word(random, letters, 17 + random() % 400);
      const Ids ids = merged(rules, word, whole);
      ASSERT_EQ(merged(rules, word, small), ids) << word;
      ASSERT_EQ(merged(rules, word, larger), ids) << word;
      if (i % 50 == 0) ASSERT_EQ(naive(rules, word), ids) << word;
    }
  }
  EXPECT_EQ(words, 100'000);
}

// A piece of the whole word, and a word of which each symbol waits for the one to its right.
TEST(Merger, PiecesLargerThanWindows) {
  Rules rules(2);
  for (int i = 1; i <= 9; ++i) rules.pieces.push_back(std::string(size_t{1} << i, 'a'));
  rules.make_table();
  for (int32_t i = 0; i < 9; ++i) {
    const size_t half = i ? static_cast<size_t>(i) + 1 : 0;
    rules.joined[half][half] = {static_cast<uint32_t>(100 - i), i + 2};
  }
  Merger small(libc_allocator(), 16);
  EXPECT_EQ(merged(rules, std::string(512, 'a'), small), (Ids{10}));
  const std::string word = std::string(1000, 'a') + "b" + std::string(77, 'a');
  EXPECT_EQ(merged(rules, word, small), naive(rules, word));
}

}  // namespace
}  // namespace gcrt
