/* Which build of the code computed a state: saved sequences go with the code (runtime/core/saved_sequence.h). */
#ifndef GC_RUNTIME_ABI_CODE_ID_H_
#define GC_RUNTIME_ABI_CODE_ID_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of each of gc_programs (program.h) a hash of its code. */
extern const uint64_t gc_code_ids[];

#ifdef __cplusplus
}
#endif
#endif /* GC_RUNTIME_ABI_CODE_ID_H_ */
