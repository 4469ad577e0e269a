// Types of ops with matrices: products, of all rows or of experts, and the routing to those.
#include "compiler/base/error.h"
#include "compiler/ir/infer_rules.h"

namespace gc::ir {
namespace {

class ProductRules : Rules {
 public:
  using Rules::Rules;

  std::vector<Type> matmul() const {
    Type t = in(0);
    t.elem = Elem::F32;
    t.dims.back() = Dim::of(rows_of("rows"));
    auto rows = op_.slot("rows"), bias = op_.slot("bias");
    expect(bias.empty() || bias.size() == rows.size(), "has ", rows.size(), " row segments and ", bias.size(),
           " biases");
    for (size_t i = 0; i < bias.size(); i++) {
      if (!bias[i].weight.valid()) continue;
      const Weight& w = g_.weight(bias[i].weight);
      expect(w.shape.size() == 1 && row_count(g_, bias[i]) == row_count(g_, rows[i]), "bias '", w.name,
             "' is ", to_string(w.format, w.shape), ", its segment has ", row_count(g_, rows[i]), " rows");
    }
    return {t};
  }

  std::vector<Type> matmul_glu() const {
    Type t = in(0);
    t.elem = Elem::F32;
    int64_t gate = rows_of("gate"), up = rows_of("up");
    expect(gate == up, "gate has ", gate, " rows, up has ", up);
    t.dims.back() = Dim::of(gate);
    return {with_out(t)};
  }

  std::vector<Type> matmul_heads() const {
    const Type& x = in(0);
    expect(x.elem == Elem::F32 || x.elem == Elem::Q16, "operand 0 must be f32 or q16, is ", to_string(x));
    expect(x.dims.size() == 3 && x.dims[1].kind == Dim::Kind::Const, "operand 0 must be [T, heads, dim], is ",
           to_string(x));
    Type t = x;
    t.elem = Elem::F32;
    t.dims[2] = Dim::of(experts_of("matrices", x.dims[1].size, last(0)));
    expect(t.dims[2].size < kMaxSize / t.dims[1].size, "too long");
    return {t};
  }

  std::vector<Type> route() const {
    f32_in(0);
    const int64_t n = last(0), used = attr_size(AttrName::used);
    const int64_t groups = op_.i64_or(AttrName::groups, 1),
                  picked = op_.i64_or(AttrName::groups_used, groups);
    expect(in(0).dims.size() == 2, "operand must be [T, experts], is ", to_string(in(0)));
    expect(used <= n, used, " of ", n, " experts");
    expect(op_.has(AttrName::groups) == op_.has(AttrName::groups_used), "groups goes with groups_used");
    expect(groups > 0 && n % groups == 0 && picked > 0 && picked <= groups, picked, " of ", groups,
           " groups of ", n, " experts");
    expect(groups == 1 || (n / groups >= 2 && used <= picked * (n / groups)), used, " experts of ", picked,
           " groups of ", n / groups);
    expect(!op_.i64_or(AttrName::chosen, 0) || !op_.has(AttrName::fn), "chosen is a softmax, and has no fn");
    vector_of("bias", n);
    return {in(0)};
  }

  std::vector<Type> route_by_token() const {
    f32_in(0);
    const int64_t n = last(0), used = attr_size(AttrName::used);
    expect(in(0).dims.size() == 2 && in(0).dims[0] == Dim::tokens(), "operand must be [T, experts], is ",
           to_string(in(0)));
    const Weight& table = *weight("table");
    expect(used <= n && table.shape.size() == 2 && table.shape[1] == used && table.format == Format::I32,
           "table '", table.name, "' is ", to_string(table.format, table.shape), " for ", used, " of ", n,
           " experts");
    return {in(0)};
  }

