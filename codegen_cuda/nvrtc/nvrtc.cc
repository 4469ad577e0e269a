#include "codegen_cuda/nvrtc/nvrtc.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "compiler/base/error.h"

extern "C" {
extern const unsigned char gc_nvrtc_helper_begin[], gc_nvrtc_helper_end[];
}

namespace gc::cuda {
namespace {

constexpr const char* kLibraries[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                      "/usr/local/cuda/lib64/libnvrtc.so"};
constexpr std::string_view kMagic = "GCNVRTC1";

// A file descriptor that closes itself.
struct Fd {
  int fd = -1;
  Fd() = default;
  explicit Fd(int f) : fd(f) {}
  Fd(const Fd&) = delete;
  ~Fd() { close(); }
  void close() {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
};

[[noreturn]] void fail(const char* what) { throw_errno(errno, what, "the NVRTC helper"); }

void open_helper(Fd& file) {
  file.fd = memfd_create("gc-nvrtc", MFD_CLOEXEC);
  if (file.fd < 0) fail("cannot make");
  const unsigned char* at = gc_nvrtc_helper_begin;
  while (at < gc_nvrtc_helper_end) {
    const ssize_t n = write(file.fd, at, static_cast<size_t>(gc_nvrtc_helper_end - at));
    if (n < 0) fail("cannot write");
    at += n;
  }
}

struct Child {
  pid_t pid = -1;
  Fd in, out;  // ends of its standard input and output
  ~Child() {
    if (pid <= 0) return;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
};

void start(Child& child, int helper, std::vector<std::string>& args) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0) fail("cannot start");
  child.in.fd = in[1];
  Fd child_in(in[0]);
  if (pipe2(out, O_CLOEXEC) != 0) fail("cannot start");
  child.out.fd = out[0];
  Fd child_out(out[1]);
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  child.pid = fork();
  if (child.pid < 0) fail("cannot start");
  if (child.pid == 0) {  // async-signal-safe calls alone from here on
    dup2(child_in.fd, STDIN_FILENO);
    dup2(child_out.fd, STDOUT_FILENO);
    fexecve(helper, argv.data(), environ);
    _exit(126);
  }
}

// Feeds the source and takes the answer at once: neither pipe may fill while the other waits.
std::string talk(Child& child, std::string_view source) {
  std::string answer;
  size_t sent = 0;
  for (;;) {
    pollfd fds[2] = {{child.out.fd, POLLIN, 0}, {child.in.fd, POLLOUT, 0}};
    if (sent == source.size()) child.in.close();
    const nfds_t n = child.in.fd >= 0 ? 2 : 1;
    if (poll(fds, n, -1) < 0) {
      if (errno == EINTR) continue;
      fail("cannot wait for");
    }
    if (n == 2 && (fds[1].revents & (POLLERR | POLLHUP)) != 0) {
      sent = source.size();  // it reads no more; what it has to say comes by the other pipe
    } else if (n == 2 && (fds[1].revents & POLLOUT) != 0) {
      const size_t part = std::min<size_t>(source.size() - sent, 4096);  // a pipe that is ready takes so much
      const ssize_t done = write(child.in.fd, source.data() + sent, part);
      if (done < 0 && errno != EPIPE && errno != EINTR) fail("cannot write to");
      if (done > 0) sent += static_cast<size_t>(done);
    }
    if ((fds[0].revents & (POLLIN | POLLHUP)) == 0) continue;
    char buffer[65536];
    const ssize_t got = read(child.out.fd, buffer, sizeof buffer);
    if (got < 0 && errno != EINTR) fail("cannot read from");
    if (got == 0) return answer;
    if (got > 0) answer.append(buffer, static_cast<size_t>(got));
  }
}

int wait_for(Child& child) {
  int status = 0;
  while (waitpid(child.pid, &status, 0) < 0)
    if (errno != EINTR) fail("cannot wait for");
  child.pid = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The number behind `before`, or in front of `after`, in a line of ptxas' report.
std::int64_t number_before(std::string_view line, std::string_view after) {
  size_t end = line.find(after);
  if (end == std::string_view::npos) return 0;
  while (end > 0 && line[end - 1] == ' ') --end;
  size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  std::int64_t n = 0;
  std::from_chars(line.data() + begin, line.data() + end, n);
  return n;
}

// "ptxas info : Function properties for NAME", "... bytes stack frame, ... bytes spill stores, ...", "... Used N
// registers, ... bytes smem".
std::vector<KernelUse> read_report(std::string_view log) {
  std::vector<KernelUse> kernels;
  constexpr std::string_view kOf = "Compiling entry function '";
  while (!log.empty()) {
    const size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    if (const size_t at = line.find(kOf); at != std::string_view::npos) {
      const std::string_view rest = line.substr(at + kOf.size());
      kernels.push_back({std::string(rest.substr(0, rest.find('\'')))});
    } else if (!kernels.empty() && line.find("spill stores") != std::string_view::npos) {
      kernels.back().stack = number_before(line, "bytes stack frame");
      kernels.back().spill_stores = number_before(line, "bytes spill stores");
      kernels.back().spill_loads = number_before(line, "bytes spill loads");
    } else if (!kernels.empty() && line.find("registers") != std::string_view::npos) {
      kernels.back().registers = static_cast<int>(number_before(line, "registers"));
      kernels.back().shared = number_before(line, "bytes smem");
    }
  }
  return kernels;
}

// The first lines that tell of an error, joined to one: errors are one line.
std::string first_errors(std::string_view log) {
  std::string out;
  int lines = 0;
  while (!log.empty() && lines < 3) {
    const size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    if (line.find("error") == std::string_view::npos) continue;
    out += cat(lines++ ? "; " : "", line);
  }
  return escape_controls(out);
}

}  // namespace

Cubin compile_cubin(std::string_view source, const std::string& name, const Arch& arch,
                    const std::string& library) {
  std::vector<std::string> args = {"gc-nvrtc",     std::string(arch.name), name, "--std=c++17",
                                   "--fmad=false", "--ptxas-options=-v",   "--"};
  if (library.empty()) {
    args.insert(args.end(), std::begin(kLibraries), std::end(kLibraries));
  } else {
    args.push_back(library);
  }
  Fd helper;
  open_helper(helper);
  Child child;
  start(child, helper.fd, args);
  helper.close();
  const std::string answer = talk(child, source);
  const int code = wait_for(child);
  constexpr size_t kHead = 24;
  std::uint64_t sizes[2] = {};
  if (answer.size() >= kHead) std::memcpy(sizes, answer.data() + kMagic.size(), sizeof sizes);
  if (answer.substr(0, kMagic.size()) != kMagic || sizes[0] > answer.size() - kHead ||
      sizes[1] != answer.size() - kHead - sizes[0])
    throw_user("the NVRTC helper ended with code ", code, " and without an answer");
  const std::string_view cubin(answer.data() + kHead, sizes[0]);
  const std::string_view log(answer.data() + kHead + sizes[0], sizes[1]);
  if (code == 2)
    throw_user("NVRTC cannot be used: ", escape_controls(std::string(log)),
               "; --nvrtc FILE names its library (PyPI's nvidia-cuda-nvrtc or a CUDA toolkit have it)");
  if (code != 0) throw_user(name, " for ", arch.name, ": NVRTC: ", first_errors(log));
  return {{cubin.begin(), cubin.end()}, read_report(log)};
}

std::string to_string(const KernelUse& use) {
  return cat(use.name, ": ", use.registers, " registers, ", use.shared, " bytes shared, ",
             use.spill_stores + use.spill_loads, " bytes spilled, ", use.stack, " stack");
}

}  // namespace gc::cuda
