#pragma once
// Runs a program: walks its tree.
#include "runtime/text/jinja/machine.h"

namespace gcrt {
namespace jinja {

class Executor {
 public:
  explicit Executor(Machine& m) : m_(m), p_(m.program) {}

  // `context` is a dict of the template's variables. The output goes to `out`.
  bool run(const Value& context, Build& out);

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue, kFail };

  // ---- executor.cc: statements ----
  Flow execute(uint32_t node);
  Flow execute_one(const Node& n);
  Flow block(const Node& n);
  Flow if_statement(const Node& n);
  Flow for_statement(uint32_t index);
  Flow loop(uint32_t index, Span<const Value> items, uint32_t depth);
  bool filtered(const Node& n, Span<const Value> items, Span<const Value>* out);
  Flow set_block(const Node& n);
  Flow call_block(const Node& n);
  Flow filter_block(const Node& n);
  Flow with(const Node& n);
  bool print(uint32_t expression);
  bool assign(uint32_t target, const Value& v);
  bool assign_attribute(const Node& target, const Value& v);
  bool unpack(const Node& target, const Value& v);
  // Runs `body` in a scope of its own and gives what it printed.
  bool capture(uint32_t body, Scope* parent, Value* out);
  bool through(uint32_t filter, const Value& text, Value* out);

  // ---- evaluate.cc: expressions ----
  bool evaluate(uint32_t node, Value* out);
  bool evaluate_one(uint32_t index, const Node& n, Value* out);
  bool constant(const Node& n, Value* out);
  bool name(const Node& n, Value* out);
  bool sequence_of(const Node& n, Kind kind, Value* out);
  bool dict_of(const Node& n, Value* out);
  bool item(const Node& n, Value* out);
  bool slice(const Node& key, const Value& v, Value* out);
  bool logic(const Node& n, Value* out);
  bool comparison(const Node& n, Value* out);
  bool concat(const Node& n, Value* out);
  bool condition(const Node& n, Value* out);
  bool filter(const Node& n, Value* out);
  bool test(const Node& n, Value* out);
  bool arguments(const Node& n, Args* out);
  bool spread(uint32_t node, ListBuild& positional);
  bool call(const Node& n, Value* out);
  bool call_value(const Value& callee, const Args& args, Value* out);
  bool call_macro(const Macro& macro, const Args& args, Value* out);
  bool bind_macro(const Node& macro, Scope* scope, const Args& args);
  bool bind_rest(const Node& macro, Scope* scope, const Args& args);

  uint32_t find_string(Str s) const;
  Scope* push(Scope* parent);
  bool define(Scope* scope, uint32_t name, const Value& v);
  Value make_macro(uint32_t node);

  Machine& m_;
  const Program& p_;
  Build* out_ = nullptr;
  Scope* scope_ = nullptr;
  Value piped_;  // what a filter without an input works on
  int depth_ = 0;
  uint32_t loop_name_ = kNoNode, caller_name_ = kNoNode, varargs_name_ = kNoNode, kwargs_name_ = kNoNode;
};

}  // namespace jinja
}  // namespace gcrt
