#include "compiler/ir/infer_rules.h"

#include <cmath>

namespace gc::ir {

int64_t Rules::last(int i) const {
  int64_t n = last_dim(in(i));
  expect(n > 0, "operand ", i, " has no constant last dimension: ", to_string(in(i)));
  return n;
}

void Rules::f32_in(int i) const {
  expect(in(i).elem == Elem::F32, "operand ", i, " must be f32, is ", to_string(in(i)));
  last(i);
}

void Rules::same_f32() const {
  f32_in(0);
  expect(in(0) == in(1), "operands differ in type: ", to_string(in(0)), " and ", to_string(in(1)));
}

Type Rules::q16(Type t) {
  expect(last_dim(t) % 32 == 0, "q16 needs a last dimension that is a multiple of 32: ", to_string(t));
  t.elem = Elem::Q16;
  return t;
}

Type Rules::with_out(const Type& t) const {
  expect(op_.out() == Elem::F32 || op_.out() == Elem::Q16, "out must be f32 or q16");
  return op_.out() == Elem::Q16 ? q16(t) : t;
}

void Rules::per_head(int i) const {
  f32_in(i);
  expect(in(i).dims.size() == 3, "operand ", i, " must be [T, heads, dim], is ", to_string(in(i)));
  expect(in(i).dims[1].kind == Dim::Kind::Const, "operand ", i, " has no constant number of heads");
}

int64_t Rules::attr_size(AttrName name) const {
  int64_t v = op_.i64(name);
  expect(v > 0 && v < (1 << 24), "attribute ", info(name).name, " is ", v);
  return v;
}

void Rules::check_lists() const {
  const OpInfo& row = info(op_.kind);
  expect(int(op_.inputs.size()) == row.inputs, "takes ", row.inputs, " operands, has ", op_.inputs.size());
  for (ValueId v : op_.inputs)
    expect(v.valid() && v.index < int(g_.values.size()), "operand is no value of the graph");
  expect(op_.state.valid() == reads(op_.kind, "state"),
         op_.state.valid() ? "takes no state" : "needs a state");
  check_slots();
  check_attrs();
}

void Rules::check_slots() const {
  const auto& table = slots(op_.kind);
  std::vector<int64_t> count(table.size());
  int before = 0;
  for (const WeightUse& use : op_.weights) {
    expect(use.slot < table.size(), "has no weight slot ", int(use.slot));
    expect(use.slot >= before, "weights are not in the order of their slots");
    before = use.slot;
    count[use.slot]++;
    const Slot& slot = table[use.slot];
    if (!use.weight.valid()) {
      expect(slot.many && slot.optional, "weight '", slot.name, "' is absent");
      continue;
    }
    check_use(slot, use);
  }
  for (size_t i = 0; i < table.size(); i++) {
    expect(count[i] > 0 || table[i].optional, "weight '", table[i].name, "' is missing");
    expect(count[i] <= 1 || table[i].many, "weight '", table[i].name, "' is given twice");
  }
}

void Rules::check_use(const Slot& slot, const WeightUse& use) const {
  const Weight& w = g_.weight(use.weight);
  expect(!w.shape.empty(), "weight '", w.name, "' has no dimensions");
  for (int64_t d : w.shape) expect(d > 0 && d < kMaxSize, "weight '", w.name, "' has a dimension of ", d);
  expect(slot.many || (use.row_begin == 0 && use.row_end < 0), "weight '", w.name, "' takes no row range");
  int64_t end = use.row_end < 0 ? w.shape[0] : use.row_end;
  expect(use.row_begin >= 0 && use.row_begin < end && end <= w.shape[0], "rows ", use.row_begin, " to ", end,
         " of weight '", w.name, "', which has ", w.shape[0]);
}

void Rules::check_attrs() const {
  const auto& table = attr_slots(op_.kind);
  for (const Attr& a : op_.attrs) {
    bool known = false;
    for (const AttrSlot& slot : table) known |= slot.name == a.name;
    expect(known, "has no attribute ", info(a.name).name);
  }
  for (const Attr& a : op_.attrs)
    expect(std::isfinite(a.f), "attribute ", info(a.name).name, " is not finite");
  for (size_t i = 1; i < op_.attrs.size(); i++)
    expect(op_.attrs[i - 1].name < op_.attrs[i].name, "attributes are not sorted or not unique");
  for (const AttrSlot& slot : table)
    expect(slot.optional || op_.has(slot.name), "attribute ", info(slot.name).name, " is missing");
}

const Weight* Rules::weight(std::string_view slot) const {
  auto use = op_.one(slot);
  return use ? &g_.weight(use->weight) : nullptr;
}

void Rules::vector_of(std::string_view slot, int64_t size) const {
  const Weight* w = weight(slot);
  if (w) fits(*w, {size});
}

void Rules::fits(const Weight& w, const std::vector<int64_t>& shape) {
  expect(w.shape == shape, "weight '", w.name, "' is ", to_string(w.format, w.shape), ", needed is ",
         to_string(w.format, shape));
}

}  // namespace gc::ir
