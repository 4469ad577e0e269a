// `OUT bench`: llama-bench's tests, columns and JSON fields. A prompt test runs n_prompt tokens, a generation test n_gen
// steps of one token for each of n_seqs sequences, and each step says what the next token would be (the head's choice,
// as generation at temperature 0 does; all logits where a program stores them); both from a context of n_depth tokens
// that were a prompt, which isn't timed. Tokens are arbitrary, drawn from a fixed sequence. Each test runs once to warm
// up and then -r times.
//
// Beside tokens/s stands what memory allows: GB/s is bytes of the GGUF's tensors, keys and values that a step of
// generation reads x steps/s, and share_of_bound divides it, run by run, by the read bandwidth that the same workers reach right
// before and after (bandwidth.h): where neighbours share the memory, one figure for all runs was off by half. Packed weights differ from the GGUF's bytes; counting the GGUF's makes packing fat gain nothing.
//
// A prompt's bound is the rate of the instruction that multiplies its rows, by the same workers in the same run (peak.h);
// what counts as work is the multiplications with weights, the head's and attention's apart.
#include <math.h>
#include <time.h>

#include "runtime/apps/cli/app.h"
#include "runtime/apps/cli/bandwidth.h"
#include "runtime/apps/cli/bench_requests.h"
#include "runtime/apps/cli/peak.h"

namespace gcrt {
namespace {

struct Test {
  uint32_t n_prompt, n_gen, n_depth, n_seqs;
};

struct Result {
  explicit Result(Allocator a) : samples_ns(a), reads(a) {}
  Test test = {};
  Vec<int64_t> samples_ns;
  Vec<double> reads;  // bytes a second, before the first run and after each; of a generation
  char time[32] = "";
  double avg_ns = 0, stddev_ns = 0, avg_ts = 0, stddev_ts = 0;

  double tokens() const { return test.n_prompt + static_cast<double>(test.n_gen) * test.n_seqs; }
  double ts(size_t i) const { return 1e9 * tokens() / static_cast<double>(samples_ns[i]); }
  bool of_prompt() const { return test.n_gen == 0; }
  // touched: bytes of a step; weights are read once a step, whatever the number of sequences.
  double bytes_per_second(double touched) const {
    return avg_ns > 0 ? touched * test.n_gen * 1e9 / avg_ns : 0;
  }
  double share_of_reads(double touched) const {
    double sum = 0;
    for (size_t i = 0; i < samples_ns.size(); ++i)
      sum +=
          touched * test.n_gen * 1e9 / static_cast<double>(samples_ns[i]) / ((reads[i] + reads[i + 1]) / 2);
    return sum / static_cast<double>(samples_ns.size());
  }
};

void summarize(Result* r) {
  const double n = static_cast<double>(r->samples_ns.size());
  double ns = 0, ts = 0, ns2 = 0, ts2 = 0;
  for (size_t i = 0; i < r->samples_ns.size(); ++i) {
    ns += static_cast<double>(r->samples_ns[i]);
    ts += r->ts(i);
  }
  r->avg_ns = ns / n;
  r->avg_ts = ts / n;
  for (size_t i = 0; i < r->samples_ns.size(); ++i) {
    ns2 += pow(static_cast<double>(r->samples_ns[i]) - r->avg_ns, 2);
    ts2 += pow(r->ts(i) - r->avg_ts, 2);
  }
  r->stddev_ns = n > 1 ? sqrt(ns2 / (n - 1)) : 0;
  r->stddev_ts = n > 1 ? sqrt(ts2 / (n - 1)) : 0;
}

// What the machine does in the same run.
struct Bounds {
  double bytes = 0;  // read, a second
  double macs = 0;   // of prompts' products, a second
};

class Bench {
 public:
  Bench(App& app, const Options& options, const Model& model)
      : app_(app),
        options_(options),
        model_(model),
        ids_(app.memory),
        tokens_(app.memory),
        chosen_(app.memory),
        chosen_logits_(app.memory) {}

  int run();

