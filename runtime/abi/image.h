// The weight image: how the linker stores it, how a program finds and verifies it. C99 and C++, stdint only.
//
//   file:   [ ELF header | code, read-only data, data | section headers | padding | IMAGE ]
//   IMAGE:  [ gc_image_header | gc_image_section x section_count | names | padding ][ data of the sections ]
//           ^ page-aligned                                                         ^ header_size: data_start
//
// The image is one read-only PT_LOAD, so the kernel maps it at exec and nothing is copied or opened (works without
// /proc, in an empty root, for a file that may be run but not read). A section header covers it, so `strip` and
// `objcopy` keep it. `gc_weights` says where it is, relative to itself: the compiler fills that in after its link, or
// leaves it to the linker of a program that an object goes into.
//
// In an object or archive the image is a section of its own (".lrodata.gc.weights", large: code needn't reach it by 32
// bits). As a sidecar the same bytes are a file, which the program maps.
//
// A truncated file still starts: the kernel maps what it is told and a page past the end of the file is SIGBUS when
// touched. Before trusting the image, probe the page of its last byte through the kernel, which answers EFAULT:
// madvise(MADV_POPULATE_READ) (Linux 5.14; EINVAL before), or write() of that byte into a pipe. Then compare
// `header_checksum`. That is the check at start; gc_image_check_section and gc_program_checksum read it all
// (`OUT check`).
//
// Every integer is little-endian; offsets and sizes are bytes.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GC_MARKER_MAGIC "GCMARKER"
#define GC_IMAGE_MAGIC "GCWEIGHT"
#define GC_IMAGE_VERSION 2u

enum gc_weights_location {
  GC_WEIGHTS_NONE = 0,     // a program without weights
  GC_WEIGHTS_INSIDE = 1,   // mapped with the program, at offset_from_marker
  GC_WEIGHTS_SIDECAR = 2,  // in a file beside it; the program maps that and compares size and header_checksum
};

// In the ELF section ".gc.marker". All but `magic` and `version` is written after the link.
struct gc_weights_marker {
  char magic[8];
  uint32_t version;             // GC_IMAGE_VERSION
  uint32_t location;            // gc_weights_location
  uint64_t offset_from_marker;  // of the image in memory, modulo 2^64
  uint64_t size;                // of the image
  uint64_t header_checksum;     // equals gc_image_header.header_checksum
  uint64_t program_checksum;    // gc_program_checksum of the program
  // What the file is made of, for `OUT info`.
  uint64_t code_bytes;     // compiled for this model
  uint64_t runtime_bytes;  // ours
  uint64_t system_bytes;   // libc, libm, compiler runtime
  uint64_t blob_bytes;     // frozen tokenizer, templates, model description
  // Of a sidecar: its name in the folder of the program or library that the marker lies in; "": that file's own name
  // with ".weights" behind it, whatever the file is called.
  char sidecar[256];
};

// The note by which debuggers, crash reporters and `readelf -n` tell builds apart. The id covers the program and, by their
// checksum, the weights; not in objects, whose programs have their own.
struct gc_build_note {
  uint32_t name_size, id_size, type;  // 4, 16, NT_GNU_BUILD_ID
  char name[4];                       // "GNU"
  unsigned char id[16];
};
extern const struct gc_build_note gc_build __attribute__((visibility("hidden"), weak));

struct gc_image_header {
  char magic[8];
  uint32_t version;
  uint32_t section_count;
  uint64_t size;          // of the image
  uint64_t header_size;   // header, table, names and padding: where the sections' data starts; page-aligned
  uint64_t names_offset;  // from the start of the image
  uint64_t names_size;
  uint64_t header_checksum;  // gc_hash of the first header_size bytes, this field taken as 0
  uint64_t reserved;
};

// Sections lie in the order of their offsets and do not overlap.
struct gc_image_section {
  uint64_t name_hash;  // gc_hash of the name
  uint64_t offset;     // from data_start
  uint64_t size;
  uint64_t checksum;     // gc_hash of the bytes
  uint32_t name_offset;  // from names_offset; no terminator
  uint32_t name_size;
};

// Hidden, so that position-independent code reaches them without a GOT and two programs in one process keep theirs.
extern const struct gc_weights_marker gc_weights __attribute__((visibility("hidden")));
// Defined by the linker.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern const unsigned char __ehdr_start[] __attribute__((visibility("hidden")));

// Of an image that lies inside the program.
static inline const struct gc_image_header* gc_image(void) {
  return (const struct gc_image_header*)((uintptr_t)&gc_weights + (uintptr_t)gc_weights.offset_from_marker);
}

// The base that the offsets of the sections count from.
static inline const unsigned char* gc_image_data(const struct gc_image_header* image) {
  return (const unsigned char*)image + image->header_size;
}

