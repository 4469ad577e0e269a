/* The one seam between generated code and the runtime.
 *
 * A program is a set of entries, each a fixed sequence of kernel calls that every worker executes from beginning
 * to end, meeting at barriers where data crosses workers. The caller owns all memory: weights (mapped, read-only),
 * the arena (scratch of one step) and the pools (states of the sequences). An entry allocates nothing, calls
 * nothing but the barrier and the hooks given to it, and keeps no state of its own.
 *
 * C99, stdint only, position independent, versioned like a schema: a change of meaning or layout raises
 * GC_ABI_VERSION, and the runtime refuses a program of another version.
 *
 * Not built yet, though the seam has room for it (an entry answers GC_ERR_UNSUPPORTED): layer ranges other than all
 * layers, embeddings as a sink or as rows, states of encoders. `encode` takes whole texts of models whose attention
 * looks ahead, and gives logits alone.
 */
#ifndef GC_RUNTIME_ABI_PROGRAM_H_
#define GC_RUNTIME_ABI_PROGRAM_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GC_ABI_VERSION 7u

typedef enum gc_status {
  GC_OK = 0,
  GC_ERR_ARGUMENT = -1,    /* a size, token, position or option out of range */
  GC_ERR_MEMORY = -2,      /* an allocation failed */
  GC_ERR_ABORTED = -3,     /* the abort flag was raised */
  GC_ERR_UNSUPPORTED = -4, /* the program or this build doesn't have it */
  GC_ERR_ISA = -5,         /* this CPU lacks what the program was compiled for */
  GC_ERR_FULL = -6,        /* no room in the context or the pool */
  GC_ERR_NAN = -7,         /* a logit is not a number */
  GC_ERR_IMAGE = -8,       /* the file's image is truncated, damaged or of another version */
  GC_ERR_INPUT = -9,       /* text or bytes given that can't be what was asked for */
  GC_ERR_SYSTEM = -10      /* the operating system refused (threads, files) */
} gc_status;

/* ---- Rows: the tokens of a step ---- */

/* The role picks the arithmetic, never the number of rows: prompt tokens and generated tokens may use different
 * units of the machine, and one token gives the same bits in any company. */
enum { GC_ROLE_PROMPT = 0, GC_ROLE_GENERATED = 1 };

typedef struct gc_row {
  int32_t token;  /* id; or -1 - i: row i of gc_step.embeddings stands in place of the embedding */
  int32_t pos;    /* position in its sequence, from 0 */
  uint32_t seq;   /* index into gc_step.seqs */
  uint8_t role;   /* GC_ROLE_* */
  uint8_t output; /* 1: this row is one of gc_step.outputs */
  uint16_t reserved;
} gc_row;

/* ---- States: what sequences carry from step to step ---- */

#define GC_KV_BLOCK 64u /* positions of a KV block */
#define GC_MAX_GROUPS 8u

enum {
  GC_STATE_KV_FULL = 0,
  GC_STATE_KV_RING = 1,
  GC_STATE_KV_LATENT = 2,
  GC_STATE_CONV = 3,
  GC_STATE_SSM = 4,
  GC_STATE_ENCODER = 5,
  GC_STATE_KINDS = 6
};

/* Element types of keys and values; both the same. */
enum { GC_KV_F32 = 0, GC_KV_F16 = 1, GC_KV_BF16 = 2, GC_KV_Q8_0 = 3, GC_KV_TYPES = 4 };

