#include "runtime/apps/server/infill.h"

#include "runtime/apps/server/api_error.h"

namespace gcrt::serve {
namespace {

// Other files come first. Models that have tokens for it (Qwen 2.5 Coder) name a repository, then each file; for the others
// they are texts apart from one another.
class Builder {
 public:
  explicit Builder(const Service& service) : service_(service), meta_(service.tokenizer.meta()) {}

  void token(std::int32_t id) { prompt_.ids.push_back(id); }
  // What people write has no control tokens.
  void text(std::string_view s) {
    for (const std::int32_t id : tokenize(service_, s, false, false)) token(id);
    prompt_.text += s;
  }
  void extra(const json::value& files) {
    if (files.is_null()) return;
    if (!files.is_array()) wrong();
    if (files.get_array().empty()) return;
    if (meta_.fim_rep >= 0) token(meta_.fim_rep), text("project\n");
    for (const json::value& file : files.get_array()) {
      const json::object* o = file.if_object();
      const json::value* name = o != nullptr ? find(*o, "filename") : nullptr;
      const json::value* content = o != nullptr ? find(*o, "text") : nullptr;
      if (content == nullptr || !content->is_string() || (name != nullptr && !name->is_string())) wrong();
      begin_file(name != nullptr ? view_of(*name) : "file");
      text(view_of(*content));
    }
    if (meta_.fim_sep >= 0) begin_file("this");
  }
  Prompt take() { return std::move(prompt_); }

 private:
  static std::string_view view_of(const json::value& v) {
    return {v.get_string().data(), v.get_string().size()};
  }
  [[noreturn]] static void wrong() {
    bad_request("'input_extra': expected a list of {\"filename\", \"text\"}", "input_extra");
  }
  void begin_file(std::string_view name) {
    if (meta_.fim_sep < 0) return text("\n\n");
    token(meta_.fim_sep);
    text(std::string(name) + "\n");
  }

  const Service& service_;
  const frozen::Meta& meta_;
  Prompt prompt_;
};

}  // namespace

Prompt infill_prompt(const Service& service, const Params& p) {
  if (!service.tokenizer.available()) not_supported("this model has no tokenizer");
  const frozen::Meta& meta = service.tokenizer.meta();
  if (meta.fim_pre < 0 || meta.fim_suf < 0 || meta.fim_mid < 0)
    not_supported("this model fills no gaps: its vocabulary has no tokens for the prefix, suffix and middle");
  if (!p.prompt.is_null() && !p.prompt.is_string()) bad_request("'prompt': expected a string", "prompt");
  Builder b(service);
  for (const std::int32_t id : tokenize(service, "", true, false))
    if (!service.tokenizer.is_eog(id)) b.token(id);
  b.extra(p.input_extra);
  b.token(meta.fim_pre);
  b.text(p.input_prefix + (p.prompt.is_string() ? std::string(p.prompt.get_string()) : std::string()));
  b.token(meta.fim_suf);
  b.text(p.input_suffix);
  b.token(meta.fim_mid);
  return b.take();
}

}  // namespace gcrt::serve
