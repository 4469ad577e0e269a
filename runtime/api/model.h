/* A compiled language model as a part of a program.
 *
 * C99, usable from C++ and from anything that calls C. A library made from a model by
 * `gguf-compile MODEL.gguf --emit obj|archive|shared -o OUT` defines the functions below and no other symbol. It needs
 * the C library (and libm) alone, keeps no global state, prints nothing, ends nothing, installs no signal handler, and
 * starts no thread but the workers of a session that was asked for them.
 *
 * Three kinds of handles:
 *   model     weights, vocabulary, template. Shared and immutable: any number of threads may use one.
 *   session   the states of one or more sequences, and what runs them. One thread at a time, but for gcm_cancel().
 *   sampler, generator   how tokens are chosen; one thread at a time.
 * A handle outlives what was made from it: the model its sessions, a session its generators.
 *
 * Every function that can fail returns a gcm_status, 0 for success. Why it failed, in one line, is in the buffer that
 * the call was given (`message`, which may be NULL), or is what gcm_session_error() says of the session's last failure.
 *
 * Structures of options begin with their size, so that programs compiled against an older header go on working: fill
 * them with gcm_..._init() and change what you like.
 *
 * Memory comes from the allocator of the options, malloc by default. It is taken when a handle is made and as its
 * comment says; a step allocates nothing. gcm_session_memory() tells beforehand how much a session takes.
 *
 * After fork() the child may go on with its copy of a session (its threads are started anew), if no call was in
 * progress when the process forked.
 */
#ifndef GCM_API_H_
#define GCM_API_H_

#include <stddef.h>
#include <stdint.h>

#ifndef GCM_API
#define GCM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define GCM_API_VERSION 1 /* counts changes that programs must know of */

typedef enum gcm_status {
  GCM_OK = 0,
  GCM_ERR_ARGUMENT = -1,    /* a size, token, position or option out of range */
  GCM_ERR_MEMORY = -2,      /* an allocation failed */
  GCM_ERR_CANCELLED = -3,   /* gcm_cancel() */
  GCM_ERR_UNSUPPORTED = -4, /* the model was compiled without it */
  GCM_ERR_ISA = -5,         /* this CPU lacks what the model was compiled for */
  GCM_ERR_FULL = -6,        /* no room: in the context, or in the buffer that was given */
  GCM_ERR_NAN = -7,         /* the model's output is not a number */
  GCM_ERR_IMAGE = -8,       /* the weights are missing, cut off, damaged or another model's */
  GCM_ERR_INPUT = -9,       /* text or bytes that cannot be what was asked for */
  GCM_ERR_SYSTEM = -10      /* the operating system refused (threads, files) */
} gcm_status;

/* A few words on a status; for any number. */
GCM_API const char* gcm_status_text(int status);

typedef struct gcm_allocator {
  /* `bytes` bytes aligned to `align` (a power of 2), or NULL. May be called by any thread that uses the handle. */
  void* (*allocate)(void* user, size_t bytes, size_t align);
  /* `bytes` and `align` are those of the call that returned `p`, which is never NULL. */
  void (*release)(void* user, void* p, size_t bytes, size_t align);
  void* user;
} gcm_allocator;

/* ---- The model ---- */

typedef struct gcm_model gcm_model;

typedef struct gcm_model_options {
  size_t size;
  const char*
      isa; /* one of the instruction sets that the model was compiled for; NULL: the best that runs here */
  const char*
      weights; /* the file of weights, if they are not inside (--weights external); NULL: where the compiler put
                          it, beside the program or shared library that this code lies in */
  const gcm_allocator* allocator; /* copied; NULL: malloc */
} gcm_model_options;

GCM_API void gcm_model_options_init(gcm_model_options* options);

/* Opens the model that this code was compiled from; weights are mapped, never copied. May be called any number of times.
 * `options` may be NULL. */
GCM_API gcm_status gcm_model_open(const gcm_model_options* options, gcm_model** model, char* message,
                                  size_t message_bytes);
/* NULL is allowed, as for all that free. */
GCM_API void gcm_model_close(gcm_model* model);