/* What may be done with the state of a sequence, by kind. The planner sizes it, sessions and servers do it; a program
 * only appends.
 *
 *   kind      append            fork                truncate to p            snapshot, restore     bytes of a sequence
 *   KV_FULL   rows in blocks    share blocks, count any p: blocks beyond p   blocks up to a        blocks x block_bytes
 *                               uses; copy the      are given back           position
 *                               last, unfull one
 *   KV_RING   rows in a ring    as KV_FULL          while the ring still     the ring's blocks     gc_ring_blocks() x
 *             of blocks                             holds p's window; else   by reference          block_bytes
 *                                                   to a kept snapshot
 *   KV_LATENT as KV_FULL, one compressed row in place of keys and values
 *   CONV, SSM replaced          copy seq_bytes      only to a kept snapshot  seq_bytes             seq_bytes
 *   ENCODER   written once      share               no                       seq_bytes             seq_bytes
 *
 * A block remembers the role that its rows were written with: only blocks of prompt rows are shared between sequences
 * or reused for another prompt (roles may differ in arithmetic). */

/* Recurrent states (CONV, SSM) are f32 whatever the KV type. A sequence has one slot of seq_bytes in its group's pool,
 * given by its table's one entry; the slot holds all the group's layers, each at its offset. A row replaces what its
 * sequence's earlier rows left; before position 0 the state is 0, and what lies in the slot is not read. The rows of a
 * sequence are taken in order, one by one, by one worker for each channel or column: the bits depend neither on chunks
 * nor on workers nor on other sequences. A step that fails or is aborted leaves these states undefined.
 *
 *   CONV   [rows kept][channels], the oldest row first       (heads 1, k_dim = v_dim = channels)
 *   SSM    [heads][k_dim][v_dim]; where each state of a channel decays apart, [k_dim][heads]
 *
 * States of one kind and window share block tables: a group. A physical block of a group holds GC_KV_BLOCK
 * consecutive positions (logical block b: positions 64 b .. 64 b + 63) of all the group's layers.
 * A full group's table has one entry a logical block; a ring's table has n entries and logical block b is at
 * entry b % n, n >= gc_ring_blocks(). Positions of a block that were never written are never read. */
typedef struct gc_group {
  uint32_t kind;                     /* GC_STATE_* */
  uint32_t window;                   /* of a ring: positions an attention sees; else 0 */
  uint64_t block_bytes[GC_KV_TYPES]; /* bytes of a physical block, 0 where the type has no kernels */
  uint64_t seq_bytes;                /* of kinds without blocks: bytes of a sequence; else 0 */
} gc_group;

typedef struct gc_state {
  uint32_t group;
  uint32_t layer;
  uint32_t heads, k_dim, v_dim;
  uint32_t reserved;
  /* Of this state within a block of its group: heads x { K [k_dim][64], V [64][v_dim] }; or within its slot. */
  uint64_t offset[GC_KV_TYPES];
} gc_state;

/* Entries of a ring's table for steps of at most `chunk` rows of one sequence: earlier rows of a chunk still need
 * the keys that later ones would replace, so a ring holds window + chunk positions, to whole blocks, and one block
 * more because a window needn't begin at a block's first position. */
static inline uint32_t gc_ring_blocks(uint32_t window, uint32_t chunk) {
  return (window + chunk + GC_KV_BLOCK - 1) / GC_KV_BLOCK + 1;
}

typedef struct gc_table {
  const uint32_t* blocks; /* physical block of an entry */
  uint32_t n;
  uint32_t reserved;
} gc_table;

typedef struct gc_seq {
  gc_table tables[GC_MAX_GROUPS]; /* by group */
} gc_seq;

/* ---- Experts ----
 *
 * A layer with a mixture of experts decides in the step which rows each expert computes. Each worker makes these lists
 * for itself from the rows' routing weights, in its part of the arena (sized for the worst case: every row in n_used
 * lists), takes its share of the columns of all experts with rows, and multiplies an expert's rows as one block; a row's
 * results are added in ascending order of experts, so the bits depend neither on the batch nor on the workers. */
typedef struct gc_expert_lists {
  uint32_t n_experts, n_used;
  const uint32_t* begin; /* [n_experts + 1]: expert e has the entries begin[e] .. begin[e + 1) */
  const uint32_t* row;   /* row of the step, ascending within an expert */
  const float* weight;   /* its routing weight */
} gc_expert_lists;

