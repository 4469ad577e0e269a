#include "compiler/ir/print.h"

#include <charconv>
#include <cmath>
#include <type_traits>

#include "compiler/base/error.h"
#include "compiler/ir/infer.h"

namespace gc::ir {
namespace {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '-';
}

bool is_name(std::string_view s) {
  for (char c : s)
    if (!is_name_char(c)) return false;
  return !s.empty();
}

std::string name_or_literal(std::string_view s) { return is_name(s) ? std::string(s) : string_literal(s); }

// A state's name must not read as the row table, as a number or as nothing.
std::string state_name(std::string_view s) {
  bool letter = !s.empty() && ((s[0] >= 'a' && s[0] <= 'z') || (s[0] >= 'A' && s[0] <= 'Z') || s[0] == '_');
  return letter && is_name(s) && !s.starts_with("rows") ? std::string(s) : string_literal(s);
}

// The shortest text that reads back to v; whole numbers without an exponent.
template <class T>
std::string number(T v) {
  char buffer[40];
  if constexpr (std::is_floating_point_v<T>) {
    if (v == std::trunc(v) && std::fabs(v) < T(1e15))
      return std::string(buffer,
                         std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::fixed).ptr);
  }
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr);
}

class Printer {
 public:
  explicit Printer(const Graph& g) : g_(g), printed_(g.weights.size()) {}

  std::string graph() {
    header();
    unused_weights();
    size_t layers = g_.layer_begin.size();
    int32_t first = layers ? g_.layer_begin[0] : int32_t(g_.ops.size());
    ops(0, first, "  ");
    for (size_t i = 0; i < layers; i++) {
      bool head = i + 1 == layers;
      out_ += head ? "  head" : "  layer " + number(i);
      out_ += " (" + value(g_.layer_input[i]) + ") {\n";
      ops(g_.layer_begin[i], head ? int32_t(g_.ops.size()) : g_.layer_begin[i + 1], "    ");
      out_ += "  }\n";
    }
    return out_ + "}\n";
  }

  std::string op(const Op& op) {
    std::string s;
    for (size_t i = 0; i < op.results.size(); i++) s += (i ? ", " : "") + value(op.results[i]);
    s += std::string(" = ") + info(op.kind).name + "(" + args(op) + ")";
    if (!op.attrs.empty()) s += " {" + attrs(op) + "}";
    return s;
  }

 private:
  std::string value(ValueId v) const { return "%" + name_or_literal(g_.value(v).name); }

  void header() {
    out_ = (g_.encoder ? "encoder @" : "graph @") + name_or_literal(g_.name) + "(rows: row[T]";
    const char* gap = g_.states.size() > 1 ? ",\n    " : ", ";
    for (const State& s : g_.states) out_ += gap + state(s);
    out_ += ")";
    for (size_t i = 0; i < g_.outputs.size(); i++)
      out_ += (i ? ", " : " -> ") + name_or_literal(g_.value(g_.outputs[i]).name) + ": " +
              to_string(g_.value(g_.outputs[i]).type);
    out_ += " {\n";
  }

  static std::string state(const State& s) {
    std::string fields;
    auto field = [&](const char* what, int64_t v) {
      if (v) fields += (fields.empty() ? "" : ", ") + std::string(what) + " " + number(v);
    };
    field("window", s.window);
    field("heads", s.heads);
    if (s.k_dim == s.v_dim) {
      field("dim", s.k_dim);
    } else {
      field("k_dim", s.k_dim);
      field("v_dim", s.v_dim);
    }
    return state_name(s.name) + ": " + name(s.kind) + "[" + fields + "]";
  }

  void unused_weights() {
    std::vector<bool> used(g_.weights.size());
    for (const Op& op : g_.ops)
      for (const WeightUse& use : op.weights)
        if (use.weight.valid()) used[use.weight.index] = true;
    for (size_t i = 0; i < used.size(); i++)
      if (!used[i]) out_ += "  " + weight({0, {int32_t(i)}}) + "\n";
  }

