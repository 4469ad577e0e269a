// A model and a session: sequences of tokens, and the steps that extend them.
//
// The model is what a linked file holds: a program for this CPU, the mapped weights, facts. It is shared and never
// changes. A session owns what a conversation needs: workers, arena, KV cache. All memory is taken when it is made;
// a step allocates nothing.
#pragma once

#include <stdint.h>

#include "runtime/abi/image.h"
#include "runtime/abi/program.h"
#include "runtime/core/choice.h"
#include "runtime/core/device.h"
#include "runtime/core/kv_cache.h"
#include "runtime/core/threads.h"

namespace gcrt {

// The weights.
struct Image {
  const gc_image_header* header = nullptr;
  void* mapping = nullptr;  // of a sidecar; null: they came with the program
};

struct Model {
  const gc_program* program = nullptr;  // of the device, where there is one
  const gc_model* facts = nullptr;
  const uint8_t* weights = nullptr;  // base that the program's offsets count from
  Image image;
  Device* device = nullptr;  // null: this machine's CPU
};

// The weights of this file, with their header verified. kErrImage: missing, cut off, damaged or another model's, and
// `message` says so. `sidecar`: where they are if they are in a file of their own; empty: where the compiler put it.
Status open_image(Str sidecar, Image* image, Span<char> message);
// A sidecar is unmapped.
void close_image(Image* image);

// The model of this file, for this CPU (or for the ISA of that name). `message` says what is wrong: kErrIsa,
// kErrImage (as open_image), kErrUnsupported.
Status open_model(Str isa, Str sidecar, Model* model, Span<char> message);

struct SessionOptions {
  uint32_t n_ctx = 0;  // positions of a sequence; 0: the model's own
  uint32_t n_seqs = 1;
  uint32_t n_ubatch = 512;         // most rows of a step
  uint32_t n_outputs = 1;          // most outputs of a step
  uint32_t kv_type = GC_KV_TYPES;  // GC_KV_TYPES: the program's own
  uint32_t workers = 0;            // 0: usable_cpus()
  WorkerPool::Threads threads;     // another's, in place of own ones: `workers` of them
  uint32_t n_held = 0;             // sequences beyond n_seqs that no step runs, see KvOptions
  uint32_t held_tokens = 0;
  uint32_t most_k = 0;  // of a sink ARGMAX (1) or TOPK: what it may ask for; 0: neither
};

// What a session takes, before it is made.
struct SessionMemory {
  uint64_t kv = 0, arena = 0;
  uint64_t states = 0;  // of kv: recurrent states and their snapshots
};
SessionMemory session_memory(const Model& model, const SessionOptions& options);

struct Token {
  int32_t id = 0;
  uint32_t seq = 0;
  uint8_t role = GC_ROLE_PROMPT;
  bool output = false;
};

// Whether the program attends to later positions: it reads a text whole, all its tokens in one step as prompt, and doesn't
// generate.
inline bool whole_texts(const gc_program& program) {
  for (uint32_t t = 0; t < GC_KV_TYPES; ++t)
    if (program.entries[GC_ENTRY_ENCODE][t] != nullptr) return true;
  return false;
}
inline bool has_kv_type(const gc_program& program, uint32_t type) {
  return program.entries[GC_ENTRY_PREFILL][type] != nullptr ||
         program.entries[GC_ENTRY_ENCODE][type] != nullptr;
}

class Session {
 public:
  // GC_ERR_UNSUPPORTED: no kernels for the KV type; kErrArgument: a size out of range, `message` says which.
  Status init(const Model& model, const SessionOptions& options, Allocator allocator, Span<char> message);

  // Appends tokens to their sequences. `sink` gets the outputs, in order of the tokens; tokens of one sequence stand
  // in order. At most n_ubatch tokens and n_outputs outputs; prompt tokens before generated ones.
  // On an error the sequences keep the length they had. With recurrent states, which a step that failed while it ran has
  // moved on, they go back to the end of their last prompt, or are empty: see kv().length(). To abort a step is no such
  // failure: there it ends whole, and the next one is refused. `each_apart`: where the head chooses, an output that is
  // no number is no error of the step, but a list that is empty.
  Status step(Span<const Token> tokens, gc_sink* sink, bool each_apart = false);
  // A prompt of any length in chunks. Logits of the last token into `logits` (f32[logits_stride()]), or nowhere if null.
  Status prompt(uint32_t seq, Span<const int32_t> tokens, float* logits);
  // The same into a sink, which may be null.
  Status prompt_into(uint32_t seq, Span<const int32_t> tokens, gc_sink* sink);
  // One generated token.
  Status decode(uint32_t seq, int32_t token, float* logits);
  Status decode_into(uint32_t seq, int32_t token, gc_sink* sink);

  // Room for the tokens of a step, n_ubatch of them, for whoever has none.
  Vec<Token>& step_tokens() { return chunk_; }

  // The k greatest logits that a sink TOPK may ask for (ARGMAX: 1); 0 when this program gives logits only.
  uint32_t most_k() const { return choice_.most_k(); }

  // Floats from one output to the next: its logits, or an embedding, to whole panels.
  uint32_t logits_stride() const { return logits_stride_of(*model_.program); }
  static uint32_t logits_stride_of(const gc_program& program) { return (program.n_output + 15) / 16 * 16; }

  // From any thread or signal handler: the step that runs, or the next one, ends early with kErrAborted.
  void abort() { __atomic_store_n(&abort_, 1, __ATOMIC_RELAXED); }
  // What was raised after the last step's end is not meant for the next one.
  void forget_abort() { __atomic_store_n(&abort_, 0, __ATOMIC_RELAXED); }
  KvCache& kv() { return kv_; }
  WorkerPool& pool() { return pool_; }
  const Model& model() const { return model_; }
  const SessionOptions& options() const { return options_; }  // with defaults filled in
  // Sequences have room for so many positions that RoPE turns by its factors for long contexts.
  bool long_context() const {
    return model_.program->short_context != 0 && options_.n_ctx > model_.program->short_context;
  }
  SessionMemory memory() const {
    return {kv_.bytes(), arena_bytes_, recurrent_pool_bytes(*model_.program, kv_.options())};
  }

  Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  // Debug values of the next steps, or null.
  void (*see)(void* context, uint32_t worker, uint32_t value, const void* data, uint64_t stride) = nullptr;
  void* see_context = nullptr;

 private:
  Status fill_rows(Span<const Token> tokens, gc_step* step);
  Status begin_choice(gc_sink* sink, uint32_t n_outputs);
  gc_sink logits_sink(float* logits) const;
  Status init_device(Span<char> message);
  Status step_on_device(const gc_step& step);

  Model model_;
  SessionOptions options_;
  Allocator allocator_;
  WorkerPool pool_;
  KvCache kv_;
  uint8_t* arena_ = nullptr;
  uint64_t arena_bytes_ = 0;
  Vec<gc_row> rows_;
  Vec<Token> chunk_;  // of a prompt
  Vec<uint32_t> outputs_;
  Vec<uint32_t> old_length_;
  Choice choice_;
  DeviceSession* device_ = nullptr;
  Vec<float> device_logits_;  // of a step whose head chooses
  uint32_t abort_ = 0;
  const uint32_t never_ = 0;
};

// Fills zeros of the options: the model's context, all usable CPUs; rows no more than the context, the KV type of the
// program. most_k becomes 0 where
// the program can't choose.
SessionOptions with_defaults(const Model& model, SessionOptions options);

}  // namespace gcrt
