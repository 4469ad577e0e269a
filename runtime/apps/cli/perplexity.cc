// `OUT perplexity -f FILE`: llama-perplexity's method. The text is cut into chunks of -c tokens, each run from an empty
// context with the beginning-of-text token in place of its first; the tokens of its second half count, each foretold
// with at least half a context before it.
//
// With --kl-divergence-base F the probabilities of all counted positions are kept, and --kl-divergence compares another
// file's, or another way to compute (--decode: as generated tokens), with them: what quantization and arithmetic cost,
// without the noise of the text. Logits are held for as many positions at once as fit in kChunkBytes; bits don't
// depend on it.
#include <math.h>

#include "runtime/apps/cli/app.h"
#include "runtime/apps/cli/kl_base.h"
#include "runtime/apps/cli/whole_file.h"
#include "runtime/base/sort.h"

namespace gcrt {
namespace {

constexpr uint64_t kChunkBytes = 128 << 20;

// Sums for a mean and its standard error.
struct Mean {
  double n = 0, sum = 0, squares = 0;
  void add(double x) { n += 1, sum += x, squares += x * x; }
  double mean() const { return sum / n; }
  double error() const {
    const double variance = squares / n - mean() * mean();
    return n > 1 && variance > 0 ? sqrt(variance / (n - 1)) : 0;
  }
};

bool before(float a, float b) { return a < b; }

class Perplexity {
 public:
  Perplexity(App& app, const Options& options)
      : app_(app),
        options_(options),
        ids_(app.memory),
        rows_(app.memory),
        scores_(app.memory),
        steps_(app.memory),
        kls_(app.memory) {}
  Perplexity(const Perplexity&) = delete;
  ~Perplexity() {
    if (logits_) app_.memory.put(logits_, logits_bytes_, 64);
  }
  int run();

 private:
  bool read_tokens();
  bool start();
  bool run_chunk(uint32_t chunk, WholeFile* save);
  bool run_part(Span<const int32_t> ids, uint32_t first, uint32_t chunk, WholeFile* save);
  bool add_scores(WholeFile* save, uint32_t n);
  int report();

