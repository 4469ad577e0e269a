// Streams of text: whole characters and stop strings, for any cutting of the same text.
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/text/stop.h"
#include "runtime/text/utf8.h"

namespace gcrt {
namespace {

using Invalid = Utf8Stream::Invalid;

std::string take(Vec<char>& v) {
  std::string s(v.begin(), v.end());
  v.clear();
  return s;
}

// Cuts `text` at random places.
std::vector<std::string> cut(const std::string& text, std::mt19937& rng) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t n = 1 + rng() % 5;
    parts.push_back(text.substr(at, n));
    at += n;
  }
  return parts;
}

bool whole(const std::string& s) {
  for (Str rest(s.data(), s.size()); !rest.empty();) {
    int n = utf8_next(rest);
    if (n <= 0) return false;
    rest = rest.sub(static_cast<std::size_t>(n));
  }
  return true;
}

std::string stream(const std::vector<std::string>& parts, Invalid mode, bool check_parts) {
  Utf8Stream u(mode);
  Vec<char> out;
  std::string all;
  for (const std::string& p : parts) {
    EXPECT_EQ(u.push({p.data(), p.size()}, out), kOk);
    std::string piece = take(out);
    if (check_parts) EXPECT_TRUE(whole(piece));
    EXPECT_LE(u.held(), 3u);
    all += piece;
  }
  EXPECT_EQ(u.finish(out), kOk);
  return all + take(out);
}

TEST(Utf8, KnowsCharacters) {
  EXPECT_EQ(utf8_next("a"), 1);
  EXPECT_EQ(utf8_next("\u00e9"), 2);
  EXPECT_EQ(utf8_next("\u6f22x"), 3);
  EXPECT_EQ(utf8_next("\U0001F999"), 4);
  EXPECT_EQ(utf8_next("\xF0\x9F"), 0);
  EXPECT_EQ(utf8_next("\x80"), -1);
  EXPECT_EQ(utf8_next("\xC0\x80"), -1);      // overlong
  EXPECT_EQ(utf8_next("\xED\xA0\x80"), -1);  // surrogate
  EXPECT_EQ(utf8_next("\xF4\x90\x80\x80"), -1);
  EXPECT_EQ(utf8_next("\xE2\x96x"), -2);
  EXPECT_EQ(utf8_next(""), 0);
}

TEST(Utf8, NeverSplitsACharacter) {
  std::mt19937 rng(1);
  std::string text = "a\u00e9\u6f22\U0001F469\u200d\U0001F469\u200d\U0001F467 \U0001F999!";
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(stream(cut(text, rng), Invalid::kKeep, true), text);
    EXPECT_EQ(stream(cut(text, rng), Invalid::kReplace, true), text);
  }
}

TEST(Utf8, InvalidBytesKeptOrReplaced) {
  const std::string r = "\xEF\xBF\xBD";
  std::mt19937 rng(2);
  struct Case {
    std::string in, replaced;
  } cases[] = {{"\xF0\x9F", r},
               {std::string("\xF0\xF0\xF0\xF0\xF0"), r + r + r + r + r},
               {"\xC0\x80", r + r},
               {"a\xE2\x96"
                "b",
                "a" + r + "b"},
               {"\xED\xA0\x80", r + r + r},
               {"x\xFF\u00e9", "x" + r + "\u00e9"}};
  for (const Case& c : cases)
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(stream(cut(c.in, rng), Invalid::kReplace, true), c.replaced);
      EXPECT_EQ(stream(cut(c.in, rng), Invalid::kKeep, false), c.in);
    }
  for (int i = 0; i < 2000; ++i) {
    std::string s(rng() % 30, 0);
    for (char& c : s) c = static_cast<char>(rng() % 3 ? rng() | 0x80 : 'a');
    std::string once = stream({s}, Invalid::kReplace, true);
    EXPECT_EQ(stream(cut(s, rng), Invalid::kReplace, true), once);
    EXPECT_EQ(stream(cut(s, rng), Invalid::kKeep, false), s);
  }
}

struct Result {
  std::string text;
  int found;
  bool operator==(const Result&) const = default;
};

