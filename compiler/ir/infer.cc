#include "compiler/ir/infer.h"

#include "compiler/ir/infer_rules.h"

namespace gc::ir {
namespace {

// Ops of rows, without matrices or states.
class RowRules : Rules {
 public:
  using Rules::Rules;

  std::vector<Type> types() {
    check_lists();
    switch (op_.kind) {
      case OpKind::embed:
        return embed();
      case OpKind::embed_position:
        return embed();
      case OpKind::rms_norm:
        f32_in(0);
        vector_of("weight", last(0));
        return {with_out(in(0))};
      case OpKind::layer_norm:
        f32_in(0);
        vector_of("weight", last(0));
        vector_of("bias", last(0));
        return {with_out(in(0))};
      case OpKind::slice:
        return slice();
      case OpKind::heads:
        return heads();
      case OpKind::merge_heads:
        return merge_heads();
      case OpKind::scale:
      case OpKind::clamp:
      case OpKind::act:
      case OpKind::softcap:
        f32_in(0);
        return {in(0)};
      case OpKind::weigh:
        return weigh();
      case OpKind::shift:
        f32_in(0);
        vector_of("weight", last(0));
        return {in(0)};
      case OpKind::temper:
        f32_in(0);
        expect(in(0).dims[0] == Dim::tokens(), "needs all tokens' rows, operand is ", to_string(in(0)));
        attr_size(AttrName::period);
        return {in(0)};
      case OpKind::mul_heads:
        return mul_heads();
      case OpKind::dot_heads:
        per_head(0);
        same_f32();
        return {{Elem::F32, {in(0).dims[0], in(0).dims[1]}}};
      case OpKind::add:
      case OpKind::mul:
        same_f32();
        return {in(0)};
      case OpKind::slice_heads:
        per_head(0);
        return slice();
      case OpKind::concat_heads:
        return concat_heads();
      case OpKind::mix:
        return mix();
      case OpKind::rescale:
        per_head(1);
        row_of_head(0, 1);
        return {in(1)};
      case OpKind::add_heads:
        per_head(0);
        row_of_head(1, 0);
        expect(op_.i64(AttrName::begin) >= 0 && op_.i64(AttrName::begin) <= in(0).dims[1].size, "begin ",
               op_.i64(AttrName::begin), " of ", to_string(in(0)));
        return {in(0)};
      case OpKind::sinkhorn: {
        f32_in(0);
        const int64_t n = op_.i64(AttrName::heads);
        expect(n > 0 && n <= 16 && last(0) == n * n, n, " rows of as many, at most 16, operand is ",
               to_string(in(0)));
        expect(op_.i64(AttrName::rounds) > 0, "rounds ", op_.i64(AttrName::rounds));
        return {in(0)};
      }
      case OpKind::sparsify:
        f32_in(0);
        expect(last(0) > 1, "needs several values, operand is ", to_string(in(0)));
        return {in(0)};
      case OpKind::concat:
        return concat();
      case OpKind::select:
        return select();
      case OpKind::quantize:
        f32_in(0);
        return {q16(in(0))};
      case OpKind::glu:
        same_f32();
        return {with_out(in(0))};
      case OpKind::residual_norm:
        same_f32();
        vector_of("post", last(0));
        vector_of("pre", last(0));
        return {in(0), with_out(in(0))};
      case OpKind::matmul:
      case OpKind::matmul_heads:
      case OpKind::matmul_glu:
      case OpKind::route:
      case OpKind::route_by_token:
      case OpKind::experts_in:
      case OpKind::experts_out:
        return infer_product(g_, op_);
      case OpKind::rope:
      case OpKind::attention:
      case OpKind::attention_again:
      case OpKind::attention_sums:
      case OpKind::attention_chosen:
      case OpKind::choose_positions:
      case OpKind::attn_block:
      case OpKind::ngram_embed:
      case OpKind::compress:
      case OpKind::conv:
      case OpKind::ssm_scan:
      case OpKind::delta_rule:
      case OpKind::decay_attention:
      case OpKind::token_shift:
      case OpKind::wkv:
      case OpKind::wkv7:
        return infer_state(g_, op_);
    }
    misfit("op number ", int(op_.kind));
  }

 private:
  std::vector<Type> embed() const {
    const Weight& table = *weight("table");
    expect(table.shape.size() == 2, "the table must be a matrix: '", table.name, "'");
    return {{Elem::F32, {Dim::tokens(), Dim::of(table.shape[1])}}};
  }

  std::vector<Type> weigh() const {
    f32_in(0);
    const Weight& w = *weight("weight");
    expect(w.shape.size() == 1 && last(0) % w.shape[0] == 0, "weight '", w.name, "' is ",
           to_string(w.format, w.shape), ", rows are of ", last(0));
    return {in(0)};
  }

