#include "compiler/ir/lexer.h"

#include <charconv>
#include <cmath>

#include "compiler/base/error.h"

namespace gc::ir {
namespace {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '-' || c == '+';
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Lexer::Lexer(std::string_view text, std::string_view file) : text_(text), file_(file) { scan(); }

void Lexer::fail(const Token& at, std::string_view message) const {
  throw_user(file_, ":", at.line, ":", at.column, ": ", message);
}

void Lexer::fail_here(std::string_view message) const {
  throw_user(file_, ":", line_, ":", column_, ": ", message);
}

Token Lexer::next() {
  Token t = std::move(token_);
  scan();
  return t;
}

bool Lexer::accept(std::string_view punct_or_word) {
  if (!token_.is(punct_or_word)) return false;
  scan();
  return true;
}

void Lexer::expect(std::string_view punct_or_word) {
  if (accept(punct_or_word)) return;
  bool end = token_.kind == Token::Kind::End;
  fail(token_, cat("expected '", punct_or_word, "', found ", end ? "the end" : quote(token_.text)));
}

std::string Lexer::name(std::string_view what) {
  if (token_.kind != Token::Kind::Name && token_.kind != Token::Kind::String)
    fail(token_, cat("expected ", what));
  if (token_.text.empty()) fail(token_, cat("empty ", what));
  return next().text;
}

int64_t Lexer::integer(std::string_view what) {
  const std::string& s = token_.text;
  int64_t v = 0;
  auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (token_.kind != Token::Kind::Name || error != std::errc() || end != s.data() + s.size())
    fail(token_, cat("expected ", what, ", an integer"));
  scan();
  return v;
}

double Lexer::number(std::string_view what) {
  const std::string& s = token_.text;
  double v = 0;
  auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (token_.kind != Token::Kind::Name || error != std::errc() || end != s.data() + s.size() ||
      !std::isfinite(v))
    fail(token_, cat("expected ", what, ", a number"));
  scan();
  return v;
}

char Lexer::take() {
  char c = text_[at_++];
  if (c == '\n') {
    line_++;
    column_ = 1;
  } else {
    column_++;
  }
  return c;
}

void Lexer::skip_blank() {
  while (at_ < text_.size()) {
    char c = text_[at_];
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
      take();
    } else if (c == ';' || text_.substr(at_, 2) == "//") {
      while (at_ < text_.size() && text_[at_] != '\n') take();
    } else {
      return;
    }
  }
}

void Lexer::scan() {
  skip_blank();
  token_ = {Token::Kind::End, "", line_, column_};
  if (at_ >= text_.size()) return;
  if (text_.substr(at_, 2) == "->") {
    token_.kind = Token::Kind::Punct;
    token_.text = "->";
    take(), take();
  } else if (is_name_char(text_[at_])) {
    token_.kind = Token::Kind::Name;
    while (at_ < text_.size() && is_name_char(text_[at_]) && text_.substr(at_, 2) != "->")
      token_.text += take();
  } else if (text_[at_] == '"') {
    scan_string();
  } else {
    token_.kind = Token::Kind::Punct;
    token_.text = take();
  }
}

void Lexer::scan_string() {
  token_.kind = Token::Kind::String;
  take();
  while (true) {
    if (at_ >= text_.size() || text_[at_] == '\n') fail_here("a string does not end on its line");
    char c = take();
    if (c == '"') return;
    if (c != '\\') {
      token_.text += c;
      continue;
    }
    if (at_ >= text_.size()) fail_here("a string does not end");
    switch (char e = take()) {
      case '"':
      case '\\':
        token_.text += e;
        break;
      case 'n':
        token_.text += '\n';
        break;
      case 't':
        token_.text += '\t';
        break;
      case 'x': {
        int high = at_ < text_.size() ? hex_digit(text_[at_]) : -1;
        int low = at_ + 1 < text_.size() ? hex_digit(text_[at_ + 1]) : -1;
        if (high < 0 || low < 0) fail_here("\\x needs two hex digits");
        take(), take();
        token_.text += char(high * 16 + low);
        break;
      }
      default:
        fail_here("unknown escape in a string");
    }
  }
}

}  // namespace gc::ir
