// libFuzzer's entry: a template, and after a byte 0x01 its context in JSON. It renders, or is refused in one line.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>

#include "compiler/base/error.h"
#include "compiler/text/template_tool.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::size_t mark = all.find('\x01');
  const std::string_view context =
      mark == std::string_view::npos
          ? R"([{"role": "user", "content": "hi"}, {"role": "assistant", "content": null}])"
          : all.substr(mark + 1);
  std::ostringstream out, err;
  try {
    gc::text::apply_template(all.substr(0, mark), context, {.now = 1700000000}, out, err);
  } catch (const gc::InternalError&) {
    std::abort();
  } catch (const gc::Error& error) {
    if (std::strchr(error.what(), '\n') != nullptr || error.what()[0] == 0) std::abort();
  }
  return 0;
}
