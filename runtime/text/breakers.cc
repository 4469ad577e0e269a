#include "runtime/text/breakers.h"

namespace gcrt {
namespace {

constexpr size_t kMostBytes = 40, kMostTail = 20;

class Finder {
 public:
  Finder(const Tokenizer& tokenizer, Allocator a, DryBreakers& out)
      : tokenizer_(tokenizer), out_(out), tail_(a) {}

  // What of `breaker` begins in the token, whose text is `word`?
  Status match(int32_t id, Str word, Str breaker) {
    for (size_t at = 0; at + breaker.size() <= word.size(); ++at)
      if (memcmp(word.data() + at, breaker.data(), breaker.size()) == 0) return out_.add(id, {});
    // Its end may be the beginning of the breaker.
    size_t first = word.size() > breaker.size() ? word.size() - breaker.size() + 1 : 0;
    for (size_t at = first; at < word.size(); ++at) {
      size_t n = word.size() - at;
      if (n >= breaker.size() || memcmp(word.data() + at, breaker.data(), n) != 0) continue;
      tail_.clear();
      Status s = tokenizer_.encode(breaker.sub(n), {false, false, {}}, tail_);
      if (s != kOk) return s;
      tail_.truncate(min_of(tail_.size(), kMostTail));
      s = out_.add(id, tail_.span());
      if (s != kOk) return s;
    }
    return kOk;
  }

 private:
  const Tokenizer& tokenizer_;
  DryBreakers& out_;
  Vec<int32_t> tail_;
};

}  // namespace

TokenTexts token_texts(const Tokenizer& tokenizer) {
  TokenTexts t;
  t.tokens = &tokenizer;
  t.ends = [](const void* tokens, int32_t id) { return static_cast<const Tokenizer*>(tokens)->is_eog(id); };
  t.append = [](const void* tokens, int32_t id, Vec<char>& out) {
    return static_cast<const Tokenizer*>(tokens)->append_piece(id, true, out);
  };
  t.end = tokenizer.meta().eot >= 0 ? tokenizer.meta().eot : tokenizer.meta().eos;
  return t;
}

Status add_breakers(const Tokenizer& tokenizer, Span<const Str> texts, Allocator allocator,
                    DryBreakers& out) {
  if (!tokenizer.available()) return kErrUnsupported;
  Finder finder(tokenizer, allocator, out);
  Vec<char> word(allocator);
  for (int32_t id = 0; id < tokenizer.n_vocab(); ++id) {
    word.clear();
    Status s = tokenizer.decode({&id, 1}, {true, true}, word);
    for (Str text : texts) {
      if (s != kOk) return s;
      if (!text.empty() && !word.empty())
        s = finder.match(id, {word.data(), word.size()}, text.sub(0, kMostBytes));
    }
    if (s != kOk) return s;
  }
  return kOk;
}

}  // namespace gcrt