  std::vector<Type> mul_heads() const {
    per_head(0);
    f32_in(1);
    expect(in(1).dims.size() == 2 && in(1).dims[0] == in(0).dims[0] && in(1).dims[1] == in(0).dims[1],
           "operands do not fit: ", to_string(in(0)), " and ", to_string(in(1)));
    return {in(0)};
  }

  std::vector<Type> slice() const {
    f32_in(0);
    int64_t begin = op_.i64(AttrName::begin), size = op_.i64(AttrName::size), n = last(0);
    expect(begin >= 0 && begin < n && size > 0 && size <= n - begin, "slice ", begin, " + ", size, " of ", n);
    Type t = in(0);
    t.dims.back() = Dim::of(size);
    return {t};
  }

  std::vector<Type> heads() const {
    f32_in(0);
    int64_t n = attr_size(AttrName::heads);
    expect(in(0).dims.size() == 2 && last(0) % n == 0, "cannot divide ", to_string(in(0)), " into ", n,
           " heads");
    return {{Elem::F32, {in(0).dims[0], Dim::of(n), Dim::of(last(0) / n)}}};
  }

  std::vector<Type> merge_heads() const {
    per_head(0);
    const auto& d = in(0).dims;
    expect(d[1].size < kMaxSize / d[2].size, "too long");
    return {{Elem::F32, {d[0], Dim::of(d[1].size * d[2].size)}}};
  }

  // Operand `row` is [T, d] where operand `heads` is [T, H, d].
  void row_of_head(int row, int heads) const {
    const auto& d = in(heads).dims;
    f32_in(row);
    expect(in(row).dims.size() == 2 && in(row).dims[0] == d[0] && in(row).dims[1] == d[2],
           "operands do not fit: ", to_string(in(row)), " and ", to_string(in(heads)));
  }

  std::vector<Type> mix() const {
    per_head(0);
    f32_in(1);
    const auto &x = in(0).dims, &by = in(1).dims;
    expect(by.size() == 2 && by[0] == x[0] && by[1].size % x[1].size == 0,
           "operands do not fit: ", to_string(in(0)), " and ", to_string(in(1)));
    return {{Elem::F32, {x[0], Dim::of(by[1].size / x[1].size), x[2]}}};
  }

  std::vector<Type> concat() const {
    f32_in(0), f32_in(1);
    Type t = in(0), other = in(1);
    t.dims.back() = other.dims.back();
    expect(t == other, "cannot join ", to_string(in(0)), " and ", to_string(other));
    t.dims.back() = Dim::of(last(0) + last(1));
    expect(t.dims.back().size < kMaxSize, "too long");
    return {t};
  }

  std::vector<Type> concat_heads() const {
    per_head(0), per_head(1);
    const auto &a = in(0).dims, &b = in(1).dims;
    const int64_t n = attr_size(AttrName::heads);
    expect(a[0] == b[0] && (a[1].size == n || a[1].size == 1) && (b[1].size == n || b[1].size == 1),
           "cannot join ", to_string(in(0)), " and ", to_string(in(1)), " as ", n, " heads");
    Type t = in(0);
    t.dims[1] = Dim::of(n);
    t.dims[2] = Dim::of(last(0) + last(1));
    expect(t.dims[2].size < kMaxSize / n, "too long");
    return {t};
  }

  std::vector<Type> select() const {
    f32_in(0);
    expect(in(0).dims[0] == Dim::tokens(), "selects among tokens, operand is ", to_string(in(0)));
    Type t = in(0);
    t.dims[0] = Dim::outputs();
    return {t};
  }
};

}  // namespace

std::string infer(const Graph& g, const Op& op, std::vector<Type>& types) {
  try {
    types = RowRules(g, op).types();
    return "";
  } catch (const Misfit& m) {
    return std::string(info(op.kind).name) + ": " + m.text;
  }
}

std::string to_string(const Dim& dim) {
  switch (dim.kind) {
    case Dim::Kind::Const:
      return std::to_string(dim.size);
    case Dim::Kind::Tokens:
      return "T";
    case Dim::Kind::Outputs:
      return "R";
    case Dim::Kind::Positions:
      return "P";
  }
  return "?";
}

std::string to_string(const Type& type) {
  std::string s = std::string(name(type.elem)) + "[";
  for (size_t i = 0; i < type.dims.size(); i++) s += (i ? ", " : "") + to_string(type.dims[i]);
  return s + "]";
}

std::string to_string(Format format, const std::vector<int64_t>& shape) {
  std::string s = std::string(info(format).text_name) + "[";
  for (size_t i = 0; i < shape.size(); i++) s += (i ? ", " : "") + std::to_string(shape[i]);
  return s + "]";
}

int64_t last_dim(const Type& type) {
  if (type.dims.empty() || type.dims.back().kind != Dim::Kind::Const) return 0;
  return type.dims.back().size;
}

}  // namespace gc::ir