 private:
  SessionOptions session_for(const Test& test) const;
  bool add_tests(Vec<Test>* tests);
  bool measure(const Test& test, Result* result);
  bool fill_context(Session& session, const Test& test);
  bool run_once(Session& session, const Test& test, float* logits);
  double step_bytes(const Test& test) const;
  bool measure_bounds(const Test& test);
  double share_of_bound(const Result& r) const;
  double read_rate(const Result& r) const;
  const gc_peak& peak() const;
  Span<const uint8_t> weights() const { return {model_.weights, model_.program->weights_bytes}; }
  const char* backend() const { return model_.device != nullptr ? "CUDA" : "CPU"; }
  double prompt_macs(const Result& r) const { return static_cast<double>(peak().token_macs) * r.avg_ts; }
  void print_head();
  void print(const Result& r, bool last);
  void print_markdown(const Result& r);
  void print_json(const Result& r, bool last);
  void print_csv(const Result& r);
  double model_bytes() const {
    double sum = 0;
    for (uint32_t i = 0; i < model_.facts->n_formats; ++i)
      sum += static_cast<double>(model_.facts->formats[i].file_bytes);
    return sum;
  }

  App& app_;
  const Options& options_;
  const Model& model_;
  uint32_t workers_ = 0;
  Bounds bounds_;
  Vec<int32_t> ids_;
  Vec<Token> tokens_;
  Vec<int32_t> chosen_;
  Vec<float> chosen_logits_;
};

SessionOptions Bench::session_for(const Test& test) const {
  SessionOptions s = session_options(options_);
  s.n_seqs = test.n_seqs;
  s.n_ctx = test.n_depth + test.n_prompt + test.n_gen;
  s.n_outputs = test.n_seqs;
  s.most_k = 1;
  if (s.n_ubatch < test.n_seqs) s.n_ubatch = test.n_seqs;
  return s;
}

bool Bench::add_tests(Vec<Test>* tests) {
  IntList prompts = options_.bench_prompt, gens = options_.bench_gen;
  IntList depths = options_.bench_depth, seqs = options_.bench_sequences;
  if (prompts.n == 0) prompts.values[prompts.n++] = 512;
  if (gens.n == 0) gens.values[gens.n++] = 128;
  if (seqs.n == 0) seqs.values[seqs.n++] = 1;
  if (depths.n == 0) depths.values[depths.n++] = 0;
  bool ok = true;
  auto add = [&](int64_t p, int64_t n, int64_t d, int64_t s) {
    ok = ok && tests->push({static_cast<uint32_t>(p), static_cast<uint32_t>(n), static_cast<uint32_t>(d),
                            static_cast<uint32_t>(s)});
  };
  for (uint32_t d = 0; d < depths.n; ++d) {
    const int64_t depth = depths.values[d];
    for (uint32_t i = 0; i < prompts.n; ++i)
      if (prompts.values[i]) add(prompts.values[i], 0, depth, 1);
    for (uint32_t i = 0; i < gens.n; ++i)
      for (uint32_t j = 0; gens.values[i] && j < seqs.n; ++j) add(0, gens.values[i], depth, seqs.values[j]);
  }
  return ok;
}

// Each sequence has the first n_depth tokens. What earlier runs left of them is kept where the states can go back.
bool Bench::fill_context(Session& session, const Test& test) {
  for (uint32_t s = 0; s < test.n_seqs; ++s) {
    if (session.kv().truncate(s, test.n_depth) == test.n_depth) continue;
    session.kv().truncate(s, 0);
    const Status status = session.prompt(s, ids_.span().sub(0, test.n_depth), nullptr);
    if (status == kOk) continue;
    app_.fail_status(status);
    return false;
  }
  return true;
}

// What a step of a generation reads at least: the weights, and keys and values of every position that it sees.
double Bench::step_bytes(const Test& test) const {
  const uint32_t kv_type = with_defaults(model_, session_for(test)).kv_type;
  double bytes = static_cast<double>(model_.facts->touched_bytes);
  for (uint32_t g = 0; g < model_.program->n_groups; ++g) {
    const gc_group& group = model_.program->groups[g];
    double positions = test.n_depth + (test.n_gen + 1) / 2.0;  // of a run's steps, on average
    if (group.kind == GC_STATE_KV_RING && positions > group.window) positions = group.window;
    if (group.kind == GC_STATE_KV_LATENT) positions /= group.window;  // that a row stands for
    bytes += positions * test.n_seqs * static_cast<double>(group.block_bytes[kv_type]) / GC_KV_BLOCK;
  }
  return bytes;
}

const gc_peak& Bench::peak() const {
  uint32_t i = 0;
  while (gc_programs[i] != model_.program) ++i;
  return *gc_prompt_peaks[i];
}

// Of a device no bound is measured.
double Bench::share_of_bound(const Result& r) const {
  if (model_.device != nullptr) return 0;
  if (!r.of_prompt()) return r.share_of_reads(step_bytes(r.test));
  return bounds_.macs > 0 ? prompt_macs(r) / bounds_.macs : 0;
}

double Bench::read_rate(const Result& r) const {
  double sum = 0;
  for (const double rate : r.reads) sum += rate;
  return r.reads.empty() ? bounds_.bytes : sum / static_cast<double>(r.reads.size());
}

bool Bench::run_once(Session& session, const Test& test, float* logits) {
  Status status = kOk;
  if (test.n_prompt) status = session.prompt(0, ids_.span().sub(0, test.n_prompt), logits);
  gc_sink sink = {};
  sink.kind = GC_SINK_LOGITS;
  sink.logits = logits;
  sink.stride = session.logits_stride();
  if (session.most_k() != 0) {
    sink.kind = GC_SINK_ARGMAX;
    sink.ids = chosen_.data();
    sink.values = chosen_logits_.data();
  }
  for (uint32_t i = 0; status == kOk && i < test.n_gen; ++i) {
    for (uint32_t s = 0; s < test.n_seqs; ++s)
      tokens_[s] = {ids_[(i + 31 * s) % ids_.size()], s, GC_ROLE_GENERATED, true};
    status = session.step(tokens_.span().sub(0, test.n_seqs), &sink);
  }
  if (status != kOk) app_.fail_status(status);
  return status == kOk;
}

bool Bench::measure(const Test& test, Result* result) {
  Session session;
  if (!must_generate(app_, model_) || !start_session(app_, model_, session_for(test), &session)) return false;
  workers_ = session.pool().workers();
  const uint64_t bytes = uint64_t{session.logits_stride()} * test.n_seqs * sizeof(float);
  float* logits = static_cast<float*>(app_.memory.get(bytes, 64));
  bool ok = logits != nullptr && chosen_.resize(test.n_seqs) && chosen_logits_.resize(test.n_seqs) &&
            ids_.reserve(max_of<size_t>(max_of(test.n_prompt, test.n_depth), 1024)) &&
            tokens_.resize(test.n_seqs);
  if (!ok) app_.fail("not enough memory for ", test.n_seqs, " sequences");
  uint32_t random = 1;  // of ids: what they are does not matter, but a row of equal ones would stay in cache
  ids_.clear();
  while (ok && ids_.size() < ids_.capacity()) {
    random = random * 1664525u + 1013904223u;
    ok = ids_.push(static_cast<int32_t>((uint64_t{random} * model_.program->n_vocab) >> 32));
  }
  result->test = test;
  ok = ok && (!options_.warmup || (fill_context(session, test) && run_once(session, test, logits)));
  const time_t clock = time(nullptr);
  struct tm utc;
  if (gmtime_r(&clock, &utc)) strftime(result->time, sizeof result->time, "%Y-%m-%dT%H:%M:%SZ", &utc);
  const auto read = [&] {
    return result->of_prompt() || model_.device != nullptr ||
           result->reads.push(read_bandwidth_now(session.pool(), weights()));
  };
  ok = ok && read();
  for (int64_t i = 0; ok && i < options_.repetitions; ++i) {
    ok = fill_context(session, test);
    const int64_t start = now_ns();
    ok = ok && run_once(session, test, logits) && result->samples_ns.push(now_ns() - start) && read();
  }
  if (logits) app_.memory.put(logits, bytes, 64);
  if (ok) summarize(result);
  return ok;
}

// ---- Output ----

void name_of(const Test& test, Writer* w) {
  if (test.n_prompt)
    format(*w, "pp", test.n_prompt);
  else
    format(*w, "tg", test.n_gen);
  if (test.n_depth) format(*w, " @ d", test.n_depth);
  if (test.n_seqs > 1) format(*w, " npl", test.n_seqs);
}

void Bench::print_head() {
  static constexpr Str kCsv =
      "build,model_type,model_size,model_n_params,n_batch,n_ubatch,n_threads,type_k,type_v,isa,n_prompt,n_"
      "gen,n_depth,"
      "n_seqs,test_time,avg_ns,stddev_ns,avg_ts,stddev_ts,gb_per_s,read_gb_per_s,gops,peak_gops,peak_unit,"
      "share_of_bound\n";
  switch (static_cast<BenchFormat>(options_.bench_format)) {
    case BenchFormat::kMarkdown:
      app_.out.print("read bandwidth: ", Fixed{bounds_.bytes * 1e-9, 2},
                     " GB/s, peak of prompts: ", Fixed{2 * bounds_.macs * 1e-9, 1}, " GOPS of ", peak().unit,
                     ", with ", workers_, workers_ == 1 ? " thread\n\n" : " threads\n\n");
      app_.out.print(
          "| model                          |       size |     params | backend    | threads |            "
          "test |"
          "                  t/s |     GB/s | share_of_bound |\n");
      app_.out.print(
          "| ------------------------------ | ---------: | ---------: | ---------- | ------: | "
          "--------------: |"
          " -------------------: | -------: | -------------: |\n");
      return;
    case BenchFormat::kJson:
      app_.out.print("[\n");
      return;
    case BenchFormat::kCsv:
      app_.out.print(kCsv);
      return;
  }
}

void Bench::print(const Result& r, bool last) {
  switch (static_cast<BenchFormat>(options_.bench_format)) {
    case BenchFormat::kMarkdown:
      print_markdown(r);
      break;
    case BenchFormat::kJson:
      print_json(r, last);
      break;
    case BenchFormat::kCsv:
      print_csv(r);
      break;
  }
  app_.out.flush();
}

void Bench::print_markdown(const Result& r) {
  char size[32], params[32], test[32], ts[48], rate[32] = "", share[32] = "";
  Writer(size).put_fixed(model_bytes() / (1 << 20), 2).put(" MiB");
  Writer(params).put_fixed(static_cast<double>(model_.facts->parameters) * 1e-6, 2).put(" M");
  Writer name(test);
  name_of(r.test, &name);
  Writer(ts).put_fixed(r.avg_ts, 2).put(" ± ").put_fixed(r.stddev_ts, 2);
  if (!r.of_prompt()) Writer(rate).put_fixed(r.bytes_per_second(step_bytes(r.test)) * 1e-9, 2);
  Writer(share).put_fixed(share_of_bound(r), 3);
  char threads[16];
  Writer(threads).put_uint(workers_);
  const char* model = model_.facts->name[0] ? model_.facts->name : model_.facts->architecture;
  app_.out.print("| ", Left{model, 30}, " | ", Right{size, 10}, " | ", Right{params, 10}, " | ",
                 Left{backend(), 10}, " | ", Right{threads, 7}, " | ", Right{test, 15}, " | ", Right{ts, 20},
                 " | ", Right{rate, 8}, " | ", Right{share, 14}, " |\n");
}

void Bench::print_json(const Result& r, bool last) {
  Output& out = app_.out;
  const SessionOptions s = with_defaults(model_, session_for(r.test));
  const gc_model& m = *model_.facts;
  out.print("  {\n    \"build\": ", Json{m.compiler}, ",\n    \"backends\": ", Json{backend()},
            ",\n    \"isa\": ", Json{model_.program->isa},
            ",\n    \"model_type\": ", Json{m.name[0] ? m.name : m.architecture},
            ",\n    \"model_size\": ", static_cast<uint64_t>(model_bytes()),
            ",\n    \"model_n_params\": ", m.parameters, ",\n    \"n_batch\": ", s.n_ubatch,
            ",\n    \"n_ubatch\": ", s.n_ubatch, ",\n    \"n_threads\": ", workers_,
            ",\n    \"type_k\": ", Json{kv_type_name(s.kv_type)},
            ",\n    \"type_v\": ", Json{kv_type_name(s.kv_type)}, ",\n    \"n_prompt\": ", r.test.n_prompt,
            ",\n    \"n_gen\": ", r.test.n_gen, ",\n    \"n_depth\": ", r.test.n_depth,
            ",\n    \"n_seqs\": ", r.test.n_seqs, ",\n    \"test_time\": ", Json{r.time});
  out.print(",\n    \"avg_ns\": ", static_cast<int64_t>(r.avg_ns),
            ",\n    \"stddev_ns\": ", static_cast<int64_t>(r.stddev_ns),
            ",\n    \"avg_ts\": ", Fixed{r.avg_ts, 6}, ",\n    \"stddev_ts\": ", Fixed{r.stddev_ts, 6});
  out.print(",\n    \"read_gb_per_s\": ", Fixed{read_rate(r) * 1e-9, 3},
            ",\n    \"peak_gops\": ", Fixed{2 * bounds_.macs * 1e-9, 3},
            ",\n    \"peak_unit\": ", Json{model_.device != nullptr ? "" : peak().unit});
  if (r.of_prompt())
    out.print(",\n    \"gb_per_s\": null,\n    \"gops\": ", Fixed{2 * prompt_macs(r) * 1e-9, 3});
  else
    out.print(",\n    \"gb_per_s\": ", Fixed{r.bytes_per_second(step_bytes(r.test)) * 1e-9, 3},
              ",\n    \"gops\": null");
  out.print(",\n    \"share_of_bound\": ", Fixed{share_of_bound(r), 4});
  out.print(",\n    \"samples_ns\": [");
  for (size_t i = 0; i < r.samples_ns.size(); ++i) out.print(i ? ", " : "", r.samples_ns[i]);
  out.print("],\n    \"samples_ts\": [");
  for (size_t i = 0; i < r.samples_ns.size(); ++i) out.print(i ? ", " : "", Fixed{r.ts(i), 6});
  out.print("]\n  }", last ? "\n]\n" : ",\n");
}

void Bench::print_csv(const Result& r) {
  Output& out = app_.out;
  const SessionOptions s = with_defaults(model_, session_for(r.test));
  const gc_model& m = *model_.facts;
  auto quoted = [&](Str text) {
    out.put('"');
    for (char c : text)
      out.put(c == '"' ? Str("\"\"") : static_cast<uint8_t>(c) < 0x20 ? Str(" ") : Str(&c, 1));
    out.put("\",");
  };
  quoted(m.compiler);
  quoted(m.name[0] ? m.name : m.architecture);
  out.print(static_cast<uint64_t>(model_bytes()), ",", m.parameters, ",", s.n_ubatch, ",", s.n_ubatch, ",",
            workers_, ",", kv_type_name(s.kv_type), ",", kv_type_name(s.kv_type), ",", model_.program->isa,
            ",", r.test.n_prompt, ",", r.test.n_gen, ",", r.test.n_depth, ",", r.test.n_seqs, ",", r.time,
            ",", static_cast<int64_t>(r.avg_ns), ",", static_cast<int64_t>(r.stddev_ns), ",",
            Fixed{r.avg_ts, 6}, ",", Fixed{r.stddev_ts, 6}, ",");
  if (!r.of_prompt()) out.print(Fixed{r.bytes_per_second(step_bytes(r.test)) * 1e-9, 3});
  out.print(",", Fixed{read_rate(r) * 1e-9, 3}, ",");
  if (r.of_prompt()) out.print(Fixed{2 * prompt_macs(r) * 1e-9, 3});
  out.print(",", Fixed{2 * bounds_.macs * 1e-9, 3}, ",");
  quoted(model_.device != nullptr ? "" : peak().unit);
  out.print(Fixed{share_of_bound(r), 4}, "\n");
}

// With the sessions' number of workers; the weights as the program reads them.
bool Bench::measure_bounds(const Test& test) {
  WorkerPool pool;
  workers_ = with_defaults(model_, session_for(test)).workers;
  if (model_.device != nullptr) return true;
  if (pool.start(workers_, app_.memory) != kOk) {
    app_.fail("can't start ", workers_, " threads");
    return false;
  }
  bounds_.bytes = measure_read_bandwidth(pool, weights());
  bounds_.macs = measure_prompt_peak(pool, peak());
  return true;
}

int Bench::run() {
  Vec<Test> tests(app_.memory);
  if (!add_tests(&tests)) return app_.fail("not enough memory");
  if (tests.empty()) return app_.fail("nothing to measure: -p and -n are 0");
  if (!measure_bounds(tests[0])) return kExitError;
  print_head();
  for (size_t i = 0; i < tests.size() && app_.out.flush(); ++i) {
    Result result(app_.memory);
    if (!measure(tests[i], &result)) return kExitError;
    print(result, i + 1 == tests.size());
  }
  return app_.done();
}

}  // namespace

int gc_command_bench(App& app, const Options& options) {
  if (options.words.n != 0) return app.fail("unexpected argument '", options.words.values[0], "'");
  Model model;
  if (!open_model(app, options, &model)) return kExitError;
  if (options.bench_requests != 0) return bench_requests(app, options, model);
  return Bench(app, options, model).run();
}

}  // namespace gcrt
