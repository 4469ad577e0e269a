#include "compiler/text/tokenize_tool.h"

#include <cerrno>
#include <fstream>
#include <istream>
#include <iterator>
#include <ostream>
#include <string_view>
#include <vector>

#include "compiler/base/error.h"
#include "nlohmann/json.hpp"
#include "runtime/text/tokenizer.h"

namespace gc::text {
namespace {

std::string read_all(std::istream& in) { return std::string(std::istreambuf_iterator<char>(in), {}); }

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw_errno(errno, "cannot open", path);
  std::string text = read_all(in);
  if (in.bad()) throw_errno(errno, "cannot read", path);
  return text;
}

class Tool {
 public:
  Tool(std::span<const std::uint8_t> blob, const TokenizeOptions& options) : options_(options) {
    GC_CHECK(tokenizer_.open({blob.data(), blob.size()}) == gcrt::kOk, "the frozen vocabulary does not open");
    if (!tokenizer_.available()) throw_user("the file has no tokenizer");
  }

  std::vector<std::int32_t> encode(std::string_view text) const {
    gcrt::Vec<std::int32_t> ids;
    gcrt::EncodeOptions o{!options_.no_bos, options_.special, {}};
    gcrt::Status s = tokenizer_.encode({text.data(), text.size()}, o, ids);
    if (s == gcrt::kErrArgument) throw_user("a text of ", text.size(), " bytes: expected less than 2 GiB");
    GC_CHECK(s == gcrt::kOk, "status ", s);
    return {ids.begin(), ids.end()};
  }

  void print_text(std::string_view text, std::ostream& out) const {
    std::vector<std::int32_t> ids = encode(text);
    if (options_.ids) {
      out << join(ids, ",") << "\n";
      return;
    }
    for (std::int32_t id : ids) {
      gcrt::Vec<char> piece;
      GC_CHECK(tokenizer_.append_piece(id, true, piece) == gcrt::kOk);
      out << id << " " << quote(std::string_view(piece.data(), piece.size())) << "\n";
    }
  }

  void print_line(const std::string& line, std::ostream& out) const {
    // Texts are strings of a JSON document: half a surrogate pair or bytes that are not UTF-8 are errors of theirs.
    nlohmann::json value = nlohmann::json::parse(line, nullptr, false);
    if (!value.is_string()) {
      const char* fault =
          value.is_discarded() ? "the line is not valid JSON" : "the line is not a JSON string";
      out << nlohmann::json{{"error", fault}}.dump() << "\n";
      return;
    }
    out << "[" << join(encode(value.get_ref<const std::string&>()), ",") << "]\n";
  }

 private:
  TokenizeOptions options_;
  gcrt::Tokenizer tokenizer_;
};

}  // namespace

int tokenize(std::span<const std::uint8_t> blob, const TokenizeOptions& options, std::istream& in,
             std::ostream& out) {
  int sources = options.from_stdin + !options.file.empty() + options.json_lines + !options.text.empty();
  if (sources > 1) throw_user("TEXT, --stdin, --file and --json-lines exclude each other");
  Tool tool(blob, options);
  if (options.json_lines) {
    for (std::string line; std::getline(in, line);) {
      tool.print_line(line, out);
      out.flush();
    }
    return 0;
  }
  if (options.from_stdin)
    tool.print_text(read_all(in), out);
  else if (!options.file.empty())
    tool.print_text(read_file(options.file), out);
  else
    tool.print_text(options.text, out);
  return 0;
}

}  // namespace gc::text
