#include "runtime/core/session.h"

#include <string.h>

#include "runtime/base/format.h"
#include "runtime/core/huge_pages.h"

namespace gcrt {
namespace {

// Ranges of positions that attention can give to workers apart, for few rows, as many as a step has of generated ones; see
// the kernels. A device's for every row.
uint32_t splits_cap(const gc_program& program, const SessionOptions& o) {
  if (is_for_device(program)) return o.n_ubatch * (o.n_ctx / 256 + 1);
  const uint32_t rows = o.n_seqs < GC_REDUNDANT_ROWS ? o.n_seqs : GC_REDUNDANT_ROWS;
  return rows * (o.n_ctx / 512 + 2);
}

KvOptions kv_options(const SessionOptions& o) {
  return {o.n_seqs, o.n_ctx, o.n_ubatch, o.kv_type, o.n_held, o.held_tokens};
}

struct Run {
  const gc_step* step;
  gc_entry entry;
  int32_t status;  // of worker 0; all workers return the same
};

void run_worker(void* context, uint32_t worker) {
  Run* run = static_cast<Run*>(context);
  const int32_t status = run->entry(run->step, worker);
  if (worker == 0) run->status = status;
}

void meet(void* barrier, uint32_t) { static_cast<Barrier*>(barrier)->wait(); }

}  // namespace

SessionOptions with_defaults(const Model& model, SessionOptions options) {
  if (options.n_ctx == 0) options.n_ctx = model.facts->n_ctx_train;
  if (options.n_ctx > model.program->max_position) options.n_ctx = model.program->max_position;
  if (model.device != nullptr) options.workers = 1;
  if (options.workers == 0) options.workers = options.threads.run != nullptr ? 1 : usable_cpus();
  if (options.n_ubatch == 0) options.n_ubatch = 512;
  const uint64_t positions = uint64_t{options.n_ctx} * options.n_seqs;  // a step can't have more rows
  if (options.n_ubatch > positions) options.n_ubatch = static_cast<uint32_t>(positions);
  if (options.n_outputs > options.n_ubatch) options.n_outputs = options.n_ubatch;
  if (options.n_outputs == 0) options.n_outputs = 1;
  if (options.kv_type == GC_KV_TYPES) options.kv_type = model.program->kv_type;
  if ((model.program->sinks >> GC_SINK_TOPK & 1) == 0) options.most_k = 0;
  if (options.most_k > model.program->n_vocab) options.most_k = model.program->n_vocab;
  return options;
}

SessionMemory session_memory(const Model& model, const SessionOptions& given) {
  const SessionOptions o = with_defaults(model, given);
  SessionMemory m;
  m.kv = kv_pool_bytes(*model.program, kv_options(o));
  m.states = recurrent_pool_bytes(*model.program, kv_options(o));
  m.arena = gc_arena_bytes(model.program, o.n_ubatch, o.n_outputs, o.workers, splits_cap(*model.program, o)) +
            Choice::bytes(o.workers, o.n_outputs, o.most_k);
  return m;
}

Status Session::init(const Model& model, const SessionOptions& given, Allocator allocator,
                     Span<char> message) {
  if (given.n_ctx > model.program->max_position) {
    format_to(message, "a context of ", given.n_ctx, " is more than the ", model.program->max_position,
              " positions that this file was compiled for");
    return kErrArgument;
  }
  model_ = model;
  options_ = with_defaults(model, given);
  allocator_ = allocator;
  if (options_.kv_type >= GC_KV_TYPES || !has_kv_type(*model.program, options_.kv_type)) {
    format_to(message, "this file has no kernels for that KV type");
    return kErrUnsupported;
  }
  const SessionMemory need = session_memory(model, options_);
  auto out_of_memory = [&] {
    Writer w(message.data(), message.size());
    format(w, "not enough memory: a context of ", options_.n_ctx, " needs ");
    if (model_.device != nullptr) {
      format(w, need.kv, " bytes of KV and ", need.arena, " of scratch, ");
      model_.device->say_free(w);
    } else {
      format(w, need.kv >> 20, " MiB of KV and ", need.arena >> 20, " MiB of scratch");
    }
    return kErrMemory;
  };
  rows_ = Vec<gc_row>(allocator);
  chunk_ = Vec<Token>(allocator);
  outputs_ = Vec<uint32_t>(allocator);
  old_length_ = Vec<uint32_t>(allocator);
  if (!rows_.resize(options_.n_ubatch) || !chunk_.resize(options_.n_ubatch) ||
      !outputs_.resize(options_.n_outputs) || !old_length_.resize(options_.n_seqs))
    return out_of_memory();
  if (const Status s = kv_.init(*model.program, kv_options(options_), allocator, model_.device); s != kOk)
    return s == kErrMemory ? out_of_memory() : s;
  const uint64_t lists = Choice::bytes(options_.workers, options_.n_outputs, options_.most_k);
  if (choice_.init(model.program->n_vocab, options_.workers, options_.n_outputs, options_.most_k,
                   allocator) != kOk)
    return out_of_memory();
  arena_bytes_ = need.arena - lists;
  if (model_.device != nullptr) return init_device(message);
  arena_ = static_cast<uint8_t*>(allocator.get(arena_bytes_, large_alignment(arena_bytes_)));
  if (arena_ == nullptr) return out_of_memory();
  want_huge_pages(arena_, arena_bytes_);
  if (options_.threads.run != nullptr) {
    pool_.use(options_.workers, options_.threads);
    return kOk;
  }
  const Status s = pool_.start(options_.workers, allocator);
  if (s != kOk) format_to(message, "can't start ", options_.workers, " threads");
  return s;
}

// The arena is the device's; where the head chooses, it does so here.
Status Session::init_device(Span<char> message) {
  device_logits_ = Vec<float>(allocator_);
  if (options_.most_k != 0 && !device_logits_.resize(uint64_t{options_.n_outputs} * logits_stride()))
    return kErrMemory;
  if (const Status s = model_.device->begin(options_, allocator_, &device_, message); s != kOk) return s;
  return pool_.start(1, allocator_);  // the caller's thread
}

Session::~Session() {
  if (device_ != nullptr) device_->close();
  if (arena_ != nullptr) allocator_.put(arena_, arena_bytes_, large_alignment(arena_bytes_));
}

// Rows, outputs and room in the cache for them.
Status Session::fill_rows(Span<const Token> tokens, gc_step* step) {
  const gc_program& program = *model_.program;
  if (tokens.empty() || tokens.size() > options_.n_ubatch) return kErrArgument;
  const bool whole = whole_texts(program);
  for (uint32_t i = 0; i < tokens.size(); ++i) {
    const Token& t = tokens[i];
    if (t.id < 0 || static_cast<uint32_t>(t.id) >= program.n_vocab || t.seq >= options_.n_seqs)
      return kErrArgument;
    if (t.role == GC_ROLE_PROMPT && step->n_prompt != i) return kErrArgument;
    if (t.role == GC_ROLE_PROMPT) ++step->n_prompt;
    const uint32_t pos = kv_.length(t.seq);
    if (const Status s = kv_.grow(t.seq, pos + 1); s != kOk) return s;
    rows_[i] = {t.id, static_cast<int32_t>(pos), t.seq, t.role, t.output, 0};
    if (whole && (old_length_[t.seq] != 0 || t.role != GC_ROLE_PROMPT)) return kErrUnsupported;
    if (pos != old_length_[t.seq]) step->flags &= ~GC_STEP_ONE_ROW_EACH;
    if (!t.output) continue;
    if (step->n_outputs == options_.n_outputs) return kErrArgument;
    outputs_[step->n_outputs++] = i;
  }
  return kOk;
}

Status Session::step(Span<const Token> tokens, gc_sink* sink, bool each_apart) {
  const gc_program& program = *model_.program;
  gc_step step = {};
  step.flags = GC_STEP_ONE_ROW_EACH;
  if (long_context()) step.flags |= GC_STEP_LONG_CONTEXT;
  for (uint32_t s = 0; s < options_.n_seqs; ++s) old_length_[s] = kv_.length(s);
  Status status = fill_rows(tokens, &step);
  bool ran = false;
  const bool chooses = step.n_outputs != 0 && sink->kind != GC_SINK_LOGITS && sink->kind != GC_SINK_EMBEDDING;
  if (status == kOk && chooses) status = begin_choice(sink, step.n_outputs);
  if (status == kOk && __atomic_load_n(&abort_, __ATOMIC_RELAXED)) status = kErrAborted;
  if (status == kOk) {
    step.rows = rows_.data();
    step.outputs = outputs_.data();
    step.seqs = kv_.seqs();
    step.n_rows = static_cast<uint32_t>(tokens.size());
    step.n_seqs = options_.n_seqs;
    step.rows_cap = options_.n_ubatch;
    step.outputs_cap = options_.n_outputs;
    step.splits_cap = splits_cap(program, options_);
    step.workers = pool_.workers();
    step.layer_last = program.n_layer;
    step.weights = model_.weights;
    step.arena = arena_;
    step.pools = kv_.pools();
    step.sink = sink;
    step.barrier = meet;
    step.barrier_context = &pool_.barrier();
    step.abort = kv_.is_recurrent() ? &never_ : &abort_;
    step.see = see;
    step.see_context = see_context;
    if (device_ == nullptr) memset(arena_, 0, program.arena.fixed);
    const int kind = whole_texts(program)           ? GC_ENTRY_ENCODE
                     : step.n_prompt == step.n_rows ? GC_ENTRY_PREFILL
                     : step.n_prompt == 0           ? GC_ENTRY_DECODE
                                                    : GC_ENTRY_MIXED;
    Run run{&step, program.entries[kind][options_.kv_type], kOk};
    if (run.entry == nullptr) {
      status = kErrUnsupported;
    } else {
      status = device_ != nullptr ? step_on_device(step) : pool_.run(run_worker, &run);
      ran = status == kOk || device_ != nullptr;
      if (status == kOk) status = run.status;
      if (status == kOk && chooses) {
        status = choice_.finish(*sink, step.n_outputs);
        if (status == kErrNan && each_apart) status = kOk;
      }
    }
  }
  if (status != kOk)
    for (uint32_t s = 0; s < options_.n_seqs; ++s) {
      if (ran)
        kv_.truncate(s, old_length_[s]);
      else
        kv_.shrink(s, old_length_[s]);
    }
  // Raised too late for this step to see, it holds for the next one.
  if (status == kErrAborted) __atomic_store_n(&abort_, 0, __ATOMIC_RELAXED);
  return status;
}

Status Session::step_on_device(const gc_step& step) {
  if (see != nullptr) return kErrUnsupported;
  if (step.n_outputs == 0) return device_->step(step, nullptr, 0);
  const gc_sink& sink = *step.sink;
  const bool chooses = sink.kind == GC_SINK_ARGMAX || sink.kind == GC_SINK_TOPK;
  float* logits = chooses ? device_logits_.data() : sink.logits;
  const uint64_t stride = chooses ? logits_stride() : sink.stride;
  if (const Status s = device_->step(step, logits, stride); s != kOk) return s;
  for (uint32_t o = 0; chooses && o < step.n_outputs; ++o)
    sink.choice->take(sink.choice->context, 0, o, 0, logits_stride(), logits + o * stride);
  return kOk;
}

Status Session::begin_choice(gc_sink* sink, uint32_t n_outputs) {
  if (sink->kind >= 32 || (model_.program->sinks >> sink->kind & 1) == 0) return kErrUnsupported;
  if (sink->kind != GC_SINK_ARGMAX && sink->kind != GC_SINK_TOPK) return kErrUnsupported;
  sink->choice = choice_.hooks();
  return choice_.begin(*sink, n_outputs);
}

gc_sink Session::logits_sink(float* logits) const {
  gc_sink sink = {};
  sink.kind = GC_SINK_LOGITS;
  sink.logits = logits;
  sink.stride = logits_stride();
  return sink;
}

Status Session::prompt(uint32_t seq, Span<const int32_t> tokens, float* logits) {
  gc_sink sink = logits_sink(logits);
  return prompt_into(seq, tokens, logits != nullptr ? &sink : nullptr);
}

Status Session::prompt_into(uint32_t seq, Span<const int32_t> tokens, gc_sink* sink) {
  gc_sink none = logits_sink(nullptr);
  for (size_t at = 0; at < tokens.size();) {
    uint32_t n = 0;
    for (; at < tokens.size() && n < options_.n_ubatch; ++at)
      chunk_[n++] = {tokens[at], seq, GC_ROLE_PROMPT, sink != nullptr && at + 1 == tokens.size()};
    // Chunks but the last have no outputs, whatever the sink.
    const Status s = step(chunk_.span().sub(0, n), sink != nullptr && at == tokens.size() ? sink : &none);
    if (s != kOk) return s;
  }
  kv_.keep(seq);
  return kOk;
}

Status Session::decode(uint32_t seq, int32_t token, float* logits) {
  gc_sink sink = logits_sink(logits);
  return decode_into(seq, token, logits != nullptr ? &sink : nullptr);
}

Status Session::decode_into(uint32_t seq, int32_t token, gc_sink* sink) {
  gc_sink none = logits_sink(nullptr);
  const Token t{token, seq, GC_ROLE_GENERATED, sink != nullptr};
  return step(Span<const Token>(&t, 1), sink != nullptr ? sink : &none);
}

}  // namespace gcrt
