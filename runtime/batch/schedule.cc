#include "runtime/batch/schedule.h"

namespace gcrt::batch {
namespace {

// Moving averages: the last ten steps or so count.
constexpr double kNewest = 0.2;
void average(double* mean, double value) { *mean = *mean == 0 ? value : *mean + kNewest * (value - *mean); }

// The prompt that wants rows and stands before all others; null: none does.
template <class Before>
PromptShare* first_of(Span<PromptShare> prompts, const Before& before) {
  PromptShare* first = nullptr;
  for (PromptShare& p : prompts)
    if (p.rows < p.left && (first == nullptr || before(p, *first))) first = &p;
  return first;
}

}  // namespace

void share_rows(Span<PromptShare> prompts, uint32_t rows) {
  for (PromptShare& p : prompts) p.rows = 0;
  auto give = [&](PromptShare* p, uint32_t most) {
    const uint32_t n = static_cast<uint32_t>(min_of<size_t>(p->left - p->rows, most));
    p->rows += n;
    rows -= n;
  };
  const auto older = [](const PromptShare& a, const PromptShare& b) { return a.came < b.came; };
  const auto shorter = [&](const PromptShare& a, const PromptShare& b) {
    return a.left != b.left ? a.left < b.left : older(a, b);
  };
  if (PromptShare* p = first_of(prompts, older)) give(p, rows - rows / 2);
  while (rows != 0) {
    PromptShare* p = first_of(prompts, shorter);
    if (p == nullptr) return;
    give(p, rows);
  }
}

uint32_t StepClock::prompt_rows(uint32_t generating, uint32_t room) const {
  if (generating == 0) return room;
  if (row_ns_ == 0) return min_of(room, kFirst);
  const double rows = (static_cast<double>(most_wait_ns_) - generating_ns_) / row_ns_;
  if (rows >= room) return room;
  return min_of(room, rows > kFewest ? static_cast<uint32_t>(rows) : kFewest);
}

void StepClock::add(uint32_t prompt_rows, uint32_t generating, int64_t ns) {
  const double took = static_cast<double>(ns);
  if (prompt_rows == 0)
    average(&generating_ns_, took);
  else if (prompt_rows >= kFewest)  // few rows cost what padding costs
    average(&row_ns_, max_of(took - (generating != 0 ? generating_ns_ : 0), 0.1 * took) / prompt_rows);
}

}  // namespace gcrt::batch
