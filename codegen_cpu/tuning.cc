#include "codegen_cpu/tuning.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "compiler/base/error.h"
#include "compiler/base/strings.h"

namespace gc::cpu {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;

std::string first_line(std::string_view compiler) { return cat(compiler, " tuning 1"); }

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

class Parser {
 public:
  std::vector<Tuning> run(std::string_view compiler, std::string_view text) {
    while (!text.empty()) {
      ++line_;
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line_ == 1) {
        if (line != first_line(compiler))
          fail("expected '", first_line(compiler), "', found ", quote(line), "; measure again with --tune");
      } else if (!line.empty()) {
        words(split(line, ' '));
      }
    }
    if (line_ == 0) throw_user("the tuning file is empty");
    return std::move(tunings_);
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) {
    throw_user("line ", line_, ": ", parts...);
  }

  void words(const std::vector<std::string_view>& words) {
    if (words.size() == 2 && words[0] == "isa") {
      for (const Tuning& t : tunings_)
        if (t.isa == words[1]) fail("a second 'isa ", escape_controls(words[1]), "'");
      tunings_.push_back({std::string(words[1]), {}});
      return;
    }
    if (words.size() != 2 + shape_infos().size())
      fail("expected FORMAT COLUMNS and ", shape_infos().size(), " shapes");
    if (tunings_.empty()) fail("a product before the first 'isa' line");
    TunedProduct product{format(words[0]), columns(words[1]), {}};
    for (const TunedProduct& p : tunings_.back().products)
      if (p.format == product.format && p.k == product.k) fail("a second '", words[0], " ", words[1], "'");
    for (std::size_t i = 0; i < shape_infos().size(); ++i)
      shape(words[2 + i], shape_infos()[i], product.shapes);
    tunings_.back().products.push_back(product);
  }
  Format format(std::string_view text) {
    for (const FormatInfo& f : all_formats())
      if (f.text_name == text) return f.format;
    fail("format ", quote(text), " is not known");
  }
  std::int64_t columns(std::string_view text) {
    const auto n = number(text);
    if (!n || *n <= 0) fail("columns ", quote(text), " is not a positive number");
    return *n;
  }
  void shape(std::string_view text, const ShapeInfo& info, RowShapes& shapes) {
    const std::string begin = cat(info.name, "=");
    const auto n = text.starts_with(begin) ? number(text.substr(begin.size())) : std::nullopt;
    if (!n || *n < info.least || *n > info.most)
      fail("expected ", begin, "N, N from ", info.least, " to ", info.most, ", found ", quote(text));
    shapes.*info.member = *n;
  }

  std::size_t line_ = 0;
  std::vector<Tuning> tunings_;
};

}  // namespace

std::string print_tuning(std::string_view compiler, const std::vector<Tuning>& tunings) {
  std::string text = first_line(compiler) + "\n";
  for (const Tuning& t : tunings) {
    text += cat("isa ", t.isa, "\n");
    for (const TunedProduct& p : t.products) {
      text += cat(info(p.format).text_name, " ", p.k);
      for (const ShapeInfo& shape : shape_infos()) text += cat(" ", shape.name, "=", p.shapes.*shape.member);
      text += "\n";
    }
  }
  return text;
}

std::vector<Tuning> parse_tuning(std::string_view compiler, std::string_view text) {
  if (text.size() > kMostBytes) throw_user("a tuning file of ", text.size(), " bytes; it has a few hundred");
  return Parser().run(compiler, text);
}

const Tuning& tuning_for(const std::vector<Tuning>& tunings, const Isa& isa,
                         const std::vector<TunedProduct>& products) {
  for (const Tuning& t : tunings) {
    if (t.isa != isa.name) continue;
    for (const TunedProduct& wanted : products) {
      const bool found = std::any_of(t.products.begin(), t.products.end(), [&](const TunedProduct& p) {
        return p.format == wanted.format && p.k == wanted.k;
      });
      if (!found)
        throw_user("no shapes for ", info(wanted.format).text_name, " with ", wanted.k, " columns on ",
                   isa.name, ": the file was measured for another model");
    }
    return t;
  }
  throw_user("no shapes for ", isa.name, "; the file has them for ",
             tunings.empty() ? std::string("no ISA") : escape_controls(tunings.front().isa));
}

}  // namespace gc::cpu
