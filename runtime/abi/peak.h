/* What bounds a program's prompts: the rate of the instruction that multiplies their rows. For those who measure; steps
 * have no use for it. */
#ifndef GC_RUNTIME_ABI_PEAK_H_
#define GC_RUNTIME_ABI_PEAK_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gc_peak {
  const char* unit; /* the instruction: "vdpbf16ps" */
  /* run(n): n x macs multiplications of a weight and an activation, and their sums, on registers */
  void (*run)(uint64_t);
  uint64_t macs;
  uint64_t token_macs; /* weights that a prompt token is multiplied with: all matrices' but the head's */
} gc_peak;

extern const gc_peak* const gc_prompt_peaks[]; /* of gc_programs, in their order */

#ifdef __cplusplus
}
#endif
#endif
