// The API of model.h: what the tests of libraries call.
#include <string.h>

#include "runtime/abi/image.h"

#define GCM_API __attribute__((visibility("default")))
extern "C" {
#include "compiler/link/testdata/model.h"
__attribute__((visibility("hidden"))) extern const unsigned char test_blob[];
int generated_function(int x);

int same_name_in_every_model = 1;  // global here, local in a library

int gcm_ask(int question, gcm_answer* answer) {
  const gc_image_header* image = gc_image();
  if (gc_weights.location != GC_WEIGHTS_INSIDE) return -1;
  if (!gc_image_check_header(image, gc_weights.size) || image->header_checksum != gc_weights.header_checksum)
    return -2;
  for (uint32_t i = 0; i < image->section_count; ++i)
    if (!gc_image_check_section(image, i)) return -3;
  answer->first = gc_image_data(image)[0];
  answer->last = reinterpret_cast<const unsigned char*>(image)[image->size - 1];
  answer->generated = generated_function(question);
  answer->blob = test_blob[0];
  return 0;
}

const char* gcm_sidecar(void) {
  return gc_weights.location == GC_WEIGHTS_SIDECAR ? gc_weights.sidecar : "none";
}
}
