#include "runtime/text/grammar/gbnf.h"

#include "runtime/base/format.h"
#include "runtime/text/grammar/token_refs.h"
#include "runtime/text/utf8.h"

namespace gcrt {
namespace grammar {
namespace {

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}
int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class Parser {
 public:
  Parser(Str text, const Tokenizer* vocabulary, Network& n, Span<char> message)
      : text_(text),
        vocabulary_(vocabulary),
        n_(n),
        message_(message),
        groups_(n.allocator()),
        ranges_(n.allocator()),
        slots_(n.allocator()) {}

  Status run(uint32_t* root) {
    for (space(true); at_ < text_.size(); space(true))
      if (!rule()) return status_;
    const uint32_t r = known_rules_ ? lookup("root") : kNone;
    if (r == kNone || n_.at_rule(r).body.start == kNone) {
      format_to(message_, "there is no rule 'root'");
      return kErrInput;
    }
    if (n_.failed()) {
      format_to(message_, "the grammar is too large");
      return kErrFull;
    }
    *root = r;
    return kOk;
  }

 private:
  // What is open: the alternatives so far, and the one that is being read.
  struct Group {
    Fragment all;  // from start over each alternative to end
    uint32_t at;   // where the current alternative is
    uint32_t first_node;
    size_t text_at;
  };
  // The last element, which a repetition is of.
  struct Element {
    bool there;
    Fragment f;
    uint32_t first_node;
  };

  template <class... Parts>
  bool fault(const Parts&... parts) {
    return fault_at(at_, parts...);
  }
  template <class... Parts>
  bool fault_at(size_t at, const Parts&... parts) {
    uint32_t line = 1;
    for (size_t i = 0; i < at && i < text_.size(); ++i) line += text_[i] == '\n';
    format_to(message_, "line ", line, ": ", parts...);
    status_ = kErrInput;
    return false;
  }
  bool out_of_memory() {
    format_to(message_, "not enough memory for the grammar");
    status_ = kErrMemory;
    return false;
  }

  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void space(bool newlines) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '\r') ++at_;
      } else if (c == ' ' || c == '\t' || (newlines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }
  Str name() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    return text_.sub(begin, at_ - begin);
  }

  // Rules by name: a hash table of ids, declared at first sight.
  uint32_t lookup(Str name) {
    if ((known_rules_ + 1) * 2 > slots_.size()) {
      Vec<uint32_t> fresh(n_.allocator());
      if (!fresh.resize(slots_.empty() ? 64 : slots_.size() * 2)) return kNone;
      for (uint32_t& s : fresh) s = kNone;
      for (uint32_t r : slots_)
        if (r != kNone) fresh[slot(fresh, n_.name(r))] = r;
      slots_ = static_cast<Vec<uint32_t>&&>(fresh);
    }
    const size_t at = slot(slots_, name);
    if (slots_[at] == kNone) {
      slots_[at] = n_.rule(name);
      ++known_rules_;
    }
    return slots_[at];
  }
  size_t slot(const Vec<uint32_t>& slots, Str name) const {
    uint64_t h = name.size();
    for (char c : name) h = (h ^ static_cast<uint8_t>(c)) * 0x9FB21C651E98DF25u, h ^= h >> 29;
    size_t at = h & (slots.size() - 1);
    while (slots[at] != kNone && n_.name(slots[at]) != name) at = (at + 1) & (slots.size() - 1);
    return at;
  }

  bool rule() {
    const size_t begin = at_;
    const Str id = name();
    if (id.empty()) return fault("expected the name of a rule");
    space(false);
    if (!text_.sub(at_).starts_with("::=")) return fault("expected ::= after '", id, "'");
    at_ += 3;
    space(true);
    const uint32_t r = lookup(id);
    if (r == kNone) return out_of_memory();
    if (n_.at_rule(r).body.start != kNone) return fault_at(begin, "rule '", id, "' is defined twice");
    Fragment body = {};
    if (!alternatives(&body)) return false;
    n_.define(r, body);
    return true;
  }

