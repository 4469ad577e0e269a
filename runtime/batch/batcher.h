#pragma once
// Many requests at once over one session: continuous batching.
//
// An engine thread makes one step after the other. A step takes the next token of every request that generates and
// fills what is left of its rows with pieces of prompts, so that nobody waits for anybody else's answer to end, and
// the weights are read once for all. Requests that have no slot yet wait in a queue of limited length.
//
// What a request gets does not depend on the others: a row's bits follow from its sequence and role alone (the token's
// role picks the arithmetic), masks, penalties and draws are each request's own.
//
// Prompts that begin alike are computed once. The states after a prompt stay as long as there is room, and a new prompt
// starts from those it has most in common with, of prompts that are being read too. Only states written as prompt are
// used for other prompts: what was generated and comes back in a prompt is read again, as a prompt. So the
// bits are those of a cold start.
//
// Memory is taken when the batcher is made; a request takes that of its own sampler and prompt.
#include <pthread.h>
#include <stdint.h>

#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/batch/batch_request.h"
#include "runtime/core/session.h"
#include "runtime/text/tokenizer.h"

namespace gcrt {

struct BatchOptions {
  uint32_t slots = 4;       // requests that run at the same time
  uint32_t n_ctx = 0;       // positions of each of them; 0: the model's own, of encoders no more than 8192
  uint32_t n_ubatch = 512;  // most rows of a step; at least slots + 32 are taken, by encoders n_ctx
  uint32_t kv_type = GC_KV_TYPES;  // GC_KV_TYPES: the program's own
  uint32_t workers = 0;            // 0: usable_cpus()
  uint32_t queue = 256;            // most requests that wait when no slot is free
  // Prompts whose states are kept when nobody runs them; 0: none are. Keys and values of full attention lie in what
  // the slots leave free of `slots` contexts and of these positions more; the oldest make room.
  uint32_t prefixes = 8;
  uint32_t prefix_tokens = 0;
  // About how long pieces of prompts may make a step while somebody generates (at great depths up to half as much again,
  // since speeds are measured as they go).
  int64_t most_wait_ns = 200'000'000;
};

// What a batcher takes, before it is made: session_memory() and the logits of all slots.
struct BatchMemory {
  uint64_t kv = 0, arena = 0, states = 0, logits = 0;  // states: of kv
};
BatchMemory batch_memory(const Model& model, const BatchOptions& options);

namespace batch {
class Engine;
struct Request;
}  // namespace batch

class Batcher {
 public:
  explicit Batcher(Allocator a = libc_allocator()) : allocator_(a), running_(a), states_(a) {}
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;
  ~Batcher();  // stop(0)

  // `tokenizer` may be null or without a vocabulary: there is no text then. It outlives the batcher. Errors as
  // Session::init's, `message` says what.
  Status init(const Model& model, const Tokenizer* tokenizer, const BatchOptions& options,
              Span<char> message);
  // Starts the engine's thread.
  Status start();
  // Nothing is taken any more, and what waits ends with kErrAborted. What runs may go on for `grace_ns`, then it ends
  // so too. Returns when the engine's thread is gone; not from a callback.
  void stop(int64_t grace_ns);

  // From any thread. kErrFull: the queue is full; kErrAborted: the batcher was stopped; kErrInput: the prompt is longer
  // than the context; kErrArgument, kErrUnsupported, kErrMemory: `message` says what. Then no callback comes.
  Status submit(const BatchRequest& request, uint64_t* id, Span<char> message);
  // From any thread; the request ends with kErrAborted before another step is made. One that is not known any more is
  // no mistake.
  void cancel(uint64_t request);
  // These come next, whatever the model would say. From on_token of this request alone.
  [[nodiscard]] bool force(uint64_t request, Span<const int32_t> ids);

  // From any thread. At most slots() states are written.
  void slot_states(Span<SlotState> out);
  BatchMetrics metrics();

  // The kept states of a slot's last prompt, or of a longer one that begins with it, as bytes and back (prompt_cache.h has the form). From any thread but the
  // engine's, between two steps. kErrArgument: there is no such slot, or nothing is kept of it, or prefixes are off;
  // restore_slot also as restore_sequence().
  Status save_slot(uint32_t slot, Vec<uint8_t>* out, size_t* n_tokens, Span<char> message);
  Status restore_slot(uint32_t slot, Span<const uint8_t> bytes, size_t* n_tokens, Span<char> message);
  Status erase_slot(uint32_t slot, size_t* n_tokens, Span<char> message);

  // As they became.
  const BatchOptions& options() const { return options_; }
  const Model& model() const { return model_; }
  uint32_t slots() const { return options_.slots; }
  uint32_t n_ctx() const { return options_.n_ctx; }
  BatchMemory memory() const { return batch_memory(model_, options_); }

 private:
  // Something that the engine's thread does between two steps while its caller waits.
  struct Errand {
    void (*run)(batch::Engine& engine, void* context) = nullptr;
    void* context = nullptr;
    bool done = false;
    Errand* next = nullptr;
  };
  struct List {
    batch::Request *first = nullptr, *last = nullptr;
    void push(batch::Request* r);
  };

  static void* thread_main(void* self);
  void run();
  void run_errands();
  void publish();
  batch::Request* take_waiting(bool everybody);
  batch::Request* take_admitted();
  void end_unserved(batch::Request* list);
  void free_ended();
  batch::Request* next_for(uint32_t slot);
  Status refused(Span<char> message);
  Status errand(uint32_t slot, void (*run)(batch::Engine&, void*), void* context, Span<char> message);
  Status check(const BatchRequest& request, Span<char> message) const;
  batch::Request* make_request(const BatchRequest& given, Status* status, Span<char> message);
  void destroy(batch::Request* request);

  Allocator allocator_;
  BatchOptions options_;
  Model model_;
  const Tokenizer* tokenizer_ = nullptr;
  batch::Engine* engine_ = nullptr;
  uint32_t most_k_ = 0;

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t changed_ = PTHREAD_COND_INITIALIZER;  // for the engine: there is something to do
  pthread_cond_t did_ = PTHREAD_COND_INITIALIZER;      // for who waits for an errand
  pthread_t thread_ = {};
  bool started_ = false;
  // Under the mutex:
  bool stopping_ = false, gone_ = false;
  int64_t stop_at_ns_ = 0;
  List queue_;
  uint32_t n_waiting_ = 0;
  Errand* errands_ = nullptr;
  uint64_t ids_ = 0;
  Vec<batch::Request*> running_;  // by slot; null: it is free
  Vec<SlotState> states_;
  BatchMetrics metrics_;  // the engine's, and of the queue:
  uint64_t requests_ = 0, refused_ = 0, unserved_ = 0, unserved_cancelled_ = 0;
};

}  // namespace gcrt
