#include "runtime/core/choice.h"

#include "runtime/base/penalty.h"
#include "runtime/base/sort.h"

#pragma STDC FP_CONTRACT OFF

namespace gcrt {
namespace {

constexpr float kInf = __builtin_inff();
constexpr uint32_t kPanel = 16;

// First index of [0, n) whose id is not below `id`.
template <class T, class Id>
uint32_t lower_bound(const T* all, uint32_t n, Id id_of, int64_t id) {
  uint32_t lo = 0;
  while (n > 0) {
    const uint32_t half = n / 2;
    if (id_of(all[lo + half]) < id) {
      lo += half + 1;
      n -= half + 1;
    } else {
      n = half;
    }
  }
  return lo;
}

bool allowed(const uint64_t* mask, uint32_t token) { return mask[token / 64] >> (token % 64) & 1; }

}  // namespace

uint64_t Choice::bytes(uint32_t workers, uint32_t outputs, uint32_t most_k) {
  return uint64_t{workers} * outputs * (sizeof(List) + uint64_t{most_k} * sizeof(Entry));
}

Status Choice::init(uint32_t n_vocab, uint32_t workers, uint32_t outputs, uint32_t most_k,
                    Allocator allocator) {
  n_vocab_ = n_vocab, workers_ = workers, outputs_ = outputs, most_k_ = min_of(most_k, n_vocab);
  rules_ = Vec<Rules>(allocator);
  penalties_ = Vec<Penalty>(allocator);
  biases_ = Vec<gc_bias>(allocator);
  lists_ = Vec<List>(allocator);
  entries_ = Vec<Entry>(allocator);
  const bool ok = lists_.resize(uint64_t{workers} * outputs) && rules_.reserve(outputs) &&
                  entries_.resize(uint64_t{workers} * outputs * most_k_);
  return ok ? kOk : kErrMemory;
}

void Choice::clear(List& list, bool bounds) {
  list.n = 0;
  list.threshold = -kInf;
  list.bounds = bounds;
}

// Sorts what concerns single tokens; biases of one token keep their order, since floats are added in it.
Status Choice::add_rules(const gc_logit_rules& given) {
  Rules r;
  r.mask = given.mask;
  r.repeat = given.repeat_penalty, r.frequency = given.frequency_penalty, r.presence = given.presence_penalty;
  r.penalties = static_cast<uint32_t>(penalties_.size());
  r.biases = static_cast<uint32_t>(biases_.size());
  const bool penalizes = r.repeat != 1 || r.frequency != 0 || r.presence != 0;
  const uint32_t recent = penalizes ? given.n_recent : 0;
  if (recent > kMostRecent) return kErrArgument;
  for (uint32_t i = 0; i < recent; ++i)
    if (!penalties_.push({given.recent[i], 1})) return kErrMemory;
  Penalty* p = penalties_.data() + r.penalties;
  sort(p, recent, [](const Penalty& a, const Penalty& b) { return a.id < b.id; });
  for (uint32_t i = 0; i < recent; ++i) {
    if (r.n_penalties != 0 && p[r.n_penalties - 1].id == p[i].id)
      ++p[r.n_penalties - 1].count;
    else
      p[r.n_penalties++] = p[i];
  }
  penalties_.truncate(r.penalties + r.n_penalties);
  if (!biases_.append({given.bias, given.n_bias})) return kErrMemory;
  r.n_biases = given.n_bias;
  gc_bias* b = biases_.data() + r.biases;
  detail::insertion_sort(b, r.n_biases,  // stable
                         [](const gc_bias& x, const gc_bias& y) { return x.token < y.token; });
  return rules_.push(r) ? kOk : kErrMemory;
}

Status Choice::begin(const gc_sink& sink, uint32_t n_outputs) {
  k_ = sink.kind == GC_SINK_ARGMAX ? 1 : min_of(sink.k, n_vocab_);
  if (k_ == 0 || k_ > most_k_ || n_outputs > outputs_) return kErrArgument;
  rules_.clear();
  penalties_.clear();
  biases_.clear();
  for (uint32_t i = 0; sink.rules && i < n_outputs; ++i)
    if (const Status s = add_rules(sink.rules[i]); s != kOk) return s;
  for (List& l : lists_) {
    clear(l, false);
    l.limit = -kInf;
    l.bad = false;
  }
  hooks_ = {take, bound, limit, this};
  return kOk;
}

// f(index of the token in the piece, its penalty or null, its biases, how many) for each token of the piece that a
// rule names. Biases come before penalties.
template <class F>
void Choice::each_ruled(const Rules& r, uint32_t first, uint32_t n, const F& f) const {
  const Penalty* p = penalties_.data() + r.penalties;
  const gc_bias* b = biases_.data() + r.biases;
  uint32_t i = lower_bound(p, r.n_penalties, [](const Penalty& x) { return x.id; }, first);
  uint32_t j = lower_bound(b, r.n_biases, [](const gc_bias& x) { return x.token; }, first);
  const int64_t end = int64_t{first} + n;
  for (;;) {
    const int64_t a = i < r.n_penalties ? p[i].id : INT64_MAX, c = j < r.n_biases ? b[j].token : INT64_MAX;
    const int64_t token = min_of(a, c);
    if (token >= end) return;
    uint32_t biases = 0;
    while (j + biases < r.n_biases && b[j + biases].token == token) ++biases;
    f(static_cast<uint32_t>(token - first), a == token ? &p[i] : nullptr, b + j, biases);
    i += a == token;
    j += biases;
  }
}

void Choice::apply(const Rules& r, uint32_t first, uint32_t n, float* logits) const {
  each_ruled(r, first, n, [&](uint32_t at, const Penalty* penalty, const gc_bias* bias, uint32_t biases) {
    for (uint32_t i = 0; i < biases; ++i) logits[at] += bias[i].add;
    if (penalty) logits[at] = penalized(logits[at], r.repeat, r.frequency, r.presence, penalty->count);
  });
  if (r.mask == nullptr) return;
  for (uint32_t i = 0; i < n; ++i)
    if (!allowed(r.mask, first + i)) logits[i] = -kInf;
}

// Puts what is good enough into the worker's list.
void Choice::offer(uint32_t worker, uint32_t output, uint32_t first, uint32_t n, const float* logits) {
  List& l = list(worker, output);
  Entry* heap = entries(worker, output);
  auto worse = [](const Entry& a, const Entry& b) { return above(a, b); };  // a heap's top is its greatest
  for (uint32_t at = 0; at < n; at += kPanel) {
    const uint32_t count = min_of(kPanel, n - at);
    const float threshold = l.threshold;
    unsigned any = 0;
    for (uint32_t i = 0; i < count; ++i) any |= !(logits[at + i] < threshold);  // true for NaN
    if (!any) continue;
    for (uint32_t i = 0; i < count; ++i) {
      const Entry e = {logits[at + i], static_cast<int32_t>(first + at + i)};
      if (!(e.logit < kInf)) l.bad = true;
      if (!(e.logit > -kInf) || l.bad) continue;
      if (l.n < k_) {
        heap[l.n++] = e;
        if (l.n == k_) make_heap(heap, k_, worse);
      } else if (above(e, heap[0])) {
        heap[0] = e;
        sift_down(heap, k_, 0, worse);
      }
      if (l.n == k_) l.threshold = heap[0].logit;
    }
  }
}

void Choice::take(void* self, uint32_t worker, uint32_t output, uint32_t first, uint32_t n, float* logits) {
  Choice& c = *static_cast<Choice*>(self);
  if (first >= c.n_vocab_) return;
  n = min_of(n, c.n_vocab_ - first);
  List& l = c.list(worker, output);
  if (l.bounds) c.clear(l, false);
  if (!c.rules_.empty()) c.apply(c.rules_[output], first, n, logits);
  c.offer(worker, output, first, n, logits);
}

// Tokens that a rule names say nothing before their logits are known, and are computed whatever they are.
void Choice::bound(void* self, uint32_t worker, uint32_t output, uint32_t first, uint32_t n, float* least,
                   float* most) {
  Choice& c = *static_cast<Choice*>(self);
  if (first >= c.n_vocab_) return;
  n = min_of(n, c.n_vocab_ - first);
  List& l = c.list(worker, output);
  if (!l.bounds) c.clear(l, true);
  if (!c.rules_.empty()) {
    const Rules& r = c.rules_[output];
    c.each_ruled(r, first, n, [&](uint32_t at, const Penalty*, const gc_bias*, uint32_t) {
      if (!(least[at] < kInf)) l.bad = true;
      least[at] = -kInf;
      most[at / kPanel] = kInf;
    });
    for (uint32_t p = 0; r.mask && p < n; p += kPanel) {
      bool any = false;
      for (uint32_t i = p; i < min_of(n, p + kPanel); ++i) {
        if (!(least[i] < kInf)) l.bad = true;
        if (allowed(r.mask, first + i))
          any = true;
        else
          least[i] = -kInf;
      }
      if (!any) most[p / kPanel] = -kInf;
    }
  }
  c.offer(worker, output, first, n, least);
  l.limit = l.threshold;
}

// Any worker's k-th greatest bound is one that k logits reach.
float Choice::limit(void* self, uint32_t output) {
  Choice& c = *static_cast<Choice*>(self);
  float most = -kInf;
  for (uint32_t w = 0; w < c.workers_; ++w) most = max_of(most, c.list(w, output).limit);
  return most;
}

// Lists are sorted in place, and the k first of all are taken, list by list.
Status Choice::finish(const gc_sink& sink, uint32_t n_outputs) {
  Status status = kOk;
  for (uint32_t o = 0; o < n_outputs; ++o) {
    bool bad = false;
    for (uint32_t w = 0; w < workers_; ++w) bad |= list(w, o).bad;
    for (uint32_t w = 0; w < workers_; ++w) {
      List& l = list(w, o);
      if (l.bounds || bad) l.n = 0;  // none of its panels was computed
      sort(entries(w, o), l.n, above);
      l.bounds = false;
      l.taken = 0;
    }
    int32_t* ids = sink.ids + uint64_t{o} * k_;
    float* values = sink.values + uint64_t{o} * k_;
    for (uint32_t i = 0; i < k_; ++i) {
      const Entry* best = nullptr;
      uint32_t from = 0;
      for (uint32_t w = 0; w < workers_; ++w) {
        const List& l = list(w, o);
        if (l.taken == l.n) continue;
        const Entry* e = entries(w, o) + l.taken;
        if (best && !above(*e, *best)) continue;
        best = e;
        from = w;
      }
      ids[i] = best ? best->id : -1;
      values[i] = best ? best->logit : -kInf;
      if (best) ++list(from, o).taken;
    }
    if (ids[0] < 0) status = kErrNan;
  }
  return status;
}

}  // namespace gcrt