static inline const struct gc_image_section* gc_image_sections(const struct gc_image_header* image) {
  return (const struct gc_image_section*)(image + 1);
}

static inline const char* gc_image_section_name(const struct gc_image_header* image, uint32_t section) {
  return (const char*)image + image->names_offset + gc_image_sections(image)[section].name_offset;
}

// ---- gc_hash: XXH64 with seed 0: 15 GB/s from cache, the same on every machine; no protection against malice. ----

struct gc_hash_state {
  uint64_t lane[4];
  uint64_t total;             // bytes so far
  unsigned char pending[32];  // total % 32 of them
};

#define GC_HASH_P1 0x9E3779B185EBCA87ull
#define GC_HASH_P2 0xC2B2AE3D27D4EB4Full
#define GC_HASH_P3 0x165667B19E3779F9ull
#define GC_HASH_P4 0x85EBCA77C2B2AE63ull
#define GC_HASH_P5 0x27D4EB2F165667C5ull

static inline uint64_t gc_hash_rotate(uint64_t x, int bits) { return (x << bits) | (x >> (64 - bits)); }

static inline uint64_t gc_hash_load(const unsigned char* p, int bytes) {
  uint64_t x = 0;
  for (int i = bytes - 1; i >= 0; --i) x = (x << 8) | p[i];
  return x;
}

static inline uint64_t gc_hash_round(uint64_t lane, uint64_t input) {
  return gc_hash_rotate(lane + input * GC_HASH_P2, 31) * GC_HASH_P1;
}

// Over whole stripes of 32 bytes. Lanes in locals: bytes may alias the state, which would pin it to memory.
static inline void gc_hash_stripes(struct gc_hash_state* s, const unsigned char* p, uint64_t stripes) {
  uint64_t lane0 = s->lane[0], lane1 = s->lane[1], lane2 = s->lane[2], lane3 = s->lane[3], word[4];
  for (; stripes != 0; --stripes, p += 32) {
    __builtin_memcpy(word, p, 32);
    lane0 = gc_hash_round(lane0, word[0]);
    lane1 = gc_hash_round(lane1, word[1]);
    lane2 = gc_hash_round(lane2, word[2]);
    lane3 = gc_hash_round(lane3, word[3]);
  }
  s->lane[0] = lane0;
  s->lane[1] = lane1;
  s->lane[2] = lane2;
  s->lane[3] = lane3;
}

static inline void gc_hash_init(struct gc_hash_state* s) {
  s->lane[0] = GC_HASH_P1 + GC_HASH_P2;
  s->lane[1] = GC_HASH_P2;
  s->lane[2] = 0;
  s->lane[3] = 0 - GC_HASH_P1;
  s->total = 0;
}

static inline void gc_hash_update(struct gc_hash_state* s, const void* data, uint64_t size) {
  const unsigned char* p = (const unsigned char*)data;
  uint64_t filled = s->total % 32;
  s->total += size;
  if (filled != 0) {
    while (filled < 32 && size != 0) {
      s->pending[filled++] = *p++;
      --size;
    }
    if (filled < 32) return;
    gc_hash_stripes(s, s->pending, 1);
  }
  gc_hash_stripes(s, p, size / 32);
  p += size - size % 32;
  size %= 32;
  for (uint64_t i = 0; i < size; ++i) s->pending[i] = p[i];
}

static inline uint64_t gc_hash_final(const struct gc_hash_state* s) {
  uint64_t h = s->lane[2] + GC_HASH_P5;
  if (s->total >= 32) {
    h = gc_hash_rotate(s->lane[0], 1) + gc_hash_rotate(s->lane[1], 7) + gc_hash_rotate(s->lane[2], 12) +
        gc_hash_rotate(s->lane[3], 18);
    for (int i = 0; i < 4; ++i) h = (h ^ gc_hash_round(0, s->lane[i])) * GC_HASH_P1 + GC_HASH_P4;
  }
  h += s->total;
  const unsigned char* p = s->pending;
  uint64_t left = s->total % 32;
  for (; left >= 8; p += 8, left -= 8)
    h = gc_hash_rotate(h ^ gc_hash_round(0, gc_hash_load(p, 8)), 27) * GC_HASH_P1 + GC_HASH_P4;
  if (left >= 4) {
    h = gc_hash_rotate(h ^ (gc_hash_load(p, 4) * GC_HASH_P1), 23) * GC_HASH_P2 + GC_HASH_P3;
    p += 4;
    left -= 4;
  }
  for (; left != 0; ++p, --left) h = gc_hash_rotate(h ^ (*p * GC_HASH_P5), 11) * GC_HASH_P1;
  h = (h ^ (h >> 33)) * GC_HASH_P2;
  h = (h ^ (h >> 29)) * GC_HASH_P3;
  return h ^ (h >> 32);
}

