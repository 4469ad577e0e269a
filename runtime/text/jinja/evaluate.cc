#include "runtime/text/jinja/executor.h"

namespace gcrt {
namespace jinja {

bool Executor::evaluate(uint32_t node, Value* out) {
  const Node& n = p_.node(node);
  if (!m_.spend(1) || ++depth_ > kMaxDepth) {
    m_.fail("the template is nested too deep");
    if (!m_.line) m_.line = n.line;
    return false;
  }
  const bool ok = evaluate_one(node, n, out) && !m_.failed;
  --depth_;
  if (!ok && !m_.line) m_.line = n.line;
  return ok;
}

bool Executor::evaluate_one(uint32_t, const Node& n, Value* out) {
  switch (n.op) {
    case Op::kName:
      return name(n, out);
    case Op::kList:
      return sequence_of(n, Kind::kList, out);
    case Op::kTuple:
      return sequence_of(n, Kind::kTuple, out);
    case Op::kDict:
      return dict_of(n, out);
    case Op::kGetAttr: {
      Value v;
      return evaluate(p_.child(n, 0), &v) && get_attribute(m_, v, literal(p_.text(n.arg)), out);
    }
    case Op::kGetItem:
      return item(n, out);
    case Op::kCall:
      return call(n, out);
    case Op::kFilter:
      return filter(n, out);
    case Op::kTest:
      return test(n, out);
    case Op::kNot: {
      Value v;
      if (!evaluate(p_.child(n, 0), &v)) return false;
      *out = boolean(!truth(v));
      return true;
    }
    case Op::kNeg:
    case Op::kPos: {
      Value v;
      return evaluate(p_.child(n, 0), &v) && negate(m_, n.op, v, out);
    }
    case Op::kAnd:
    case Op::kOr:
      return logic(n, out);
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kDiv:
    case Op::kFloorDiv:
    case Op::kMod:
    case Op::kPow: {
      Value a, b;
      return evaluate(p_.child(n, 0), &a) && evaluate(p_.child(n, 1), &b) && binary(m_, n.op, a, b, out);
    }
    case Op::kConcat:
      return concat(n, out);
    case Op::kCompare:
      return comparison(n, out);
    case Op::kCond:
      return condition(n, out);
    case Op::kFail:
      return m_.fail(p_.text(n.arg));
    default:
      return constant(n, out);
  }
}

bool Executor::constant(const Node& n, Value* out) {
  switch (n.op) {
    case Op::kNone:
      *out = none();
      return true;
    case Op::kTrue:
    case Op::kFalse:
      *out = boolean(n.op == Op::kTrue);
      return true;
    case Op::kInt:
      *out = integer(static_cast<int64_t>(p_.number(n.arg)));
      return true;
    case Op::kFloat: {
      const uint64_t bits = p_.number(n.arg);
      double f;
      memcpy(&f, &bits, sizeof f);
      *out = real(f);
      return true;
    }
    case Op::kString:
      *out = literal(p_.text(n.arg));
      return true;
    default:
      return m_.fail("the template's program is damaged");
  }
}

bool Executor::name(const Node& n, Value* out) {
  uint32_t looked = 0;
  for (const Scope* s = scope_; s; s = s->parent)
    for (const Variable* v = s->first; v; v = v->next, ++looked)
      if (v->name == n.arg) {
        *out = v->value;
        return m_.spend(looked / 16);
      }
  const int function = find_function(p_.text(n.arg));
  if (function == kNotFound) {
    *out = undefined(m_, Hint::kName, literal(p_.text(n.arg)));
    return !m_.failed;
  }
  *out = Value();
  out->kind = Kind::kFunction;
  out->sub = static_cast<uint8_t>(function);
  return true;
}

bool Executor::sequence_of(const Node& n, Kind kind, Value* out) {
  Value* items = m_.make<Value>(n.n);
  if (!items) return false;
  for (uint32_t k = 0; k < n.n; ++k)
    if (!evaluate(p_.child(n, k), &items[k])) return false;
  *out = sequence(kind, items, n.n);
  return true;
}

bool Executor::dict_of(const Node& n, Value* out) {
  DictBuild d(m_);
  for (uint32_t k = 0; k < n.n; ++k) {
    const Node& pair = p_.node(p_.child(n, k));
    Value key, v;
    if (!evaluate(p_.child(pair, 0), &key) || !evaluate(p_.child(pair, 1), &v)) return false;
    if (!check_hashable(m_, key) || !d.put(key, v)) return false;
  }
  *out = d.take();
  return true;
}

bool Executor::item(const Node& n, Value* out) {
  Value v, key;
  if (!evaluate(p_.child(n, 0), &v)) return false;
  const Node& k = p_.node(p_.child(n, 1));
  if (k.op == Op::kSlice) return slice(k, v, out);
  return evaluate(p_.child(n, 1), &key) && get_item(m_, v, key, out);
}

bool Executor::slice(const Node& key, const Value& v, Value* out) {
  Value parts[3];
  for (uint32_t k = 0; k < 3; ++k) {
    parts[k] = none();
    if (k < key.n && p_.child(key, k) != kNoNode && !evaluate(p_.child(key, k), &parts[k])) return false;
  }
  return get_slice(m_, v, parts[0], parts[1], parts[2], out);
}

bool Executor::logic(const Node& n, Value* out) {
  if (!evaluate(p_.child(n, 0), out)) return false;
  if (truth(*out) == (n.op == Op::kOr)) return true;
  return evaluate(p_.child(n, 1), out);
}

bool Executor::comparison(const Node& n, Value* out) {
  Value left;
  if (!evaluate(p_.child(n, 0), &left)) return false;
  bool yes = true;
  for (uint32_t k = 1; k < n.n && yes; ++k) {
    const Node& operand = p_.node(p_.child(n, k));
    Value right;
    if (!evaluate(p_.child(operand, 0), &right)) return false;
    if (!compare(m_, static_cast<Compare>(operand.sub), left, right, &yes)) return false;
    left = right;
  }
  *out = boolean(yes);
  return true;
}

bool Executor::concat(const Node& n, Value* out) {
  // All parts first: one that makes text must not come between the others.
  Value* parts = m_.make<Value>(n.n);
  if (!parts) return false;
  for (uint32_t k = 0; k < n.n; ++k)
    if (!evaluate(p_.child(n, k), &parts[k])) return false;
  Build b(m_);
  for (uint32_t k = 0; k < n.n; ++k) {
    const bool first = k == 0 && parts[k].kind == Kind::kString;
    if (first ? !b.start(parts[k].text()) : !put_text(m_, b, parts[k])) return false;
  }
  *out = b.take();
  return true;
}

bool Executor::condition(const Node& n, Value* out) {
  Value v;
  if (!evaluate(p_.child(n, 0), &v)) return false;
  if (truth(v)) return evaluate(p_.child(n, 1), out);
  if (n.n > 2 && p_.child(n, 2) != kNoNode) return evaluate(p_.child(n, 2), out);
  *out = undefined(m_, Hint::kMessage,
                   literal("the inline if-expression evaluated to false and no else section was defined."));
  return !m_.failed;
}

bool Executor::filter(const Node& n, Value* out) {
  Value v = piped_;
  Args args;
  if (n.n && p_.child(n, 0) != kNoNode && !evaluate(p_.child(n, 0), &v)) return false;
  return arguments(n, &args) && apply_filter(m_, static_cast<FilterId>(n.sub), v, args, out);
}

bool Executor::test(const Node& n, Value* out) {
  Value v;
  Args args;
  bool yes = false;
  if (!evaluate(p_.child(n, 0), &v) || !arguments(n, &args)) return false;
  if (!args.named.empty()) return m_.fail("tests take no keyword arguments");
  if (!apply_test(m_, static_cast<TestId>(n.sub), v, args.positional, &yes)) return false;
  *out = boolean(yes);
  return true;
}

// The arguments of a call, filter or test: all children but the first.
bool Executor::arguments(const Node& n, Args* out) {
  if (n.n < 2) return true;
  ListBuild positional(m_);
  NamedArg* named = nullptr;
  size_t n_named = 0, capacity = 0;
  auto add = [&](Text key, const Value& v) {
    if (n_named == capacity) {
      capacity = 2 * capacity + n.n;
      NamedArg* fresh = m_.make<NamedArg>(capacity);
      if (!fresh) return false;
      for (size_t i = 0; i < n_named; ++i) fresh[i] = named[i];
      named = fresh;
    }
    named[n_named++] = {key, v};
    return true;
  };
  for (uint32_t k = 1; k < n.n; ++k) {
    const Node& arg = p_.node(p_.child(n, k));
    Value v;
    if (arg.op == Op::kSpread) {
      if (!spread(p_.child(arg, 0), positional)) return false;
    } else if (arg.op == Op::kKeyword) {
      if (!evaluate(p_.child(arg, 0), &v) || !add(Text(p_.text(arg.arg)), v)) return false;
    } else if (arg.op == Op::kSpreadDict) {
      if (!evaluate(p_.child(arg, 0), &v)) return false;
      if (v.kind != Kind::kDict) return m_.fail("argument after ** must be a mapping, not ", type_name(v));
      for (uint32_t i = 0; i < v.n; ++i) {
        if (v.entries[i].key.kind != Kind::kString) return m_.fail("keywords must be strings");
        if (!add(v.entries[i].key.text(), v.entries[i].value)) return false;
      }
    } else if (!evaluate(p_.child(n, k), &v) || !positional.push(v)) {
      return false;
    }
  }
  *out = {{positional.items(), positional.size()}, {named, n_named}};
  return true;
}

bool Executor::spread(uint32_t node, ListBuild& positional) {
  Value v;
  Span<const Value> items;
  if (!evaluate(node, &v) || !iterate(m_, v, &items)) return false;
  for (const Value& item : items)
    if (!positional.push(item)) return false;
  return true;
}

bool Executor::call(const Node& n, Value* out) {
  Value callee;
  Args args;
  return evaluate(p_.child(n, 0), &callee) && arguments(n, &args) && call_value(callee, args, out);
}

bool Executor::call_value(const Value& callee, const Args& args, Value* out) {
  switch (callee.kind) {
    case Kind::kMacro:
      return call_macro(*callee.macro, args, out);
    case Kind::kFunction:
      return call_function(m_, static_cast<FunctionId>(callee.sub), args, out);
    case Kind::kMethod:
      return call_method(m_, *callee.method, args, out);
    case Kind::kUndefined:
      return fail_undefined(m_, callee);
    case Kind::kJoiner:
      *out = callee.cycle->at++ ? callee.cycle->items[0] : literal("");
      if (callee.cycle->at == 0) callee.cycle->at = 1;
      return true;
    case Kind::kLoop: {
      Span<const Value> items;
      LoopState& l = *callee.loop;
      if (!l.recursive) return m_.fail("The loop must have the 'recursive' marker to be called recursively.");
      if (args.positional.size() != 1 || !args.named.empty()) return m_.fail("loop() takes one argument");
      if (!iterate(m_, args.positional[0], &items)) return false;
      Build text(m_);
      Build* const outer_out = out_;
      Scope* const outer = scope_;
      out_ = &text, scope_ = l.scope;
      const bool ok = loop(l.node, items, l.depth + 1) != Flow::kFail;
      out_ = outer_out, scope_ = outer;
      if (!ok) return false;
      *out = text.take();
      return true;
    }
    default:
      return m_.fail("'", type_name(callee), "' object is not callable");
  }
}

bool Executor::call_macro(const Macro& macro, const Args& args, Value* out) {
  const Node& n = p_.node(macro.node);
  Scope* const outer = scope_;
  Scope* scope = push(macro.scope);
  scope_ = scope;  // defaults see the parameters before them
  if (!scope || !bind_macro(n, scope, args) || !bind_rest(n, scope, args)) return false;
  scope_ = outer;
  return capture(p_.child(n, 0), scope, out);
}

bool Executor::bind_macro(const Node& n, Scope* scope, const Args& args) {
  const uint32_t n_params = n.n - 1u;
  for (uint32_t k = 0; k < n_params; ++k) {
    const Node& param = p_.node(p_.child(n, k + 1));
    const Str param_name = p_.text(param.arg);
    Value v;
    bool given = false;
    if (k < args.positional.size()) v = args.positional[k], given = true;
    for (const NamedArg& a : args.named) {
      if (a.name.str() != param_name) continue;
      if (given)
        return m_.fail("macro '", p_.text(n.arg), "' got multiple values for argument '", param_name, "'");
      v = a.value, given = true;
    }
    if (!given) {
      v = undefined(m_, Hint::kParameter, literal(param_name));
      if (param.n && p_.child(param, 0) != kNoNode && !evaluate(p_.child(param, 0), &v)) return false;
    }
    if (!define(scope, param.arg, v)) return false;
  }
  if (args.positional.size() > n_params && !(n.sub & kUsesVarargs))
    return m_.fail("macro '", p_.text(n.arg), "' takes not more than ", n_params, " argument(s)");
  return true;
}

// What no parameter took: caller, kwargs, varargs.
bool Executor::bind_rest(const Node& n, Scope* scope, const Args& args) {
  const uint32_t n_params = n.n - 1u;
  DictBuild rest(m_);
  bool has_caller = false;
  for (const NamedArg& a : args.named) {
    bool taken = false;
    for (uint32_t k = 0; k < n_params && !taken; ++k)
      taken = p_.text(p_.node(p_.child(n, k + 1)).arg) == a.name.str();
    if (taken) continue;
    if (a.name.str() == "caller" && (n.sub & kUsesCaller)) {
      has_caller = true;
      if (!define(scope, caller_name_, a.value)) return false;
      continue;
    }
    if (!(n.sub & kUsesKwargs)) {
      if (a.name.str() == "caller")
        return m_.fail("macro '", p_.text(n.arg),
                       "' was invoked with two values for the special caller argument");
      return m_.fail("macro '", p_.text(n.arg), "' takes no keyword argument '", a.name.str(), "'");
    }
    if (!rest.put(string(a.name), a.value)) return false;
  }
  if ((n.sub & kUsesCaller) && !has_caller && caller_name_ != kNoNode &&
      !define(scope, caller_name_, undefined(m_, Hint::kMessage, literal("No caller defined"))))
    return false;
  if ((n.sub & kUsesKwargs) && kwargs_name_ != kNoNode && !define(scope, kwargs_name_, rest.take()))
    return false;
  if (!(n.sub & kUsesVarargs) || varargs_name_ == kNoNode) return true;
  const Span<const Value> more = args.positional.sub(n_params);
  return define(scope, varargs_name_, sequence(Kind::kTuple, more.data(), more.size()));
}

}  // namespace jinja
}  // namespace gcrt
