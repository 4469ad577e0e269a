#include "runtime/apps/server/json.h"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/src.hpp>
#include <charconv>
#include <unordered_set>
#include <vector>

#include "runtime/apps/server/api_error.h"
#include "runtime/text/utf8.h"

namespace gcrt::serve {
namespace {

constexpr std::size_t kMostDepth = 200;

// Looks for keys that are there twice, of which Boost.JSON would take the last without a word.
struct Keys {
  using Code = json::error_code;
  using Text = json::string_view;
  static constexpr std::size_t max_object_size = std::size_t(-1), max_array_size = std::size_t(-1),
                               max_key_size = std::size_t(-1), max_string_size = std::size_t(-1);

  bool on_object_begin(Code&) {
    objects.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t, Code&) {
    objects.pop_back();
    return true;
  }
  bool on_key_part(Text s, std::size_t, Code&) {
    key.append(s.data(), s.size());
    return true;
  }
  bool on_key(Text s, std::size_t, Code& e) {
    key.append(s.data(), s.size());
    twice = !objects.back().insert(key).second;
    if (twice) e = json::make_error_code(json::error::syntax);
    if (!twice) key.clear();
    return !twice;
  }
  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_array_begin(Code&) { return true; }
  bool on_array_end(std::size_t, Code&) { return true; }
  bool on_string_part(Text, std::size_t, Code&) { return true; }
  bool on_string(Text, std::size_t, Code&) { return true; }
  bool on_number_part(Text, Code&) { return true; }
  bool on_int64(std::int64_t, Text, Code&) { return true; }
  bool on_uint64(std::uint64_t, Text, Code&) { return true; }
  bool on_double(double, Text, Code&) { return true; }
  bool on_bool(bool, Code&) { return true; }
  bool on_null(Code&) { return true; }
  bool on_comment_part(Text, Code&) { return true; }
  bool on_comment(Text, Code&) { return true; }

  std::vector<std::unordered_set<std::string>> objects;
  std::string key;
  bool twice = false;
};

}  // namespace

json::value parse_json(std::string_view text) {
  json::parse_options options;
  options.max_depth = kMostDepth;
  json::error_code e;
  json::stream_parser parser(json::storage_ptr(), options);
  const std::size_t used = parser.write(text.data(), text.size(), e);
  if (!e) parser.finish(e);
  if (text.find_first_not_of(" \t\r\n") == text.npos) bad_request("the body is empty; expected JSON");
  if (e) bad_request("the body is no JSON: " + e.message() + " near byte " + std::to_string(used));
  json::basic_parser<Keys> keys(options);
  keys.write_some(false, text.data(), text.size(), e);
  if (keys.handler().twice) bad_request("the body has '" + keys.handler().key + "' twice in one object");
  return parser.release();
}

std::string dump(const json::value& value) { return json::serialize(value); }

json::string text_value(std::string_view bytes) {
  Utf8Stream stream(Utf8Stream::Invalid::kReplace);
  Vec<char> out;
  if (stream.push(str(bytes), out) != kOk || stream.finish(out) != kOk) throw std::bad_alloc();
  return json::string(out.data(), out.size());
}

double float_value(float x) {
  char text[40];
  const std::to_chars_result end = std::to_chars(text, text + sizeof text, x);
  double out = x;
  std::from_chars(text, end.ptr, out);
  return out;
}

const json::value* find(const json::object& object, std::string_view key) {
  const json::value* v = object.if_contains(key);
  return v != nullptr && !v->is_null() ? v : nullptr;
}

}  // namespace gcrt::serve
