#include "compiler/link/lld.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "compiler/base/error.h"
#include "compiler/base/temp_file.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ObjCopy/ConfigManager.h"
#include "llvm/ObjCopy/ObjCopy.h"
#include "llvm/Object/Binary.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

namespace gc::link {
namespace {

bool have_proc_fds() { return ::access("/proc/self/fd", X_OK) == 0; }

std::string proc_path(int fd) { return cat("/proc/self/fd/", fd); }

// Bytes with a path.
class InputFile {
 public:
  InputFile(const LinkerArg& arg, const std::string& scratch_dir) : name_(arg.text) {
    if (!have_proc_fds()) {
      scratch_.emplace_back(cat(scratch_dir, "/gguf-compile-input"));
      scratch_[0].append(arg.bytes);
      path_ = scratch_[0].path();
      return;
    }
    fd_ = ::memfd_create("gguf-compile-input", MFD_CLOEXEC);
    if (fd_ < 0) throw_errno(errno, "cannot create memory for", name_);
    for (auto rest = arg.bytes; !rest.empty();) {
      const ssize_t n = ::write(fd_, rest.data(), rest.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw_errno(errno, "cannot fill memory for", name_);
      rest = rest.subspan(static_cast<std::size_t>(n));
    }
    path_ = proc_path(fd_);
  }
  InputFile(const InputFile&) = delete;
  ~InputFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  const std::string& path() const { return path_; }
  const std::string& name() const { return name_; }

 private:
  std::string name_, path_;
  std::vector<TempFile> scratch_;  // at most one
  int fd_ = -1;
};

// A pipe with a path, and a thread that collects what is written to it.
class Collector {
 public:
  explicit Collector(const std::string& scratch_dir) {
    int fds[2];
    if (have_proc_fds()) {
      if (::pipe2(fds, O_CLOEXEC) != 0) throw_errno(errno, "cannot create", "a pipe");
      path_ = proc_path(fds[1]);
    } else {
      scratch_.emplace_back(cat(scratch_dir, "/gguf-compile-output"));
      path_ = scratch_[0].path();
      // The name stays in the table of temporaries; only what it names changes.
      if (::unlink(path_.c_str()) != 0 || ::mkfifo(path_.c_str(), 0600) != 0)
        throw_errno(errno, "cannot create", path_);
      fds[0] = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
      fds[1] = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
      if (fds[0] < 0 || fds[1] < 0) throw_errno(errno, "cannot open", path_);
      ::fcntl(fds[0], F_SETFL, 0);
    }
    write_end_ = fds[1];
    try {
      reader_ = std::thread([this, fd = fds[0]] { read_all(fd); });
    } catch (const std::system_error& e) {
      throw_errno(e.code().value(), "cannot start a thread for", "the linker's output");
    }
  }
  Collector(const Collector&) = delete;
  ~Collector() { finish(); }

  const std::string& path() const { return path_; }
  // After the writers are done.
  std::vector<std::uint8_t> take() {
    finish();
    if (error_ != 0) throw_errno(error_, "cannot read", "the linker's output");
    return std::move(bytes_);
  }

 private:
  void finish() {
    if (write_end_ < 0) return;
    ::close(write_end_);
    write_end_ = -1;
    reader_.join();
  }
  void read_all(int fd) {
    std::vector<std::uint8_t> chunk(1 << 16);
    for (;;) {
      const ssize_t n = ::read(fd, chunk.data(), chunk.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) error_ = errno;
      if (n <= 0) break;
      bytes_.insert(bytes_.end(), chunk.begin(), chunk.begin() + n);
    }
    ::close(fd);
  }

