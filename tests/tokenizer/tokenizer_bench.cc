// What a megabyte takes (the slowest texts, or --all), and four: of one word, of one character, of anything. With --check, whether words that are
// merged in windows give the ids of words merged whole (merger.h), over 100,000 random texts.
//
//   bazel run -c opt //tests/tokenizer:tokenizer_bench -- [--check | --all] VOCABULARY.gguf...
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "compiler/base/error.h"
#include "compiler/text/freeze.h"
#include "frontends/gguf/reader.h"
#include "frontends/gguf/vocab.h"
#include "runtime/text/bpe.h"
#include "runtime/text/spm.h"
#include "runtime/text/tokenizer.h"

namespace {

using gcrt::frozen::Kind;

// Of the thread, not of the wall: neighbours on the machine don't count.
double ms() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

struct Opened {
  explicit Opened(const std::string& path) {
    const gc::gguf::File file = gc::gguf::File::open(path);
    std::vector<std::string> warnings;
    frozen = gc::text::freeze(gc::gguf::read_vocab(file, &warnings),
                              {0, "", false, file.get_string("general.architecture", "")});
    GC_CHECK(tokenizer.open({frozen.blob.data(), frozen.blob.size()}) == gcrt::kOk);
  }
  gc::text::FrozenVocab frozen;
  gcrt::Tokenizer tokenizer;
};

struct Text {
  std::string name, unit;  // repeated
};

std::vector<Text> texts() {
  std::mt19937 random(1);
  std::string letters, capitals, han, bytes;
  for (int i = 0; i < 1 << 22; ++i) {
    letters += static_cast<char>('a' + random() % 26);
    capitals += static_cast<char>((random() % 2 ? 'a' : 'A') + random() % 26);
    bytes += static_cast<char>(random());
    if (i % 3 == 0) {
      const unsigned c = 0x4E00 + random() % 0x5000;
      han += static_cast<char>(0xE0 | c >> 12);
      han += static_cast<char>(0x80 | (c >> 6 & 63));
      han += static_cast<char>(0x80 | (c & 63));
    }
  }
  std::vector<Text> out = {{"random letters", letters},
                           {"both cases", capitals},
                           {"random Han", han},
                           {"random bytes", bytes},
                           {"English", "The quick brown fox jumps over the lazy dog, "},
                           {"digits", "1234567890"}};
  for (const char* unit :
       {"a",  "ab", " ",  "\n",     "\t",     " \n",    "1",      "!",          ".",  ",",  "-", "_",
        "=",  "*",  "#",  "/",      "\\",     "'",      "\"",     "(",          ")",  "{}", "<", ">",
        "<|", "|",  "?!", "\u2014", "\u3002", "\u00e9", "\u6f22", "\U0001F600", "'s", " a"})
    out.push_back({gc::quote(unit), unit});
  return out;
}

double time_of(const Opened& o, const std::string& text) {
  double best = 1e9;
  for (int again = 0; again < 2; ++again) {
    gcrt::Vec<std::int32_t> ids;
    const double begin = ms();
    GC_CHECK(o.tokenizer.encode({text.data(), text.size()}, {true, true, {}}, ids) == gcrt::kOk);
    best = std::min(best, ms() - begin);
  }
  return best;
}

void measure(const Opened& o, const std::vector<Text>& texts, bool all) {
  struct Row {
    std::string name, text;
    double quarter, one;
  };
  std::vector<Row> rows;
  for (const Text& t : texts) {
    std::string text;
    while (text.size() < 1 << 22) text += t.unit;
    text.resize(1 << 22);
    const double quarter = time_of(o, text.substr(0, 1 << 18)), one = time_of(o, text.substr(0, 1 << 20));
    rows.push_back({t.name, std::move(text), quarter, one});
  }
  std::sort(rows.begin() + 1, rows.end(), [](const Row& a, const Row& b) { return a.one > b.one; });
  if (!all) rows.resize(4);
  for (const Row& r : rows) {
    const double four = time_of(o, r.text);
    std::printf("  %-18s 256 KB %6.1f ms, 1 MB %6.1f ms (x%.1f), 4 MB %7.1f ms (x%.1f)\n", r.name.c_str(),
                r.quarter, r.one, r.one / r.quarter, four, four / r.one);
  }
}

// Both kinds that merge.
std::vector<std::int32_t> encode(const Opened& o, const std::string& text, std::uint32_t window) {
  gcrt::Vec<std::int32_t> ids;
  const gcrt::Str bytes(text.data(), text.size());
  if (o.tokenizer.view().kind() == Kind::kSpm)
    GC_CHECK(gcrt::SpmMerger(o.tokenizer.view(), gcrt::libc_allocator(), window).encode(bytes, true, ids) ==
             gcrt::kOk);
  else
    GC_CHECK(gcrt::BpeMerger(o.tokenizer.view(), gcrt::libc_allocator(), window).encode(bytes, ids) ==
             gcrt::kOk);
  return {ids.begin(), ids.end()};
}

void check(const Opened& o) {
  if (o.tokenizer.view().kind() != Kind::kSpm && o.tokenizer.view().kind() != Kind::kBpe) return;
  std::mt19937 random(2);
  int wrong = 0;
  const char* const parts[] = {"a",      "e",          "the",  "ing", "tion", "x",  "Q",      "_",
                               " ",      "  ",         "1",    "-",   "=",    "ab", "\u00e9", "\u6f22",
                               "\u5b57", "\U0001F600", "\xFF", "er",  "st",   "zz"};
  for (int n = 0; n < 100'000; ++n) {
    std::string text;
    const std::size_t size = 40 + random() % 300;
    const unsigned kind = random() % 4, few = 1 + random() % 6;
    while (text.size() < size)
      if (kind == 0)
        text += static_cast<char>('a' + random() % 26);
      else if (kind == 1)
        text += static_cast<char>('a' + random() % few);
      else
        text += parts[random() % (kind == 2 ? std::size(parts) : few * 3)];
    wrong += encode(o, text, 24) != encode(o, text, UINT32_MAX);
  }
  std::printf("  windows of 24 symbols and whole words: %d of 100000 differ\n", wrong);
}

void run(int argc, char** argv) {
  bool checks = false, all = false;
  const std::vector<Text> measured = texts();
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 12);
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--check") == 0) {
      checks = true;
    } else if (std::strcmp(argv[i], "--all") == 0) {
      all = true;
    } else {
      const Opened o(argv[i]);
      std::printf("%s\n", argv[i]);
      checks ? check(o) : measure(o, measured, all);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc, argv);
    return 0;
  } catch (const gc::Error& e) {
    std::fprintf(stderr, "tokenizer_bench: %s\n", e.what());
    return 1;
  }
}