/* ---- Sinks: what becomes of the outputs ---- */

enum { GC_SINK_LOGITS = 0, GC_SINK_ARGMAX = 1, GC_SINK_TOPK = 2, GC_SINK_EMBEDDING = 3 };

typedef struct gc_bias {
  int32_t token;
  float add;
} gc_bias;

/* What is done to logits before a top-k or argmax sink chooses: logit_bias, then penalties over `recent`, then the
 * mask (1 bit a token, 0: not allowed). One per output; all optional. */
typedef struct gc_logit_rules {
  const gc_bias* bias;
  uint32_t n_bias;
  uint32_t n_recent;
  const int32_t* recent;
  float repeat_penalty, frequency_penalty, presence_penalty;
  const uint64_t* mask;
} gc_logit_rules;

/* How a head chooses without storing logits. Workers hand over pieces of them while they lie in the first-level cache:
 * tokens [first, first + n) of an output, each token once, whole panels of 16 (past n_vocab lies padding). The runtime
 * applies the rules, keeps each worker's best and merges them after the step.
 *
 * A head that can bound logits before it knows them (codegen_cpu/kernels/head) looks twice: first every piece goes to
 * `bound` as what its logits are at least, and `most` of each panel, which `bound` may raise or lower by the rules;
 * workers meet; then only panels whose `most` reaches limit() are computed and taken. With `bound` null it may not. */
typedef struct gc_choice {
  void (*take)(void* context, uint32_t worker, uint32_t output, uint32_t first, uint32_t n, float* logits);
  void (*bound)(void* context, uint32_t worker, uint32_t output, uint32_t first, uint32_t n, float* least,
                float* most);
  float (*limit)(void* context, uint32_t output); /* after the meeting: k logits are at least this */
  void* context;
} gc_choice;

typedef struct gc_sink {
  uint32_t kind;   /* GC_SINK_* */
  uint32_t k;      /* of TOPK */
  float* logits;   /* LOGITS: f32[n_outputs, stride]; EMBEDDING: f32[n_outputs, n_embd]; 64-byte aligned */
  uint64_t stride; /* floats, a multiple of 16, at least n_vocab rounded up to 16: whole panels are written */
  int32_t* ids; /* ARGMAX: [n_outputs]; TOPK: [n_outputs, k], best first, ties by id; -1: there are no more */
  float* values;               /* beside ids */
  const gc_logit_rules* rules; /* [n_outputs] or NULL */
  const gc_choice*
      choice; /* of ARGMAX and TOPK: the session's; ids, values and rules are between it and its caller */
} gc_sink;

/* ---- The step ---- */

/* No sequence has two rows in the step: each row's keys are needed by itself alone, and workers needn't meet between
 * appending keys and attention. */
#define GC_STEP_ONE_ROW_EACH 1u
/* The session's sequences have room for more than gc_program.short_context positions: all turn by the tables of long
 * contexts, from the first position on. Keys depend on it, so it is a fact of a session, not of a step. */
#define GC_STEP_LONG_CONTEXT 2u

typedef struct gc_step {
  const gc_row* rows;      /* [n_rows]: prompt rows first; rows of one sequence in order of position */
  const uint32_t* outputs; /* [n_outputs]: the rows whose output is wanted, ascending */
  const gc_seq* seqs;
  uint32_t n_rows, n_prompt, n_outputs, n_seqs;
  uint32_t flags; /* GC_STEP_* */
  uint32_t reserved;
  uint32_t rows_cap, outputs_cap, splits_cap,
      workers;                      /* what the arena was sized for; workers that take part */
  uint32_t layer_first, layer_last; /* layers [first, last); all: 0, n_layer */
  const float* embeddings;          /* f32[*, n_embd] or NULL */
  float* residual;        /* f32[n_rows, n_embd]: read if layer_first > 0, written if layer_last < n_layer */
  const uint8_t* weights; /* the weight image, 64-byte aligned at least */
  uint8_t* arena;         /* 64-byte aligned, gc_arena_bytes(); its fixed part zeroed before each step */
  uint8_t* const* pools;  /* [n_groups] */
  const gc_sink* sink;
  void (*barrier)(void* context, uint32_t worker); /* all workers meet; memory is ordered */
  void* barrier_context;
  const uint32_t* abort; /* set to non-zero by anyone: the step ends a layer or two later */
  void (*see)(void* context, uint32_t worker, uint32_t value, const void* data,
              uint64_t stride); /* debug values, or NULL */
  void* see_context;
} gc_step;

