#include "compiler/text/regex.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "compiler/base/error.h"
#include "compiler/text/unicode.h"

namespace gc::text {
namespace {

// ---- Sets of characters ----

using Range = std::pair<std::uint32_t, std::uint32_t>;  // both ends included

class CharSet {
 public:
  CharSet() = default;
  CharSet(std::initializer_list<Range> ranges) : ranges_(ranges) { tidy(); }
  explicit CharSet(std::vector<Range> ranges) : ranges_(std::move(ranges)) { tidy(); }
  void add(const CharSet& other) {
    ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
    tidy();
  }
  CharSet complement() const {
    CharSet out;
    std::uint32_t at = 0;
    for (auto [first, last] : ranges_) {
      if (first > at) out.ranges_.emplace_back(at, first - 1);
      at = last + 1;
    }
    if (at < kCodePoints) out.ranges_.emplace_back(at, kCodePoints - 1);
    return out;
  }
  CharSet without(const CharSet& other) const {
    CharSet gone = complement();
    gone.add(other);
    return gone.complement();
  }
  bool has(std::uint32_t c) const {
    auto it = std::upper_bound(ranges_.begin(), ranges_.end(), Range{c, kCodePoints});
    return it != ranges_.begin() && it[-1].second >= c;
  }
  const std::vector<Range>& ranges() const { return ranges_; }
  bool operator<(const CharSet& o) const { return ranges_ < o.ranges_; }