  bool open_group() {
    const uint32_t first = static_cast<uint32_t>(n_.n_nodes());
    const Fragment all = {n_.node(), n_.node()};
    const uint32_t at = n_.node();
    n_.epsilon(all.start, at);
    return groups_.push({all, at, first, at_}) || out_of_memory();
  }
  void next_alternative() {
    Group& g = groups_.back();
    n_.epsilon(g.at, g.all.end);
    g.at = n_.node();
    n_.epsilon(g.all.start, g.at);
  }
  Fragment close_group() {
    const Group g = groups_.back();
    groups_.pop();
    n_.epsilon(g.at, g.all.end);
    return g.all;
  }
  void append_last() {
    if (!last_.there) return;
    n_.epsilon(groups_.back().at, last_.f.start);
    groups_.back().at = last_.f.end;
    last_.there = false;
  }
  void set_last(Fragment f, uint32_t first_node) {
    append_last();
    last_ = {true, f, first_node};
  }

  // <[id]>, <text>, and either with ! before it.
  bool token(Fragment* f) {
    const bool others = peek() == '!';
    const size_t begin = at_ + others;
    size_t end = begin;
    while (end < text_.size() && text_[end] != '>' && text_[end] != '\n') ++end;
    if (end == text_.size() || text_[end] != '>') return fault("a token has no closing '>'");
    const Str name = text_.sub(begin, end + 1 - begin);
    if (!vocabulary_ || !vocabulary_->available()) return fault("a token (<...>) needs a model's vocabulary");
    int64_t id = 0;
    if (name.size() > 4 && name[1] == '[' && name[name.size() - 2] == ']') {
      for (char c : name.sub(2, name.size() - 4)) {
        if (c < '0' || c > '9') return fault("expected the number of a token");
        id = min_of<int64_t>(id * 10 + (c - '0'), INT32_MAX);
      }
      if (id >= vocabulary_->n_vocab()) return fault("the vocabulary has no such token");
    } else {
      Vec<int32_t> ids(n_.allocator());
      if (vocabulary_->encode(name, {false, true, {}}, ids) != kOk) return out_of_memory();
      if (ids.size() != 1) return fault("'", name, "' is not one token of the vocabulary");
      id = ids[0];
    }
    at_ = end + 1;
    *f = n_.of_token(static_cast<int32_t>(id), others);
    return true;
  }

  // To the end of the rule. Groups are on a stack of our own: they may be nested any number of times.
  bool alternatives(Fragment* body) {
    if (!open_group()) return false;
    const size_t outer = groups_.size();
    last_.there = false;
    for (;;) {
      const bool nested = groups_.size() > outer;
      space(nested);
      if (n_.failed()) break;
      const uint32_t first = static_cast<uint32_t>(n_.n_nodes());
      const char c = peek();
      if (at_ == text_.size() || (!nested && (c == '\n' || c == '\r'))) {
        if (nested) return fault_at(groups_.back().text_at, "'(' is never closed");
        break;
      }
      if (c == '|') {
        ++at_;
        append_last();
        next_alternative();
        space(true);
      } else if (c == '(') {
        append_last();
        if (!open_group()) return false;
        ++at_;
      } else if (c == ')') {
        if (!nested) return fault("')' without '('");
        ++at_;
        append_last();
        const uint32_t begin = groups_.back().first_node;
        last_ = {true, close_group(), begin};
      } else if (c == '"') {
        Fragment f = n_.empty();
        if (!literal(&f)) return false;
        set_last(f, first);
      } else if (c == '[') {
        if (!char_class()) return false;
        set_last(n_.of_chars(ranges_), first);
      } else if (c == '.') {
        ++at_;
        const Range any = {0, kMaxCode};
        set_last(n_.of_chars(Span<const Range>(&any, 1)), first);
      } else if (c == '*' || c == '+' || c == '?' || c == '{') {
        if (!repetition()) return false;
      } else if (c == '<' || (c == '!' && peek(1) == '<')) {
        Fragment f;
        if (!token(&f)) return false;
        set_last(f, first);
      } else if (is_name(c)) {
        const uint32_t r = lookup(name());
        if (r == kNone) return out_of_memory();
        set_last(n_.of_rule(r), first);
      } else {
        return fault("unexpected '", text_.sub(at_, c & 0x80 ? 0 : 1), "'");
      }
    }
    append_last();
    while (groups_.size() > outer) close_group();
    *body = close_group();
    return true;
  }

