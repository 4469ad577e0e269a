// Jinja's grammar, by recursive descent, straight into a program: every rule returns the node that it added. Statements
// are in jinja_parser.cc, expressions in jinja_expressions.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/base/error.h"
#include "compiler/text/jinja_freeze.h"
#include "compiler/text/jinja_lexer.h"

namespace gc::text {

// The executor's limit is 400 nodes deep; a level of the grammar makes at most a few.
inline constexpr int kMaxNesting = 120;

class TemplateParser {
  using Op = gcrt::jinja::Op;
  using Nodes = std::vector<std::uint32_t>;
  static constexpr std::uint32_t kNoNode = gcrt::jinja::kNoNode;

 public:
  TemplateParser(std::string_view source, ProgramBuilder& builder, std::vector<std::string>* warnings)
      : tokens_(lex_template(source)), b_(builder), warnings_(warnings) {}

  // The root of the program. Errors as freeze_template.
  std::uint32_t run();

 private:
  // A filter or test that nobody knows; jinja lets it be in a branch that may never be taken.
  struct Unknown {
    std::uint32_t line;
    std::string what;
    bool conditional;
  };
  struct Nest {
    TemplateParser& p;
    explicit Nest(TemplateParser& parser) : p(parser) {
      if (++p.nesting_ > kMaxNesting) p.fail("nested deeper than ", kMaxNesting, " levels");
    }
    ~Nest() { --p.nesting_; }
  };

  // ---- tokens ----
  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  std::uint32_t line() const { return now().line; }
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw_user("line ", line(), ": ", parts...);
  }
  static bool is(const Token& t, TokenKind kind, std::string_view text) {
    return t.kind == kind && t.text == text;
  }
  bool is_op(std::string_view op) const { return is(now(), TokenKind::kOperator, op); }
  bool is_name(std::string_view name) const { return is(now(), TokenKind::kName, name); }
  bool skip_op(std::string_view op) { return is_op(op) && ++at_; }
  bool skip_name(std::string_view name) { return is_name(name) && ++at_; }
  std::string shown() const;  // the token, for messages
  void expect_op(std::string_view op) {
    if (!skip_op(op)) fail("unexpected ", shown(), ", expected '", op, "'");
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) fail("unexpected ", shown(), ", expected '", name, "'");
  }
  std::string name() {
    if (now().kind != TokenKind::kName) fail("unexpected ", shown(), ", expected a name");
    return tokens_[at_++].text;
  }
  void block_end() {
    if (now().kind != TokenKind::kBlockEnd) fail("unexpected ", shown(), ", expected '%}'");
    ++at_;
  }

  // ---- statements ----
  std::uint32_t body(std::initializer_list<std::string_view> ends);
  std::uint32_t statement();
  std::uint32_t for_statement();
  std::uint32_t if_statement();
  std::uint32_t set_statement();
  std::uint32_t macro_statement();
  std::uint32_t call_statement();
  std::uint32_t with_statement();
  std::uint32_t filter_statement();
  std::uint32_t named_block();
  std::uint32_t loop_control(Op op);
  std::uint32_t macro(const std::string& name, std::uint32_t at, Nodes parameters, std::string_view end);
  Nodes parameters();
  std::uint32_t conditional_body(std::initializer_list<std::string_view> ends) {
    ++conditional_;
    const std::uint32_t node = body(ends);
    --conditional_;
    return node;
  }
  std::uint32_t target(bool with_attribute);
  std::uint32_t one_target();
  std::string end_of_body() { return std::exchange(ended_by_, std::string()); }

  // ---- expressions ----
  std::uint32_t add(Op op, std::uint32_t at, const Nodes& children = {}, std::uint32_t arg = 0,
                    unsigned sub = 0) {
    return b_.add(op, at, children, arg, static_cast<std::uint8_t>(sub));
  }
  std::uint32_t add_named(Op op, std::uint32_t at, std::string_view text, const Nodes& children = {},
                          unsigned sub = 0) {
    return add(op, at, children, b_.string(text), sub);
  }
  std::uint32_t tuple_or_one(bool with_condition, std::string_view stop = {});
  std::uint32_t expression();
  std::uint32_t or_expression();
  std::uint32_t and_expression();
  std::uint32_t not_expression();
  std::uint32_t comparison();
  std::uint32_t sum();
  std::uint32_t concat();
  std::uint32_t product();
  std::uint32_t power();
  std::uint32_t unary(bool with_filter);
  std::uint32_t primary();
  std::uint32_t parenthesis();
  std::uint32_t list();
  std::uint32_t dict();
  std::uint32_t variable();
  std::uint32_t postfix(std::uint32_t node);
  std::uint32_t filters(std::uint32_t node);
  std::uint32_t subscript(std::uint32_t node);
  std::uint32_t subscript_key();
  std::uint32_t call(std::uint32_t callee);
  std::uint32_t filter(std::uint32_t input);
  std::uint32_t test(std::uint32_t value);
  Nodes arguments();
  std::uint32_t unknown(std::uint32_t at, std::string what);
  std::string dotted_name();

  std::vector<Token> tokens_;
  ProgramBuilder& b_;
  std::vector<std::string>* warnings_;
  std::size_t at_ = 0;
  int nesting_ = 0, conditional_ = 0, loops_ = 0;
  std::vector<std::uint8_t> macro_uses_;  // of the macros being parsed
  std::vector<Unknown> unknown_;
  std::string ended_by_;  // the name that ended the last body
};

}  // namespace gc::text
