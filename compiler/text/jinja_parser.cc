#include "compiler/text/jinja_parser.h"

namespace gc::text {

std::uint32_t TemplateParser::run() {
  const std::uint32_t root = body({});
  for (const Unknown& u : unknown_) {
    if (!u.conditional) throw_unsupported("line ", u.line, ": ", u.what);
    if (warnings_)
      warnings_->push_back(
          cat("chat template: line ", u.line, ": ", u.what, ": an error where it is reached"));
  }
  return root;
}

std::string TemplateParser::shown() const {
  switch (now().kind) {
    case TokenKind::kEnd:
      return "end of template";
    case TokenKind::kPrintEnd:
      return "'}}'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kPrintBegin:
      return "'{{'";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kData:
      return "text";
    case TokenKind::kString:
      return cat("string ", quote(now().text, 40));
    case TokenKind::kName:
    case TokenKind::kInteger:
    case TokenKind::kFloat:
    case TokenKind::kOperator:
      return quote(now().text, 40);
  }
  return "token";
}

// Statements up to a tag that is named in `ends`, whose name is consumed (its '%}' is not); up to the end of the
// template when there are none.
std::uint32_t TemplateParser::body(std::initializer_list<std::string_view> ends) {
  const Nest nest(*this);
  const std::uint32_t at = line();
  Nodes nodes;
  for (;;) {
    const Token& t = now();
    if (t.kind == TokenKind::kEnd) {
      if (ends.size() == 0) break;
      fail("unexpected end of template: expected '{% ", *(ends.end() - 1),
           " %}' for the block that began at line ", at);
    }
    ++at_;
    if (t.kind == TokenKind::kData) {
      nodes.push_back(add_named(Op::kText, t.line, t.text));
    } else if (t.kind == TokenKind::kPrintBegin) {
      nodes.push_back(add(Op::kPrint, t.line, {tuple_or_one(true)}));
      if (now().kind != TokenKind::kPrintEnd) fail("unexpected ", shown(), ", expected '}}'");
      ++at_;
    } else {
      for (std::string_view end : ends)
        if (is_name(end)) {
          ended_by_ = name();
          return add(Op::kBlock, at, nodes);
        }
      nodes.push_back(statement());
    }
  }
  return add(Op::kBlock, at, nodes);
}

std::uint32_t TemplateParser::statement() {
  const std::uint32_t at = line();
  const std::string tag = name();
  if (tag == "for") return for_statement();
  if (tag == "if") return if_statement();
  if (tag == "set") return set_statement();
  if (tag == "macro") return macro_statement();
  if (tag == "call") return call_statement();
  if (tag == "filter") return filter_statement();
  if (tag == "with") return with_statement();
  if (tag == "block") return named_block();
  if (tag == "break") return loop_control(Op::kBreak);
  if (tag == "continue") return loop_control(Op::kContinue);
  if (tag == "generation") {
    block_end();
    const std::uint32_t node = body({"endgeneration"});
    block_end();
    return node;
  }
  if (tag == "print") {
    Nodes prints;
    while (now().kind != TokenKind::kBlockEnd) {
      if (!prints.empty()) expect_op(",");
      prints.push_back(add(Op::kPrint, at, {expression()}));
    }
    block_end();
    return add(Op::kBlock, at, prints);
  }
  constexpr std::string_view kRefused[] = {"extends",    "include", "import", "from",
                                           "autoescape", "do",      "trans",  "debug"};
  for (std::string_view r : kRefused)
    if (tag == r) throw_unsupported("line ", at, ": the tag '", tag, "' in a chat template");
  throw_user("line ", at, ": unknown tag ", quote(tag));
}

std::uint32_t TemplateParser::loop_control(Op op) {
  const std::uint32_t at = line();
  if (!loops_) fail(op == Op::kBreak ? "'break'" : "'continue'", " outside of a loop");
  block_end();
  return add(op, at);
}

std::uint32_t TemplateParser::one_target() {
  const Nest nest(*this);
  const std::uint32_t at = line();
  if (skip_op("(")) {
    const std::uint32_t inner = target(false);
    expect_op(")");
    return inner;
  }
  const std::string n = name();
  for (std::string_view reserved : {"true", "false", "none", "True", "False", "None"})
    if (n == reserved) throw_user("line ", at, ": cannot assign to '", n, "'");
  return add_named(Op::kTargetName, at, n);
}

std::uint32_t TemplateParser::target(bool with_attribute) {
  const std::uint32_t at = line();
  if (with_attribute && now().kind == TokenKind::kName && is(ahead(), TokenKind::kOperator, ".")) {
    const std::uint32_t space = variable();
    if (b_.node(space).op != Op::kName) fail("cannot assign to an attribute of a constant");
    expect_op(".");
    return add_named(Op::kTargetAttr, at, name(), {space});
  }
  Nodes parts = {one_target()};
  bool is_tuple = false;
  while (skip_op(",")) {
    is_tuple = true;
    if (is_op("=") || is_name("in") || is_op(")")) break;
    parts.push_back(one_target());
  }
  return is_tuple ? add(Op::kTargetTuple, at, parts) : parts[0];
}

std::uint32_t TemplateParser::for_statement() {
  const std::uint32_t at = line();
  const std::uint32_t to = target(false);
  expect_name("in");
  const std::uint32_t over = tuple_or_one(false, "recursive");
  const std::uint32_t filter = skip_name("if") ? expression() : kNoNode;
  const bool recursive = skip_name("recursive");
  block_end();
  ++loops_;
  const std::uint32_t inside = body({"endfor", "else"});
  --loops_;
  std::uint32_t otherwise = kNoNode;
  if (end_of_body() == "else") {
    block_end();
    otherwise = body({"endfor"});
  }
  block_end();
  return add(Op::kFor, at, {to, over, filter, inside, otherwise}, 0, recursive);
}

std::uint32_t TemplateParser::if_statement() {
  // The branches in a flat list first: a long chain of elif must not nest the parser.
  struct Branch {
    std::uint32_t line, test, body;
  };
  std::vector<Branch> branches;
  std::uint32_t otherwise = kNoNode;
  for (;;) {
    const std::uint32_t at = line();
    ++conditional_;
    const std::uint32_t test = tuple_or_one(true);
    --conditional_;
    block_end();
    const std::uint32_t inside = conditional_body({"elif", "else", "endif"});
    branches.push_back({at, test, inside});
    const std::string end = end_of_body();
    if (end == "elif") continue;
    block_end();
    if (end == "endif") break;
    otherwise = conditional_body({"endif"});
    block_end();
    break;
  }
  if (branches.size() > kMaxNesting) fail("more than ", kMaxNesting, " branches in one 'if'");
  for (std::size_t i = branches.size(); i-- > 0;)
    otherwise = add(Op::kIf, branches[i].line, {branches[i].test, branches[i].body, otherwise});
  return otherwise;
}

std::uint32_t TemplateParser::set_statement() {
  const std::uint32_t at = line();
  const std::uint32_t to = target(true);
  if (skip_op("=")) {
    const std::uint32_t value = tuple_or_one(true);
    block_end();
    return add(Op::kSet, at, {to, value});
  }
  std::uint32_t through = kNoNode;
  while (skip_op("|")) through = filter(through);
  block_end();
  const std::uint32_t inside = body({"endset"});
  block_end();
  return add(Op::kSetBlock, at, {to, through, inside});
}

TemplateParser::Nodes TemplateParser::parameters() {
  Nodes params;
  bool has_default = false;
  expect_op("(");
  while (!is_op(")")) {
    if (!params.empty()) expect_op(",");
    if (is_op(")")) break;
    const std::uint32_t at = line();
    const std::string n = name();
    Nodes value = {kNoNode};
    if (skip_op("=")) {
      value[0] = expression();
      has_default = true;
    } else if (has_default) {
      fail("a parameter without a default after one that has one");
    }
    params.push_back(add_named(Op::kParam, at, n, value));
  }
  expect_op(")");
  return params;
}

// From its '%}' on: body and end.
std::uint32_t TemplateParser::macro(const std::string& n, std::uint32_t at, Nodes parameters,
                                    std::string_view end) {
  block_end();
  macro_uses_.push_back(0);
  const int outer_loops = std::exchange(loops_, 0);
  parameters.insert(parameters.begin(), body({end}));
  block_end();
  loops_ = outer_loops;
  const std::uint8_t uses = macro_uses_.back();
  macro_uses_.pop_back();
  return add_named(Op::kMacro, at, n, parameters, uses);
}

std::uint32_t TemplateParser::macro_statement() {
  const std::uint32_t at = line();
  const std::string n = name();
  return macro(n, at, parameters(), "endmacro");
}

std::uint32_t TemplateParser::call_statement() {
  const std::uint32_t at = line();
  const Nodes params = is_op("(") ? parameters() : Nodes();
  const std::uint32_t callee = postfix(primary());
  if (b_.node(callee).op != Op::kCall) fail("expected a call after 'call'");
  const std::uint32_t caller = macro("caller", at, params, "endcall");
  return add(Op::kCallBlock, at, {callee, caller});
}

std::uint32_t TemplateParser::with_statement() {
  const std::uint32_t at = line();
  Nodes parts;
  while (now().kind != TokenKind::kBlockEnd) {
    if (!parts.empty()) expect_op(",");
    const std::uint32_t to = one_target();
    expect_op("=");
    parts.push_back(add(Op::kBind, at, {to, expression()}));
  }
  block_end();
  parts.insert(parts.begin(), body({"endwith"}));
  block_end();
  return add(Op::kWith, at, parts);
}

std::uint32_t TemplateParser::filter_statement() {
  const std::uint32_t at = line();
  std::uint32_t through = filter(kNoNode);
  while (skip_op("|")) through = filter(through);
  block_end();
  const std::uint32_t inside = body({"endfilter"});
  block_end();
  return add(Op::kFilterBlock, at, {through, inside});
}

// Without inheritance a block is its body in a scope of its own.
std::uint32_t TemplateParser::named_block() {
  const std::uint32_t at = line();
  name();
  skip_name("scoped");
  skip_name("required");
  block_end();
  const int outer_loops = std::exchange(loops_, 0);
  const std::uint32_t inside = body({"endblock"});
  loops_ = outer_loops;
  if (now().kind == TokenKind::kName) name();
  block_end();
  return add(Op::kWith, at, {inside});
}

}  // namespace gc::text
