/* Completes several texts at once: see README.md. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gemma3.h"

enum { MOST_SEQS = 16, MOST_TOKENS = 256, LENGTH = 24 };

/* A text that grows. */
typedef struct sequence {
  int32_t ids[MOST_TOKENS + LENGTH];
  size_t prompt, n;
  int ended;
} sequence;

static int fail(const char *why) {
  fprintf(stderr, "%s\n", why);
  return 1;
}

static int32_t likeliest(const float *logits, uint32_t n) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < n; ++i)
    if (logits[i] > logits[best]) best = i;
  return (int32_t)best;
}

int main(int argc, char **argv) {
  if (argc < 2 || argc > MOST_SEQS + 1) return fail("usage: batch TEXT... (at most 16)");
  const uint32_t n_seqs = (uint32_t)(argc - 1);
  static sequence seqs[MOST_SEQS];
  char why[256] = "";
  gemma3_model *model = NULL;
  gemma3_session *session = NULL;
  gemma3_session_options options;
  gemma3_session_options_init(&options);
  options.n_ctx = MOST_TOKENS + LENGTH;
  options.n_seqs = n_seqs;
  options.n_outputs = n_seqs;
  if (gemma3_model_open(NULL, &model, why, sizeof why) != GEMMA3_OK ||
      gemma3_session_create(model, &options, &session, why, sizeof why) != GEMMA3_OK)
    return fail(why);
  gemma3_model_info info = {.size = sizeof info};
  gemma3_model_get_info(model, &info);

  /* Prompts one after the other; each leaves its first token. */
  for (uint32_t s = 0; s < n_seqs; ++s) {
    const char *text = argv[s + 1];
    if (gemma3_tokenize(model, text, strlen(text), GEMMA3_TEXT_SPECIAL, seqs[s].ids, MOST_TOKENS, &seqs[s].n) !=
        GEMMA3_OK)
      return fail("a text cannot be tokenized, or is too long");
    seqs[s].prompt = seqs[s].n;
    if (gemma3_prefill(session, s, seqs[s].ids, seqs[s].n) != GEMMA3_OK)
      return fail(gemma3_session_error(session));
    seqs[s].ids[seqs[s].n++] = likeliest(gemma3_logits(session, 0), info.n_vocab);
  }

  /* Then a step for all that go on. The weights are read once for all of them: many texts take little longer than one. */
  for (int i = 1; i < LENGTH; ++i) {
    gemma3_token step[MOST_SEQS];
    size_t rows = 0;
    for (uint32_t s = 0; s < n_seqs; ++s) {
      const int32_t last = seqs[s].ids[seqs[s].n - 1];
      seqs[s].ended |= gemma3_token_is_end(model, last);
      if (!seqs[s].ended) step[rows++] = (gemma3_token){last, s, 1, 1};
    }
    if (rows == 0) break;
    if (gemma3_step(session, step, rows) != GEMMA3_OK) return fail(gemma3_session_error(session));
    for (size_t r = 0; r < rows; ++r) {
      sequence *s = &seqs[step[r].seq];
      s->ids[s->n++] = likeliest(gemma3_logits(session, (uint32_t)r), info.n_vocab);
    }
  }

  for (uint32_t s = 0; s < n_seqs; ++s) {
    char text[8192];
    size_t bytes = 0;
    gemma3_detokenize(model, seqs[s].ids, seqs[s].n, 0, text, sizeof text, &bytes);
    printf("%.*s\n--\n", (int)bytes, text);
  }
  gemma3_session_free(session);
  gemma3_model_close(model);
  return 0;
}
