/* A sampler of one's own over the model's logits: text without the letter "e". See README.md. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gemma3.h"

enum { MOST_TOKENS = 512, MOST_PIECE = 512, LENGTH = 40 };

/* 1 for each token that may not come: with the letter, or without any text. */
static unsigned char *forbidden_tokens(const gemma3_model *model, uint32_t n_vocab) {
  unsigned char *forbidden = malloc(n_vocab);
  if (!forbidden) return NULL;
  for (uint32_t id = 0; id < n_vocab; ++id) {
    const int32_t token = (int32_t)id;
    char piece[MOST_PIECE];
    size_t bytes = 0;
    const int ok = gemma3_detokenize(model, &token, 1, 0, piece, sizeof piece, &bytes) == GEMMA3_OK;
    forbidden[id] = !ok || bytes == 0 || memchr(piece, 'e', bytes) || memchr(piece, 'E', bytes);
  }
  return forbidden;
}

static int32_t choose(const float *logits, const unsigned char *forbidden, uint32_t n_vocab) {
  int32_t best = -1;
  for (uint32_t id = 0; id < n_vocab; ++id)
    if (!forbidden[id] && (best < 0 || logits[id] > logits[best])) best = (int32_t)id;
  return best;
}

int main(int argc, char **argv) {
  const char *prompt = argc > 1 ? argv[1] : "A story about a cat and a dog:";
  char why[256] = "";
  gemma3_model *model = NULL;
  gemma3_session *session = NULL;
  gemma3_session_options options;
  gemma3_session_options_init(&options);
  options.n_ctx = 1024;
  if (gemma3_model_open(NULL, &model, why, sizeof why) != GEMMA3_OK ||
      gemma3_session_create(model, &options, &session, why, sizeof why) != GEMMA3_OK) {
    fprintf(stderr, "%s\n", why);
    return 1;
  }
  gemma3_model_info info = {.size = sizeof info};
  gemma3_model_get_info(model, &info);
  unsigned char *forbidden = forbidden_tokens(model, info.n_vocab);

  int32_t ids[MOST_TOKENS];
  size_t n = 0;
  if (!forbidden ||
      gemma3_tokenize(model, prompt, strlen(prompt), GEMMA3_TEXT_SPECIAL, ids, MOST_TOKENS, &n) != GEMMA3_OK)
    return 1;
  gemma3_status status = gemma3_prefill(session, 0, ids, n);
  for (int i = 0; i < LENGTH && status == GEMMA3_OK; ++i) {
    const int32_t id = choose(gemma3_logits(session, 0), forbidden, info.n_vocab);
    char piece[MOST_PIECE];
    size_t bytes = 0;
    gemma3_detokenize(model, &id, 1, 0, piece, sizeof piece, &bytes);
    fwrite(piece, 1, bytes, stdout);
    status = gemma3_decode(session, 0, id);
  }
  printf("\n");
  if (status != GEMMA3_OK) fprintf(stderr, "%s\n", gemma3_session_error(session));
  free(forbidden);
  gemma3_session_free(session);
  gemma3_model_close(model);
  return status == GEMMA3_OK ? 0 : 1;
}
