#include "compiler/ir/parse.h"

#include <cmath>
#include <unordered_map>
#include <utility>

#include "compiler/base/error.h"
#include "compiler/ir/infer.h"
#include "compiler/ir/lexer.h"

namespace gc::ir {
namespace {

class Parser {
 public:
  Parser(std::string_view text, std::string_view file) : lex_(text, file) {}

  Graph graph() {
    header();
    lex_.expect("{");
    body();
    lex_.expect("}");
    if (lex_.peek().kind != Token::Kind::End) lex_.fail(lex_.peek(), "text after the graph");
    for (const Forward& f : layer_inputs_) g_.layer_input.push_back(resolve(f));
    for (const Output& o : outputs_) check_output(o);
    return std::move(g_);
  }

 private:
  // A value named before its definition.
  struct Forward {
    std::string name;
    Token at;
  };
  struct Output {
    Forward value;
    std::string type;
  };

  ValueId resolve(const Forward& f) const {
    auto found = values_.find(f.name);
    if (found == values_.end()) lex_.fail(f.at, cat("unknown value %", f.name));
    return {found->second};
  }

  void check_output(const Output& o) {
    ValueId v = resolve(o.value);
    std::string real = to_string(g_.value(v).type);
    if (real != o.type) lex_.fail(o.value.at, cat("output ", o.value.name, " is ", real, ", not ", o.type));
    g_.outputs.push_back(v);
  }

  void header() {
    g_.encoder = lex_.accept("encoder");
    if (!g_.encoder) lex_.expect("graph");
    lex_.expect("@");
    g_.name = lex_.name("the graph's name");
    lex_.expect("(");
    for (const char* word : {"rows", ":", "row", "[", "T", "]"}) lex_.expect(word);
    while (lex_.accept(",")) state();
    lex_.expect(")");
    if (!lex_.accept("->")) return;
    do {
      Token at = lex_.peek();
      std::string name = lex_.name("an output's name");
      lex_.expect(":");
      outputs_.push_back({{std::move(name), std::move(at)}, type_text()});
    } while (lex_.accept(","));
  }

  // A type as the printer spells it.
  std::string type_text() {
    std::string s = lex_.name("a type") + "[";
    lex_.expect("[");
    for (bool first = true; !lex_.accept("]"); first = false) {
      if (!first) lex_.expect(",");
      s += (first ? "" : ", ") + lex_.name("a dimension");
    }
    return s + "]";
  }

  void state() {
    Token at = lex_.peek();
    State s;
    s.name = lex_.name("a state's name");
    if (!states_.try_emplace(s.name, int32_t(g_.states.size())).second)
      lex_.fail(at, cat("state ", s.name, " is declared twice"));
    lex_.expect(":");
    at = lex_.peek();
    auto kind = state_kind_by_name(lex_.name("a state's kind"));
    if (!kind) lex_.fail(at, cat("unknown kind of state ", quote(at.text)));
    s.kind = *kind;
    lex_.expect("[");
    for (bool first = true; !lex_.accept("]"); first = false) {
      if (!first) lex_.expect(",");
      state_field(s);
    }
    g_.states.push_back(std::move(s));
  }

  void state_field(State& s) {
    Token field = lex_.next();
    int64_t v = lex_.integer("a size");
    if (v < 0 || v > (int64_t(1) << 32)) lex_.fail(field, cat("size ", v));
    if (field.is("window")) {
      s.window = v;
    } else if (field.is("heads")) {
      s.heads = v;
    } else if (field.is("dim")) {
      s.k_dim = s.v_dim = v;
    } else if (field.is("k_dim")) {
      s.k_dim = v;
    } else if (field.is("v_dim")) {
      s.v_dim = v;
    } else {
      lex_.fail(field, cat("unknown field ", quote(field.text)));
    }
  }

  void body() {
    while (lex_.peek().is("%") || lex_.peek().is("weight")) {
      if (lex_.peek().is("weight")) {
        weight();
      } else {
        op();
      }
    }
    if (!lex_.peek().is("layer")) return;
    while (lex_.peek().is("layer")) {
      lex_.next();
      Token at = lex_.peek();
      if (lex_.integer("a layer's number") != int64_t(g_.layer_begin.size()))
        lex_.fail(at, cat("expected layer ", g_.layer_begin.size()));
      layer();
    }
    lex_.expect("head");
    layer();
  }

  void layer() {
    g_.layer_begin.push_back(int32_t(g_.ops.size()));
    lex_.expect("(");
    lex_.expect("%");
    Token at = lex_.peek();
    layer_inputs_.push_back({lex_.name("a value"), std::move(at)});
    lex_.expect(")");
    lex_.expect("{");
    while (!lex_.accept("}")) op();
  }

