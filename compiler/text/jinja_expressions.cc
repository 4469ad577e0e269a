#include <charconv>
#include <cstring>
#include <optional>

#include "compiler/text/jinja_parser.h"
#include "runtime/text/jinja/number.h"

namespace gc::text {

using gcrt::jinja::Compare;

namespace {

gcrt::Str str(std::string_view s) { return {s.data(), s.size()}; }

}  // namespace

std::uint32_t TemplateParser::tuple_or_one(bool with_condition, std::string_view stop) {
  const std::uint32_t at = line();
  Nodes items;
  bool is_tuple = false;
  for (;;) {
    const bool ends = now().kind == TokenKind::kPrintEnd || now().kind == TokenKind::kBlockEnd ||
                      is_op(")") || (!stop.empty() && is_name(stop));
    if (ends) break;
    items.push_back(with_condition ? expression() : or_expression());
    if (!skip_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (items.empty()) fail("unexpected ", shown(), ", expected an expression");
    return items[0];
  }
  return add(Op::kTuple, at, items);
}

std::uint32_t TemplateParser::expression() {
  const Nest nest(*this);
  const std::uint32_t at = line();
  const std::size_t unknown_before = unknown_.size();
  std::uint32_t value = or_expression();
  while (skip_name("if")) {
    const std::uint32_t condition = or_expression();
    const std::uint32_t otherwise = skip_name("else") ? expression() : kNoNode;
    value = add(Op::kCond, at, {condition, value, otherwise});
    for (std::size_t i = unknown_before; i < unknown_.size(); ++i) unknown_[i].conditional = true;
  }
  return value;
}

std::uint32_t TemplateParser::or_expression() {
  std::uint32_t left = and_expression();
  for (std::uint32_t at = line(); skip_name("or"); at = line())
    left = add(Op::kOr, at, {left, and_expression()});
  return left;
}

std::uint32_t TemplateParser::and_expression() {
  std::uint32_t left = not_expression();
  for (std::uint32_t at = line(); skip_name("and"); at = line())
    left = add(Op::kAnd, at, {left, not_expression()});
  return left;
}

std::uint32_t TemplateParser::not_expression() {
  const std::uint32_t at = line();
  if (!skip_name("not")) return comparison();
  const Nest nest(*this);
  return add(Op::kNot, at, {not_expression()});
}

std::uint32_t TemplateParser::comparison() {
  constexpr std::pair<std::string_view, Compare> kSigns[] = {{"==", Compare::kEq}, {"!=", Compare::kNe},
                                                             {"<", Compare::kLt},  {"<=", Compare::kLe},
                                                             {">", Compare::kGt},  {">=", Compare::kGe}};
  const std::uint32_t at = line();
  Nodes parts = {sum()};
  for (;;) {
    std::optional<Compare> how;
    for (const auto& [sign, compare] : kSigns)
      if (is_op(sign)) how = compare, ++at_;
    if (!how && skip_name("in")) how = Compare::kIn;
    if (!how && is_name("not") && is(ahead(), TokenKind::kName, "in")) how = Compare::kNotIn, at_ += 2;
    if (!how) break;
    const std::uint32_t operand_line = line();
    parts.push_back(add(Op::kOperand, operand_line, {sum()}, 0, static_cast<unsigned>(*how)));
  }
  return parts.size() == 1 ? parts[0] : add(Op::kCompare, at, parts);
}

std::uint32_t TemplateParser::sum() {
  std::uint32_t left = concat();
  while (is_op("+") || is_op("-")) {
    const std::uint32_t at = line();
    const Op op = tokens_[at_++].text == "+" ? Op::kAdd : Op::kSub;
    left = add(op, at, {left, concat()});
  }
  return left;
}

std::uint32_t TemplateParser::concat() {
  const std::uint32_t at = line();
  Nodes parts = {product()};
  while (skip_op("~")) parts.push_back(product());
  return parts.size() == 1 ? parts[0] : add(Op::kConcat, at, parts);
}

std::uint32_t TemplateParser::product() {
  constexpr std::pair<std::string_view, Op> kSigns[] = {
      {"*", Op::kMul}, {"/", Op::kDiv}, {"//", Op::kFloorDiv}, {"%", Op::kMod}};
  std::uint32_t left = power();
  for (;;) {
    const std::uint32_t at = line();
    std::optional<Op> op;
    for (const auto& [sign, o] : kSigns)
      if (is_op(sign)) op = o;
    if (!op) return left;
    ++at_;
    left = add(*op, at, {left, power()});
  }
}

std::uint32_t TemplateParser::power() {
  std::uint32_t left = unary(true);
  for (std::uint32_t at = line(); skip_op("**"); at = line()) left = add(Op::kPow, at, {left, unary(true)});
  return left;
}

std::uint32_t TemplateParser::unary(bool with_filter) {
  const Nest nest(*this);
  const std::uint32_t at = line();
  std::uint32_t node;
  if (skip_op("-"))
    node = add(Op::kNeg, at, {unary(false)});
  else if (skip_op("+"))
    node = add(Op::kPos, at, {unary(false)});
  else
    node = postfix(primary());
  return with_filter ? filters(node) : node;
}

std::uint32_t TemplateParser::primary() {
  const Token& t = now();
  switch (t.kind) {
    case TokenKind::kName:
      return variable();
    case TokenKind::kString: {
      std::string text;
      while (now().kind == TokenKind::kString) text += tokens_[at_++].text;  // neighbours are one
      return add_named(Op::kString, t.line, text);
    }
    case TokenKind::kInteger: {
      std::int64_t v = 0;
      const auto r = std::from_chars(t.text.data(), t.text.data() + t.text.size(), v);
      if (r.ec != std::errc()) fail("the number ", t.text, " is too large");
      ++at_;
      return add(Op::kInt, t.line, {}, b_.number(static_cast<std::uint64_t>(v)));
    }
    case TokenKind::kFloat: {
      double v = 0;
      std::uint64_t bits;
      if (!gcrt::jinja::parse_float(str(t.text), &v)) fail("the number ", t.text, " is malformed");
      std::memcpy(&bits, &v, sizeof bits);
      ++at_;
      return add(Op::kFloat, t.line, {}, b_.number(bits));
    }
    default:
      break;
  }
  if (is_op("(")) return parenthesis();
  if (is_op("[")) return list();
  if (is_op("{")) return dict();
  fail("unexpected ", shown());
}

std::uint32_t TemplateParser::variable() {
  const std::uint32_t at = line();
  const std::string n = name();
  if (n == "true" || n == "True") return add(Op::kTrue, at);
  if (n == "false" || n == "False") return add(Op::kFalse, at);
  if (n == "none" || n == "None") return add(Op::kNone, at);
  if (n == "self" || n == "super") throw_unsupported("line ", at, ": '", n, "' in a chat template");
  for (std::uint8_t& uses : macro_uses_) {
    if (n == "varargs") uses |= gcrt::jinja::kUsesVarargs;
    if (n == "kwargs") uses |= gcrt::jinja::kUsesKwargs;
    if (n == "caller") uses |= gcrt::jinja::kUsesCaller;
  }
  return add_named(Op::kName, at, n);
}

std::uint32_t TemplateParser::parenthesis() {
  const std::uint32_t at = line();
  expect_op("(");
  if (skip_op(")")) return add(Op::kTuple, at);
  const std::uint32_t node = tuple_or_one(true);
  expect_op(")");
  return node;
}

std::uint32_t TemplateParser::list() {
  const std::uint32_t at = line();
  Nodes items;
  expect_op("[");
  while (!is_op("]")) {
    if (!items.empty()) expect_op(",");
    if (is_op("]")) break;
    items.push_back(expression());
  }
  expect_op("]");
  return add(Op::kList, at, items);
}

std::uint32_t TemplateParser::dict() {
  const std::uint32_t at = line();
  Nodes pairs;
  expect_op("{");
  while (!is_op("}")) {
    if (!pairs.empty()) expect_op(",");
    if (is_op("}")) break;
    const std::uint32_t key = expression();
    expect_op(":");
    const std::uint32_t value = expression();
    pairs.push_back(add(Op::kPair, at, {key, value}));
  }
  expect_op("}");
  return add(Op::kDict, at, pairs);
}

std::uint32_t TemplateParser::postfix(std::uint32_t node) {
  for (;;) {
    if (is_op(".") || is_op("["))
      node = subscript(node);
    else if (is_op("("))
      node = call(node);
    else
      return node;
  }
}

std::uint32_t TemplateParser::filters(std::uint32_t node) {
  for (;;) {
    if (skip_op("|"))
      node = filter(node);
    else if (skip_name("is"))
      node = test(node);
    else if (is_op("("))
      node = call(node);  // after a filter a call is one of its result
    else
      return node;
  }
}

std::uint32_t TemplateParser::subscript(std::uint32_t node) {
  const std::uint32_t at = line();
  if (skip_op(".")) {
    if (now().kind == TokenKind::kInteger) return add(Op::kGetItem, at, {node, primary()});
    return add_named(Op::kGetAttr, at, name(), {node});
  }
  expect_op("[");
  Nodes keys;
  while (!is_op("]")) {
    if (!keys.empty()) expect_op(",");
    keys.push_back(subscript_key());
  }
  expect_op("]");
  if (keys.empty()) fail("expected a key between [ and ]");
  if (keys.size() == 1) return add(Op::kGetItem, at, {node, keys[0]});
  for (std::uint32_t k : keys)
    if (b_.node(k).op == Op::kSlice) throw_unsupported("line ", at, ": a slice within several keys");
  return add(Op::kGetItem, at, {node, add(Op::kTuple, at, keys)});
}

std::uint32_t TemplateParser::subscript_key() {
  const std::uint32_t at = line();
  auto absent = [this] { return is_op(":") || is_op("]") || is_op(","); };
  Nodes parts = {kNoNode, kNoNode, kNoNode};
  if (!is_op(":")) {
    const std::uint32_t first = expression();
    if (!is_op(":")) return first;
    parts[0] = first;
  }
  expect_op(":");
  if (!absent()) parts[1] = expression();
  if (skip_op(":") && !absent()) parts[2] = expression();
  return add(Op::kSlice, at, parts);
}

TemplateParser::Nodes TemplateParser::arguments() {
  Nodes args;
  bool named = false;
  expect_op("(");
  while (!is_op(")")) {
    if (!args.empty()) expect_op(",");
    if (is_op(")")) break;
    const std::uint32_t at = line();
    if (skip_op("*")) {
      args.push_back(add(Op::kSpread, at, {expression()}));
    } else if (skip_op("**")) {
      args.push_back(add(Op::kSpreadDict, at, {expression()}));
      named = true;
    } else if (now().kind == TokenKind::kName && is(ahead(), TokenKind::kOperator, "=")) {
      const std::string key = name();
      expect_op("=");
      args.push_back(add_named(Op::kKeyword, at, key, {expression()}));
      named = true;
    } else {
      if (named) fail("a positional argument after a keyword argument");
      args.push_back(expression());
    }
  }
  expect_op(")");
  return args;
}

std::uint32_t TemplateParser::call(std::uint32_t callee) {
  const std::uint32_t at = line();
  const gcrt::jinja::Node& c = b_.node(callee);
  if (c.op == Op::kGetAttr && gcrt::jinja::is_missing_method(str(b_.text(c.arg))))
    throw_unsupported("line ", at, ": the method '", b_.text(c.arg), "'");
  if (c.op == Op::kName && b_.text(c.arg) == "lipsum")
    throw_unsupported("line ", at, ": the function 'lipsum'");
  Nodes parts = arguments();
  parts.insert(parts.begin(), callee);
  return add(Op::kCall, at, parts);
}

std::string TemplateParser::dotted_name() {
  std::string n = name();
  while (skip_op(".")) n += "." + name();
  return n;
}

std::uint32_t TemplateParser::unknown(std::uint32_t at, std::string what) {
  unknown_.push_back({at, what, conditional_ > 0});
  return add_named(Op::kFail, at, what + ".");
}

std::uint32_t TemplateParser::filter(std::uint32_t input) {
  const std::uint32_t at = line();
  const std::string n = dotted_name();
  Nodes parts = {input};
  if (is_op("("))
    for (std::uint32_t a : arguments()) parts.push_back(a);
  const int id = gcrt::jinja::find_filter(str(n));
  if (id == gcrt::jinja::kNotFound) return unknown(at, cat("No filter named ", quote(n)));
  const gcrt::Str known = gcrt::jinja::filter_parameters(static_cast<gcrt::jinja::FilterId>(id));
  for (std::size_t i = 1; i < parts.size() && known != "*"; ++i) {
    const gcrt::jinja::Node& a = b_.node(parts[i]);
    if (a.op != Op::kKeyword) continue;
    bool found = false;
    for (gcrt::Str rest = known; !rest.empty();)
      found |= gcrt::jinja::next_parameter(&rest) == str(b_.text(a.arg));
    if (!found) throw_user("line ", at, ": the filter '", n, "' has no argument ", quote(b_.text(a.arg)));
  }
  return add(Op::kFilter, at, parts, 0, static_cast<unsigned>(id));
}

std::uint32_t TemplateParser::test(std::uint32_t value) {
  const std::uint32_t at = line();
  const bool negated = skip_name("not");
  const std::string n = dotted_name();
  Nodes parts = {value};
  const TokenKind k = now().kind;
  if (is_op("(")) {
    for (std::uint32_t a : arguments()) parts.push_back(a);
  } else if ((k == TokenKind::kName || k == TokenKind::kString || k == TokenKind::kInteger ||
              k == TokenKind::kFloat || is_op("[") || is_op("{")) &&
             !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) fail("tests cannot be chained with 'is'");
    parts.push_back(postfix(primary()));
  }
  const int id = gcrt::jinja::find_test(str(n));
  if (id == gcrt::jinja::kNotFound) return unknown(at, cat("No test named ", quote(n)));
  const std::uint32_t node = add(Op::kTest, at, parts, 0, static_cast<unsigned>(id));
  return negated ? add(Op::kNot, at, {node}) : node;
}

}  // namespace gc::text
