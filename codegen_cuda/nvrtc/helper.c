/* Compiles one CUDA source for one architecture by NVRTC: a program of its own, because the compiler may be static and
 * a static program cannot load NVRTC (its threads and TLS need the one libc that they were linked with).
 *
 *   helper ARCH NAME OPTION... -- LIBRARY...     the first library that loads is taken
 *
 * Standard input: the source. Standard output: "GCNVRTC1", then the sizes of cubin and log, 8 bytes each, and both.
 * Exit code: 0 compiled; 1 the source has errors (the log says which, there is no cubin); 2 NVRTC cannot be used, the
 * log says why. The functions used are declared here: no header of NVRTC's is needed to build this.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct program* Program;
typedef int (*CreateFn)(Program*, const char*, const char*, int, const char* const*, const char* const*);
typedef int (*CompileFn)(Program, int, const char* const*);
typedef int (*SizeFn)(Program, size_t*);
typedef int (*GetFn)(Program, char*);
typedef const char* (*ErrorFn)(int);

static void write_all(const void* bytes, size_t n) {
  if (fwrite(bytes, 1, n, stdout) != n) exit(3);
}

static int finish(int code, const char* cubin, size_t cubin_size, const char* log, size_t log_size) {
  const uint64_t sizes[2] = {cubin_size, log_size};
  write_all("GCNVRTC1", 8);
  write_all(sizes, sizeof sizes);
  write_all(cubin, cubin_size);
  write_all(log, log_size);
  return fflush(stdout) == 0 ? code : 3;
}

static int refuse(const char* why) { return finish(2, "", 0, why, strlen(why)); }

static char* read_all(void) {
  size_t size = 0, room = 1 << 20;
  char* text = malloc(room + 1);
  while (text) {
    const size_t n = fread(text + size, 1, room - size, stdin);
    size += n;
    if (n == 0) break;
    if (size == room) text = realloc(text, (room *= 2) + 1);
  }
  if (text) text[size] = 0;
  return ferror(stdin) ? NULL : text;
}

/* What get(size) and get(bytes) give, as a string. */
static char* fetch(void* library, Program program, const char* size_name, const char* name, size_t* size) {
  const SizeFn size_of = (SizeFn)dlsym(library, size_name);
  const GetFn get = (GetFn)dlsym(library, name);
  *size = 0;
  if (!size_of || !get || size_of(program, size) != 0) return NULL;
  char* bytes = malloc(*size + 1);
  if (!bytes || get(program, bytes) != 0) return NULL;
  bytes[*size] = 0;
  return bytes;
}

static int compile(void* library, const char* name, int n_options, const char** options, const char* source) {
  const CreateFn create = (CreateFn)dlsym(library, "nvrtcCreateProgram");
  const CompileFn run = (CompileFn)dlsym(library, "nvrtcCompileProgram");
  const ErrorFn error_text = (ErrorFn)dlsym(library, "nvrtcGetErrorString");
  Program program = NULL;
  if (!create || !run || !error_text) return refuse("the library lacks functions of NVRTC");
  int error = create(&program, source, name, 0, NULL, NULL);
  if (error != 0) return refuse(error_text(error));
  error = run(program, n_options, options);
  size_t log_size = 0, cubin_size = 0;
  char* log = fetch(library, program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog", &log_size);
  if (!log) return refuse("NVRTC gives no log");
  if (error != 0 && strlen(log) == 0) return refuse(error_text(error));
  if (error != 0) return finish(1, "", 0, log, strlen(log));
  char* cubin = fetch(library, program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN", &cubin_size);
  if (!cubin || cubin_size == 0) return refuse("NVRTC gives no cubin");
  return finish(0, cubin, cubin_size, log, strlen(log));
}

int main(int argc, char** argv) {
  int dashes = 3;
  while (dashes < argc && strcmp(argv[dashes], "--") != 0) dashes++;
  if (dashes >= argc - 1) return refuse("usage: helper ARCH NAME OPTION... -- LIBRARY...");
  char arch[64], why[4096] = "";
  snprintf(arch, sizeof arch, "-arch=%s", argv[1]);
  const char* name = argv[2];
  argv[2] = arch; /* options are argv[2] .. argv[dashes - 1] */
  void* library = NULL;
  for (int i = dashes + 1; i < argc && !library; i++) {
    library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    if (!library && i == dashes + 1) snprintf(why, sizeof why, "%s", dlerror());
  }
  if (!library) return refuse(why);
  char* source = read_all();
  if (!source) return refuse("the source cannot be read");
  return compile(library, name, dashes - 2, (const char**)&argv[2], source);
}
