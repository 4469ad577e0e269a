#include "runtime/text/jinja/executor.h"

namespace gcrt {
namespace jinja {

bool Executor::run(const Value& context, Build& out) {
  loop_name_ = find_string("loop"), caller_name_ = find_string("caller");
  varargs_name_ = find_string("varargs"), kwargs_name_ = find_string("kwargs");
  Scope* globals = push(nullptr);
  if (!globals) return false;
  for (uint32_t i = 0; i < context.n; ++i) {
    const Entry& e = context.entries[i];
    const uint32_t id = find_string(e.key.str());
    if (id != kNoNode && !define(globals, id, e.value)) return false;
  }
  scope_ = push(globals);
  out_ = &out;
  return scope_ && execute(p_.root()) != Flow::kFail;
}

uint32_t Executor::find_string(Str s) const {
  for (uint32_t i = 0; i < p_.n_strings(); ++i)
    if (p_.text(i) == s) return i;
  return kNoNode;
}

Scope* Executor::push(Scope* parent) {
  Scope* s = m_.make<Scope>();
  if (s) s->parent = parent;
  return s;
}

bool Executor::define(Scope* scope, uint32_t name, const Value& v) {
  for (Variable* var = scope->first; var; var = var->next)
    if (var->name == name) {
      var->value = v;
      return true;
    }
  Variable* var = m_.make<Variable>();
  if (!var) return false;
  *var = {name, v, scope->first};
  scope->first = var;
  return true;
}

Value Executor::make_macro(uint32_t node) {
  Value v;
  Macro* macro = m_.make<Macro>();
  if (macro) *macro = {node, scope_};
  v.kind = Kind::kMacro;
  v.macro = macro;
  return v;
}

Executor::Flow Executor::execute(uint32_t node) {
  if (node == kNoNode) return Flow::kNext;
  const Node& n = p_.node(node);
  if (!m_.spend(1) || ++depth_ > kMaxDepth) {
    m_.fail("the template is nested too deep");
    if (!m_.line) m_.line = n.line;
    return Flow::kFail;
  }
  const Flow flow = n.op == Op::kFor ? for_statement(node)
                    : n.op == Op::kMacro
                        ? (define(scope_, n.arg, make_macro(node)) && !m_.failed ? Flow::kNext : Flow::kFail)
                        : execute_one(n);
  --depth_;
  if (flow == Flow::kFail && !m_.line) m_.line = n.line;
  return flow;
}

Executor::Flow Executor::execute_one(const Node& n) {
  switch (n.op) {
    case Op::kText:
      return out_->put(Text(p_.text(n.arg))) ? Flow::kNext : Flow::kFail;
    case Op::kPrint:
      return print(p_.child(n, 0)) ? Flow::kNext : Flow::kFail;
    case Op::kBlock:
      return block(n);
    case Op::kIf:
      return if_statement(n);
    case Op::kSet: {
      Value v;
      return evaluate(p_.child(n, 1), &v) && assign(p_.child(n, 0), v) ? Flow::kNext : Flow::kFail;
    }
    case Op::kSetBlock:
      return set_block(n);
    case Op::kCallBlock:
      return call_block(n);
    case Op::kFilterBlock:
      return filter_block(n);
    case Op::kWith:
      return with(n);
    case Op::kBreak:
      return Flow::kBreak;
    case Op::kContinue:
      return Flow::kContinue;
    default:
      m_.fail("the template's program is damaged");
      return Flow::kFail;
  }
}

Executor::Flow Executor::block(const Node& n) {
  for (uint32_t k = 0; k < n.n; ++k) {
    const Flow flow = execute(p_.child(n, k));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Executor::Flow Executor::if_statement(const Node& n) {
  Value v;
  if (!evaluate(p_.child(n, 0), &v)) return Flow::kFail;
  if (truth(v)) return execute(p_.child(n, 1));
  return n.n > 2 ? execute(p_.child(n, 2)) : Flow::kNext;
}

bool Executor::print(uint32_t expression) {
  Value v;
  return evaluate(expression, &v) && put_text(m_, *out_, v);
}

// ---- Loops ----

Executor::Flow Executor::for_statement(uint32_t index) {
  const Node& n = p_.node(index);
  if (n.n < 4) return m_.fail("the template's program is damaged"), Flow::kFail;
  Value over;
  Span<const Value> items;
  if (!evaluate(p_.child(n, 1), &over) || !iterate(m_, over, &items)) return Flow::kFail;
  return loop(index, items, 0);
}

bool Executor::filtered(const Node& n, Span<const Value> items, Span<const Value>* out) {
  *out = items;
  if (p_.child(n, 2) == kNoNode) return true;
  ListBuild kept(m_);
  Scope* const outer = scope_;
  for (const Value& item : items) {
    Value keep;
    scope_ = push(outer);
    if (!scope_ || !assign(p_.child(n, 0), item) || !evaluate(p_.child(n, 2), &keep)) return false;
    if (truth(keep) && !kept.push(item)) return false;
  }
  scope_ = outer;
  *out = {kept.items(), kept.size()};
  return true;
}

Executor::Flow Executor::loop(uint32_t index, Span<const Value> all, uint32_t depth) {
  const Node& n = p_.node(index);
  Span<const Value> items;
  if (!filtered(n, all, &items)) return Flow::kFail;
  if (items.empty()) return n.n > 4 ? execute(p_.child(n, 4)) : Flow::kNext;
  LoopState* state = m_.make<LoopState>();
  if (!state) return Flow::kFail;
  Scope* const outer = scope_;
  *state = {items.data(), static_cast<uint32_t>(items.size()), 0, depth, index, outer, {}, false, n.sub != 0};
  Value loop_value;
  loop_value.kind = Kind::kLoop;
  loop_value.loop = state;
  Flow flow = Flow::kNext;
  for (uint32_t i = 0; i < items.size() && flow != Flow::kBreak; ++i) {
    state->at = i;
    scope_ = push(outer);  // what an iteration sets is gone in the next
    if (!scope_ || (loop_name_ != kNoNode && !define(scope_, loop_name_, loop_value)) ||
        !assign(p_.child(n, 0), items[i]))
      return Flow::kFail;
    flow = execute(p_.child(n, 3));
    if (flow == Flow::kFail) return flow;
  }
  scope_ = outer;
  return Flow::kNext;
}

// ---- Assignment ----

bool Executor::assign(uint32_t target, const Value& v) {
  const Node& n = p_.node(target);
  if (n.op == Op::kTargetName) return define(scope_, n.arg, v);
  if (n.op == Op::kTargetAttr) return assign_attribute(n, v);
  return unpack(n, v);
}

bool Executor::unpack(const Node& target, const Value& v) {
  Span<const Value> items;
  if (v.is_number() || v.kind == Kind::kNone)
    return m_.fail("cannot unpack non-iterable ", type_name(v), " object");
  if (++depth_ > kMaxDepth) return m_.fail("the template is nested too deep");
  if (!iterate(m_, v, &items)) return false;
  if (items.size() > target.n) return m_.fail("too many values to unpack (expected ", target.n, ")");
  if (items.size() < target.n)
    return m_.fail("not enough values to unpack (expected ", target.n, ", got ", items.size(), ")");
  for (uint32_t k = 0; k < target.n; ++k)
    if (!assign(p_.child(target, k), items[k])) return false;
  --depth_;
  return true;
}

bool Executor::assign_attribute(const Node& target, const Value& v) {
  Value space;
  if (!name(p_.node(p_.child(target, 0)), &space)) return false;
  if (space.kind != Kind::kNamespace) return m_.fail("cannot assign attribute on non-namespace object");
  Namespace& ns = *space.space;
  const Str key = p_.text(target.arg);
  for (uint32_t i = 0; i < ns.n; ++i)
    if (same_text(ns.entries[i].key, key)) {
      ns.entries[i].value = v;
      return true;
    }
  if (ns.n == ns.capacity) {
    const uint32_t capacity = 2 * ns.capacity + 4;
    Entry* fresh = m_.make<Entry>(capacity);
    if (!fresh) return false;
    for (uint32_t i = 0; i < ns.n; ++i) fresh[i] = ns.entries[i];
    ns.entries = fresh, ns.capacity = capacity;
  }
  ns.entries[ns.n++] = {literal(key), v};
  return true;
}

// ---- Blocks whose output is caught ----

bool Executor::capture(uint32_t body, Scope* parent, Value* out) {
  Build text(m_);
  Build* const outer_out = out_;
  Scope* const outer = scope_;
  out_ = &text;
  scope_ = push(parent);
  const bool ok = scope_ && execute(body) != Flow::kFail;
  out_ = outer_out;
  scope_ = outer;
  if (!ok) return false;
  *out = text.take();
  return true;
}

bool Executor::through(uint32_t filter, const Value& text, Value* out) {
  const Value outer = piped_;
  piped_ = text;
  const bool ok = evaluate(filter, out);
  piped_ = outer;
  return ok;
}

Executor::Flow Executor::set_block(const Node& n) {
  Value text, result;
  if (!capture(p_.child(n, 2), scope_, &text)) return Flow::kFail;
  result = text;
  if (p_.child(n, 1) != kNoNode && !through(p_.child(n, 1), text, &result)) return Flow::kFail;
  return assign(p_.child(n, 0), result) ? Flow::kNext : Flow::kFail;
}

Executor::Flow Executor::filter_block(const Node& n) {
  Value text, result;
  if (!capture(p_.child(n, 1), scope_, &text) || !through(p_.child(n, 0), text, &result)) return Flow::kFail;
  return put_text(m_, *out_, result) ? Flow::kNext : Flow::kFail;
}

Executor::Flow Executor::call_block(const Node& n) {
  const Node& c = p_.node(p_.child(n, 0));
  Value callee, result;
  Args args;
  if (c.op != Op::kCall) return m_.fail("the template's program is damaged"), Flow::kFail;
  if (!evaluate(p_.child(c, 0), &callee) || !arguments(c, &args)) return Flow::kFail;
  NamedArg* named = m_.make<NamedArg>(args.named.size() + 1);
  if (!named) return Flow::kFail;
  for (size_t i = 0; i < args.named.size(); ++i) named[i] = args.named[i];
  named[args.named.size()] = {Str("caller"), make_macro(p_.child(n, 1))};
  args.named = {named, args.named.size() + 1};
  return call_value(callee, args, &result) && put_text(m_, *out_, result) ? Flow::kNext : Flow::kFail;
}

Executor::Flow Executor::with(const Node& n) {
  Scope* const outer = scope_;
  Scope* const inner = push(outer);
  if (!inner) return Flow::kFail;
  for (uint32_t k = 1; k < n.n; ++k) {
    const Node& bind = p_.node(p_.child(n, k));
    Value v;
    if (!evaluate(p_.child(bind, 1), &v)) return Flow::kFail;  // values see the outer scope
    scope_ = inner;
    const bool ok = assign(p_.child(bind, 0), v);
    scope_ = outer;
    if (!ok) return Flow::kFail;
  }
  scope_ = inner;
  const Flow flow = execute(p_.child(n, 0));
  scope_ = outer;
  return flow;
}

}  // namespace jinja
}  // namespace gcrt