  bool number(uint32_t* out) {
    uint64_t v = 0;
    if (peek() < '0' || peek() > '9') return fault("expected a number");
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      v = v * 10 + static_cast<uint64_t>(peek() - '0');
      if (v >= Network::kUnbounded) return fault("a number of repetitions is too large");
    }
    *out = static_cast<uint32_t>(v);
    return true;
  }

  bool repetition() {
    if (!last_.there) return fault("'", text_.sub(at_, 1), "' follows nothing that it could repeat");
    const char c = text_[at_++];
    uint32_t min = c == '+' ? 1 : 0, max = c == '?' ? 1 : Network::kUnbounded;
    if (c == '{') {
      const size_t begin = at_;
      space(true);
      if (!number(&min)) return false;
      max = min;
      space(true);
      if (peek() == ',') {
        ++at_;
        space(true);
        max = Network::kUnbounded;
        if (peek() != '}' && !number(&max)) return false;
        space(true);
      }
      if (peek() != '}') return fault("expected '}'");
      ++at_;
      if (max < min) return fault_at(begin, "a repetition of at least ", min, " and at most ", max);
    }
    last_.f = n_.repeat(last_.f, last_.first_node, min, max);
    return true;
  }

  // A character as literals and classes write it.
  bool character(uint32_t* out) {
    if (peek() != '\\') {
      const int n = utf8_next(text_.sub(at_));
      if (n <= 0) return fault("the text is not UTF-8");
      *out = utf8_decode(text_.data() + at_, n);
      at_ += static_cast<size_t>(n);
      return true;
    }
    const char c = peek(1);
    int digits = 0;
    switch (c) {
      case 'n':
        *out = '\n';
        break;
      case 'r':
        *out = '\r';
        break;
      case 't':
        *out = '\t';
        break;
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        *out = static_cast<uint32_t>(c);
        break;
      case 'x':
        digits = 2;
        break;
      case 'u':
        digits = 4;
        break;
      case 'U':
        digits = 8;
        break;
      default:
        return fault("unknown escape '", text_.sub(at_, c & 0x80 ? 1 : 2), "'");
    }
    at_ += 2;
    if (!digits) return true;
    uint32_t v = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const int h = hex_value(peek());
      if (h < 0) return fault("expected ", digits, " hexadecimal digits");
      if (v >> 28) return fault("there is no such character");
      v = v * 16 + static_cast<uint32_t>(h);
    }
    if (v > kMaxCode || (v >= 0xD800 && v <= 0xDFFF)) return fault("there is no such character");
    *out = v;
    return true;
  }

  bool literal(Fragment* f) {
    const size_t begin = at_++;
    while (peek() != '"') {
      if (at_ >= text_.size() || peek() == '\n') return fault_at(begin, "a text has no closing '\"'");
      uint32_t code = 0;
      if (!character(&code)) return false;
      const Range r = {code, code};
      const uint32_t next = n_.node();
      n_.chars(f->end, Span<const Range>(&r, 1), next);
      f->end = next;
    }
    ++at_;
    return true;
  }

  // Into ranges_.
  bool char_class() {
    const size_t begin = at_++;
    bool negated = false;
    if (peek() == '^') negated = true, ++at_;
    ranges_.clear();
    while (peek() != ']') {
      if (at_ >= text_.size() || peek() == '\n') return fault_at(begin, "a class has no closing ']'");
      Range r = {};
      if (!character(&r.lo)) return false;
      r.hi = r.lo;
      if (peek() == '-' && peek(1) != ']') {
        ++at_;
        if (at_ >= text_.size()) return fault_at(begin, "a class has no closing ']'");
        if (!character(&r.hi)) return false;
        if (r.hi < r.lo) return fault_at(begin, "a range of a class goes backwards");
      }
      if (!ranges_.push(r)) return out_of_memory();
    }
    ++at_;
    normalize_ranges(ranges_);
    if (negated) {
      Vec<Range> inverse(n_.allocator());
      if (!invert_ranges(ranges_, inverse)) return out_of_memory();
      ranges_ = static_cast<Vec<Range>&&>(inverse);
    }
    return !ranges_.empty() || fault_at(begin, "a class without characters");
  }

  Str text_;
  const Tokenizer* vocabulary_;
  Network& n_;
  Span<char> message_;
  Status status_ = kOk;
  size_t at_ = 0;
  Vec<Group> groups_;
  Element last_ = {};
  Vec<Range> ranges_;
  Vec<uint32_t> slots_;
  size_t known_rules_ = 0;
};

}  // namespace

Status parse_gbnf(Str text, const Tokenizer* vocabulary, Network& out, uint32_t* root, Span<char> message) {
  return Parser(text, vocabulary, out, message).run(root);
}

}  // namespace grammar
}  // namespace gcrt