  std::string path_;
  std::vector<TempFile> scratch_;  // at most one
  int write_end_ = -1;
  std::thread reader_;
  std::vector<std::uint8_t> bytes_;
  int error_ = 0;
};

// Paths of the inputs replaced by their names; the longest path that fits (/proc/self/fd/12, not /proc/self/fd/1).
std::string with_names(std::string_view text, const std::deque<InputFile>& inputs) {
  std::string out;
  while (!text.empty()) {
    const InputFile* match = nullptr;
    if (text[0] == '/')
      for (const InputFile& input : inputs)
        if (text.starts_with(input.path()) && (!match || input.path().size() > match->path().size()))
          match = &input;
    if (match) {
      out += match->name();
      text.remove_prefix(match->path().size());
    } else {
      out += text[0];
      text.remove_prefix(1);
    }
  }
  return out;
}

// The linker has errors as text alone. Where it ran out of something the machine is at fault, else we are.
[[noreturn]] void link_failed(const std::string& messages) {
  for (int machine : {ENOMEM, EMFILE, ENFILE, ENOSPC}) {
    const std::string text = std::generic_category().message(machine);
    if (messages.find(text) != std::string::npos) throw_user("cannot link the program: ", text);
  }
  throw_internal("the link failed: ", messages);
}

std::mutex& lld_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

LinkerOutput run_lld(std::span<const LinkerArg> args, const std::string& scratch_dir) {
  std::deque<InputFile> inputs;
  Collector program(scratch_dir), map(scratch_dir);
  std::vector<std::string> words = {
      "ld.lld", "-o", program.path(), cat("-Map=", map.path()),
      // A small link: threads cost more than they give, and stay out of our process.
      "--threads=1"};
  for (const LinkerArg& arg : args) {
    if (arg.is_file) inputs.emplace_back(arg, scratch_dir);
    words.push_back(arg.is_file ? inputs.back().path() : arg.text);
  }
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());

  std::string messages;
  llvm::raw_string_ostream stream(messages);
  const lld::DriverDef drivers[] = {{lld::Gnu, &lld::elf::link}};
  lld::Result result;
  {
    const std::lock_guard lock(lld_mutex());
    result = lld::lldMain(argv, stream, stream, drivers);
  }
  LinkerOutput out;
  out.program = program.take();
  const std::vector<std::uint8_t> map_bytes = map.take();
  messages = with_names(messages, inputs);
  if (result.retCode != 0) link_failed(messages);
  GC_CHECK(!out.program.empty(), messages);
  out.map = with_names({reinterpret_cast<const char*>(map_bytes.data()), map_bytes.size()}, inputs);
  return out;
}

namespace {

using llvm::objcopy::MatchStyle;
using llvm::objcopy::NameMatcher;
using llvm::objcopy::NameOrPattern;

void add_name(NameMatcher& matcher, llvm::StringRef name) {
  if (auto error = matcher.addMatcher(
          NameOrPattern::create(name, MatchStyle::Literal, [](llvm::Error error) { return error; })))
    throw_internal(llvm::toString(std::move(error)));
}

std::vector<std::uint8_t> run_objcopy(std::span<const std::uint8_t> elf,
                                      const llvm::objcopy::ConfigManager& config) {
  const llvm::MemoryBufferRef buffer({reinterpret_cast<const char*>(elf.data()), elf.size()}, "program");
  auto binary = llvm::object::createBinary(buffer);
  if (!binary) throw_internal("cannot read the linked program: ", llvm::toString(binary.takeError()));
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  if (auto error = llvm::objcopy::executeObjcopyOnBinary(config, **binary, out))
    throw_internal("cannot strip the linked program: ", llvm::toString(std::move(error)));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::vector<std::uint8_t> localize_object(std::span<const std::uint8_t> object,
                                          const std::map<std::string, std::string>& keep) {
  llvm::objcopy::ConfigManager config;
  config.Common.StripDebug = true;
  config.Common.StripUnneeded = true;
  for (const char* section : {".comment", ".llvm_addrsig"}) add_name(config.Common.ToRemove, section);
  for (const auto& [name, renamed] : keep) {
    add_name(config.Common.SymbolsToKeepGlobal, name);
    config.Common.SymbolsToRename[name] = renamed;
  }
  return run_objcopy(object, config);
}

std::vector<std::uint8_t> strip_program(std::span<const std::uint8_t> elf, bool keep_symbols) {
  llvm::objcopy::ConfigManager config;
  config.Common.StripAll = !keep_symbols;
  config.Common.StripDebug = true;
  add_name(config.Common.ToRemove, ".comment");
  return run_objcopy(elf, config);
}

}  // namespace gc::link
