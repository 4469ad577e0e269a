// A runtime small enough to see through: says what the linker gave it.
//   PROGRAM            first and last byte of the weights' data, the blob, the generated function, a thread's answer
//   PROGRAM check      "good" if all checksums are right, else what is wrong
//   PROGRAM features   what the C and C++ libraries do (features.cc)
//   PROGRAM info       sizes of the parts and names of the sections
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/abi/image.h"

extern "C" {
__attribute__((visibility("hidden"))) extern const unsigned char test_blob[];
__attribute__((visibility("hidden"))) extern const uint64_t test_blob_size;
int generated_function(int x);  // of the "compiled model"
}

extern "C" __attribute__((weak)) int gc_command_features();  // features.cc, where it is linked

namespace {

int check() {
  const gc_image_header* image = gc_image();
  // Past the end of a truncated file the kernel says EFAULT here instead of sending SIGBUS later.
  const auto last = reinterpret_cast<uintptr_t>(image) + gc_weights.size - 1;
  if (madvise(reinterpret_cast<void*>(last & ~uintptr_t{4095}), 4096, 22 /* MADV_POPULATE_READ */) != 0) {
    puts("truncated");
    return 1;
  }
  if (!gc_image_check_header(image, gc_weights.size) ||
      image->header_checksum != gc_weights.header_checksum) {
    puts("bad header");
    return 1;
  }
  for (uint32_t i = 0; i < image->section_count; ++i) {
    if (gc_image_check_section(image, i)) continue;
    printf("bad section %.*s\n", static_cast<int>(gc_image_sections(image)[i].name_size),
           gc_image_section_name(image, i));
    return 1;
  }
  if (gc_checksum_of_this_program() != gc_weights.program_checksum) {
    puts("bad program");
    return 1;
  }
  puts("good");
  return 0;
}

int info() {
  printf("code %lu runtime %lu system %lu blobs %lu weights %lu\n", gc_weights.code_bytes,
         gc_weights.runtime_bytes, gc_weights.system_bytes, gc_weights.blob_bytes, gc_weights.size);
  const gc_image_header* image = gc_image();
  for (uint32_t i = 0; i < image->section_count; ++i) {
    const gc_image_section& section = gc_image_sections(image)[i];
    printf("%.*s %lu %lu\n", static_cast<int>(section.name_size), gc_image_section_name(image, i),
           section.offset, section.size);
  }
  return 0;
}

struct Question {
  float exponent;
  int power;
};

void* answer(void* question) {
  auto* q = static_cast<Question*>(question);
  q->power = static_cast<int>(exp2f(q->exponent));
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "check") == 0) return check();
  if (argc > 1 && strcmp(argv[1], "info") == 0) return info();
  if (argc > 1 && strcmp(argv[1], "features") == 0) return gc_command_features();
  const gc_image_header* image = gc_image();
  const unsigned char* data = gc_image_data(image);
  Question question = {5.0f, 0};
  pthread_t thread;
  if (pthread_create(&thread, nullptr, answer, &question) != 0 || pthread_join(thread, nullptr) != 0)
    return 1;
  printf("first %02x last %02x blob %.*s generated %d thread %d\n", data[0],
         reinterpret_cast<const unsigned char*>(image)[image->size - 1], static_cast<int>(test_blob_size),
         test_blob, generated_function(20), question.power);
  return 0;
}