typedef struct gcm_model_info {
  size_t size;
  /* UTF-8, "" where the model has none; they live as long as the code. */
  const char *name, *architecture, *license;
  const char* chat_template; /* Jinja source */
  const char* compiler;
  const char* isa; /* that was chosen */
  uint32_t n_vocab, n_ctx_train, n_embd, n_layer;
  uint64_t parameters;
  uint64_t weights_bytes;                             /* mapped, shared by all handles and processes */
  int32_t has_tokenizer, has_chat_template;           /* 1 or 0 */
  int32_t token_bos, token_eos, token_eot, token_pad; /* ids, -1 where there is none */
  /* Of encoders; 0: the model generates. Floats of an embedding, or of a text's scores where `gives_scores` is 1. */
  uint32_t n_embedding;
  int32_t gives_scores; /* 1: a classifier's, as of models that rank documents */
  int32_t pooling;      /* gcm_pooling: what the model's authors say, and GCM_POOLING_USUAL means */
} gcm_model_info;

/* `info->size` must be set: sizeof(gcm_model_info). */
GCM_API gcm_status gcm_model_get_info(const gcm_model* model, gcm_model_info* info);

/* ---- Text and tokens ---- */

#define GCM_TEXT_SPECIAL \
  1u /* to tokens: BOS and EOS where the model wants them; to text: control tokens are shown */
#define GCM_TEXT_PARSE 2u /* to tokens: control tokens written out in the text become their ids */

/* `n_ids` gets the number of ids, also when `capacity` is too small (GCM_ERR_FULL; ids then has the first ones). */
GCM_API gcm_status gcm_tokenize(const gcm_model* model, const char* text, size_t text_bytes, uint32_t flags,
                                int32_t* ids, size_t capacity, size_t* n_ids);
/* The text of ids, without a terminating 0. `text_bytes` gets its length, as above. A single token may be part of a
 * character. */
GCM_API gcm_status gcm_detokenize(const gcm_model* model, const int32_t* ids, size_t n_ids, uint32_t flags,
                                  char* text, size_t capacity, size_t* text_bytes);
/* 1 if the token ends a generation (EOS, EOT and their kin), else 0. */
GCM_API int gcm_token_is_end(const gcm_model* model, int32_t id);
/* The id of exactly this piece of the vocabulary ("<|im_end|>"), -1 if there is none. */
GCM_API int32_t gcm_token_find(const gcm_model* model, const char* piece);

typedef struct gcm_message {
  const char* role;    /* "system", "user", "assistant", ... */
  const char* content; /* UTF-8 */
} gcm_message;

typedef struct gcm_chat {
  size_t size;
  const gcm_message* messages;
  size_t n_messages;
  /* In place of messages, JSON: an array of messages, or an object of the template's variables ("messages", "tools",
   * "enable_thinking", ...). NULL: there is none. */
  const char* json;
  size_t json_bytes;
  int32_t
      add_generation_prompt; /* 1 (default): the prompt ends where the answer begins; with JSON its own says */
  int64_t now;               /* for templates that tell the date: seconds since 1970; 0: the system's clock */
  int64_t utc_offset;        /* seconds east of UTC that the date is told for */
} gcm_chat;

GCM_API void gcm_chat_init(gcm_chat* chat);
/* What the model's chat template makes of a conversation, as text or at once as the ids of the prompt. Only as ids do
 * the messages' contents stay text: control tokens that somebody wrote into a message do not become structure. */
GCM_API gcm_status gcm_chat_text(const gcm_model* model, const gcm_chat* chat, char* text, size_t capacity,
                                 size_t* text_bytes, char* message, size_t message_bytes);
GCM_API gcm_status gcm_chat_tokens(const gcm_model* model, const gcm_chat* chat, int32_t* ids,
                                   size_t capacity, size_t* n_ids, char* message, size_t message_bytes);

/* ---- Sessions ---- */

typedef struct gcm_session gcm_session;