Result stop_at(const std::vector<std::string>& stops, const std::vector<std::string>& parts) {
  std::vector<Str> views;
  views.reserve(stops.size());
  for (const std::string& s : stops) views.push_back({s.data(), s.size()});
  StopMatcher m;
  EXPECT_EQ(m.init({views.data(), views.size()}), kOk);
  Vec<char> out;
  for (const std::string& p : parts) EXPECT_EQ(m.push({p.data(), p.size()}, out), kOk);
  EXPECT_EQ(m.finish(out), kOk);
  return {take(out), m.found()};
}

// The stop that is complete first; of those that end together the longest, of equal ones the first.
Result naive(const std::vector<std::string>& stops, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    int best = -1;
    for (std::size_t i = 0; i < stops.size(); ++i) {
      const std::string& s = stops[i];
      if (s.size() > end || text.compare(end - s.size(), s.size(), s) != 0) continue;
      if (best < 0 || s.size() > stops[static_cast<std::size_t>(best)].size()) best = static_cast<int>(i);
    }
    if (best >= 0) return {text.substr(0, end - stops[static_cast<std::size_t>(best)].size()), best};
  }
  return {text, -1};
}

TEST(Stop, SpansPiecesAndReleases) {
  EXPECT_EQ(stop_at({"O P Q"}, {"xx O", " P", " Q", " yy"}), (Result{"xx ", 0}));
  EXPECT_EQ(stop_at({"abab"}, {"abaab"}), (Result{"abaab", -1}));
  EXPECT_EQ(stop_at({"ell"}, {"hello"}), (Result{"h", 0}));
  EXPECT_EQ(stop_at({"\n", "Alice:"}, {"Bob and Ali", "ce: hi"}), (Result{"Bob and ", 1}));
  EXPECT_EQ(stop_at({"\xF0\x9F"}, {"ok \U0001F999"}), (Result{"ok ", 0}));
  EXPECT_EQ(stop_at({}, {"any", "thing"}), (Result{"anything", -1}));
}

TEST(Stop, HoldsBackNoMoreThanItMust) {
  StopMatcher m;
  Str stops[] = {"END"};
  ASSERT_EQ(m.init(stops), kOk);
  Vec<char> out;
  ASSERT_EQ(m.push("text E", out), kOk);
  EXPECT_EQ(take(out), "text ");
  EXPECT_EQ(m.held(), 1u);
  ASSERT_EQ(m.push("X", out), kOk);
  EXPECT_EQ(take(out), "EX");
  ASSERT_EQ(m.push("ENDmore", out), kOk);
  EXPECT_EQ(take(out), "");
  EXPECT_TRUE(m.stopped());
  ASSERT_EQ(m.push("more", out), kOk);
  ASSERT_EQ(m.finish(out), kOk);
  EXPECT_EQ(take(out), "");
  m.reset();
  ASSERT_EQ(m.push("EN", out), kOk);
  ASSERT_EQ(m.finish(out), kOk);
  EXPECT_EQ(take(out), "EN");
}

TEST(Stop, EmptyStringsAreRefused) {
  StopMatcher m;
  Str stops[] = {"a", ""};
  EXPECT_EQ(m.init(stops), kErrInput);
}

TEST(Stop, AgreesWithTheNaiveTwin) {
  std::mt19937 rng(3);
  auto word = [&rng](std::size_t least, std::size_t most) {
    std::string s(least + rng() % (most - least + 1), 0);
    for (char& c : s) c = static_cast<char>('a' + rng() % 3);
    return s;
  };
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::string> stops;
    for (std::size_t n = rng() % 5; n; --n) stops.push_back(word(1, 6));
    std::string text = word(0, 40);
    EXPECT_EQ(stop_at(stops, cut(text, rng)), naive(stops, text));
  }
}

TEST(Stop, AThousandStops) {
  std::mt19937 rng(4);
  std::vector<std::string> stops;
  stops.reserve(1000);
  for (int i = 0; i < 1000; ++i) stops.push_back("stop " + std::to_string(i) + ";");
  EXPECT_EQ(stop_at(stops, cut("a stop 99 and stop 998;x", rng)), (Result{"a stop 99 and ", 998}));
}

}  // namespace
}  // namespace gcrt
