#include "compiler/link/api_header.h"

#include "compiler/base/error.h"

namespace gc::link {
namespace {

constexpr std::string_view kLower = "gcm_", kUpper = "GCM_";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool in_name(char c) { return is_letter(c) || is_digit(c) || c == '_'; }

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return out;
}

// One line of a comment, whatever a model's metadata says.
std::string comment_line(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '/' && !out.empty() && out.back() == '*') out += ' ';
    if (c == '*' && !out.empty() && out.back() == '/') out += ' ';
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\' ? ' ' : c;
  }
  return out;
}

}  // namespace

std::string prefix_from(std::string_view path) {
  std::string_view name = path.substr(path.rfind('/') + 1);
  if (name.starts_with("lib") && name.size() > 3) name.remove_prefix(3);
  for (std::string_view suffix : {".o", ".a", ".so", ".obj"})
    if (name.size() > suffix.size() && name.ends_with(suffix)) {
      name.remove_suffix(suffix.size());
      break;
    }
  std::string out;
  for (char c : name) out += is_letter(c) || is_digit(c) ? c : '_';
  if (out.empty() || !is_letter(out[0])) out.insert(0, "m");
  return out;
}

void check_prefix(std::string_view prefix) {
  bool ok = !prefix.empty() && is_letter(prefix[0]);
  for (char c : prefix) ok = ok && in_name(c);
  if (!ok)
    throw_user("--prefix ", quote(prefix), ": expected a letter, then letters, digits and underscores");
}

std::vector<std::string> api_functions(std::string_view header) {
  constexpr std::string_view kMark = "GCM_API ";
  std::vector<std::string> names;
  for (std::size_t at = header.find(kMark); at != header.npos; at = header.find(kMark, at + 1)) {
    if (at != 0 && header[at - 1] != '\n') continue;
    const std::size_t paren = header.find('(', at);
    GC_CHECK(paren != header.npos);
    std::size_t begin = paren;
    while (in_name(header[begin - 1])) --begin;
    names.emplace_back(header.substr(begin, paren - begin));
    GC_CHECK(names.back().starts_with(kLower), names.back());
  }
  return names;
}

std::string with_prefix(std::string_view text, std::string_view prefix) {
  const std::string lower = cat(prefix, "_"), upper_prefix = upper(lower);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const bool fresh = at == 0 || !in_name(text[at - 1]);
    const std::string_view rest = text.substr(at);
    if (fresh && (rest.starts_with(kLower) || rest.starts_with(kUpper))) {
      out += rest[0] == 'g' ? lower : upper_prefix;
      at += kLower.size();
    } else {
      out += text[at++];
    }
  }
  return out;
}

std::string make_header(std::string_view header, std::string_view prefix,
                        const std::vector<std::string>& about) {
  std::string out = "/*";
  for (const std::string& line : about)
    out += cat(&line == about.data() ? " " : " * ", comment_line(line), "\n");
  return out + " */\n" + with_prefix(header, prefix);
}

}  // namespace gc::link
