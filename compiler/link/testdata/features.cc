// What a program asks of a C library, beyond the bare minimum: PROGRAM features, of the
// command of that name. A line for each, with what must come out.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <condition_variable>
#include <mutex>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

int constructed = 0;
bool asked = false;
struct Global {
  Global() { ++constructed; }
  ~Global() {
    if (asked) puts("destructor");
  }
};
const Global global;

struct OfThread {
  int* gone;
  ~OfThread() { ++*gone; }
};

[[noreturn]] void throw_deep(int depth) {
  if (depth == 0) throw std::runtime_error("thrown");
  throw_deep(depth - 1);
}

// The first function of that name took no clock: bound to it, a wait by CLOCK_MONOTONIC is over at once.
long wait_ms(long ms) {
  pthread_condattr_t attributes;
  pthread_cond_t condition;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&condition, &attributes);
  timespec begin, until, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  until = begin;
  until.tv_nsec += ms * 1000000;
  until.tv_sec += until.tv_nsec / 1000000000, until.tv_nsec %= 1000000000;
  pthread_mutex_lock(&mutex);
  const int result = pthread_cond_timedwait(&condition, &mutex, &until);
  pthread_mutex_unlock(&mutex);
  clock_gettime(CLOCK_MONOTONIC, &end);
  if (result != ETIMEDOUT) return -1;
  return (end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000;
}

}  // namespace

extern "C" int gc_command_features() {
  asked = true;
  printf("constructors %d\n", constructed);
  std::string caught;
  int gone = 0;
  std::mutex mutex;
  std::condition_variable all_done;
  bool done = false;
  std::thread thread([&] {
    thread_local OfThread of_thread{&gone};
    of_thread.gone = &gone;
    try {
      throw_deep(5);
    } catch (const std::exception& e) {
      caught = e.what();
    }
    const std::lock_guard lock(mutex);
    done = true;
    all_done.notify_one();
  });
  {
    std::unique_lock lock(mutex);
    all_done.wait(lock, [&] { return done; });
  }
  thread.join();
  printf("exception %s, thread's variables gone %d\n", caught.c_str(), gone);
  printf("wait %s\n", wait_ms(50) >= 49 ? "50 ms" : "too short");
  struct stat of_path, of_link, of_fd;
  const bool same = stat("/", &of_path) == 0 && lstat("/", &of_link) == 0 && fstat(1, &of_fd) == 0 &&
                    S_ISDIR(of_path.st_mode) && S_ISDIR(of_link.st_mode) &&
                    of_path.st_ino == of_link.st_ino && S_ISFIFO(of_fd.st_mode);
  printf("stat %s, %s\n", same ? "good" : "bad",
         stat("/no such file", &of_path) == 0 ? "?" : strerrordesc_np(errno));
  std::istringstream words("17 4.5 word");
  int i = 0;
  double x = 0;
  std::string word;
  words >> i >> x >> word;
  std::ostringstream out;
  out << i + 1 << " " << x * 2 << " " << word;
  printf("streams %s\n", out.str().c_str());
  std::random_device random("default"), other("arc4random");
  unsigned any = 0;  // of so many numbers some bit of each place is set
  for (int n = 0; n < 200; ++n) any |= random() & other();
  printf("random %x\n", any);
  return 0;
}
