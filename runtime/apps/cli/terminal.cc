#include "runtime/apps/cli/terminal.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "runtime/core/session.h"

namespace gcrt {
namespace {

// Signal handlers have no argument of ours, so what they act on lies here.
Session* volatile interruptible = nullptr;
volatile sig_atomic_t interrupted = 0;
termios original;                   // the mode at the start
volatile sig_atomic_t changed = 0;  // the mode is not the original one

constexpr char kPasteOn[] = "\x1b[?2004h", kPasteOff[] = "\x1b[?2004l";

void put(const char* text, size_t n) {
  if (write(1, text, n) < 0) return;  // nobody to tell
}

void restore_mode() {
  if (!changed) return;
  changed = 0;
  tcsetattr(0, TCSADRAIN, &original);
}

void die(int signal_number) {
  if (changed) put(kPasteOff, sizeof kPasteOff - 1);
  restore_mode();
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void on_interrupt(int signal_number) {
  Session* const session = interruptible;
  if (session == nullptr || interrupted) return die(signal_number);
  interrupted = 1;
  session->abort();
}

void on_resize(int) {}

void handle(int signal_number, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal_number, &action, nullptr);
}

void set_mode(bool signals) {
  termios mode = original;
  mode.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IGNCR | IXON | ISTRIP);
  mode.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN);
  if (!signals) mode.c_lflag &= ~static_cast<tcflag_t>(ISIG);
  mode.c_cc[VMIN] = 1;
  mode.c_cc[VTIME] = 0;
  changed = 1;
  tcsetattr(0, TCSADRAIN, &mode);
}

}  // namespace

void catch_interrupt(Session* session) {
  session->forget_abort();
  interrupted = 0;
  interruptible = session;
  handle(SIGINT, on_interrupt, SA_RESTART);
}

void release_interrupt() { interruptible = nullptr; }

bool Terminal::open() {
  if (open_ || !isatty(1) || tcgetattr(0, &original) != 0) return open_;
  constexpr int kDeadly[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  for (int s : kDeadly) handle(s, s == SIGINT ? on_interrupt : die, SA_RESTART);
  handle(SIGWINCH, on_resize, 0);
  set_mode(true);
  return open_ = true;
}

void Terminal::edit() {
  set_mode(false);
  put(kPasteOn, sizeof kPasteOn - 1);
}

void Terminal::answer() {
  put(kPasteOff, sizeof kPasteOff - 1);
  set_mode(true);
}

void Terminal::restore() {
  if (!open_ || !changed) return;
  put(kPasteOff, sizeof kPasteOff - 1);
  restore_mode();
}

void Terminal::suspend() {
  restore();
  kill(0, SIGTSTP);  // the whole job, as the terminal would
  edit();
}

void Terminal::size(size_t* columns, size_t* rows) const {
  winsize w = {};
  const bool known = ioctl(1, TIOCGWINSZ, &w) == 0 && w.ws_col != 0 && w.ws_row != 0;
  *columns = known ? w.ws_col : 80;
  *rows = known ? w.ws_row : 24;
}

}  // namespace gcrt
