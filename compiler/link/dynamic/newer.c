// Functions of later C libraries than 2.17, the oldest that dynamic programs run with, for code that was compiled against
// this machine's headers: the runtime, libstdc++, libgcc's unwinder, OpenSSL.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// NOLINTBEGIN(bugprone-reserved-identifier)

// 2.32: whether locks may be left out. Never.
char __libc_single_threaded = 0;

// 2.33; before it the functions of <sys/stat.h> were inline calls of these, with a number for the struct.
#define STAT_VERSION 1
int __xstat(int version, const char* path, struct stat* status);
int __lxstat(int version, const char* path, struct stat* status);
int __fxstat(int version, int fd, struct stat* status);
int stat(const char* path, struct stat* status) { return __xstat(STAT_VERSION, path, status); }
int lstat(const char* path, struct stat* status) { return __lxstat(STAT_VERSION, path, status); }
int fstat(int fd, struct stat* status) { return __fxstat(STAT_VERSION, fd, status); }
// The same struct where off_t has 64 bits.
int fstat64(int fd, struct stat64* status) { return __fxstat(STAT_VERSION, fd, (struct stat*)status); }

// 2.25. Kernels before 3.17 have /dev/urandom alone.
static ssize_t read_urandom(void* bytes, size_t n) {
  const int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  const ssize_t got = read(fd, bytes, n);
  const int error = errno;
  close(fd);
  errno = error;
  return got;
}
ssize_t getrandom(void* bytes, size_t n, unsigned flags) {
  const long got = syscall(SYS_getrandom, bytes, n, flags);
  return got < 0 && errno == ENOSYS ? read_urandom(bytes, n) : got;
}
int getentropy(void* bytes, size_t n) {
  if (n > 256) {
    errno = EIO;
    return -1;
  }
  for (size_t done = 0; done < n;) {
    const ssize_t got = getrandom((char*)bytes + done, n - done, 0);
    if (got < 0 && errno != EINTR) return -1;
    if (got == 0) {
      errno = EIO;
      return -1;
    }
    if (got > 0) done += (size_t)got;
  }
  return 0;
}

// 2.36; it cannot fail.
uint32_t arc4random(void) {
  uint32_t x;
  if (getentropy(&x, sizeof x) != 0) abort();
  return x;
}

// 2.32: the text of an error in English, for threads too: strerror's texts of known errors are constants.
const char* strerrordesc_np(int error) {
  enum { kErrors = 134 };  // of Linux
  return error >= 0 && error < kErrors ? strerror(error) : NULL;
}

// 2.18: destructors of a thread's variables, the last one first; the main thread's at exit.
struct Last {
  void (*f)(void*);
  void* object;
  struct Last* next;
};
static pthread_key_t last_key;  // a thread's list
static pthread_once_t last_once = PTHREAD_ONCE_INIT;

static void run_last(void* list) {
  for (struct Last* each = list; each != NULL;) {
    pthread_setspecific(last_key, each->next);
    each->f(each->object);
    free(each);
    each = pthread_getspecific(last_key);  // with what the destructor itself has added
  }
}
static void run_last_of_main(void) { run_last(pthread_getspecific(last_key)); }
static void make_last_key(void) {
  if (pthread_key_create(&last_key, run_last) != 0 || atexit(run_last_of_main) != 0) abort();
}

int __cxa_thread_atexit_impl(void (*f)(void*), void* object, void* library) {
  (void)library;
  pthread_once(&last_once, make_last_key);
  struct Last* last = malloc(sizeof *last);
  if (last == NULL) return -1;
  last->f = f, last->object = object, last->next = pthread_getspecific(last_key);
  return pthread_setspecific(last_key, last);
}

// 2.35: which loaded file an address belongs to, for exceptions. libgcc was built for a libc that has it, and has no other
// way of its own.
struct Search {
  uintptr_t address;
  struct dl_find_object* found;
};

static int look(struct dl_phdr_info* info, size_t size, void* context) {
  (void)size;
  struct Search* search = context;
  const ElfW(Phdr)* frames = NULL;
  uintptr_t begin = 0, end = 0;
  int inside = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* p = &info->dlpi_phdr[i];
    const uintptr_t at = info->dlpi_addr + p->p_vaddr;
    if (p->p_type == PT_GNU_EH_FRAME) frames = p;
    if (p->p_type != PT_LOAD) continue;
    if (end == 0) begin = at;
    end = at + p->p_memsz;
    inside |= search->address - at < p->p_memsz;
  }
  if (!inside || frames == NULL) return inside;
  search->found->dlfo_flags = 0;
  search->found->dlfo_map_start = (void*)begin;
  search->found->dlfo_map_end = (void*)end;
  search->found->dlfo_link_map = NULL;
  search->found->dlfo_eh_frame = (void*)(info->dlpi_addr + frames->p_vaddr);
  return 2;
}

int _dl_find_object(void* address, struct dl_find_object* found) {
  struct Search search = {(uintptr_t)address, found};
  return dl_iterate_phdr(look, &search) == 2 ? 0 : -1;
}

// NOLINTEND(bugprone-reserved-identifier)
