// Where a dynamic program begins, and what libc_nonshared.a would bring to it.
//
// The start file of glibc 2.34 and later hands no initializer to libc, which there finds the program's constructors itself
// and before that would run none. This one hands over its own, which every glibc calls. Destructors are the dynamic
// linker's affair, in old ones too.
#include <stddef.h>

typedef void (*Init)(int, char**, char**);

int main(int argc, char** argv, char** environment);
extern void* __dso_handle;  // NOLINT(bugprone-reserved-identifier)
__attribute__((visibility("hidden"))) extern const Init __init_array_start[], __init_array_end[];
// NOLINTNEXTLINE(bugprone-reserved-identifier)
int __libc_start_main(int (*program)(int, char**, char**), int argc, char** argv, Init init,
                      void (*end)(void), void (*linker_end)(void), void* stack);
// NOLINTNEXTLINE(bugprone-reserved-identifier)
int __cxa_atexit(void (*f)(void*), void* argument, void* object);

static void run_constructors(int argc, char** argv, char** environment) {
  for (const Init* f = __init_array_start; f != __init_array_end; ++f) (*f)(argc, argv, environment);
}

__attribute__((noreturn, used)) static void begin(long* stack, void (*linker_end)(void)) {
  __libc_start_main(main, (int)stack[0], (char**)(stack + 1), run_constructors, NULL, linker_end, stack);
  __builtin_trap();  // it doesn't return
}

// The kernel leaves argc and what follows on the stack, the dynamic linker its own end in rdx.
#if defined(__x86_64__)
__attribute__((naked, noreturn)) void _start(void) {
  __asm__(
      "xorl %ebp, %ebp\n"
      "movq %rsp, %rdi\n"
      "movq %rdx, %rsi\n"
      "andq $-16, %rsp\n"
      "call begin\n");
}
#else
#error "no start of dynamic programs for this target"
#endif

static void call(void* f) { ((void (*)(void))f)(); }
int atexit(void (*f)(void)) { return __cxa_atexit(call, (void*)f, &__dso_handle); }
