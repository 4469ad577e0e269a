#include "runtime/apps/server/service.h"

#include <sys/random.h>

#include <ctime>
#include <stdexcept>

#include "runtime/apps/server/plain_tools.h"
#include "runtime/apps/server/prompt.h"

namespace gcrt::serve {

std::int64_t now_seconds() { return std::time(nullptr); }

std::string make_id(Service& service, std::string_view prefix) {
  static constexpr char kDigits[] = "abcdefghijklmnopqrstuvwxyz012345";
  unsigned char random[24];
  if (getrandom(random, sizeof random, 0) != sizeof random) {
    std::uint64_t n = service.ids++;
    for (unsigned char& c : random) c = static_cast<unsigned char>(n), n /= 32;
  }
  std::string id(prefix);
  for (const unsigned char c : random) id += kDigits[c % 32];
  return id;
}

void Service::open_text() {
  if (facts.tokenizer != nullptr && tokenizer.open({facts.tokenizer, facts.tokenizer_bytes}) != kOk)
    throw std::runtime_error("the tokenizer in this file is damaged");
  if (facts.chat_program != nullptr && tokenizer.available() &&
      (chat_template.open({facts.chat_program, facts.chat_program_bytes}) != kOk ||
       format.open(facts.chat_output) != kOk))
    throw std::runtime_error("the chat template in this file is damaged");
  plain_tools = plain_tool_format();
  probe_template(*this);
}

}  // namespace gcrt::serve
