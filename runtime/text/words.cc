#include "runtime/text/words.h"

#include "runtime/text/utf8.h"

namespace gcrt {
bool WordRules::valid() const {
  if (header.n_stages > kMaxWordStages || header.n_stages != stages.size()) return false;
  if (!header.n_stages) return true;
  if (!header.n_classes || header.n_classes > kMaxWordClasses || header.bad_class >= header.n_classes)
    return false;
  if (pages.size() != kCharPages || classes.size() % 256) return false;
  for (const WordStage& s : stages) {
    if (s.kind > WordStageKind::kThreesAfter) return false;
    if (s.kind != WordStageKind::kExpression) continue;
    uint64_t n = uint64_t{s.n_states} * (header.n_classes + 1);
    if (s.n_states < 2 || s.first_step + n > steps.size()) return false;
  }
  return true;
}

WordSplitter::WordSplitter(const WordRules& rules, Str text) : rules_(rules), text_(text) {
  parts_[0].end = text.size();
}

// at < end.
WordSplitter::Char WordSplitter::read(size_t at, size_t end) const {
  uint8_t first = static_cast<uint8_t>(text_[at]);
  int n = first < 0x80 ? 1 : utf8_next(text_.sub(at, min_of(end - at, size_t{4})));
  if (n <= 0) return {rules_.header.bad_class, 1};
  uint32_t code = n == 1 ? first : utf8_decode(text_.data() + at, n);
  size_t entry = size_t{rules_.pages[code >> 8]} * 256 + (code & 255);
  uint32_t kind = entry < rules_.classes.size() ? rules_.classes[entry] : 0;
  return {kind < rules_.header.n_classes ? kind : 0, static_cast<uint32_t>(n)};
}

bool WordSplitter::next(Str* word) {
  uint32_t last = rules_.header.n_stages;
  if (!last) {
    if (parts_[0].at == parts_[0].end) return false;
    *word = text_;
    parts_[0].at = parts_[0].end;
    return true;
  }
  // The deepest stage that still has something to cut; its pieces go down to the last one.
  uint32_t s = last;
  while (s && parts_[s - 1].at == parts_[s - 1].end) --s;
  if (!s) return false;
  for (--s;; ++s) {
    Part& p = parts_[s];
    size_t begin = p.at;
    p.at = cut(rules_.stages[s], p);
    if (s + 1 == last) {
      *word = text_.sub(begin, p.at - begin);
      return true;
    }
    parts_[s + 1] = Part();
    parts_[s + 1].at = begin, parts_[s + 1].end = p.at;
  }
}

// The end of the piece that begins at part.at < part.end.
size_t WordSplitter::cut(const WordStage& stage, Part& part) const {
  switch (stage.kind) {
    case WordStageKind::kExpression:
      return expression(stage, part);
    case WordStageKind::kTrailing:
      return trailing(stage, part);
    case WordStageKind::kThreesBetween:
    case WordStageKind::kThreesAfter:
      return threes(stage, part);
  }
  return part.end;
}

// The end of the match at `at`; `at` itself when there is none.
size_t WordSplitter::match(const WordStage& stage, size_t at, Part& part) const {
  uint32_t columns = rules_.header.n_classes + 1, state = 1, run_state = 0;
  const uint16_t* rows = rules_.steps.data() + stage.first_step;
  size_t found = at, run_from = at, run_to = at;  // the last run that was read in one state
  for (size_t i = at, end = part.end;;) {
    Char c = i < end ? read(i, end) : Char{rules_.header.n_classes, 0};
    uint32_t step = rows[state * columns + c.kind], next = step >> 1;
    if (step & 1) found = i;
    if (next == state) {
      if (run_state != state || run_to != i) run_from = i;
      run_state = state;
      run_to = i + c.bytes;
      if (state == part.dead_state && i >= part.dead_from && i < part.dead_to) return found;
    }
    state = next;
    if (!state || state >= stage.n_states || i == end) break;
    i += c.bytes;
  }
  if (found <= run_from && run_to > run_from + 64) {
    part.dead_state = run_state;
    part.dead_from = run_from;
    part.dead_to = run_to;
  }
  return found;
}

size_t WordSplitter::expression(const WordStage& stage, Part& part) const {
  if (part.match) {
    size_t end = part.match;
    part.match = 0;
    return end;
  }
  size_t end = match(stage, part.at, part);
  if (end > part.at) return end;
  // What lies before the next match is a piece, and the match the one after.
  size_t at = part.at;
  while (at < part.end) {
    at += read(at, part.end).bytes;
    if (at == part.end) break;
    end = match(stage, at, part);
    if (end > at) {
      part.match = end;
      break;
    }
  }
  return at;
}

size_t WordSplitter::trailing(const WordStage& stage, Part& part) const {
  size_t start = part.end;  // of the members that go to the end
  for (size_t at = part.at; at < part.end;) {
    Char c = read(at, part.end);
    if (!member(stage, c))
      start = part.end;
    else if (start == part.end)
      start = at;
    at += c.bytes;
  }
  return start > part.at ? start : part.end;
}

size_t WordSplitter::threes(const WordStage& stage, Part& part) const {
  bool after = stage.kind == WordStageKind::kThreesAfter;
  for (size_t at = part.at; at < part.end;) {
    Char c = read(at, part.end);
    if (!member(stage, c)) {
      at += c.bytes;
      continue;
    }
    if (!part.left) {
      for (size_t i = at; i < part.end;) {
        Char d = read(i, part.end);
        if (!member(stage, d)) break;
        ++part.left;
        i += d.bytes;
      }
      if (!after && part.left % 3 == 0 && at > part.at) return at;
    }
    at += c.bytes;
    if (--part.left % 3 == 0 && (part.left || after)) return at;
  }
  return part.end;
}

}  // namespace gcrt
