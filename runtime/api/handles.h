#pragma once
// What is behind the handles of model.h. Names begin with gcm_ here and in this library's objects; when a model is made
// into a library they get the prefix of that (compiler/link).
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GCM_API __attribute__((visibility("default")))
#include "runtime/api/model.h"
#include "runtime/base/format.h"
#include "runtime/core/session.h"
#include "runtime/generate/generator.h"
#include "runtime/generate/grammar_constraint.h"
#include "runtime/text/breakers.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/sampler.h"
#include "runtime/text/tokenizer.h"

struct gcm_model {
  explicit gcm_model(gcrt::Allocator a) : memory(a) {}
  gcrt::Allocator memory;
  gcrt::Model model;
  gcrt::Tokenizer tokenizer;
  gcrt::ChatTemplate chat;
};

struct gcm_session {
  gcm_session(gcrt::Allocator a, const gcm_model* m) : memory(a), model(m) {}
  gcrt::Allocator memory;
  const gcm_model* model;
  gcrt::Session session;
  float* logits = nullptr;  // f32[n_outputs, stride]
  uint64_t logits_bytes = 0;
  uint32_t n_logits = 0;  // outputs of the last step
  char error[256] = "";
};

struct gcm_sampler {
  gcm_sampler(gcrt::Allocator a, uint32_t n) : memory(a), sampler(a), n_vocab(n) {}
  gcrt::Allocator memory;
  gcrt::Sampler sampler;
  uint32_t n_vocab;
};

struct gcm_generator {
  gcm_generator(gcrt::Allocator a, gcm_session* s) : memory(a), session(s), grammar(a), generator(a) {}
  gcrt::Allocator memory;
  gcm_session* session;
  gcrt::GrammarConstraint grammar;
  gcrt::Generator generator;
};

namespace gcrt {

// The size that options begin with is that of the caller's header: fields it doesn't know keep their defaults.
template <class T>
Status take_options(const T* given, T* out) {
  if (given == nullptr) return kOk;
  if (given->size < sizeof given->size || given->size > sizeof(T)) return kErrArgument;
  memcpy(out, given, given->size);
  out->size = sizeof(T);
  return kOk;
}

// Fills as much of a result as its caller knows.
template <class T>
Status give_result(const T& result, T* out) {
  if (out == nullptr || out->size < sizeof out->size || out->size > sizeof(T)) return kErrArgument;
  const size_t size = out->size;
  memcpy(out, &result, size);
  out->size = size;
  return kOk;
}

inline Span<char> message_span(char* message, size_t bytes) { return {message, message ? bytes : 0}; }

template <class... Parts>
gcm_status fail(Span<char> message, Status status, const Parts&... parts) {
  format_to(message, parts...);
  return static_cast<gcm_status>(status);
}

// Copies what fits and tells how much there is.
template <class T>
gcm_status give_all(const Vec<T>& all, T* out, size_t capacity, size_t* n) {
  if (n != nullptr) *n = all.size();
  const size_t fits = min_of(all.size(), out != nullptr ? capacity : 0);
  if (fits != 0) memcpy(out, all.data(), fits * sizeof(T));
  return fits == all.size() ? GCM_OK : GCM_ERR_FULL;
}

// A handle in memory of its own allocator, which it keeps.
template <class T, class... Args>
T* create(const Allocator& memory, Args... args) {
  void* p = memory.get(sizeof(T), alignof(T));
  return p != nullptr ? ::new (gcrt_placement{}, p) T(memory, args...) : nullptr;
}

template <class T>
void destroy(T* p) {
  const Allocator memory = p->memory;
  p->~T();
  memory.put(p, sizeof(T), alignof(T));
}

inline Allocator allocator_of(const gcm_allocator* given, Allocator otherwise) {
  return given != nullptr ? Allocator{given->allocate, given->release, given->user} : otherwise;
}

// The stages and biases of sampler options. `options` may be null.
struct SamplerSetup {
  explicit SamplerSetup(Allocator a) : chain(a) {}
  Vec<SamplerStage> chain;
  Span<const LogitBias> bias;
  uint64_t seed = 0;
};
Status set_up_sampler(const gcm_model& model, const gcm_sampler_options* options, SamplerSetup* setup,
                      Span<char> message);

}  // namespace gcrt
