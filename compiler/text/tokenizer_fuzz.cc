// libFuzzer's entry: the first byte chooses a tokenizer and how text is encoded, the rest is the text. Ids are in the
// vocabulary, the same text gives the same ids, and kinds that lose nothing give the text back.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "compiler/text/freeze.h"
#include "compiler/text/test_vocab.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/utf8.h"

namespace {

// The 256 bytes as vocabularies of byte-level BPE write them.
std::string spell(unsigned byte) {
  const auto is_printable = [](unsigned b) {
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
  };
  unsigned others = 0;
  for (unsigned b = 0; b < byte; ++b) others += !is_printable(b);
  gcrt::Vec<char> out;
  if (!gcrt::utf8_append(is_printable(byte) ? byte : 0x100 + others, out)) std::abort();
  return {out.data(), out.size()};
}

struct Made {
  gc::text::FrozenVocab frozen;
  gcrt::Tokenizer tokenizer;
  bool lossless = false, loses_2581 = false;

  explicit Made(gc::text::TestVocab& v, const std::string& model, bool keeps)
      : lossless(keeps), loses_2581(model == "llama") {
    v.vocab.model = model;
    v.vocab.add_space_prefix = false;
    v.vocab.add_bos = true;
    frozen = gc::text::freeze(v.vocab, {0, "", false, "llama"});
    if (tokenizer.open({frozen.blob.data(), frozen.blob.size()}) != gcrt::kOk) std::abort();
  }
};

void add_words(gc::text::TestVocab& v, const char* space) {
  const std::vector<std::string> parts = {"a",  "ab",     "he",     "ll", "o",  "1",
                                          "12", "\u00e9", "\u65e5", ".",  "''", space};
  float score = -1;
  for (const std::string& p : parts) {
    v.add(p, score--);
    for (const std::string& q : parts) v.add(p + q, score--);
  }
}

// A list, so that nothing moves what views point into.
std::deque<Made>& all() {
  static std::deque<gc::text::TestVocab> vocabs;
  static std::deque<std::string> merges;
  static std::deque<Made> made;
  if (!made.empty()) return made;
  add_words(vocabs.emplace_back(), "\u2581");
  made.emplace_back(vocabs.back(), "llama", true);
  add_words(vocabs.emplace_back(), "\u2581");
  made.emplace_back(vocabs.back(), "t5", false);
  add_words(vocabs.emplace_back(false), "\u2581");
  vocabs.back().add("[UNK]", 0), vocabs.back().add("[CLS]", 0), vocabs.back().add("[SEP]", 0);
  made.emplace_back(vocabs.back(), "bert", false);
  for (const char* pre :
       {"gpt-2", "llama-bpe", "qwen2", "deepseek-llm", "falcon", "starcoder", "tekken", "gpt-4o"}) {
    gc::text::TestVocab& v = vocabs.emplace_back(false);
    for (unsigned b = 0; b < 256; ++b) v.add(spell(b), 0);
    for (const char* word : {"he", "ll", "hell", "hello", "12", "123"}) v.add(word, 0);
    for (const char* merge : {"h e", "l l", "he ll", "hell o", "1 2", "12 3"}) {
      merges.push_back(merge);
      v.vocab.merges.push_back(merges.back());
    }
    v.vocab.pre = pre;
    made.emplace_back(v, "gpt2", true);
  }
  return made;
}

}  // namespace

// So that no input is charged with it.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  all();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Made& made = all()[data[0] % all().size()];
  const gcrt::Str text(reinterpret_cast<const char*>(data) + 1, size - 1);
  gcrt::EncodeOptions options;
  options.add_special = (data[0] & 0x80) != 0;
  options.parse_special = (data[0] & 0x40) != 0;
  gcrt::Vec<std::int32_t> ids, again;
  if (made.tokenizer.encode(text, options, ids) != gcrt::kOk) std::abort();
  if (made.tokenizer.encode(text, options, again) != gcrt::kOk) std::abort();
  if (ids.size() != again.size()) std::abort();
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] != again[i] || ids[i] < 0 || ids[i] >= made.tokenizer.n_vocab()) std::abort();
  gcrt::Vec<char> back;
  gcrt::DecodeOptions decoding;
  decoding.special = options.parse_special;
  if (made.tokenizer.decode({ids.data(), ids.size()}, decoding, back) != gcrt::kOk) std::abort();
  const std::string written(text.data(), text.size());
  // SentencePiece reads U+2581 as the space that it stands for.
  const bool lossless = made.lossless && (!made.loses_2581 || written.find("\u2581") == std::string::npos);
  if (lossless && !options.add_special && !options.parse_special &&
      std::string(back.data(), back.size()) != written)
    std::abort();
  return 0;
}
