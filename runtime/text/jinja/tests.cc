// The tests of `x is y`.
#include "runtime/text/jinja/machine.h"

namespace gcrt {
namespace jinja {
namespace {

bool same_object(const Value& a, const Value& b, uint64_t& steps) {
  if (a.kind != b.kind) return false;
  if (a.is_sequence() || a.kind == Kind::kDict || a.kind == Kind::kView) return a.n == b.n && a.s == b.s;
  return equal(a, b, steps);
}

bool is_remainder(Machine& m, const Value& v, const Value& by, int64_t want, bool* out) {
  Value r;
  if (!binary(m, Op::kMod, v, by, &r)) return false;
  *out = equal(r, integer(want), m.steps_left);
  return true;
}

bool is_iterable(const Value& v) {
  return v.kind == Kind::kUndefined || v.kind == Kind::kString || v.is_sequence() || v.kind == Kind::kDict ||
         v.kind == Kind::kView || v.kind == Kind::kIterator || v.kind == Kind::kLoop;
}

bool case_of(Machine& m, MethodId id, const Value& v, bool* out) {
  Text t;
  Value answer;
  if (!to_text(m, v, &t) || !call_str_method(m, id, string(t), {}, &answer)) return false;
  *out = answer.b;
  return true;
}

}  // namespace

bool apply_test(Machine& m, TestId id, const Value& v, Span<const Value> args, bool* out) {
  const int wanted = test_arguments(id);
  if (args.size() != static_cast<size_t>(wanted))
    return m.fail("the test '", test_name(id), "' takes ", wanted, " arguments, ", args.size(), " given");
  const Value arg = wanted ? args[0] : Value();
  if (!m.spend(1)) return false;
  switch (id) {
    case TestId::kBoolean:
      *out = v.kind == Kind::kBool;
      return true;
    case TestId::kCallable:
      *out = v.is_callable() || v.kind == Kind::kLoop || v.kind == Kind::kUndefined;
      return true;
    case TestId::kDefined:
      *out = v.kind != Kind::kUndefined;
      return true;
    case TestId::kUndefined:
      *out = v.kind == Kind::kUndefined;
      return true;
    case TestId::kDivisibleby:
      return is_remainder(m, v, arg, 0, out);
    case TestId::kEven:
      return is_remainder(m, v, integer(2), 0, out);
    case TestId::kOdd:
      return is_remainder(m, v, integer(2), 1, out);
    case TestId::kEqSign:
    case TestId::kEq:
    case TestId::kEqualto:
      return compare(m, Compare::kEq, v, arg, out);
    case TestId::kNeSign:
    case TestId::kNe:
      return compare(m, Compare::kNe, v, arg, out);
    case TestId::kGeSign:
    case TestId::kGe:
      return compare(m, Compare::kGe, v, arg, out);
    case TestId::kGtSign:
    case TestId::kGt:
    case TestId::kGreaterthan:
      return compare(m, Compare::kGt, v, arg, out);
    case TestId::kLeSign:
    case TestId::kLe:
      return compare(m, Compare::kLe, v, arg, out);
    case TestId::kLtSign:
    case TestId::kLt:
    case TestId::kLessthan:
      return compare(m, Compare::kLt, v, arg, out);
    case TestId::kIn:
      return compare(m, Compare::kIn, v, arg, out);
    case TestId::kEscaped:
      *out = v.kind == Kind::kString && v.sub;
      return true;
    case TestId::kTrue:
      *out = v.kind == Kind::kBool && v.b;
      return true;
    case TestId::kFalse:
      *out = v.kind == Kind::kBool && !v.b;
      return true;
    case TestId::kFilter:
      *out = v.kind == Kind::kString && find_filter(v.str()) != kNotFound;
      return true;
    case TestId::kTest:
      *out = v.kind == Kind::kString && find_test(v.str()) != kNotFound;
      return true;
    case TestId::kFloat:
      *out = v.kind == Kind::kFloat;
      return true;
    case TestId::kInteger:
      *out = v.kind == Kind::kInt;
      return true;
    case TestId::kNumber:
      *out = v.is_number();
      return true;
    case TestId::kIterable:
      *out = is_iterable(v);
      return true;
    case TestId::kMapping:
      *out = v.kind == Kind::kDict;
      return true;
    case TestId::kNone:
      *out = v.kind == Kind::kNone;
      return true;
    case TestId::kSameas:
      *out = same_object(v, arg, m.steps_left);
      return true;
    case TestId::kSequence:
      *out =
          v.kind == Kind::kUndefined || v.kind == Kind::kString || v.kind == Kind::kDict || v.is_sequence();
      return true;
    case TestId::kString:
      *out = v.kind == Kind::kString;
      return true;
    case TestId::kLower:
      return case_of(m, MethodId::kIslower, v, out);
    case TestId::kUpper:
      return case_of(m, MethodId::kIsupper, v, out);
  }
  return false;
}

}  // namespace jinja
}  // namespace gcrt