  App& app_;
  const Options& options_;
  Model model_;
  Session session_;
  KlBase base_;
  int32_t bos_ = -1;
  uint32_t n_ctx_ = 512, n_chunk_ = 0, n_vocab_ = 0, part_ = 1;
  Vec<int32_t> ids_;
  float* logits_ = nullptr;  // f32[part_, stride]
  uint64_t logits_bytes_ = 0;
  Vec<uint16_t> rows_;  // of the base to save, of a part
  Vec<Score> scores_;   // of a part
  Vec<Token> steps_;
  Mean nll_, change_, kl_, best_;  // change_: of nll from the base's
  Vec<float> kls_;
};

// One part's positions, shared by the session's workers.
struct Part {
  const float* logits;
  uint64_t stride, row_words;
  uint32_t n, n_vocab, workers;
  const int32_t* next;
  uint16_t* save;
  const KlBase* base;
  uint32_t chunk, base_first;
  Score* scores;
};

void score_share(void* context, uint32_t worker) {
  const Part& p = *static_cast<const Part*>(context);
  for (uint32_t i = worker; i < p.n; i += p.workers)
    p.scores[i] = score_position(p.logits + i * p.stride, p.n_vocab, p.next[i],
                                 p.save ? p.save + i * p.row_words : nullptr,
                                 p.base ? p.base->row(p.chunk, p.base_first + i) : nullptr);
}

bool Perplexity::read_tokens() {
  Tokenizer tokenizer;
  if (!open_tokenizer(app_, &tokenizer)) return false;
  const bool add_bos = tokenizer.available() && tokenizer.meta().flags & frozen::kAddBos;
  if (add_bos) bos_ = tokenizer.meta().bos;
  if (options_.kl) {
    n_ctx_ = static_cast<uint32_t>(base_.head().n_ctx);
    n_chunk_ = static_cast<uint32_t>(base_.head().n_chunk);
    return ids_.copy(base_.tokens()) || app_.fail("not enough memory for the tokens") == kExitOk;
  }
  if (!tokenizer.available()) {
    app_.fail("this file has no tokenizer");
    return false;
  }
  if (options_.file == nullptr) {
    app_.fail("no text: -f FILE");
    return false;
  }
  Vec<char> text(app_.memory);
  if (!read_input(app_, options_.file, &text)) return false;
  if (const Status s = tokenizer.encode(str(text), {}, ids_); s != kOk) {
    app_.fail_status(s);
    return false;
  }
  if (options_.n_ctx != 0) n_ctx_ = static_cast<uint32_t>(options_.n_ctx);
  n_chunk_ = static_cast<uint32_t>(ids_.size() / max_of(n_ctx_, 1u));
  if (n_chunk_ != 0 && n_ctx_ >= 4) return true;
  app_.fail("the text has ", ids_.size(), " tokens, fewer than a chunk of ", n_ctx_, " (-c, 4 at least)");
  return false;
}

bool Perplexity::start() {
  if (options_.chunks >= 0) n_chunk_ = static_cast<uint32_t>(min_of<int64_t>(n_chunk_, options_.chunks));
  if (n_chunk_ == 0) {
    app_.fail("no chunks to run (--chunks)");
    return false;
  }
  const uint64_t stride = Session::logits_stride_of(*model_.program);
  part_ = static_cast<uint32_t>(
      min_of<uint64_t>(KlBase::scored(n_ctx_), max_of<uint64_t>(kChunkBytes / (stride * sizeof(float)), 1)));
  SessionOptions s = session_options(options_);
  if (s.n_ubatch < part_) part_ = s.n_ubatch;
  s.n_ctx = n_ctx_;
  s.n_outputs = part_;
  if (!must_generate(app_, model_) || !start_session(app_, model_, s, &session_)) return false;
  logits_bytes_ = stride * part_ * sizeof(float);
  logits_ = static_cast<float*>(app_.memory.get(logits_bytes_, 64));
  const bool save = options_.kl_base && !options_.kl;
  if (logits_ && scores_.resize(part_) && steps_.reserve(session_.options().n_ubatch) &&
      (!save || rows_.resize(part_ * KlBase::row_words(n_vocab_))))
    return true;
  app_.fail("not enough memory: ", logits_bytes_, " bytes for logits");
  return false;
}

// Adds the scores of a part's n positions, and saves their rows.
bool Perplexity::add_scores(WholeFile* save, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    const Score& s = scores_[i];
    if (isnan(s.nll)) {
      app_.fail_status(kErrNan);
      return false;
    }
    nll_.add(s.nll);
    if (!options_.kl) continue;
    if (s.has_base_nll) change_.add(s.nll - s.base_nll);
    kl_.add(s.kl);
    best_.add(s.same_best);
    if (!kls_.push(static_cast<float>(s.kl))) {
      app_.fail("not enough memory");
      return false;
    }
  }
  return save == nullptr || save->write_all(rows_.data(), n * KlBase::row_words(n_vocab_) * sizeof(uint16_t));
}

// Runs `ids` (position `first` on of the chunk) with all their outputs and scores them.
bool Perplexity::run_part(Span<const int32_t> ids, uint32_t first, uint32_t chunk, WholeFile* save) {
  const uint64_t stride = session_.logits_stride();
  const uint32_t n = static_cast<uint32_t>(ids.size());
  for (uint32_t done = 0;
       done < n;) {  // generated tokens go one by one: a step has one role and one row a sequence
    const uint32_t count = options_.decode ? 1 : n;
    steps_.clear();
    for (int32_t id : ids.sub(done, count)) {
      const uint8_t role = options_.decode ? GC_ROLE_GENERATED : GC_ROLE_PROMPT;
      if (!steps_.push({id, 0, role, true})) return false;
    }
    gc_sink sink = {};
    sink.kind = GC_SINK_LOGITS;
    sink.logits = logits_ + done * stride;
    sink.stride = stride;
    if (const Status s = session_.step(steps_, &sink); s != kOk) {
      app_.fail_status(s);
      return false;
    }
    done += count;
  }
  Part part = {logits_,
               stride,
               KlBase::row_words(n_vocab_),
               n,
               n_vocab_,
               session_.pool().workers(),
               ids_.data() + uint64_t{chunk} * n_ctx_ + first + 1,
               save ? rows_.data() : nullptr,
               options_.kl ? &base_ : nullptr,
               chunk,
               first - KlBase::first_scored(n_ctx_),
               scores_.data()};
  session_.pool().run(score_share, &part);
  return add_scores(save, n);
}

bool Perplexity::run_chunk(uint32_t chunk, WholeFile* save) {
  session_.kv().truncate(0, 0);
  const uint32_t first = KlBase::first_scored(n_ctx_), last = n_ctx_ - 1;
  const Span<int32_t> all = ids_.span().sub(uint64_t{chunk} * n_ctx_, n_ctx_);
  const int32_t own_first = all[0];
  if (bos_ >= 0) all[0] = bos_;
  const Span<const int32_t> ids(all.data(), all.size());
  Status s = kOk;
  if (options_.decode)
    for (uint32_t i = 0; s == kOk && i < first; ++i) s = session_.decode(0, ids[i], nullptr);
  else
    s = session_.prompt(0, ids.sub(0, first), nullptr);
  if (s != kOk) app_.fail_status(s);
  bool ok = s == kOk;
  for (uint32_t at = first; ok && at < last; at += part_)
    ok = run_part(ids.sub(at, min_of(part_, last - at)), at, chunk, save);
  all[0] = own_first;
  return ok;
}

int Perplexity::report() {
  Output& out = app_.out;
  const double ppl = exp(nll_.mean());
  out.print("\nFinal estimate: PPL = ", Fixed{ppl, 4}, " +/- ", Fixed{ppl * nll_.error(), 5}, "\n");
  if (!options_.kl) return app_.done();
  sort(kls_.data(), kls_.size(), before);
  auto percentile = [&](double p) {
    const double at = p * static_cast<double>(kls_.size() - 1);
    const size_t i = static_cast<size_t>(at);
    const double next = static_cast<double>(kls_[min_of(i + 1, kls_.size() - 1)]);
    return static_cast<double>(kls_[i]) +
           (at - static_cast<double>(i)) * (next - static_cast<double>(kls_[i]));
  };
  const double ratio = exp(change_.mean());
  out.print("Mean PPL ratio to the base: ", Fixed{ratio, 6}, " +/- ", Fixed{ratio * change_.error(), 6},
            "\n");
  out.print("Mean    KLD:  ", Fixed{kl_.mean(), 6}, " +/- ", Fixed{kl_.error(), 6}, "\n");
  out.print("Maximum KLD:  ", Fixed{percentile(1), 6}, "\n99.9%   KLD:  ", Fixed{percentile(0.999), 6},
            "\n99.0%   KLD:  ", Fixed{percentile(0.99), 6}, "\n95.0%   KLD:  ", Fixed{percentile(0.95), 6},
            "\nMedian  KLD:  ", Fixed{percentile(0.5), 6}, "\n");
  out.print("Same top p:   ", Fixed{100 * best_.mean(), 3}, " +/- ", Fixed{100 * best_.error(), 3}, " %\n");
  return app_.done();
}

int Perplexity::run() {
  if (!open_model(app_, options_, &model_)) return kExitError;
  n_vocab_ = model_.program->n_vocab;
  if (options_.kl && options_.kl_base == nullptr)
    return app_.fail("--kl-divergence: compares with the file of --kl-divergence-base, which is not given");
  if (options_.kl && !base_.open(app_, options_.kl_base, n_vocab_)) return kExitError;
  if (!read_tokens() || !start()) return kExitError;
  WholeFile file(app_, options_.kl_base);
  WholeFile* save = options_.kl_base && !options_.kl ? &file : nullptr;
  if (save) {
    const KlBase::Head head = KlBase::make_head(n_ctx_, n_vocab_, n_chunk_);
    if (!file.open_for_writing() || !file.write_all(&head, sizeof head) ||
        !file.write_all(ids_.data(), uint64_t{n_ctx_} * n_chunk_ * sizeof(int32_t)))
      return kExitError;
  }
  app_.out.print(n_chunk_, " chunks of ", n_ctx_, " tokens, ", KlBase::scored(n_ctx_), " of each count\n");
  for (uint32_t chunk = 0; chunk < n_chunk_ && app_.out.flush(); ++chunk) {
    if (!run_chunk(chunk, save)) return kExitError;
    app_.out.print("[", chunk + 1, "]", Fixed{exp(nll_.mean()), 4}, ",");
  }
  if (save && !file.commit()) return kExitError;
  return report();
}

}  // namespace

int gc_command_perplexity(App& app, const Options& options) {
  if (options.words.n != 0) return app.fail("unexpected argument '", options.words.values[0], "'");
  return Perplexity(app, options).run();
}

}  // namespace gcrt
