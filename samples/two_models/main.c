/* Two models in one program, at the same time: see README.md. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "gemma3.h"
#include "smollm2.h"

enum { MOST_TOKENS = 512, MOST_TEXT = 4096 };

typedef struct answer {
  const char *prompt;
  char text[MOST_TEXT];
  size_t bytes;
  char why[256]; /* "": it worked */
} answer;

static int collect(void *user, int32_t id, const char *text, size_t bytes) {
  answer *a = (answer *)user;
  (void)id;
  if (bytes > MOST_TEXT - a->bytes) return 1;
  memcpy(a->text + a->bytes, text, bytes);
  a->bytes += bytes;
  return 0;
}

/* The same for each model: its functions differ in their prefix alone. PROMPT makes `n` of `ids`. */
#define ANSWER(PREFIX, UPPER, PROMPT)                                                                              \
  static void *PREFIX##_answer(void *user) {                                                                       \
    answer *a = (answer *)user;                                                                                    \
    PREFIX##_model *model = NULL;                                                                                  \
    PREFIX##_session *session = NULL;                                                                              \
    PREFIX##_generator *generator = NULL;                                                                          \
    PREFIX##_session_options size;                                                                                 \
    PREFIX##_session_options_init(&size);                                                                          \
    size.n_ctx = 1024;                                                                                             \
    size.threads = 1;                                                                                              \
    PREFIX##_generator_options limits;                                                                             \
    PREFIX##_generator_options_init(&limits);                                                                      \
    limits.max_tokens = 24;                                                                                        \
    int32_t ids[MOST_TOKENS];                                                                                      \
    size_t n = 0;                                                                                                  \
    if (PREFIX##_model_open(NULL, &model, a->why, sizeof a->why) == UPPER##_OK && PROMPT == UPPER##_OK &&           \
        PREFIX##_session_create(model, &size, &session, a->why, sizeof a->why) == UPPER##_OK) {                     \
      PREFIX##_sampler_options greedy;                                                                             \
      PREFIX##_sampler_options_init(model, &greedy);                                                               \
      greedy.temperature = 0;                                                                                      \
      if (PREFIX##_generator_create(session, &greedy, &limits, &generator, a->why, sizeof a->why) == UPPER##_OK &&  \
          PREFIX##_generate(generator, ids, n, collect, a, NULL) != UPPER##_OK)                                     \
        strncpy(a->why, PREFIX##_session_error(session), sizeof a->why - 1);                                       \
    }                                                                                                              \
    PREFIX##_generator_free(generator);                                                                            \
    PREFIX##_session_free(session);                                                                                \
    PREFIX##_model_close(model);                                                                                   \
    return NULL;                                                                                                   \
  }

static smollm2_status smollm2_prompt(const smollm2_model *model, answer *a, int32_t *ids, size_t *n) {
  const smollm2_message message = {"user", a->prompt};
  smollm2_chat chat;
  smollm2_chat_init(&chat);
  chat.messages = &message;
  chat.n_messages = 1;
  return smollm2_chat_tokens(model, &chat, ids, MOST_TOKENS, n, a->why, sizeof a->why);
}

ANSWER(gemma3, GEMMA3, gemma3_tokenize(model, a->prompt, strlen(a->prompt), GEMMA3_TEXT_SPECIAL, ids, MOST_TOKENS, &n))
ANSWER(smollm2, SMOLLM2, smollm2_prompt(model, a, ids, &n))

int main(int argc, char **argv) {
  static answer gemma, smol;
  gemma.prompt = argc > 1 ? argv[1] : "The capital of France is";
  smol.prompt = argc > 2 ? argv[2] : "What is the capital of France?";
  pthread_t thread;
  if (pthread_create(&thread, NULL, smollm2_answer, &smol) != 0) return 1;
  gemma3_answer(&gemma);
  pthread_join(thread, NULL);
  if (gemma.why[0] || smol.why[0]) {
    fprintf(stderr, "%s %s\n", gemma.why, smol.why);
    return 1;
  }
  printf("%s%.*s\n%.*s\n", gemma.prompt, (int)gemma.bytes, gemma.text, (int)smol.bytes, smol.text);
  return 0;
}
