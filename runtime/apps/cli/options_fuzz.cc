// libFuzzer's entry: the first byte chooses a command, line ends part the arguments. Arguments are taken, or refused with a
// message of one line.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <string>
#include <vector>

#include "runtime/apps/cli/options.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::vector<std::string> words = {"model", ""};
  for (size_t i = 1; i < size; ++i) {
    if (data[i] == '\n')
      words.emplace_back();
    else if (data[i] != 0)
      words.back() += static_cast<char>(data[i]);
  }
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  constexpr size_t kCommands = sizeof gcrt::kCommands / sizeof gcrt::kCommands[0];
  const gcrt::Command command = gcrt::kCommands[data[0] % kCommands];
  gcrt::Options options;
  char message[256] = "";
  const gcrt::Status status = gcrt::parse_options(command, static_cast<int>(argv.size()) - 1, argv.data(),
                                                  &options, message, (data[0] & 0x80) != 0);
  if (status != gcrt::kOk && (message[0] == 0 || strchr(message, '\n') != nullptr)) abort();
  return 0;
}
