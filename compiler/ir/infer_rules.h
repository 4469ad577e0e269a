// What the rules of ops' types share: the operands, weights and attributes of the op at hand, and how a rule fails.
// Private to infer, whose groups of ops are a file each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/base/strings.h"
#include "compiler/ir/infer.h"

namespace gc::ir {

// Thrown by rules alone: it unwinds from the one that fails to infer().
struct Misfit {
  std::string text;
};

template <class... Parts>
[[noreturn]] void misfit(const Parts&... parts) {
  throw Misfit{cat(parts...)};
}

template <class... Parts>
void expect(bool ok, const Parts&... parts) {
  if (!ok) misfit(parts...);
}

// 2^40 values: sums and products of a few such sizes stay in 64 bits.
constexpr int64_t kMaxSize = int64_t(1) << 40;

class Rules {
 public:
  Rules(const Graph& g, const Op& op) : g_(g), op_(op) {}

  // Operands, weights and attributes as the row of ops.def lists them.
  void check_lists() const;

 protected:
  const Type& in(int i) const { return g_.value(op_.inputs[i]).type; }
  int64_t last(int i) const;

  void f32_in(int i) const;
  void same_f32() const;
  // A [tokens or rows, heads, dim] value.
  void per_head(int i) const;

  static Type q16(Type t);
  Type with_out(const Type& t) const;

  int64_t attr_size(AttrName name) const;
  const Weight* weight(std::string_view slot) const;
  void vector_of(std::string_view slot, int64_t size) const;
  static void fits(const Weight& w, const std::vector<int64_t>& shape);

  const Graph& g_;
  const Op& op_;

 private:
  void check_slots() const;
  void check_use(const Slot& slot, const WeightUse& use) const;
  void check_attrs() const;
};

// The groups that are files of their own: ops with matrices, ops with states (and RoPE).
std::vector<Type> infer_product(const Graph& g, const Op& op);
std::vector<Type> infer_state(const Graph& g, const Op& op);

}  // namespace gc::ir