/* Executes a step as worker `worker` of step->workers. All workers call it with the same step; each returns the
 * same status. */
typedef int32_t (*gc_entry)(const gc_step* step, uint32_t worker);

/* ---- The program ---- */

enum {
  GC_ENTRY_PREFILL = 0,
  GC_ENTRY_DECODE = 1,
  GC_ENTRY_MIXED = 2,
  GC_ENTRY_ENCODE = 3,
  GC_ENTRY_KINDS = 4
};

/* Rows of a step up to which workers compute norms redundantly into their own scratch instead of sharing rows and
 * meeting at a barrier; the bits are the same. */
#define GC_REDUNDANT_ROWS 4u

/* pad_rows: rows beyond those of a step that its row parts have room for, since some kernels compute rows by whole
 * blocks and keep the rows of one role apart from the other's. */
typedef struct gc_arena {
  uint64_t fixed, per_row, per_output, per_worker, per_worker_row, per_split, pad_rows;
} gc_arena;

typedef struct gc_value {
  const char* name;
  uint32_t columns;
  uint32_t is_output_rows;
} gc_value;

/* What section i of the image of weights holds, to look at: rows of `cols` floats, packed. */
typedef struct gc_packed {
  uint32_t reader; /* of gc_program.readers */
  uint32_t rows;
  uint64_t cols;
} gc_packed;
typedef struct gc_reader {
  const char* format; /* of the file's tensor */
  /* Row `row` of a section as f32[cols]. NULL: floats, one after the other as they lie. */
  void (*read)(const void* section, uint64_t row, float* out);
} gc_reader;

typedef struct gc_program {
  uint32_t abi_version, size;  /* GC_ABI_VERSION, sizeof(gc_program) */
  const char* isa;             /* name in the table of ISAs: "x86-64-v4-vnni" */
  const uint8_t* cpu_features; /* indices into runtime/abi/cpu_features.def: what must be there */
  uint32_t n_cpu_features;
  uint32_t n_layer, n_embd, n_vocab;
  uint32_t n_groups, n_states;
  const gc_group* groups;
  const gc_state* states;
  gc_arena arena;
  uint64_t weights_bytes;
  uint32_t max_position;  /* positions that the RoPE tables reach */
  uint32_t short_context; /* of more positions: GC_STEP_LONG_CONTEXT; 0: there is no such choice */
  uint32_t n_output;      /* floats of an output: n_vocab logits, or the width of an encoder's embedding */
  uint32_t n_values;      /* debug values that `see` may be given */
  uint32_t sinks;         /* bit 1 << GC_SINK_*: what the entries can do */
  uint32_t kv_type;       /* GC_KV_*: what a session stores keys and values in unless told otherwise */
  const gc_value* values;
  const gc_packed* packed; /* [n_packed], by section of the image */
  const gc_reader* readers;
  uint64_t n_packed;
  gc_entry entries[GC_ENTRY_KINDS][GC_KV_TYPES]; /* NULL: not in this program */
} gc_program;

