// Tokens of the text form, with positions for errors. Private to parse.cc.
#pragma once

#include <string>
#include <string_view>

namespace gc::ir {

struct Token {
  enum class Kind { End, Name, String, Punct };
  Kind kind = Kind::End;
  std::string text;  // of a string: unescaped
  int line = 1, column = 1;
  bool is(std::string_view punct_or_word) const {
    return (kind == Kind::Punct || kind == Kind::Name) && text == punct_or_word;
  }
};

// One token ahead. Names are runs of [A-Za-z0-9_.-], numbers among them ("1e-06", "-3").
class Lexer {
 public:
  Lexer(std::string_view text, std::string_view file);

  const Token& peek() const { return token_; }
  Token next();
  bool accept(std::string_view punct_or_word);
  void expect(std::string_view punct_or_word);
  std::string name(std::string_view what);  // a name or a string literal
  int64_t integer(std::string_view what);
  double number(std::string_view what);
  [[noreturn]] void fail(const Token& at, std::string_view message) const;

 private:
  void scan();
  void skip_blank();
  void scan_string();
  char take();
  [[noreturn]] void fail_here(std::string_view message) const;

  std::string_view text_;
  std::string file_;
  size_t at_ = 0;
  int line_ = 1, column_ = 1;
  Token token_;
};

}  // namespace gc::ir
