/* Completes a text with the model that is linked into this program: see README.md. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gemma3.h"

enum { MOST_TOKENS = 512 };

static int show(void *user, int32_t id, const char *text, size_t bytes) {
  (void)user, (void)id;
  fwrite(text, 1, bytes, stdout);
  fflush(stdout);
  return 0; /* go on */
}

static int fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  return 1;
}

int main(int argc, char **argv) {
  const char *prompt = argc > 1 ? argv[1] : "The capital of France is";
  char why[256] = "";
  gemma3_model *model = NULL;
  gemma3_session *session = NULL;
  gemma3_generator *generator = NULL;

  if (gemma3_model_open(NULL, &model, why, sizeof why) != GEMMA3_OK) return fail("model", why);
  gemma3_model_info info = {.size = sizeof info};
  gemma3_model_get_info(model, &info);
  fprintf(stderr, "%s, %u tokens, %s\n", info.name, (unsigned)info.n_vocab, info.isa);

  gemma3_session_options options;
  gemma3_session_options_init(&options);
  options.n_ctx = 1024;
  gemma3_memory memory = {.size = sizeof memory};
  if (gemma3_session_memory(model, &options, &memory, why, sizeof why) != GEMMA3_OK) return fail("memory", why);
  fprintf(stderr, "a session takes %.1f MB\n", (double)(memory.kv + memory.scratch + memory.logits) / 1e6);
  if (gemma3_session_create(model, &options, &session, why, sizeof why) != GEMMA3_OK) return fail("session", why);

  int32_t ids[MOST_TOKENS];
  size_t n = 0;
  if (gemma3_tokenize(model, prompt, strlen(prompt), GEMMA3_TEXT_SPECIAL, ids, MOST_TOKENS, &n) != GEMMA3_OK)
    return fail("prompt", "it cannot be tokenized, or is too long");

  gemma3_sampler_options sampling;
  gemma3_sampler_options_init(model, &sampling);
  sampling.temperature = 0;
  gemma3_generator_options generation;
  gemma3_generator_options_init(&generation);
  generation.max_tokens = 32;
  if (gemma3_generator_create(session, &sampling, &generation, &generator, why, sizeof why) != GEMMA3_OK)
    return fail("generator", why);

  printf("%s", prompt);
  gemma3_generated result = {.size = sizeof result};
  if (gemma3_generate(generator, ids, n, show, NULL, &result) != GEMMA3_OK)
    return fail("generation", gemma3_session_error(session));
  printf("\n");
  fprintf(stderr, "%u tokens, %.1f a second\n", (unsigned)result.tokens,
          (double)result.tokens * 1e9 / (double)(result.generate_ns + 1));

  gemma3_generator_free(generator);
  gemma3_session_free(session);
  gemma3_model_close(model);
  return 0;
}
