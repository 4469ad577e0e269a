#pragma once
// The slots and the steps: everything of the batcher that one thread does, without queue and locks.
//
// A slot is sequence number `slot` of the session. Its request waits for a prompt that is being read and begins alike,
// then reads its own prompt piece by piece, then generates:
//
//   kWaiting -> kReading -> kGenerating -> free
//
// A step is: rows of prompts as schedule.h shares them, one row of each slot that generates, then for each row whose
// output was wanted a token. The head chooses candidates for all outputs of a step as long as nobody in it needs all
// logits (probabilities, samplers that look at all of them); else all logits of the step are stored, and everyone
// chooses from them. A request's tokens are the same both ways.
#include "runtime/batch/batcher.h"
#include "runtime/batch/prefixes.h"
#include "runtime/batch/request.h"
#include "runtime/batch/schedule.h"

namespace gcrt::batch {

SessionOptions session_options_of(const Model& model, const BatchOptions& options);
// Options as they become: with defaults, and room for what must be.
BatchOptions with_batch_defaults(const Model& model, BatchOptions options);

class Engine {
 public:
  Engine(const BatchOptions& options, Allocator a)
      : options_(options),
        allocator_(a),
        clock_(options.most_wait_ns),
        prefixes_(a),
        slots_(a),
        shares_(a),
        outputs_(a),
        picked_(a),
        rules_(a),
        ids_(a),
        values_(a),
        embeddings_(a) {}
  ~Engine();
  Status init(const Model& model, Span<char> message);

  Session& session() { return session_; }
  Prefixes& prefixes() { return prefixes_; }
  bool is_idle() const { return n_busy_ == 0; }
  bool is_free(uint32_t slot) const { return slots_[slot].phase == Phase::kFree; }

  // Into a slot that is free.
  void admit(Request* request, uint32_t slot);
  // One step, if anybody has something to do. Requests that end are told so, and wait in ended().
  void step();
  // Requests that have ended since, to be freed.
  Request* take_ended();
  // All end with kErrAborted.
  void end_all();
  // The request whose on_token runs.
  [[nodiscard]] bool force(uint64_t request, Span<const int32_t> ids);

  void states(Span<SlotState> out) const;
  const BatchMetrics& metrics() const { return metrics_; }
  // The entry of prefixes() that holds the last prompt of a slot; -1: none does.
  int32_t held(uint32_t slot) const;
  void set_held(uint32_t slot, int32_t entry);

 private:
  enum class Phase : uint8_t { kFree, kWaiting, kReading, kGenerating };
  struct Slot {
    Phase phase = Phase::kFree;
    Request* request = nullptr;
    uint64_t came = 0;    // in order of admission
    Vec<int32_t> tokens;  // [0, done) are in the state, and while it reads, the rest is to be read
    size_t done = 0;
    size_t prompt = 0;    // of tokens: what others may share; 0 after a shift of the context
    size_t mark = 0;      // length whose state is kept too, on the way
    uint32_t rows = 0;    // of the prompt, in this step
    int32_t next = -1;    // chosen and not run
    bool chosen = false;  // `next` stands already: it was being shifted
    // While it waits: for whom, until so many tokens of theirs are read.
    uint32_t source = 0;
    uint64_t source_came = 0;
    size_t source_alike = 0;
    int64_t begun_ns = 0, read_ns = 0;
    GenerateTimes times;
    int32_t held = -1;  // entry of its last prompt, and that entry's serial number
    uint64_t held_serial = 0;
  };

  // What an output gave.
  struct Picked {
    Status status = kOk;
    int32_t token = -1;
    bool forced = false;
    TokenProb own = {-1, 0};
  };

  static constexpr size_t kWorthWaiting = GC_KV_BLOCK;  // tokens that needn't be read

  uint32_t number(const Slot& s) const { return static_cast<uint32_t>(&s - slots_.data()); }
  bool encodes() const { return rows_of_output_ != 0; }

  void start(Slot& s);
  void stop_waiting();
  size_t next_halt(const Slot& s) const;
  void end_cancelled();

  uint32_t collect();
  void share();
  bool prepare(Slot& s);
  Status run(uint32_t n_rows);
  gc_sink make_sink();
  void after_prompt_rows(Slot& s);
  void keep_prompt(Slot& s);
  Status pick_all(const gc_sink& sink);
  void pick(uint32_t output, const gc_sink& sink);
  void take(Slot& s, const Picked& picked);
  void shift(Slot& s);

  void step_texts();
  void finish(Slot& s, End end);
  void fail(Slot& s, Status status, Str message);
  void leave(Slot& s, EndEvent& event);

  BatchOptions options_;
  Allocator allocator_;
  StepClock clock_;
  Session session_;
  Prefixes prefixes_;
  Vec<Slot> slots_;
  uint32_t n_busy_ = 0;
  uint64_t came_ = 0;
  uint64_t speaking_ = 0;  // the request whose on_token runs
  Request* ended_ = nullptr;
  BatchMetrics metrics_;
  char message_[256] = "";

  // Of a step:
  Vec<PromptShare> shares_;    // [slots]
  Vec<uint32_t> outputs_;      // slots, in order of their outputs
  Vec<Picked> picked_;         // [slots], of the outputs
  Vec<gc_logit_rules> rules_;  // [outputs]
  float* logits_ = nullptr;    // f32[n_outputs, logits_stride()]
  uint64_t logits_bytes_ = 0;
  Vec<int32_t> ids_;  // [outputs, k] of the head's lists
  Vec<float> values_;
  uint32_t rows_of_output_ = 0;  // of an encoder: outputs that a step may have
  Vec<float> embeddings_;        // of one text
};

}  // namespace gcrt::batch
