#include "compiler/prompt_cache.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "compiler/base/error.h"
#include "compiler/base/mapped_file.h"
#include "compiler/base/temp_file.h"

namespace gc {
namespace {

struct Ended {
  int exit_code;  // 128 + n: by signal n
  std::string said;
};

// Runs a program to its end; `said` is what it wrote to standard error.
Ended run(const std::string& program, std::vector<std::string> words) {
  words.insert(words.begin(), program);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw_errno(errno, "cannot create", "a pipe");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, fds[1], 2);
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(fds[1]);
  Ended ended{0, {}};
  char chunk[4096];
  for (ssize_t n;
       failed == 0 && ((n = ::read(fds[0], chunk, sizeof chunk)) > 0 || (n < 0 && errno == EINTR));)
    if (n > 0) ended.said.append(chunk, static_cast<std::size_t>(n));
  ::close(fds[0]);
  if (failed != 0)
    throw_user("--prompt-cache-file: cannot run the model beside the output: ", std::strerror(failed));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  ended.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

// "NAME: error: WHY" is WHY.
std::string reason_of(const std::string& said) {
  const std::size_t at = said.find("error: ");
  const std::string why = at == std::string::npos ? said : said.substr(at + 7);
  return why.substr(0, why.find('\n'));
}

}  // namespace

std::vector<std::uint8_t> make_prompt_cache(link::LinkInput input, std::span<const std::string_view> isas,
                                            const std::string& text_file, const std::string& output) {
  {
    const MappedFile probe(text_file);
  }  // before the model is linked
  input.emit = link::EmitKind::kExecutable;
  input.weights_place = link::WeightsPlace::kEmbed;
  input.commands = {"prefill"};
  const TempFile program(output), record(output);  // their names; what they are replaced by goes with them
  link::link_artifact(input, program.path(), {});
  std::vector<std::uint8_t> cache;
  for (const std::string_view isa : isas) {
    const Ended ended =
        run(program.path(), {"prefill", "-f", text_file, "-o", record.path(), "--isa", std::string(isa)});
    if (ended.exit_code >= 128)
      throw_internal("computing a prompt's states with ", isa, " ended by signal ", ended.exit_code - 128);
    if (ended.exit_code != 0)
      throw_user("--prompt-cache-file ", quote(text_file, kWholePath), ": ", reason_of(ended.said));
    const MappedFile file(record.path());
    cache.insert(cache.end(), file.bytes().begin(), file.bytes().end());
  }
  return cache;
}

}  // namespace gc