/* The arena: [fixed | rows | outputs | workers | splits], each part rounded to 64 bytes. */
static inline uint64_t gc_arena_align(uint64_t n) { return (n + 63u) & ~(uint64_t)63u; }
static inline uint64_t gc_arena_rows_at(const gc_program* p) { return gc_arena_align(p->arena.fixed); }
static inline uint64_t gc_arena_outputs_at(const gc_program* p, uint32_t rows_cap) {
  return gc_arena_rows_at(p) + gc_arena_align(p->arena.per_row * (rows_cap + p->arena.pad_rows));
}
static inline uint64_t gc_arena_workers_at(const gc_program* p, uint32_t rows_cap, uint32_t outputs_cap) {
  return gc_arena_outputs_at(p, rows_cap) + gc_arena_align(p->arena.per_output * outputs_cap);
}
static inline uint64_t gc_arena_worker_bytes(const gc_program* p, uint32_t rows_cap) {
  return gc_arena_align(p->arena.per_worker + p->arena.per_worker_row * (rows_cap + p->arena.pad_rows));
}
static inline uint64_t gc_arena_bytes(const gc_program* p, uint32_t rows_cap, uint32_t outputs_cap,
                                      uint32_t workers, uint32_t splits_cap) {
  return gc_arena_workers_at(p, rows_cap, outputs_cap) + gc_arena_worker_bytes(p, rows_cap) * workers +
         gc_arena_align(p->arena.per_split * splits_cap);
}

/* What the generated objects of a linked file define. Programs are ordered from the best ISA to the plainest; the
 * runtime takes the first whose cpu features are all there. */
extern const gc_program* const gc_programs[];
extern const uint32_t gc_n_programs;

/* The model, independent of any ISA. Strings are UTF-8, NUL-terminated, never NULL ("" where the file has none). */
typedef struct gc_format_use {
  const char* format;
  uint32_t tensors;
  uint64_t file_bytes, image_bytes;
} gc_format_use;

#define GC_UNSET INT32_MIN

/* What an encoder's text is: its tokens' embeddings one by one, their mean, the first or the last. */
enum { GC_POOLING_NONE = 0, GC_POOLING_MEAN = 1, GC_POOLING_FIRST = 2, GC_POOLING_LAST = 3, GC_POOLINGS = 4 };

typedef struct gc_model {
  uint32_t abi_version, size;
  const char* name;
  const char* architecture;
  const char* license;
  const char* chat_template;        /* Jinja source */
  const char* chat_template_origin; /* "the model's own", "built in: chatml" */
  const char* compiler;             /* "gguf-compile 0.1" */
  uint32_t n_layer, n_embd, n_vocab, n_ctx_train;
  uint32_t n_formats;
  const gc_format_use* formats;
  uint64_t parameters;
  uint64_t touched_bytes;   /* of the GGUF's tensors that one generated token reads */
  const uint8_t* tokenizer; /* runtime/text/frozen.h; NULL without a tokenizer */
  uint64_t tokenizer_bytes;
  const uint8_t* chat_program; /* the template, runtime/text/jinja/program.h; NULL without one */
  uint64_t chat_program_bytes;
  /* Sampling defaults of the file (general.sampling.*); a NaN, GC_UNSET or an empty text: the file has none. */
  float temp, top_p, min_p, repeat_penalty;
  float xtc_probability, xtc_threshold, mirostat_tau, mirostat_eta;
  int32_t top_k, repeat_last_n, mirostat;
  uint32_t chat_output; /* how answers under the template are read: runtime/text/output/format.h */
  const char* samplers; /* "top_k;temperature": the chain */
  uint32_t pooling;     /* GC_POOLING_*, of embeddings */
  uint32_t scores; /* 1: in place of embeddings a classifier's scores, of the token that `pooling` names */
  const uint8_t* prompt_cache; /* states after a text, runtime/core/prompt_cache.h; NULL without any */
  uint64_t prompt_cache_bytes;
} gc_model;

extern const gc_model gc_the_model;

#ifdef __cplusplus
}
#endif
#endif /* GC_RUNTIME_ABI_PROGRAM_H_ */
