// Masks over a real vocabulary: how long a token waits for its mask along an answer, and with --check whether every
// bit is right (each token tried by itself).
//
//   bazel run -c opt //tests/grammars:mask_bench -- MODEL.gguf [--check] [(GRAMMAR.gbnf | SCHEMA.json) TEXT_FILE...]
//
// Without a grammar: those of this folder, along its answers/.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "compiler/base/error.h"
#include "compiler/base/mapped_file.h"
#include "compiler/text/freeze.h"
#include "frontends/gguf/reader.h"
#include "frontends/gguf/vocab.h"
#include "runtime/text/grammar.h"

namespace {

// Of the thread, not of the wall: neighbours on the machine don't count.
struct Clock {
  static double now() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
  }
};
double us(double from) { return Clock::now() - from; }
gcrt::Str str(const std::string& s) { return {s.data(), s.size()}; }

struct Result {
  std::vector<double> times;
  std::uint64_t wrong = 0;
};

// Bits that are not what trying the token says.
std::uint64_t wrong_bits(gcrt::GrammarState& state, const gcrt::GrammarVocab& vocab,
                         const std::vector<std::uint64_t>& mask) {
  std::uint64_t wrong = 0;
  const gcrt::GrammarState::Mark mark = state.mark();
  for (std::int32_t id = 0; id < vocab.n_vocab(); ++id) {
    const bool allowed = state.accept_token(id) == gcrt::kOk;
    GC_CHECK(state.rewind(mark));
    const bool bit = mask[id / 64] >> (id % 64) & 1;
    if (bit != allowed && wrong++ < 5)
      std::printf("  token %d %s: mask %d, tried %d\n", id,
                  gc::quote(std::string(vocab.text(id).data(), vocab.text(id).size())).c_str(), bit, allowed);
  }
  return wrong;
}

// Follows `text`, always by the longest allowed token that it goes on with.
void follow(gcrt::GrammarState& state, const gcrt::GrammarVocab& vocab, const std::string& text, bool check,
            Result* result) {
  std::vector<std::uint64_t> mask(vocab.mask_words());
  state.reset();
  for (std::size_t at = 0; at <= text.size();) {
    const auto begin = Clock::now();
    const gcrt::Status s = state.fill_mask({mask.data(), mask.size()});
    result->times.push_back(us(begin));
    if (s != gcrt::kOk) throw gc::UserError("status " + std::to_string(s));
    if (check) result->wrong += wrong_bits(state, vocab, mask);
    if (at == text.size()) {
      if (!state.can_end()) gc::throw_user("the text ends too early");
      break;
    }
    // The longest token of the vocabulary's trie that the text goes on with.
    const auto& trie = vocab.trie();
    std::int32_t best = -1;
    for (std::uint32_t i = 0, n = trie.n_nodes(); i < n;) {
      const auto& node = trie[i];
      if (at + node.depth > text.size() ||
          node.byte != static_cast<std::uint8_t>(text[at + node.depth - 1])) {
        i = node.skip;
        continue;
      }
      for (std::int32_t id : trie.own(i))
        if (mask[id / 64] >> (id % 64) & 1) best = id;
      ++i;
    }
    if (best < 0) gc::throw_user("byte ", at, " of the text is not allowed");
    GC_CHECK(state.accept_token(best) == gcrt::kOk);
    at += vocab.text(best).size();
  }
}

void measure(const gcrt::GrammarVocab& vocab, const std::string& path, const std::vector<std::string>& texts,
             bool check) {
  const std::string source = gc::read_text_file(path);
  gcrt::Grammar grammar;
  char message[512] = {};
  double begin = Clock::now();
  const gcrt::Status s = path.ends_with(".json") ? grammar.compile_json_schema(str(source), message)
                                                 : grammar.compile_gbnf(str(source), message);
  if (s != gcrt::kOk) gc::throw_user(message);
  const double compiled = us(begin);
  for (bool prepared : {false, true}) {
    gcrt::GrammarState state;
    GC_CHECK(state.init(&grammar, &vocab) == gcrt::kOk);
    begin = Clock::now();
    if (prepared) GC_CHECK(state.prepare() == gcrt::kOk);
    const double prepare = us(begin);
    Result result;
    for (const std::string& text : texts) follow(state, vocab, gc::read_text_file(text), check, &result);
    double sum = 0, worst = 0;
    for (double t : result.times) sum += t, worst = std::max(worst, t);
    const auto& counts = state.masks()->counts();
    std::printf(
        "%-16s compile %.2f ms, prepare %5.1f ms; %3zu masks: mean %6.1f us, worst %5.0f us; %zu states, "
        "%llu "
        "walks, %llu of %llu kept, %.1f MB\n",
        path.substr(path.rfind('/') + 1).c_str(), compiled * 1e-3, prepare * 1e-3, result.times.size(),
        sum / static_cast<double>(std::max<std::size_t>(1, result.times.size())), worst,
        grammar.program().states.size(), static_cast<unsigned long long>(counts.walks),
        static_cast<unsigned long long>(counts.kept), static_cast<unsigned long long>(counts.fills),
        static_cast<double>(state.machine()->bytes()) * 1e-6);
    if (check) std::printf("  wrong bits: %llu\n", static_cast<unsigned long long>(result.wrong));
    if (check) break;
  }
}

void run(int argc, char** argv) {
  bool check = false;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--check") == 0)
      check = true;
    else
      files.push_back(argv[i]);
  }
  if (files.empty() || files.size() == 2)
    gc::throw_user("usage: mask_bench MODEL.gguf [--check] [GRAMMAR TEXT_FILE...]");
  const gc::gguf::File file = gc::gguf::File::open(files[0]);
  std::vector<std::string> warnings;
  const gc::text::FrozenVocab frozen = gc::text::freeze(
      gc::gguf::read_vocab(file, &warnings), {0, "", false, file.get_string("general.architecture", "")});
  gcrt::Tokenizer tokenizer;
  GC_CHECK(tokenizer.open({frozen.blob.data(), frozen.blob.size()}) == gcrt::kOk);
  gcrt::GrammarVocab vocab;
  const auto begin = Clock::now();
  GC_CHECK(vocab.init(tokenizer) == gcrt::kOk);
  std::printf("vocabulary: %d tokens, %u nodes, %.1f ms\n", vocab.n_vocab(), vocab.trie().n_nodes(),
              us(begin) * 1e-3);

  if (files.size() > 1) return measure(vocab, files[1], {files.begin() + 2, files.end()}, check);
  const std::string folder = "tests/grammars/";
  for (const char* name :
       {"arithmetic.gbnf", "c.gbnf", "chess.gbnf", "english.gbnf", "japanese.gbnf", "json.gbnf", "list.gbnf",
        "person.json", "words.gbnf", "fields.gbnf", "glued.gbnf"}) {
    const std::string stem(name, std::strchr(name, '.'));
    measure(vocab, folder + name, {folder + "answers/" + stem + ".txt"}, check);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc, argv);
    return 0;
  } catch (const gc::Error& e) {
    std::fprintf(stderr, "mask_bench: %s\n", e.what());
    return 1;
  }
}