static inline uint64_t gc_hash(const void* data, uint64_t size) {
  struct gc_hash_state s;
  gc_hash_init(&s);
  gc_hash_update(&s, data, size);
  return gc_hash_final(&s);
}

// ---- Verification ----

// Whether the header is whole: its own sizes and offsets consistent, its checksum right. `available` bytes of it can
// be read. After this the table and the names may be trusted.
static inline int gc_image_check_header(const struct gc_image_header* image, uint64_t available) {
  const uint64_t fixed = sizeof(struct gc_image_header);
  if (available < fixed) return 0;
  for (int i = 0; i < 8; ++i)
    if (image->magic[i] != GC_IMAGE_MAGIC[i]) return 0;
  if (image->version != GC_IMAGE_VERSION) return 0;
  if (image->size > available || image->header_size > image->size || image->header_size < fixed) return 0;
  uint64_t table = (uint64_t)image->section_count * sizeof(struct gc_image_section);
  if (table > image->header_size - fixed) return 0;
  if (image->names_offset > image->header_size || image->names_offset < fixed + table) return 0;
  if (image->names_size > image->header_size - image->names_offset) return 0;
  struct gc_image_header copy = *image;
  copy.header_checksum = 0;
  struct gc_hash_state s;
  gc_hash_init(&s);
  gc_hash_update(&s, &copy, fixed);
  gc_hash_update(&s, (const unsigned char*)image + fixed, image->header_size - fixed);
  if (gc_hash_final(&s) != image->header_checksum) return 0;
  for (uint32_t i = 0; i < image->section_count; ++i) {
    const struct gc_image_section* section = gc_image_sections(image) + i;
    uint64_t data_size = image->size - image->header_size;
    if (section->offset > data_size || section->size > data_size - section->offset) return 0;
    if (section->name_offset > image->names_size ||
        section->name_size > image->names_size - section->name_offset)
      return 0;
  }
  return 1;
}

static inline int gc_image_check_section(const struct gc_image_header* image, uint32_t section) {
  const struct gc_image_section* s = gc_image_sections(image) + section;
  return gc_hash(gc_image_data(image) + s->offset, s->size) == s->checksum;
}

// gc_hash over the program's read-only segments (code and constants) as they lie in memory at `ehdr`, without what
// the linker or strip may still change: ELF header, program headers, marker (at `marker`) and image segment (at
// `image_vaddr` from ehdr). With `in_file` the segments are taken at their file offsets: the linker's own view.
static inline uint64_t gc_program_checksum(const unsigned char* ehdr, uint64_t marker, uint64_t image_vaddr,
                                           int in_file) {
  struct gc_hash_state s;
  gc_hash_init(&s);
  const uint64_t phoff = gc_hash_load(ehdr + 32, 8), phsize = gc_hash_load(ehdr + 54, 2),
                 phnum = gc_hash_load(ehdr + 56, 2);
  uint64_t base = 0;  // address of the segment that holds the ELF header
  int have_base = 0;
  for (uint64_t i = 0; i < phnum; ++i) {
    const unsigned char* ph = ehdr + phoff + i * phsize;
    if (gc_hash_load(ph, 4) != 1 /* PT_LOAD */) continue;
    uint64_t begin = gc_hash_load(ph + 16, 8), size = gc_hash_load(ph + 32, 8);
    if (!have_base) base = begin;
    have_base = 1;
    begin -= base;
    if ((gc_hash_load(ph + 4, 4) & 2 /* PF_W */) || begin == image_vaddr) continue;
    const uint64_t at = in_file ? gc_hash_load(ph + 8, 8) : begin, end = begin + size;
    const unsigned char* bytes = ehdr + at - begin;  // bytes[address from ehdr]
    if (begin == 0) begin = phoff + phnum * phsize;
    if (begin <= marker && marker < end) {
      gc_hash_update(&s, bytes + begin, marker - begin);
      begin = marker + sizeof(struct gc_weights_marker);
    }
    gc_hash_update(&s, bytes + begin, end - begin);
  }
  return gc_hash_final(&s);
}

// Of the program that this code lies in, as it is in memory; equals gc_weights.program_checksum.
static inline uint64_t gc_checksum_of_this_program(void) {
  const uint64_t base = (uint64_t)(uintptr_t)__ehdr_start;
  const uint64_t image =
      gc_weights.location == GC_WEIGHTS_INSIDE ? (uint64_t)(uintptr_t)gc_image() - base : ~(uint64_t)0;
  return gc_program_checksum(__ehdr_start, (uint64_t)(uintptr_t)&gc_weights - base, image, 0);
}

#ifdef __cplusplus
}
#endif
