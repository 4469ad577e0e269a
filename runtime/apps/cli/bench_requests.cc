// `OUT bench --requests N`: the batcher of a server under load, without a network. -npl clients at a time have N requests
// done, each client the next one when its last has ended. Lengths are mixed: prompts of a quarter to all of -p tokens,
// behind -d tokens that all begin with, and generations of a quarter to all of -n; every other one is drawn at the
// default temperature. --probs N asks for the N likeliest of each token in each eighth request.
//
// The longest wait is that of a request that generates, for its next token.
//
// Encoders are asked for embeddings of such prompts; t/s is then what they read.
//
// `answers` is a checksum of all answers, tokens, probabilities and embeddings bit for bit: it is the same for any number of clients,
// threads or rows of a step, whatever is kept and read again.
#include "runtime/apps/cli/bench_requests.h"

#include <pthread.h>

#include "runtime/abi/image.h"
#include "runtime/base/sort.h"
#include "runtime/batch/batcher.h"
#include "runtime/core/embedding.h"

namespace gcrt {
namespace {

struct Load;

// One request, as it went.
struct Record {
  Load* load = nullptr;
  uint32_t number = 0;
  int64_t asked_ns = 0, first_ns = 0;  // first: from asking to the first token
  uint64_t prompt = 0, kept = 0, tokens = 0;
  gc_hash_state answer;
  Status status = kOk;
};

uint64_t mixed(uint64_t x) {  // SplitMix64's output function
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

struct Load {
  Load(App& a, const Options& o, uint32_t clients, uint32_t requests)
      : app(a),
        options(o),
        n_clients(clients),
        n_requests(requests),
        batcher(a.memory),
        records(a.memory),
        prompt(a.memory) {}
  ~Load() { batcher.stop(0); }

  uint64_t pick(uint32_t request, uint64_t what, uint64_t below) const {
    return mixed((uint64_t{request} << 32) + what * 0x9e3779b97f4a7c15u) % below;
  }
  // A quarter to all of `most`, at least 1.
  uint32_t length(uint32_t request, uint64_t what, uint32_t most) const {
    const uint32_t least = max_of(most / 4, 1u);
    return least + static_cast<uint32_t>(pick(request, what, most - least + 1));
  }
  bool run(const Model& model);
  Status submit_next();
  void ended(Record& r, const EndEvent& event);

  App& app;
  const Options& options;
  uint32_t n_clients, n_requests;
  uint32_t n_prompt = 512, n_gen = 128, n_shared = 0;
  bool embeds = false;
  Batcher batcher;
  Vec<Record> records;
  Vec<int32_t> prompt;
  uint32_t next = 0, n_ended = 0;
  Status failed = kOk;
  int64_t took_ns = 0;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t done = PTHREAD_COND_INITIALIZER;
};

bool on_token(void* user, const TokenEvent& e) {
  Record& r = *static_cast<Record*>(user);
  if (e.id < 0) return true;
  if (r.tokens++ == 0) r.first_ns = now_ns() - r.asked_ns;
  gc_hash_update(&r.answer, &e.id, sizeof e.id);
  if (e.chosen.id >= 0) {
    gc_hash_update(&r.answer, &e.chosen, sizeof e.chosen);
    gc_hash_update(&r.answer, e.likeliest.data(), e.likeliest.size() * sizeof(TokenProb));
  }
  return true;
}

void on_end(void* user, const EndEvent& e) {
  Record& r = *static_cast<Record*>(user);
  r.load->ended(r, e);
}

// Before the engine runs, then on its thread.
Status Load::submit_next() {
  const uint32_t n = next++;
  Record& r = records[n];
  r.load = this;
  r.number = n;
  gc_hash_init(&r.answer);
  const uint64_t n_vocab = batcher.model().program->n_vocab;
  const uint32_t own = n_prompt == 0 ? 0 : length(n, 1, n_prompt);
  prompt.clear();
  for (uint32_t i = 0; i < n_shared; ++i)
    if (!prompt.push(static_cast<int32_t>(pick(UINT32_MAX, i, n_vocab)))) return kErrMemory;
  for (uint32_t i = 0; i < own; ++i)
    if (!prompt.push(static_cast<int32_t>(pick(n, 16 + i, n_vocab)))) return kErrMemory;
  SamplerOptions sampling;
  if (n % 2 == 0) sampling.temperature = 0;
  Vec<SamplerStage> chain(app.memory);
  BatchRequest request;
  if (const Status s = default_chain(sampling, chain); s != kOk) return s;
  request.prompt = prompt;
  request.kind = embeds ? BatchRequest::kEmbed : BatchRequest::kGenerate;
  request.pooling = n % 4 < 2    ? batcher.model().facts->pooling
                    : n % 4 == 2 ? GC_POOLING_NONE
                                 : GC_POOLING_MEAN;
  request.shared = n_shared;
  request.cache_prompt = options.cache_prompt;
  request.generate.chain = chain;
  request.generate.seed = n;
  request.generate.ignore_eog = true;
  request.generate.max_tokens = length(n, 2, n_gen);
  if (n % 8 == 7) request.n_probs = static_cast<int32_t>(options.bench_probs);
  request.user = &r;
  request.on_token = on_token;
  request.on_end = on_end;
  r.asked_ns = now_ns();
  uint64_t id = 0;
  return batcher.submit(request, &id, app.note());
}

void Load::ended(Record& r, const EndEvent& e) {
  r.status = e.status;
  r.prompt = e.times.prompt_tokens;
  r.kept = e.times.kept_tokens;
  if (embeds) {
    gc_hash_update(&r.answer, e.embeddings.data(), e.embeddings.size() * sizeof(float));
    r.first_ns = now_ns() - r.asked_ns;
  }
  Status status = e.status;
  if (status == kOk && next < n_requests) status = submit_next();
  pthread_mutex_lock(&mutex);
  if (failed == kOk) failed = status;
  ++n_ended;
  pthread_cond_signal(&done);
  pthread_mutex_unlock(&mutex);
}

bool Load::run(const Model& model) {
  const SessionOptions sizes = session_options(options);
  BatchOptions o;
  o.slots = n_clients;
  o.n_ctx = n_shared + n_prompt + n_gen;
  o.n_ubatch = sizes.n_ubatch;
  o.kv_type = sizes.kv_type;
  o.workers = sizes.workers;
  o.prefixes = n_shared != 0 ? 4 : 0;
  o.prefix_tokens = n_shared;
  Status s = batcher.init(model, nullptr, o, app.note());
  if (s == kOk && !records.resize(n_requests)) s = kErrMemory;
  for (uint32_t i = 0; s == kOk && i < min_of(n_clients, n_requests); ++i) s = submit_next();
  const int64_t begin = now_ns();
  if (s == kOk) s = batcher.start();
  pthread_mutex_lock(&mutex);
  while (s == kOk && n_ended < n_requests && failed == kOk) pthread_cond_wait(&done, &mutex);
  if (s == kOk) s = failed;
  pthread_mutex_unlock(&mutex);
  took_ns = now_ns() - begin;
  batcher.stop(0);
  if (s != kOk) app.fail_status(s);
  return s == kOk;
}

double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

void print_head(Output& out, BenchFormat format) {
  if (format == BenchFormat::kMarkdown)
    out.print(
        "| clients | requests | prompt tokens |  kept | generated |      t/s | first token p50, p95 ms | "
        "longest "
        "wait ms | answers          |\n"
        "| ------: | -------: | ------------: | ----: | --------: | -------: | ----------------------: | "
        "--------------: | ---------------- |\n");
  if (format == BenchFormat::kJson) out.print("[\n");
  if (format == BenchFormat::kCsv)
    out.print(
        "clients,requests,prompt_tokens,kept_tokens,generated_tokens,seconds,tokens_per_second,first_p50_ms,"
        "first_p95_ms,longest_wait_ms,answers\n");
}

void print(Output& out, BenchFormat format, Load& load, bool last) {
  uint64_t prompt = 0, kept = 0, tokens = 0;
  gc_hash_state answers;
  gc_hash_init(&answers);
  Vec<int64_t> first(load.app.memory);
  for (const Record& r : load.records) {
    prompt += r.prompt, kept += r.kept, tokens += r.tokens;
    const uint64_t answer = gc_hash_final(&r.answer);
    gc_hash_update(&answers, &answer, sizeof answer);
    if (!first.push(r.first_ns)) return;
  }
  sort(first.data(), first.size(), [](int64_t a, int64_t b) { return a < b; });
  auto percentile = [&](size_t p) { return seconds(first[(first.size() - 1) * p / 100]) * 1e3; };
  const double rate = static_cast<double>(load.embeds ? prompt : tokens) / seconds(load.took_ns);
  const double longest = seconds(load.batcher.metrics().most_wait_ns) * 1e3;
  char hash[20], number[9][24];
  Writer(hash).put_hex(gc_hash_final(&answers), 16);
  const uint64_t counts[] = {load.n_clients, load.n_requests, prompt, kept, tokens};
  for (size_t i = 0; i < 5; ++i) Writer(number[i]).put_uint(counts[i]);
  Writer(number[5]).put_fixed(rate, 1);
  Writer(number[6]).put_fixed(percentile(50), 1);
  Writer(number[7]).put_fixed(percentile(95), 1);
  Writer(number[8]).put_fixed(longest, 1);
  switch (format) {
    case BenchFormat::kMarkdown: {
      char both[48];
      gcrt::format_to(both, Str(number[6]), ", ", Str(number[7]));
      out.print("| ", Right{number[0], 7}, " | ", Right{number[1], 8}, " | ", Right{number[2], 13}, " | ",
                Right{number[3], 5}, " | ", Right{number[4], 9}, " | ", Right{number[5], 8}, " | ",
                Right{both, 23}, " | ", Right{number[8], 15}, " | ", hash, " |\n");
      return;
    }
    case BenchFormat::kJson:
      out.print("  {\"n_clients\": ", number[0], ", \"n_requests\": ", number[1],
                ", \"prompt_tokens\": ", number[2], ", \"kept_tokens\": ", number[3],
                ", \"generated_tokens\": ", number[4], ", \"seconds\": ", Fixed{seconds(load.took_ns), 3},
                ", \"avg_ts\": ", number[5], ", \"first_p50_ms\": ", number[6],
                ", \"first_p95_ms\": ", number[7], ", \"longest_wait_ms\": ", number[8], ", \"answers\": \"",
                hash, "\"}", last ? "\n]\n" : ",\n");
      return;
    case BenchFormat::kCsv:
      out.print(number[0], ",", number[1], ",", number[2], ",", number[3], ",", number[4], ",",
                Fixed{seconds(load.took_ns), 3}, ",", number[5], ",", number[6], ",", number[7], ",",
                number[8], ",", hash, "\n");
  }
}

// The one number of a list; false: there are several.
bool one(const IntList& list, uint32_t* value) {
  if (list.n == 1) *value = static_cast<uint32_t>(list.values[0]);
  return list.n <= 1;
}

}  // namespace

int bench_requests(App& app, const Options& options, const Model& model) {
  const bool embeds = gives_embeddings(*model.program);
  if (!embeds && !must_generate(app, model)) return kExitError;
  IntList clients = options.bench_sequences;
  if (clients.n == 0) clients.values[clients.n++] = 1;
  const auto format = static_cast<BenchFormat>(options.bench_format);
  print_head(app.out, format);
  for (uint32_t i = 0; i < clients.n && app.out.flush(); ++i) {
    Load load(app, options, static_cast<uint32_t>(clients.values[i]),
              static_cast<uint32_t>(options.bench_requests));
    load.embeds = embeds;
    if (!one(options.bench_prompt, &load.n_prompt) || !one(options.bench_gen, &load.n_gen) ||
        !one(options.bench_depth, &load.n_shared))
      return app.fail("--requests: -p, -n and -d have one number each");
    if (load.n_prompt + load.n_shared == 0 || load.n_gen == 0)
      return app.fail("nothing to measure: -p and -d, or -n, are 0");
    if (!load.run(model)) return kExitError;
    print(app.out, format, load, i + 1 == clients.n);
  }
  return app.done();
}

}  // namespace gcrt
