// libFuzzer's entry: the first byte tells GBNF from schemas (bit 0), a byte 0x01 the grammar from a text. What does not
// compile must end in a message. What does is run over the text; then masks are filled along tokens that the text's
// bytes choose, and each must be what trying the tokens says.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "compiler/text/freeze.h"
#include "compiler/text/test_vocab.h"
#include "runtime/text/grammar.h"

namespace {

struct Vocabulary {
  gc::text::FrozenVocab frozen;
  gcrt::Tokenizer tokenizer;
  gcrt::GrammarVocab vocab;

  Vocabulary() {
    gc::text::TestVocab made;
    const std::vector<std::string> parts = {"a", "ab", "x",  "0",   "12",   "-",   ".", ",",
                                            ":", "\"", "\\", "u00", "[",    "]",   "{", "}",
                                            " ", "\n", "é",  "日",  "true", "null"};
    for (const std::string& p : parts) {
      if (p.size() > 1) made.add(p, -1);
      for (const std::string& q : parts) made.add(p + q, -1);
    }
    // Enough of one beginning to be a vocabulary of their own (rule_masks.h).
    const std::string letters = "abcdex1";
    for (int n = 0; n < 7 * 7 * 7 * 7; ++n) {
      std::string word = " ";
      for (int rest = n, i = 0; i < 4; ++i, rest /= 7) word += letters[static_cast<std::size_t>(rest % 7)];
      made.add(word, -1);
    }
    frozen = gc::text::freeze(made.vocab, {0, "", false, "llama"});
    if (tokenizer.open({frozen.blob.data(), frozen.blob.size()}) != gcrt::kOk) std::abort();
    if (vocab.init(tokenizer) != gcrt::kOk) std::abort();
  }
};

// Of the machine. Some grammars are slow, which is no fault of theirs to be found here.
constexpr std::uint64_t kMostWork = 5'000'000;

// Which tokens trying says: all of them, or from `first` on each 7th.
void check_mask(gcrt::GrammarState& state, const gcrt::GrammarVocab& vocab,
                const std::vector<std::uint64_t>& mask, int first) {
  const gcrt::GrammarState::Mark mark = state.mark();
  for (std::int32_t id = first; id < vocab.n_vocab() && state.machine()->work() < kMostWork; id += 7) {
    const gcrt::Status s = state.accept_token(id);
    if (s == gcrt::kErrFull || !state.rewind(mark)) return;
    if ((s == gcrt::kOk) == (mask[id / 64] >> (id % 64) & 1)) continue;
    std::fprintf(stderr, "token %d: tried %d\n", id, s);
    std::abort();
  }
}

const Vocabulary& vocabulary() {
  static const Vocabulary* const made = new Vocabulary;
  return *made;
}

void check_masks(const gcrt::Grammar& grammar, gcrt::Str choices) {
  const Vocabulary* const made = &vocabulary();
  gcrt::GrammarState state;
  if (state.init(&grammar, &made->vocab) != gcrt::kOk) std::abort();
  std::vector<std::uint64_t> mask(made->vocab.mask_words());
  for (std::size_t i = 0; i < choices.size() && i < 8 && state.machine()->work() < kMostWork; ++i) {
    if (state.fill_mask({mask.data(), mask.size()}) != gcrt::kOk) return;
    check_mask(state, made->vocab, mask, static_cast<int>(i % 7));
    std::vector<std::int32_t> allowed;
    for (std::int32_t id = 0; id < made->vocab.n_vocab(); ++id)
      if (mask[id / 64] >> (id % 64) & 1) allowed.push_back(id);
    // What is allowed always has a way to an end.
    if (allowed.empty() && !grammar.allows_nothing()) std::abort();
    if (allowed.empty()) return;
    const std::uint8_t choice = static_cast<std::uint8_t>(choices[i]);
    const std::int32_t id = allowed[choice * 0x9E3779B1u % allowed.size()];
    if (state.accept_token(id) != gcrt::kOk) std::abort();
  }
}

}  // namespace

// So that no input is charged with it.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  vocabulary();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const char* begin = reinterpret_cast<const char*>(data) + 1;
  const char* end = begin + size - 1;
  const char* mark = static_cast<const char*>(std::memchr(begin, 1, size - 1));
  const gcrt::Str source(begin, static_cast<std::size_t>((mark ? mark : end) - begin));
  const gcrt::Str text = mark ? gcrt::Str(mark + 1, static_cast<std::size_t>(end - mark - 1)) : gcrt::Str();
  gcrt::Grammar grammar;
  char message[256] = {};
  const gcrt::Status s = data[0] & 1 ? grammar.compile_json_schema(source, message)
                                     : grammar.compile_gbnf(source, message, &vocabulary().tokenizer);
  if (s != gcrt::kOk) {
    if (message[0] == 0) std::abort();
    return 0;
  }
  gcrt::GrammarState state;
  if (state.init(&grammar, nullptr) != gcrt::kOk) std::abort();
  const gcrt::Status accepted = state.accept_bytes(text);
  if (accepted == gcrt::kOk && state.is_dead()) std::abort();
  check_masks(grammar, text);
  return 0;
}
