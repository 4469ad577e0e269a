// libFuzzer's entry: a format, and any text as its answer. The text must come apart the same way whole and byte for
// byte, and a call that is complete must have an offered tool's name and one JSON object.
// tests/output/corpus.py makes a corpus of the known answers.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/text/output/parser.h"
#include "runtime/text/utf8.h"

static void check(bool ok) {
  if (!ok) abort();
}

namespace gcrt {
namespace {

constexpr Str kTools =
    R"([{"function":{"name":"f","parameters":{"type":"object","properties":{"s":{"type":"string"},"n":{"type":"integer"},)"
    R"("o":{"type":"object","properties":{"l":{"type":"array","items":{"type":["number","string"]}}}},"x":{}}}}},)"
    R"({"function":{"name":"roll_dice","parameters":{"type":"object","properties":{"sides":{"type":"integer"},)"
    R"("count":{"type":"integer"}}}}},{"function":{"name":"send_sms","parameters":{"type":"object","properties":)"
    R"({"to":{"type":"string"},"text":{"type":["string","null"]}}}}},{"name":"clock_now"}])";

void check_calls(const OutputParser& p) {
  for (size_t i = 0; i < p.calls(); ++i) {
    if (!p.call(i).complete) continue;
    Vec<char> json;
    char kind = 0;
    check(whole_json(str(p.call(i).arguments), JsonValue::Dialect::kJson, json, &kind) ==
          JsonValue::Result::kDone);
    check(kind == '{' && str(json) == str(p.call(i).arguments));
  }
}

void fuzz(const OutputFormat& format, const ToolSet& tools, const OutputOptions& options, Str text,
          size_t step) {
  OutputParser whole, cut;
  check(whole.begin(format, tools, options) == kOk && cut.begin(format, tools, options) == kOk);
  Status a = whole.push(text);
  if (a == kOk) a = whole.finish();
  Status b = kOk;
  size_t content = 0, reasoning = 0, arguments = 0;
  for (size_t i = 0; i < text.size() && b == kOk; i += step) {
    b = cut.push(text.sub(i, step));
    for (const OutputDelta& d : cut.deltas()) {  // each goes on where the one before ended
      if (d.kind == OutputDelta::kCallBegin) arguments = 0;
      if (d.kind > OutputDelta::kReasoning && d.kind != OutputDelta::kArguments) continue;
      size_t& at = d.kind == OutputDelta::kContent     ? content
                   : d.kind == OutputDelta::kReasoning ? reasoning
                                                       : arguments;
      check(d.begin == at && d.end > d.begin);
      at = d.end;
    }
    cut.clear_deltas();
  }
  if (b == kOk) b = cut.finish();
  check(a == b && (a == kOk || a == kErrInput));
  check(whole.content() == cut.content() && whole.reasoning() == cut.reasoning() &&
        whole.calls() == cut.calls());
  for (size_t i = 0; i < whole.calls(); ++i) {
    check(str(whole.call(i).arguments) == str(cut.call(i).arguments) &&
          str(whole.call(i).id) == str(cut.call(i).id));
    check(whole.call(i).complete == cut.call(i).complete && whole.call(i).tool == cut.call(i).tool);
  }
  check_calls(whole);
}

}  // namespace
}  // namespace gcrt

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gcrt;
  if (size < 2) return 0;
  OutputFormat format;
  check(format.open(frozen_output(static_cast<uint16_t>(data[0] % output_rows().size()), 0)) == kOk);
  ToolSet tools;
  check(tools.open(data[1] & 4 ? Str() : kTools) == kOk);
  OutputOptions options;
  options.in_reasoning = data[1] & 1;
  options.parallel_calls = !(data[1] & 2);
  Vec<char> text;  // UTF-8, as it comes out of the tokens' stream
  Utf8Stream stream(Utf8Stream::Invalid::kReplace);
  check(stream.push({reinterpret_cast<const char*>(data + 2), size - 2}, text) == kOk &&
        stream.finish(text) == kOk);
  fuzz(format, tools, options, str(text), data[1] & 8 ? 5 : 1);
  return 0;
}