  ValueId value() {
    lex_.expect("%");
    Token at = lex_.peek();
    return resolve({lex_.name("a value"), at});
  }

  void op() {
    std::vector<Forward> results;
    do {
      lex_.expect("%");
      Token at = lex_.peek();
      results.push_back({lex_.name("a value"), std::move(at)});
    } while (lex_.accept(","));
    lex_.expect("=");
    Token at = lex_.peek();
    auto kind = op_by_name(lex_.name("an op"));
    if (!kind) lex_.fail(at, cat("unknown op ", quote(at.text)));
    Op op{*kind};
    lex_.expect("(");
    for (bool first = true; !lex_.accept(")"); first = false) {
      if (!first) lex_.expect(",");
      arg(op);
    }
    check_reads(op, at);
    if (lex_.accept("{")) {
      for (bool first = true; !lex_.accept("}"); first = false) {
        if (!first) lex_.expect(",");
        attr(op);
      }
    }
    define(std::move(op), results, at);
  }

  void define(Op op, const std::vector<Forward>& results, const Token& at) {
    std::vector<Type> types;
    std::string error = infer(g_, op, types);
    if (!error.empty()) lex_.fail(at, error);
    if (types.size() != results.size())
      lex_.fail(at, cat(info(op.kind).name, " has ", types.size(), " results"));
    for (size_t i = 0; i < types.size(); i++) {
      ValueId id{int32_t(g_.values.size())};
      if (!values_.try_emplace(results[i].name, id.index).second)
        lex_.fail(results[i].at, cat("value %", results[i].name, " is defined twice"));
      g_.values.push_back({results[i].name, types[i], int32_t(g_.ops.size())});
      op.results.push_back(id);
    }
    g_.ops.push_back(std::move(op));
  }

  void arg(Op& op) {
    if (lex_.peek().is("%")) {
      op.inputs.push_back(value());
      return;
    }
    Token word = lex_.peek();
    lex_.name("an operand");
    bool name = word.kind == Token::Kind::Name;
    if (name && lex_.accept("=")) {
      slot(op, word);
    } else if (name && word.text == "rows") {
      read_.push_back(word.text);
    } else if (name && word.text.starts_with("rows.")) {
      read_.push_back(word.text.substr(5));
    } else {
      auto found = states_.find(word.text);
      if (found == states_.end()) lex_.fail(word, cat("unknown operand ", quote(word.text)));
      if (op.state.valid()) lex_.fail(word, "an op has one state");
      op.state = {found->second};
    }
  }

  // The row table's columns are written out for the reader and must be those of the op.
  void check_reads(const Op& op, const Token& at) {
    for (const char* what : {"token", "position", "output", "rows"}) {
      int64_t count = 0;
      for (const std::string& r : read_) count += r == what;
      if (count == int64_t(reads(op.kind, what))) continue;
      bool all = std::string_view(what) == "rows";
      lex_.fail(at, cat(info(op.kind).name, reads(op.kind, what) ? " reads " : " does not read ",
                        all ? "" : "rows.", what));
    }
    for (const std::string& r : read_)
      if (!reads(op.kind, r)) lex_.fail(at, cat("unknown column rows.", r));
    read_.clear();
  }

  void slot(Op& op, const Token& word) {
    const auto& table = slots(op.kind);
    size_t index = 0;
    while (index < table.size() && table[index].name != word.text) index++;
    if (index == table.size())
      lex_.fail(word, cat(info(op.kind).name, " has no weight slot ", quote(word.text)));
    if (!lex_.accept("[")) {
      if (table[index].many) lex_.fail(lex_.peek(), "expected a list of row segments");
      op.weights.push_back(use(uint8_t(index)));
      return;
    }
    if (!table[index].many) lex_.fail(word, cat("weight slot ", word.text, " takes one weight"));
    do op.weights.push_back(use(uint8_t(index)));
    while (lex_.accept(","));
    lex_.expect("]");
  }

  WeightUse use(uint8_t slot) {
    WeightUse u{slot};
    if (lex_.accept("none")) return u;
    u.weight = weight();
    if (!lex_.accept("rows")) return u;
    lex_.expect("[");
    u.row_begin = lex_.integer("the first row");
    lex_.expect(":");
    if (!lex_.peek().is("]")) {
      Token at = lex_.peek();
      u.row_end = lex_.integer("the row after the last");
      if (u.row_end < 0) lex_.fail(at, "a negative row");
    }
    lex_.expect("]");
    return u;
  }