  std::vector<Type> experts_in() const {
    const int64_t experts = routed(), used = attr_size(AttrName::used);
    expect(in(0).dims.size() == 2, "operand 0 must be [T, n], is ", to_string(in(0)));
    expect(used <= experts, used, " of ", experts, " experts");
    const int64_t rows = experts_of("up", experts, last(0));
    const bool joined = op_.i64_or(AttrName::joined, 0) != 0, gated = joined || weight("gate");
    expect(!joined || (!weight("gate") && rows % 2 == 0),
           "joined is a matrix of gate and up, of an even number of rows");
    if (weight("gate")) expect(experts_of("gate", experts, last(0)) == rows, "gate and up differ in rows");
    expect(weight("gate") || (!weight("gate_bias") && !weight("gate_scale")),
           "gate_bias and gate_scale go with gate");
    expect(!joined || !weight("up_scale"), "up_scale goes with matrices apart");
    expect(gated || (!op_.has(AttrName::limit) && !op_.has(AttrName::up_add)),
           "limit and up_add go with gate");
    expect(op_.has(AttrName::limit) || !op_.has(AttrName::limit_out), "limit_out goes with limit");
    for (AttrName cap : {AttrName::gate_cap, AttrName::up_cap})
      expect(!op_.has(cap) || (gated && op_.f32(cap) > 0),
             "gate_cap and up_cap go with gate and are above 0");
    factors_of("gate_scale", experts);
    factors_of("up_scale", experts);
    biases_of("gate_bias", experts, rows);
    biases_of("up_bias", experts, rows);
    return {with_out({Elem::F32, {in(0).dims[0], Dim::of(used), Dim::of(joined ? rows / 2 : rows)}})};
  }

  std::vector<Type> experts_out() const {
    const int64_t experts = routed();
    expect(in(0).dims.size() == 3, "operand 0 must be [T, used, n], is ", to_string(in(0)));
    const int64_t rows = experts_of("down", experts, last(0));
    biases_of("bias", experts, rows);
    return {{Elem::F32, {in(0).dims[0], Dim::of(rows)}}};
  }

 private:
  // The number of rows of a matrix made of segments, each of the operand's length.
  int64_t rows_of(std::string_view slot) const {
    bool packed = in(0).elem == Elem::Q16;
    expect(packed || in(0).elem == Elem::F32, "operand 0 must be f32 or q16, is ", to_string(in(0)));
    int64_t rows = 0;
    for (const WeightUse& use : op_.slot(slot)) {
      const Weight& w = g_.weight(use.weight);
      expect(w.shape.size() == 2 && w.shape[1] == last(0), "weight '", w.name, "' is ",
             to_string(w.format, w.shape), ", needed are rows of ", last(0));
      expect(!packed || gc::info(w.format).kind == FormatKind::kBlock, "a q16 operand meets weight '", w.name,
             "' of format ", gc::info(w.format).text_name);
      rows += row_count(g_, use);
      expect(rows < kMaxSize, "too many rows");
    }
    return rows;
  }

  // Operands of an op of experts: values of tokens, routing weights beside them. The number of experts.
  int64_t routed() const {
    const Type& routing = in(1);
    expect(routing.elem == Elem::F32 && routing.dims.size() == 2, "operand 1 must be f32[T, experts], is ",
           to_string(routing));
    expect(!in(0).dims.empty() && in(0).dims[0] == routing.dims[0],
           "operands have not the same rows: ", to_string(in(0)), " and ", to_string(routing));
    return last(1);
  }

  // Rows of each expert's matrix.
  int64_t experts_of(std::string_view slot, int64_t experts, int64_t columns) const {
    const Weight& w = *weight(slot);
    expect(w.shape.size() == 3 && w.shape[0] == experts && w.shape[2] == columns, "weight '", w.name, "' is ",
           to_string(w.format, w.shape), ", needed are ", experts, " matrices of rows of ", columns);
    const bool packed = in(0).elem == Elem::Q16;
    expect(packed || in(0).elem == Elem::F32, "operand must be f32 or q16, is ", to_string(in(0)));
    expect(!packed || info(w.format).kind == FormatKind::kBlock, "a q16 operand meets weight '", w.name,
           "' of format ", info(w.format).text_name);
    return w.shape[1];
  }

  void factors_of(std::string_view slot, int64_t experts) const {
    if (const Weight* w = weight(slot)) fits(*w, {experts});
  }

  void biases_of(std::string_view slot, int64_t experts, int64_t rows) const {
    if (const Weight* w = weight(slot)) fits(*w, {experts, rows});
  }
};

}  // namespace

std::vector<Type> infer_product(const Graph& g, const Op& op) {
  const ProductRules rules(g, op);
  if (op.kind == OpKind::matmul) return rules.matmul();
  if (op.kind == OpKind::matmul_glu) return rules.matmul_glu();
  if (op.kind == OpKind::matmul_heads) return rules.matmul_heads();
  if (op.kind == OpKind::route) return rules.route();
  if (op.kind == OpKind::route_by_token) return rules.route_by_token();
  if (op.kind == OpKind::experts_in) return rules.experts_in();
  GC_CHECK(op.kind == OpKind::experts_out, "no product: ", info(op.kind).name);
  return rules.experts_out();
}

}  // namespace gc::ir