/* GCM_KV_USUAL: bf16 where the code that runs multiplies it, else f16. */
typedef enum gcm_kv_type {
  GCM_KV_F32 = 0,
  GCM_KV_F16 = 1,
  GCM_KV_BF16 = 2,
  GCM_KV_Q8_0 = 3,
  GCM_KV_USUAL = 4
} gcm_kv_type;

/* The caller's own threads in place of the session's. */
typedef struct gcm_pool {
  /* Calls job(context, worker) for each worker of [0, workers), all at the same time, and returns when all have
   * returned. Workers wait for each other: with fewer threads than workers this never ends. The calling thread may be
   * one of them. */
  void (*run)(void* user, uint32_t workers, void (*job)(void* context, uint32_t worker), void* context);
  void* user;
  uint32_t workers;
} gcm_pool;

typedef struct gcm_session_options {
  size_t size;
  uint32_t n_ctx;     /* tokens of a sequence; 0: what the model was trained for */
  uint32_t n_seqs;    /* sequences */
  uint32_t n_batch;   /* most tokens of a step; longer prompts are run in steps of this size */
  uint32_t n_outputs; /* most tokens of a step whose logits are wanted */
  uint32_t kv_type;   /* gcm_kv_type; GCM_KV_USUAL */
  uint32_t
      threads; /* 0: all CPUs that the process may use. 1 starts none: the caller's thread does the work */
  const gcm_pool* pool;           /* copied; then `threads` counts for nothing */
  const gcm_allocator* allocator; /* copied; NULL: the model's */
} gcm_session_options;

GCM_API void gcm_session_options_init(gcm_session_options* options);

typedef struct gcm_memory {
  size_t size;
  uint64_t kv;      /* states of all sequences, full; pages are touched as sequences grow */
  uint64_t scratch; /* of steps */
  uint64_t logits;
} gcm_memory;

/* What a session would take, before it is made. `memory->size` must be set. */
GCM_API gcm_status gcm_session_memory(const gcm_model* model, const gcm_session_options* options,
                                      gcm_memory* memory, char* message, size_t message_bytes);
/* `options` may be NULL. */
GCM_API gcm_status gcm_session_create(const gcm_model* model, const gcm_session_options* options,
                                      gcm_session** session, char* message, size_t message_bytes);
GCM_API void gcm_session_free(gcm_session* session);
/* Why the session's last failing call failed; never NULL. */
GCM_API const char* gcm_session_error(const gcm_session* session);

/* Appends a prompt of any length to a sequence. Logits of its last token are then gcm_logits(session, 0). A sequence
 * keeps the whole steps that were run before an error or a cancellation: see gcm_length(). An empty sequence starts from
 * the states that were put inside (--prompt-cache-file) where the prompt begins with their text. */
GCM_API gcm_status gcm_prefill(gcm_session* session, uint32_t seq, const int32_t* ids, size_t n);
/* Appends one generated token; then gcm_logits(session, 0). */
GCM_API gcm_status gcm_decode(gcm_session* session, uint32_t seq, int32_t id);

typedef struct gcm_token {
  int32_t id;
  uint32_t seq;
  uint8_t generated; /* 1: chosen by a sampler; 0: of a prompt. It picks the arithmetic, not the meaning */
  uint8_t output;    /* 1: its logits are wanted */
} gcm_token;

/* One step for tokens of several sequences: at most n_batch, those of prompts first, those of one sequence in order.
 * Logits of the i-th token with `output` are gcm_logits(session, i). On an error all sequences are as they were. A token's
 * logits are the same, bit for bit, in any company. */
GCM_API gcm_status gcm_step(gcm_session* session, const gcm_token* tokens, size_t n);

/* f32[n_vocab] of the last gcm_prefill, gcm_decode or gcm_step, valid until the next one; NULL: there is no such
 * output. They may be changed in place. */
GCM_API float* gcm_logits(gcm_session* session, uint32_t output);

/* Tokens in a sequence. */
GCM_API uint32_t gcm_length(const gcm_session* session, uint32_t seq);
/* Forgets the tokens from `length` on. Sliding windows and recurrent states can't always go back so far: the length
 * that was reached, `length` or less, in the end 0, is returned. */
