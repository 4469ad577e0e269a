#pragma once
// The terminal: its mode and size, Ctrl-C, and that it is left as it was however the program ends.
#include <stddef.h>

namespace gcrt {

class Session;

// From now on Ctrl-C (SIGINT) ends the session's generation, a second one the program.
void catch_interrupt(Session* session);
// From now on it ends the program.
void release_interrupt();

// Standard input as the keyboard. One at a time.
class Terminal {
 public:
  Terminal() = default;
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() { restore(); }

  // False: standard input or output is no terminal. From then on signals that end the program restore it first, and a
  // change of its size ends a read() early (EINTR).
  bool open();
  bool is_open() const { return open_; }
  // Every key arrives as it is typed and nothing is shown by itself.
  void edit();
  // The same, but Ctrl-C and Ctrl-Z are signals: while an answer is written, and from open() on. What is typed waits,
  // and waits as it was typed: in the original mode an Enter would arrive as a newline.
  void answer();
  void restore();
  // Stops the program as the shell's Ctrl-Z does; returns when it goes on.
  void suspend();
  void size(size_t* columns, size_t* rows) const;

 private:
  bool open_ = false;
};

}  // namespace gcrt