  void ops(int32_t begin, int32_t end, const char* indent) {
    for (int32_t i = begin; i < end; i++) {
      out_ += indent + op(g_.ops[i]) + "  // ";
      for (size_t r = 0; r < g_.ops[i].results.size(); r++)
        out_ += (r ? ", " : "") + to_string(g_.value(g_.ops[i].results[r]).type);
      out_ += "\n";
    }
  }

  std::string args(const Op& op) {
    std::string s;
    auto arg = [&](const std::string& text) { s += (s.empty() ? "" : ", ") + text; };
    for (ValueId v : op.inputs) arg(value(v));
    for (const char* what : {"token", "position", "output"})
      if (reads(op.kind, what)) arg(std::string("rows.") + what);
    if (op.state.valid()) arg(state_name(g_.state(op.state).name));
    if (reads(op.kind, "rows")) arg("rows");
    for (const Slot& slot : slots(op.kind)) {
      auto uses = op.slot(slot.name);
      if (uses.empty()) continue;
      std::string list;
      for (const WeightUse& use : uses) list += (list.empty() ? "" : ", ") + weight(use);
      arg(slot.name + " = " + (slot.many ? "[" + list + "]" : list));
    }
    return s;
  }

  // In full at its first mention, by name afterwards.
  std::string weight(const WeightUse& use) {
    if (!use.weight.valid()) return "none";
    const Weight& w = g_.weight(use.weight);
    std::string s = "weight " + string_literal(w.name);
    if (!printed_[use.weight.index]) s += ": " + to_string(w.format, w.shape) + source(w);
    printed_[use.weight.index] = true;
    if (use.row_begin != 0 || use.row_end >= 0)
      s += " rows[" + number(use.row_begin) + ":" + (use.row_end < 0 ? "" : number(use.row_end)) + "]";
    return s;
  }

  static std::string source(const Weight& w) {
    if (w.source == Weight::Source::Tensor) return "";
    std::string s = w.source == Weight::Source::RopeFine ? " = rope_fine(" : " = rope_coarse(";
    s += "base = " + number(w.rope.base) + ", scale = " + number(w.rope.scale) +
         ", dims = " + number(w.rope.dims) + ", fine = " + number(w.rope.fine);
    if (w.rope.high >= 0) s += ", low = " + number(w.rope.low) + ", high = " + number(w.rope.high);
    if (w.rope.magnitude != 1) s += ", magnitude = " + number(w.rope.magnitude);
    if (!w.rope.factors.empty()) s += ", factors = " + string_literal(w.rope.factors);
    if (!w.rope.long_factors.empty())
      s += ", long_factors = " + string_literal(w.rope.long_factors) +
           ", short = " + number(w.rope.short_context);
    return s + ")";
  }

  static std::string attrs(const Op& op) {
    std::string s;
    for (const Attr& a : op.attrs) {
      s += (s.empty() ? "" : ", ") + std::string(info(a.name).name) + " = ";
      switch (info(a.name).type) {
        case AttrType::f32:
          s += number(float(a.f));
          break;
        case AttrType::i64:
          s += number(a.i);
          break;
        case AttrType::flag:
          s += a.i ? "true" : "false";
          break;
        case AttrType::fn:
          s += name(Fn(a.i));
          break;
        case AttrType::elem:
          s += name(Elem(a.i));
          break;
        case AttrType::list:
          s += "[";
          for (size_t i = 0; i < a.list.size(); i++) s += (i ? ", " : "") + number(a.list[i]);
          s += "]";
          break;
      }
    }
    return s;
  }

  const Graph& g_;
  std::string out_;
  std::vector<bool> printed_;
};

}  // namespace

std::string string_literal(std::string_view text) {
  static const char kHex[] = "0123456789abcdef";
  std::string s = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      s += {'\\', char(c)};
    } else if (c == '\n') {
      s += "\\n";
    } else if (c == '\t') {
      s += "\\t";
    } else if (c < 0x20 || c >= 0x7f) {
      s += {'\\', 'x', kHex[c >> 4], kHex[c & 15]};
    } else {
      s += char(c);
    }
  }
  return s + "\"";
}

std::string print(const Graph& g) { return Printer(g).graph(); }
std::string print(const Graph& g, const Op& op) { return Printer(g).op(op); }

}  // namespace gc::ir