 private:
  void tidy() {
    std::sort(ranges_.begin(), ranges_.end());
    std::vector<Range> out;
    for (Range r : ranges_)
      if (!out.empty() && r.first <= out.back().second + 1)
        out.back().second = std::max(out.back().second, r.second);
      else
        out.push_back(r);
    ranges_ = std::move(out);
  }
  std::vector<Range> ranges_;
};

CharSet class_set(CharClass c) { return CharSet(ranges_of(c)); }

// The blocks of ideographs that Kimi's tokenizer calls Han.
const CharSet& han() {
  static const CharSet set{{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                           {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B820, 0x2CEAF},
                           {0x2CEB0, 0x2EBEF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return set;
}

CharSet property(std::string_view name) {
  if (name == "L") return class_set(CharClass::kLetter);
  if (name == "N") return class_set(CharClass::kNumber);
  if (name == "M") return class_set(CharClass::kMark);
  if (name == "P") return class_set(CharClass::kPunctuation);
  if (name == "S") return class_set(CharClass::kSymbol);
  if (name == "Han") return han();
  GC_CHECK(false, "\\p{", name, "} in a pre-tokenizer");
}

// Sets of all stages; a set's number is what automata know it by.
class Sets {
 public:
  int number(const CharSet& s) {
    auto [it, added] = numbers_.emplace(s, static_cast<int>(sets_.size()));
    if (added) sets_.push_back(s);
    return it->second;
  }
  const std::vector<CharSet>& all() const { return sets_; }

 private:
  std::map<CharSet, int> numbers_;
  std::vector<CharSet> sets_;
};

// ---- The expression as a program of a backtracking engine ----

struct Inst {
  enum Op { kChar, kSplit, kNextIs, kMatch } op;
  int set = -1;        // kChar, kNextIs (or the end)
  int x = -1, y = -1;  // where to go on; kSplit tries x first
};

class Parser {
 public:
  Parser(std::string_view text, Sets& sets) : text_(text), sets_(sets) {}

  // The program; execution begins at *start.
  std::vector<Inst> parse(int* start) {
    int match = emit({Inst::kMatch});
    Node all = alternatives();
    GC_CHECK(at_ == text_.size(), "pre-tokenizer ", text_, ": unexpected ", text_.substr(at_));
    *start = generate(*all, match);
    return std::move(code_);
  }

 private:
  struct Tree;
  using Node = std::unique_ptr<Tree>;
  struct Tree {
    enum Kind { kSet, kNextIs, kSequence, kChoice, kRepeat } kind;
    int set = -1;
    int min = 0, max = 0;  // max -1: any number
    std::vector<Node> parts;
  };

  bool more() const { return at_ < text_.size(); }
  bool take(std::string_view s) {
    if (text_.substr(at_, s.size()) != s) return false;
    at_ += s.size();
    return true;
  }

  std::uint32_t code_point() {
    auto lead = static_cast<unsigned char>(text_[at_++]);
    if (lead < 0x80) return lead;
    int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    std::uint32_t c = lead & (0x3Fu >> more);
    while (more--) c = c << 6 | (static_cast<unsigned char>(text_[at_++]) & 0x3Fu);
    return c;
  }

  CharSet escape() {
    char c = text_[at_++];
    switch (c) {
      case 'r':
        return {{'\r', '\r'}};
      case 'n':
        return {{'\n', '\n'}};
      case 't':
        return {{'\t', '\t'}};
      case 's':
        return class_set(CharClass::kSpace);
      case 'S':
        return class_set(CharClass::kSpace).complement();
      case 'd':
        return {{'0', '9'}};
      case 'x': {
        std::uint32_t code = 0;
        for (++at_; text_[at_] != '}'; ++at_) {
          auto h = static_cast<unsigned char>(text_[at_]);
          code = code * 16 + (h <= '9' ? h - '0' : h - 'A' + 10u);
        }
        ++at_;
        return {{code, code}};
      }
      case 'p': {
        std::size_t close = text_.find('}', at_);
        std::string_view name = text_.substr(at_ + 1, close - at_ - 1);
        at_ = close + 1;
        return property(name);
      }
      default:
        auto u = static_cast<std::uint32_t>(static_cast<unsigned char>(c));
        return {{u, u}};
    }
  }

  // After the '['.
  CharSet bracket() {
    bool negated = take("^");
    CharSet set;
    while (!take("]")) {
      GC_CHECK(more(), "pre-tokenizer ", text_, ": [ without ]");
      if (take("--[")) {
        set = set.without(bracket());
        continue;
      }
      bool escaped = take("\\");
      if (escaped && std::string_view("psSd").find(text_[at_]) != std::string_view::npos) {
        set.add(escape());
        continue;
      }
      std::uint32_t first = escaped ? escape().ranges()[0].first : code_point(), last = first;
      if (text_.substr(at_, 1) == "-" && text_.substr(at_ + 1, 1) != "]" && text_.substr(at_ + 1, 1) != "-") {
        ++at_;
        last = take("\\") ? escape().ranges()[0].first : code_point();
      }
      set.add({{first, last}});
    }
    return negated ? set.complement() : set;
  }

  Node leaf(const CharSet& s) {
    auto n = std::make_unique<Tree>();
    n->kind = Tree::kSet;
    n->set = sets_.number(s);
    return n;
  }

  Node alternatives() {
    auto choice = std::make_unique<Tree>();
    choice->kind = Tree::kChoice;
    do {
      auto sequence = std::make_unique<Tree>();
      sequence->kind = Tree::kSequence;
      while (more() && text_[at_] != '|' && text_[at_] != ')') sequence->parts.push_back(repeated());
      choice->parts.push_back(std::move(sequence));
    } while (take("|"));
    return choice;
  }

  Node repeated() {
    Node n = atom();
    for (;;) {
      int min = 0, max = -1;
      if (take("?")) {
        max = 1;
      } else if (take("+")) {
        min = 1;
      } else if (take("{")) {
        min = max = number();
        if (take(",")) max = number();
        GC_CHECK(take("}"), "pre-tokenizer ", text_, ": { without }");
      } else if (!take("*")) {
        return n;
      }
      auto repeat = std::make_unique<Tree>();
      repeat->kind = Tree::kRepeat;
      repeat->min = min, repeat->max = max;
      repeat->parts.push_back(std::move(n));
      n = std::move(repeat);
    }
  }

  int number() {
    int v = 0;
    while (more() && text_[at_] >= '0' && text_[at_] <= '9') v = v * 10 + (text_[at_++] - '0');
    return v;
  }

  Node atom() {
    if (take("(?!\\S)")) {
      Node n = leaf(class_set(CharClass::kSpace));
      n->kind = Tree::kNextIs;
      return n;
    }
    bool any_case = take("(?i:");
    if (any_case || take("(?:") || take("(")) {
      bool outer = std::exchange(any_case_, any_case || any_case_);
      Node n = alternatives();
      any_case_ = outer;
      GC_CHECK(take(")"), "pre-tokenizer ", text_, ": ( without )");
      return n;
    }
    if (take("[")) return leaf(bracket());
    if (take("\\")) return leaf(escape());
    std::uint32_t c = code_point();
    CharSet s{{c, c}};
    if (any_case_ && c >= 'a' && c <= 'z') s.add({{c - 32, c - 32}});
    return leaf(s);
  }

  int emit(Inst i) {
    code_.push_back(i);
    return static_cast<int>(code_.size()) - 1;
  }

  // The code of `n` that goes on at `next`; returns where it begins.
  int generate(const Tree& n, int next) {
    switch (n.kind) {
      case Tree::kSet:
        return emit({Inst::kChar, n.set, next});
      case Tree::kNextIs:
        return emit({Inst::kNextIs, n.set, next});
      case Tree::kSequence:
        for (std::size_t i = n.parts.size(); i-- > 0;) next = generate(*n.parts[i], next);
        return next;
      case Tree::kChoice: {
        int start = generate(*n.parts.back(), next);
        for (std::size_t i = n.parts.size() - 1; i-- > 0;) {
          int first = generate(*n.parts[i], next);
          start = emit({Inst::kSplit, -1, first, start});
        }
        return start;
      }
      case Tree::kRepeat: {
        if (n.max < 0) {
          int loop = emit({Inst::kSplit, -1, -1, next});
          int body = generate(*n.parts[0], loop);
          code_[static_cast<std::size_t>(loop)].x = body;
          next = loop;
        } else {
          int end = next;
          for (int i = n.min; i < n.max; ++i)
            next = emit({Inst::kSplit, -1, generate(*n.parts[0], next), end});
        }
        for (int i = 0; i < n.min; ++i) next = generate(*n.parts[0], next);
        return next;
      }
    }
    return next;
  }

  std::string_view text_;
  Sets& sets_;
  std::size_t at_ = 0;
  bool any_case_ = false;
  std::vector<Inst> code_;
};

// ---- Classes ----

struct Classes {
  std::vector<std::vector<bool>> in;  // [class][set]
  std::vector<std::uint16_t> pages;
  std::vector<std::uint8_t> blocks;
  std::uint32_t bad = 0;  // of U+FFFD, which stands for bytes that are no UTF-8
};

// Characters that no set tells apart are one class.
Classes find_classes(const std::vector<CharSet>& sets) {
  std::set<std::uint32_t> starts{0};
  for (const CharSet& s : sets)
    for (auto [first, last] : s.ranges()) {
      starts.insert(first);
      if (last + 1 < kCodePoints) starts.insert(last + 1);
    }
  Classes out;
  std::map<std::vector<bool>, std::uint8_t> known;
  std::vector<std::uint8_t> of(kCodePoints);
  for (auto it = starts.begin(); it != starts.end(); ++it) {
    std::vector<bool> in;
    for (const CharSet& s : sets) in.push_back(s.has(*it));
    auto [found, added] = known.emplace(in, static_cast<std::uint8_t>(out.in.size()));
    if (added) out.in.push_back(in);
    GC_CHECK(out.in.size() <= gcrt::kMaxWordClasses);
    auto after = std::next(it);
    std::uint32_t end = after == starts.end() ? kCodePoints : *after;
    std::fill(of.begin() + *it, of.begin() + end, found->second);
  }
  std::map<std::vector<std::uint8_t>, std::uint16_t> blocks;
  for (std::uint32_t page = 0; page < kCodePoints / 256; ++page) {
    std::vector<std::uint8_t> block(of.begin() + page * 256, of.begin() + (page + 1) * 256);
    auto [found, added] = blocks.emplace(block, static_cast<std::uint16_t>(blocks.size()));
    if (added) out.blocks.insert(out.blocks.end(), block.begin(), block.end());
    out.pages.push_back(found->second);
  }
  out.bad = of[0xFFFD];
  return out;
}

// ---- The automaton ----

class Determinizer {
 public:
  Determinizer(const std::vector<Inst>& code, const Classes& classes) : code_(code), classes_(classes) {}

  // Rows of classes + 1 steps, the last one for the end of the text; row 0 is the end of the search, row 1 its start.
  std::vector<std::uint16_t> run(int start) {
    number({});
    seen_.assign(code_.size(), false);
    State first;
    close(start, first);
    number(first);
    std::size_t columns = classes_.in.size() + 1;
    std::vector<std::uint16_t> steps(columns, 0);  // row 0
    for (std::size_t s = 1; s < states_.size(); ++s)
      for (std::size_t c = 0; c < columns; ++c) {
        State next;
        seen_.assign(code_.size(), false);
        matched_ = false;
        step(State(states_[s]), c, next);
        std::size_t id = c + 1 == columns ? 0 : number(next);
        GC_CHECK(id < 1u << 15, "a pre-tokenizer's automaton has too many states");
        steps.push_back(static_cast<std::uint16_t>(id << 1 | matched_));
      }
    return steps;
  }

 private:
  using State = std::vector<int>;  // positions in code_, first choice first

  std::size_t number(const State& s) {
    auto [it, added] = numbers_.emplace(s, states_.size());
    if (added) states_.push_back(s);
    return it->second;
  }

  // Appends the positions that `pc` leads to without reading.
  void close(int pc, State& out) {
    if (seen_[static_cast<std::size_t>(pc)]) return;
    seen_[static_cast<std::size_t>(pc)] = true;
    const Inst& i = code_[static_cast<std::size_t>(pc)];
    if (i.op == Inst::kSplit) {
      close(i.x, out);
      close(i.y, out);
    } else {
      out.push_back(pc);
    }
  }

  bool in(int set, std::size_t c) const {
    return c < classes_.in.size() && classes_.in[c][static_cast<std::size_t>(set)];
  }

  // What becomes of `from` when the next character is of class c. False: a match, later choices are void.
  bool step(const State& from, std::size_t c, State& next) {
    for (int pc : from) {
      const Inst& i = code_[static_cast<std::size_t>(pc)];
      if (i.op == Inst::kMatch) {
        matched_ = true;
        return false;
      }
      if (i.op == Inst::kChar) {
        if (in(i.set, c)) close(i.x, next);
        continue;
      }
      // kNextIs: what comes after it reads the same character.
      if (c < classes_.in.size() && !in(i.set, c)) continue;
      State inner;
      std::vector<bool> outer = std::exchange(seen_, std::vector<bool>(code_.size()));
      close(i.x, inner);
      seen_ = std::move(outer);
      if (!step(inner, c, next)) return false;
    }
    return true;
  }

  const std::vector<Inst>& code_;
  const Classes& classes_;
  std::map<State, std::size_t> numbers_;
  std::vector<State> states_;
  std::vector<bool> seen_;  // [code_]
  bool matched_ = false;
};

struct NamedStage {
  std::string_view name;
  gcrt::WordStageKind kind;
};
constexpr NamedStage kNamedStages[] = {{":trailing_spaces", gcrt::WordStageKind::kTrailing},
                                       {":threes_of_digits", gcrt::WordStageKind::kThreesBetween},
                                       {":threes_of_numbers", gcrt::WordStageKind::kThreesAfter}};

}  // namespace

WordTables compile_words(std::span<const std::string_view> stages) {
  struct Stage {
    gcrt::WordStageKind kind = gcrt::WordStageKind::kExpression;
    std::vector<Inst> code;
    int start = 0, set = 0;
  };
  Sets sets;
  std::vector<Stage> parsed;
  for (std::string_view text : stages) {
    Stage s;
    for (const NamedStage& named : kNamedStages)
      if (named.name == text) s.kind = named.kind;
    switch (s.kind) {
      case gcrt::WordStageKind::kExpression:
        s.code = Parser(text, sets).parse(&s.start);
        break;
      case gcrt::WordStageKind::kTrailing:
        s.set = sets.number(class_set(CharClass::kSpace));
        break;
      case gcrt::WordStageKind::kThreesBetween:
        s.set = sets.number(CharSet{{'0', '9'}});
        break;
      case gcrt::WordStageKind::kThreesAfter:
        s.set = sets.number(class_set(CharClass::kNumber));
        break;
    }
    parsed.push_back(std::move(s));
  }
  Classes classes = find_classes(sets.all());
  WordTables out;
  out.header.n_classes = static_cast<std::uint32_t>(classes.in.size());
  out.header.n_stages = static_cast<std::uint32_t>(parsed.size());
  out.header.bad_class = classes.bad;
  GC_CHECK(parsed.size() <= gcrt::kMaxWordStages);
  for (const Stage& s : parsed) {
    gcrt::WordStage stage{};
    stage.kind = s.kind;
    stage.first_step = static_cast<std::uint32_t>(out.steps.size());
    if (s.kind == gcrt::WordStageKind::kExpression) {
      std::vector<std::uint16_t> steps = Determinizer(s.code, classes).run(s.start);
      stage.n_states = static_cast<std::uint32_t>(steps.size() / (classes.in.size() + 1));
      out.steps.insert(out.steps.end(), steps.begin(), steps.end());
    } else {
      for (std::size_t c = 0; c < classes.in.size(); ++c)
        if (classes.in[c][static_cast<std::size_t>(s.set)]) stage.members |= std::uint64_t{1} << c;
    }
    out.stages.push_back(stage);
  }
  out.pages = std::move(classes.pages);
  out.classes = std::move(classes.blocks);
  return out;
}

}  // namespace gc::text