GCM_API uint32_t gcm_truncate(gcm_session* session, uint32_t seq, uint32_t length);

/* From any thread or signal handler: the call that runs, or the next one, ends early with GCM_ERR_CANCELLED. */
GCM_API void gcm_cancel(gcm_session* session);

/* A sequence as bytes. They can be restored into any sequence of a session of the same model, instruction set and KV
 * type (GCM_ERR_INPUT tells what differs), if it fits its context. */
GCM_API uint64_t gcm_saved_bytes(const gcm_session* session, uint32_t seq);
/* `capacity` at least gcm_saved_bytes(). */
GCM_API gcm_status gcm_save(gcm_session* session, uint32_t seq, void* bytes, uint64_t capacity);
/* The sequence's own tokens are forgotten, on failure too. */
GCM_API gcm_status gcm_restore(gcm_session* session, uint32_t seq, const void* bytes, uint64_t size);

/* ---- Embeddings, of encoders ---- */

/* What a text's embedding is made of. */
typedef enum gcm_pooling {
  GCM_POOLING_NONE = 0, /* one embedding for each token */
  GCM_POOLING_MEAN = 1, /* the mean of its tokens' */
  GCM_POOLING_FIRST = 2,
  GCM_POOLING_LAST = 3,
  GCM_POOLING_USUAL = 4 /* what gcm_model_info says; of models that give scores the only one */
} gcm_pooling;

/* The embedding of a text, which is run whole: at most n_batch tokens, with those that gcm_tokenize() adds under
 * GCM_TEXT_SPECIAL. `normalize` 1: of length 1; scores stay as they are. Sequence 0 is empty afterwards. `n_floats` gets how
 * many there are, also when `capacity` is too small (GCM_ERR_FULL, and nothing is written).
 * Sessions of encoders have room for outputs of all tokens of a step, whatever n_outputs; gcm_prefill() and its kin
 * refuse them (GCM_ERR_UNSUPPORTED), as this refuses models that generate. */
GCM_API gcm_status gcm_embed(gcm_session* session, const int32_t* ids, size_t n, int pooling, int normalize,
                             float* embedding, size_t capacity, size_t* n_floats);
/* The ids of a query and a document as models that rank expect them together. As gcm_tokenize(). */
GCM_API gcm_status gcm_tokenize_pair(const gcm_model* model, const char* query, size_t query_bytes,
                                     const char* document, size_t document_bytes, int32_t* ids,
                                     size_t capacity, size_t* n_ids);

/* ---- Sampling ---- */

typedef struct gcm_sampler gcm_sampler;

typedef struct gcm_logit_bias {
  int32_t id;
  float add; /* to the logit; -INFINITY: the token is never chosen */
} gcm_logit_bias;

/* Names, meanings and defaults are llama.cpp's; the model's file may bring defaults of its own. */
typedef struct gcm_sampler_options {
  size_t size;
  const char*
      chain; /* "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature": what is done, in order; also
                        "adaptive_p". NULL: the model's own, else this one */
  uint64_t seed;
  float temperature; /* 0: the likeliest token, always */
  int32_t top_k;
  float top_p, min_p, typ_p, top_n_sigma;
  float repeat_penalty, frequency_penalty, presence_penalty;
  int32_t repeat_last_n;
  float dynatemp_range, dynatemp_exponent;
  float xtc_probability, xtc_threshold;
  float dry_multiplier, dry_base;
  int32_t dry_allowed_length, dry_last_n;
  int32_t mirostat; /* 1, 2: in place of the chain */
  float mirostat_tau, mirostat_eta;
  float adaptive_target, adaptive_decay;
  const gcm_logit_bias* bias;
  size_t n_bias;
} gcm_sampler_options;

/* The model's defaults. */
GCM_API void gcm_sampler_options_init(const gcm_model* model, gcm_sampler_options* options);
/* `options` may be NULL. Memory is the model's allocator's, also in the first gcm_sample(). */
GCM_API gcm_status gcm_sampler_create(const gcm_model* model, const gcm_sampler_options* options,
                                      gcm_sampler** sampler, char* message, size_t message_bytes);