  WeightId weight() {
    lex_.expect("weight");
    Token at = lex_.peek();
    Weight w;
    if (at.kind != Token::Kind::String) lex_.fail(at, "expected a weight's name in quotes");
    w.name = lex_.name("a weight's name");
    auto found = weights_.find(w.name);
    if (!lex_.accept(":")) {
      if (found == weights_.end()) lex_.fail(at, cat("weight ", quote(w.name), " has no type yet"));
      return {found->second};
    }
    weight_type(w);
    if (lex_.accept("=")) weight_source(w);
    if (found != weights_.end()) {
      const Weight& old = g_.weights[found->second];
      if (old.format != w.format || old.shape != w.shape || old.source != w.source || old.rope != w.rope)
        lex_.fail(at, cat("weight ", quote(w.name), " differs from its first mention"));
      return {found->second};
    }
    WeightId id{int32_t(g_.weights.size())};
    weights_.emplace(w.name, id.index);
    g_.weights.push_back(std::move(w));
    return id;
  }

  void weight_type(Weight& w) {
    Token at = lex_.peek();
    auto format = format_of_name(lex_.name("a format"));
    if (!format) lex_.fail(at, cat("unknown format ", quote(at.text)));
    w.format = *format;
    lex_.expect("[");
    do {
      at = lex_.peek();
      w.shape.push_back(lex_.integer("a dimension"));
      if (w.shape.back() <= 0) lex_.fail(at, "a dimension must be positive");
    } while (lex_.accept(","));
    lex_.expect("]");
  }

  void weight_source(Weight& w) {
    if (lex_.accept("rope_fine")) {
      w.source = Weight::Source::RopeFine;
    } else {
      lex_.expect("rope_coarse");
      w.source = Weight::Source::RopeCoarse;
    }
    lex_.expect("(");
    do {
      Token field = lex_.next();
      lex_.expect("=");
      if (field.is("base")) {
        w.rope.base = lex_.number("a base");
      } else if (field.is("scale")) {
        w.rope.scale = lex_.number("a scale");
      } else if (field.is("dims")) {
        w.rope.dims = lex_.integer("dims");
      } else if (field.is("fine")) {
        w.rope.fine = lex_.integer("fine");
      } else if (field.is("low")) {
        w.rope.low = lex_.number("a pair");
      } else if (field.is("high")) {
        w.rope.high = lex_.number("a pair");
      } else if (field.is("magnitude")) {
        w.rope.magnitude = lex_.number("a factor");
      } else if (field.is("factors")) {
        w.rope.factors = lex_.name("factors");
      } else if (field.is("long_factors")) {
        w.rope.long_factors = lex_.name("long_factors");
      } else if (field.is("short")) {
        w.rope.short_context = lex_.integer("a length");
      } else {
        lex_.fail(field, cat("unknown field ", quote(field.text)));
      }
    } while (lex_.accept(","));
    lex_.expect(")");
  }

  void attr(Op& op) {
    Token at = lex_.peek();
    auto name = attr_by_name(lex_.name("an attribute"));
    if (!name) lex_.fail(at, cat("unknown attribute ", quote(at.text)));
    if (op.has(*name)) lex_.fail(at, cat("attribute ", at.text, " is given twice"));
    lex_.expect("=");
    at = lex_.peek();
    switch (info(*name).type) {
      case AttrType::f32: {
        double v = lex_.number("a value");
        if (!std::isfinite(float(v))) lex_.fail(at, "no finite f32");
        op.set_f32(*name, v);
        return;
      }
      case AttrType::i64:
        op.set_i64(*name, lex_.integer("a value"));
        return;
      case AttrType::flag:
        if (!lex_.peek().is("true") && !lex_.peek().is("false")) lex_.fail(at, "expected true or false");
        op.set_i64(*name, lex_.next().text == "true");
        return;
      case AttrType::fn: {
        auto fn = fn_by_name(lex_.name("an activation function"));
        if (!fn) lex_.fail(at, cat("unknown activation function ", quote(at.text)));
        op.set_i64(*name, int64_t(*fn));
        return;
      }
      case AttrType::elem: {
        auto elem = elem_by_name(lex_.name("an element type"));
        if (!elem) lex_.fail(at, cat("unknown element type ", quote(at.text)));
        op.set_i64(*name, int64_t(*elem));
        return;
      }
      case AttrType::list: {
        std::vector<int64_t> list;
        lex_.expect("[");
        for (bool first = true; !lex_.accept("]"); first = false) {
          if (!first) lex_.expect(",");
          list.push_back(lex_.integer("a value"));
        }
        op.set_list(*name, std::move(list));
        return;
      }
    }
  }

  Lexer lex_;
  Graph g_;
  std::unordered_map<std::string, int32_t> values_, weights_, states_;
  std::vector<Forward> layer_inputs_;
  std::vector<Output> outputs_;
  std::vector<std::string> read_;  // columns of the row table that the op at hand names
};

}  // namespace

Graph parse(std::string_view text, std::string_view file) { return Parser(text, file).graph(); }

}  // namespace gc::ir
