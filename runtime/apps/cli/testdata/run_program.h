#pragma once
// Runs the program around the fake model, its input given and its outputs kept.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace cli {

inline const char kProgram[] = "runtime/apps/cli/fake";

struct Ran {
  int status;  // exit code, or -signal
  std::string out, err;
};

struct How {
  std::string input;
  std::function<void()> in_child;
  std::function<void(pid_t child, const std::string& out)> on_output;
  std::string program = kProgram;
};

inline Ran run(const std::vector<std::string>& words, const How& how = {}) {
  int in[2], out[2], err[2];
  if (pipe(in) || pipe(out) || pipe(err)) abort();
  const pid_t child = fork();
  if (child == 0) {
    dup2(in[0], 0), dup2(out[1], 1), dup2(err[1], 2);
    for (int fd : {in[0], in[1], out[0], out[1], err[0], err[1]}) close(fd);
    if (how.in_child) how.in_child();
    std::vector<char*> argv = {const_cast<char*>(how.program.c_str())};
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  for (int fd : {in[0], out[1], err[1]}) close(fd);
  signal(SIGPIPE, SIG_IGN);
  for (size_t at = 0; at < how.input.size();) {  // inputs here are small enough to write first
    const ssize_t n = write(in[1], how.input.data() + at, how.input.size() - at);
    if (n <= 0) break;
    at += static_cast<size_t>(n);
  }
  close(in[1]);
  Ran ran;
  pollfd fds[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    poll(fds, 2, -1);
    for (int i = 0; i < 2; ++i) {
      if (fds[i].fd < 0 || !fds[i].revents) continue;
      char chunk[4096];
      const ssize_t n = read(fds[i].fd, chunk, sizeof chunk);
      if (n <= 0) {
        close(fds[i].fd);
        fds[i].fd = -1;
        continue;
      }
      (i ? ran.err : ran.out).append(chunk, static_cast<size_t>(n));
      if (i == 0 && how.on_output) how.on_output(child, ran.out);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return ran;
}

}  // namespace cli