GCM_API void gcm_sampler_free(gcm_sampler* sampler);
/* Chooses a token from f32[n_vocab]. The sampler learns of it by gcm_accept(). */
GCM_API gcm_status gcm_sample(gcm_sampler* sampler, const float* logits, int32_t* id);
/* Tells penalties and the like of a token of the sequence, from the prompt or chosen. */
GCM_API gcm_status gcm_accept(gcm_sampler* sampler, int32_t id);
/* Forgets the sequence; draws start again from `seed`. */
GCM_API void gcm_sampler_reset(gcm_sampler* sampler, uint64_t seed);

/* ---- Generation ---- */

/* Tokens in, sampled tokens and their text out, for one sequence of a session. */
typedef struct gcm_generator gcm_generator;

typedef struct gcm_generator_options {
  size_t size;
  uint32_t seq;
  int64_t max_tokens; /* of a generation; negative: no limit but the context */
  const char* const* stops;
  size_t n_stops;       /* texts that end a generation; they are not part of its text */
  int32_t ignore_end;   /* 1: tokens that end a generation are never chosen */
  int32_t show_special; /* 1: control tokens appear in the text */
  /* What the text must be: sentences of a grammar (GBNF), or JSON that fits a schema ("{}": any). NULL: anything. */
  const char *grammar, *json_schema;
} gcm_generator_options;

GCM_API void gcm_generator_options_init(gcm_generator_options* options);
/* Both options may be NULL. Memory is the session's allocator's. A grammar takes some milliseconds, and is told what is
 * wrong with it (GCM_ERR_INPUT, GCM_ERR_UNSUPPORTED). */
GCM_API gcm_status gcm_generator_create(gcm_session* session, const gcm_sampler_options* sampler,
                                        const gcm_generator_options* options, gcm_generator** generator,
                                        char* message, size_t message_bytes);
GCM_API void gcm_generator_free(gcm_generator* generator);

typedef enum gcm_end {
  GCM_END_TOKEN = 0,    /* the model ended it */
  GCM_END_STOP = 1,     /* a stop text came */
  GCM_END_LENGTH = 2,   /* max_tokens */
  GCM_END_CONTEXT = 3,  /* no room for another token */
  GCM_END_CALLBACK = 4, /* the callback said so */
  GCM_END_CANCELLED = 5 /* gcm_cancel() */
} gcm_end;

typedef struct gcm_generated {
  size_t size;
  int32_t end; /* gcm_end */
  /* The last token has been chosen but not run: it is not in the session's state. Put it in front of the sequence's
   * next prompt. -1: there is none, or it is the token that ended the generation, which is not told. */
  int32_t last_token;
  uint64_t prompt_tokens, tokens;
  int64_t prompt_ns, generate_ns;
} gcm_generated;

/* Called in the caller's thread for each token, with the text that became certain with it: whole UTF-8 characters, perhaps
 * none. Once more with id -1 if text was held back at the end. Not 0: the generation ends. `text` is not 0-terminated and
 * gone when the call returns. It must return: no longjmp, no exception. */
typedef int (*gcm_on_token)(void* user, int32_t id, const char* text, size_t text_bytes);

/* Appends a prompt to the sequence and generates until an end. `result` may be NULL; else result->size must be set. On
 * failure gcm_session_error() of the generator's session tells why. */
GCM_API gcm_status gcm_generate(gcm_generator* generator, const int32_t* prompt, size_t n,
                                gcm_on_token on_token, void* user, gcm_generated* result);
/* The same, told by all the tokens that the sequence shall have, a conversation's for instance: what it has in common with
 * those that this generator's calls have put there stays, the rest is forgotten and run as a prompt. */
GCM_API gcm_status gcm_generate_whole(gcm_generator* generator, const int32_t* whole, size_t n,
                                      gcm_on_token on_token, void* user, gcm_generated* result);

#ifdef __cplusplus
}
#endif
#endif /* GCM_API_H_ */
