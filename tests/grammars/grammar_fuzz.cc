// libFuzzer's entry: the first byte tells GBNF from schemas, a line of 0x01 the grammar from a text. What compiles is run over
// the text; what does not must end in a message.
//
//   bazel build --config=asan --copt=-fsanitize=fuzzer-no-link //tests/grammars:grammar_fuzz
//   bazel-bin/tests/grammars/grammar_fuzz -max_len=2048 CORPUS_FOLDER
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "runtime/text/grammar.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const char* begin = reinterpret_cast<const char*>(data) + 1;
  const char* end = begin + size - 1;
  const char* mark = static_cast<const char*>(std::memchr(begin, 1, size - 1));
  const gcrt::Str source(begin, static_cast<std::size_t>((mark ? mark : end) - begin));
  const gcrt::Str text = mark ? gcrt::Str(mark + 1, static_cast<std::size_t>(end - mark - 1)) : gcrt::Str();
  gcrt::Grammar grammar;
  char message[256] = {};
  const gcrt::Status s =
      data[0] & 1 ? grammar.compile_json_schema(source, message) : grammar.compile_gbnf(source, message);
  if (s != gcrt::kOk) {
    if (message[0] == 0) std::abort();
    return 0;
  }
  gcrt::GrammarState state;
  if (state.init(&grammar, nullptr) != gcrt::kOk) std::abort();
  const gcrt::Status accepted = state.accept_bytes(text);
  if (accepted == gcrt::kOk && state.is_dead()) std::abort();
  return 0;
}
