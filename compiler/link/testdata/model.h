/* The API of the runtime of these tests, in the form of runtime/api/model.h: GCM_OK, not GCMX or xgcm_. */
#ifndef GCM_API_H_
#define GCM_API_H_
#ifndef GCM_API
#define GCM_API
#endif
typedef struct gcm_answer {
  int first, last, generated, blob; /* bytes of the weights, of gcm_ask()'s argument, of the blob */
} gcm_answer;
GCM_API int gcm_ask(int question, gcm_answer* answer);
GCM_API const char* gcm_sidecar(void);
#endif /* GCM_API_H_ */
