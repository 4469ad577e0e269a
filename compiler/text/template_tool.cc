#include "compiler/text/template_tool.h"

#include <ctime>
#include <ostream>

#include "compiler/base/error.h"
#include "compiler/text/jinja_freeze.h"
#include "runtime/text/chat_template.h"

namespace gc::text {

int apply_template(std::string_view template_text, std::string_view context_json,
                   const ApplyTemplateOptions& options, std::ostream& out, std::ostream& err) {
  const FrozenTemplate frozen = freeze_template(template_text);
  for (const std::string& w : frozen.warnings) err << "warning: " << w << "\n";
  gcrt::ChatTemplate chat;
  GC_CHECK(chat.open({frozen.program.data(), frozen.program.size()}) == gcrt::kOk);
  const gcrt::TemplateVariable defaults[] = {
      {"bos_token", {options.bos_token.data(), options.bos_token.size()}},
      {"eos_token", {options.eos_token.data(), options.eos_token.size()}},
  };
  gcrt::RenderOptions o;
  o.defaults = defaults;
  o.now = options.now ? *options.now : static_cast<std::int64_t>(std::time(nullptr));
  if (!options.now) {
    const std::time_t clock = static_cast<std::time_t>(o.now);
    std::tm local{};
    if (localtime_r(&clock, &local)) o.utc_offset = local.tm_gmtoff;
  }
  gcrt::Rendered prompt;
  char message[1024] = {};
  const gcrt::Status s = chat.render({context_json.data(), context_json.size()}, o, prompt, message);
  if (s == gcrt::kErrInput) throw_user(escape_controls(message));
  GC_CHECK(s == gcrt::kOk, "status ", s);
  out.write(prompt.text.data(), static_cast<std::streamsize>(prompt.text.size()));
  return 0;
}

}  // namespace gc::text
