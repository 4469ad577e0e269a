// Links real programs with the runtime of testdata/ and runs them.
#include "compiler/link/artifact.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include "compiler/base/error.h"
#include "compiler/link/elf_patch.h"
#include "compiler/link/testdata/emit.h"
#include "runtime/abi/image.h"

extern "C" const std::uint8_t test_bundle_begin[], test_bundle_end[];

namespace gc::link {
namespace {

namespace fs = std::filesystem;

constexpr char kGenerated[] = R"(
source_filename = "secret-path/generated.ll"
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define i32 @generated_function(i32 %x) {
  %text = alloca [300 x i8]
  %byte = trunc i32 %x to i8
  call void @llvm.memset.p0.i64(ptr %text, i8 %byte, i64 300, i1 false)
  %at = getelementptr i8, ptr %text, i32 %x
  %read = load i8, ptr %at
  %wide = zext i8 %read to i32
  %sum = add i32 %wide, 22
  ret i32 %sum
}
define i32 @unused_function() { ret i32 1 }
)";

constexpr char kExpected[] = "first 01 last fe blob a frozen tokenizer generated 42 thread 32\n";

// A folder of its own, gone at the end.
class Scratch {
 public:
  explicit Scratch(const fs::path& in = ::testing::TempDir()) {
    std::string name = (in / "link-XXXXXX").string();
    GC_CHECK(::mkdtemp(name.data()));
    path_ = name;
  }
  ~Scratch() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Sections of 1 byte at the ends and `middle` bytes between them, written in chunks.
WeightImage weights(std::uint64_t middle, std::function<void()> halfway = {}) {
  WeightImage image;
  image.sections = {{"token_embd", 0, 1}, {"blk.0.qkv", 64, middle}, {"output", 64 + middle, 1}};
  image.write = [middle, halfway](WeightSink& sink) {
    const std::uint8_t first = 1, last = 0xfe;
    sink.append(2, {&last, 1});  // any order
    sink.append(0, {&first, 1});
    std::vector<std::uint8_t> chunk(std::min<std::uint64_t>(middle, 1 << 20));
    for (std::size_t i = 0; i < chunk.size(); ++i) chunk[i] = static_cast<std::uint8_t>(i * 7);
    for (std::uint64_t done = 0; done < middle;) {
      const std::uint64_t n = std::min<std::uint64_t>(middle - done, chunk.size());
      sink.append(1, std::span(chunk).first(n));
      done += n;
      if (halfway && done >= middle / 2) halfway();
    }
  };
  return image;
}

LinkInput input(WeightImage image = weights(3 << 20)) {
  const std::string_view text = "a frozen tokenizer";
  LinkInput input;
  input.objects = {{"layers.o", emit_object(kGenerated)}};
  input.blobs = {{"test_blob", 16, {text.begin(), text.end()}},
                 {"unused_blob", 16, std::vector<std::uint8_t>(5000)}};
  input.weights = std::move(image);
  input.carried = {test_bundle_begin, test_bundle_end};
  return input;
}

struct Ran {
  int status;  // exit code, or -signal
  std::string out;
};

// Runs a program with stdout and stderr joined; `prepare` runs in the child first.
Ran run(const std::vector<std::string>& words, const std::function<void()>& prepare = {}) {
  int fds[2];
  GC_CHECK(::pipe(fds) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(fds[1], 1), ::dup2(fds[1], 2), ::close(fds[0]), ::close(fds[1]);
    if (prepare) prepare();
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(fds[1]);
  Ran ran;
  char chunk[4096];
  for (ssize_t n; (n = ::read(fds[0], chunk, sizeof chunk)) > 0;)
    ran.out.append(chunk, static_cast<std::size_t>(n));
  ::close(fds[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return ran;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Artifact, LinksAndRuns) {
  Scratch scratch;
  const ArtifactSizes sizes = link_artifact(input(), scratch / "out");
  EXPECT_EQ(scratch.names(), std::vector<std::string>{"out"});
  EXPECT_EQ(sizes.file, fs::file_size(scratch / "out"));
  EXPECT_EQ(sizes.weights, 4096 + 64 + (3u << 20) + 1);
  EXPECT_GT(sizes.code, 20u);
  EXPECT_LT(sizes.code, 500u);
  EXPECT_GT(sizes.runtime, 500u);
  EXPECT_LT(sizes.runtime, 20000u);
  EXPECT_GT(sizes.system, 300000u);
  EXPECT_LT(sizes.system, 1000000u);
  ASSERT_EQ(sizes.blob_parts.size(), 2u);
  EXPECT_EQ(sizes.blob_parts[0].bytes, 18u);
  EXPECT_EQ(sizes.blob_parts[1].bytes, 0u);  // nothing refers to it
  EXPECT_GE(sizes.file, sizes.code + sizes.runtime + sizes.system + sizes.blobs + sizes.weights);

  const Ran ran = run({scratch / "out"});
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.out, kExpected);
  EXPECT_EQ(run({scratch / "out", "check"}).out, "good\n");
  EXPECT_EQ(
      run({scratch / "out", "info"}).out,
      cat("code ", sizes.code, " runtime ", sizes.runtime, " system ", sizes.system, " blobs ", sizes.blobs,
          " weights ", sizes.weights, "\ntoken_embd 0 1\nblk.0.qkv 64 3145728\noutput 3145792 1\n"));
}

TEST(Artifact, BuildIdsTellProgramsAndWeightsApart) {
  Scratch scratch;
  const auto id = [&](const LinkInput& in) {
    link_artifact(in, scratch / "out");
    const std::string file = contents(scratch / "out");
    const SectionPlace note =
        find_section({reinterpret_cast<const std::uint8_t*>(file.data()), file.size()}, ".note.gc.build-id");
    return file.substr(note.file_offset + 16, 16);
  };
  LinkInput other = input();
  other.blobs[0].bytes[0] ^= 1;
  const std::set<std::string> ids = {id(input()), id(input(weights(2 << 20))), id(other)};
  EXPECT_EQ(ids.size(), 3u);
  EXPECT_EQ(ids.count(id(input())), 1u);
}

TEST(Artifact, SameBytesWhateverItsName) {
  Scratch scratch;
  fs::create_directory(scratch / "a folder");
  link_artifact(input(), scratch / "one");
  LinkInput renamed = input();
  renamed.objects[0].name = "another.o";
  link_artifact(renamed, scratch / "a folder/two \n\xff");
  const std::string one = contents(scratch / "one");
  EXPECT_TRUE(one == contents(scratch / "a folder/two \n\xff"));
  for (const char* leak : {"secret-path", "layers.o", scratch.path().c_str(), "/proc/self/fd", "/usr/lib/gcc",
                           "LLD", "GCC: ", "clang", "generated_function", "bazel-out"})
    EXPECT_EQ(one.find(leak), one.npos) << leak;
}

TEST(Artifact, RunsInAnEmptyRoot) {
  if (::geteuid() != 0) GTEST_SKIP() << "chroot needs root";
  Scratch scratch;
  link_artifact(input(), scratch / "out");
  const Ran ran = run({"/out"}, [&] {
    if (::chroot(scratch.path().c_str()) != 0 || ::chdir("/") != 0) ::_exit(126);
  });
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.out, kExpected);
}

TEST(Artifact, RunsWithoutReadPermission) {
  if (::geteuid() != 0) GTEST_SKIP() << "changing the user needs root";
  Scratch scratch("/tmp");  // Bazel's own folder may lie where no other user gets
  link_artifact(input(), scratch / "out");
  ::chmod((scratch / "out").c_str(), 0111);
  fs::permissions(scratch.path(), fs::perms(0755));
  const Ran ran = run({scratch / "out", "check"}, [] {
    if (::setuid(65534) != 0) ::_exit(126);
  });
  EXPECT_EQ(ran.out, "good\n");
}

// All tools keep the weights, and what they write is still a whole program by its own checksums.
TEST(Artifact, SurvivesStripAndObjcopy) {
  Scratch scratch;
  link_artifact(input(), scratch / "out", {.keep_symbols = true});
  EXPECT_NE(contents(scratch / "out").find("generated_function"), std::string::npos);
  EXPECT_EQ(run({scratch / "out", "check"}).out, "good\n");
  for (const char* tool :
       {"strip", "llvm-strip-22", "objcopy --strip-debug", "llvm-objcopy-22 --strip-debug"}) {
    const std::string command =
        cat(tool, " ", scratch / "out", tool[0] == 'o' || tool[5] == 'o' ? " " : " -o ", scratch / "stripped",
            " 2>&1");
    const Ran stripped = run({"sh", "-c", command});
    if (stripped.status == 127) continue;  // the tool isn't here
    EXPECT_EQ(stripped.status, 0) << tool << ": " << stripped.out;
    EXPECT_EQ(stripped.out, "") << tool;
    EXPECT_EQ(run({scratch / "stripped"}).out, kExpected) << tool;
    EXPECT_EQ(run({scratch / "stripped", "check"}).out, "good\n") << tool;
  }
}

TEST(Artifact, HardenedAndWithoutWarnings) {
  Scratch scratch;
  link_artifact(input(), scratch / "out");
  const Ran ran = run({"readelf", "-W", "-h", "-l", "-S", "-d", "-n", scratch / "out"});
  if (ran.status == 127) GTEST_SKIP() << "no readelf";
  EXPECT_EQ(ran.out.find("Warning"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("DYN (Position-Independent Executable file)"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("GNU_RELRO"), std::string::npos);
  EXPECT_NE(ran.out.find("Flags: NOW PIE"), std::string::npos);
  EXPECT_EQ(ran.out.find("RWE"), std::string::npos);
  EXPECT_EQ(ran.out.find("TEXTREL"), std::string::npos);
  EXPECT_EQ(ran.out.find("INTERP"), std::string::npos);
  EXPECT_EQ(ran.out.find("NEEDED"), std::string::npos);
  EXPECT_NE(ran.out.find("ABI: 3.2.0"), std::string::npos);  // the system's own note is still there
  EXPECT_NE(ran.out.find(".gc.weights       PROGBITS"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("Build ID: "), std::string::npos) << ran.out;
  std::size_t stack = ran.out.find("GNU_STACK");
  ASSERT_NE(stack, std::string::npos);
  EXPECT_NE(ran.out.substr(stack, 90).find(" RW "), std::string::npos);
}

TEST(Artifact, DamageIsFound) {
  Scratch scratch;
  const ArtifactSizes sizes = link_artifact(input(), scratch / "out");
  const std::string good = contents(scratch / "out");
  const std::uint64_t image = sizes.file - sizes.weights;
  const auto damaged = [&](std::uint64_t offset) {
    std::string bytes = good;
    bytes[offset] ^= 1;
    std::ofstream(scratch / "bad", std::ios::binary) << bytes;
    ::chmod((scratch / "bad").c_str(), 0755);
    return run({scratch / "bad", "check"}).out;
  };
  EXPECT_EQ(damaged(image + 16), "bad header\n");
  EXPECT_EQ(damaged(image + sizeof(gc_image_header) + 24), "bad header\n");
  EXPECT_EQ(damaged(image + 4096), "bad section token_embd\n");
  EXPECT_EQ(damaged(image + 4096 + 64 + 1000000), "bad section blk.0.qkv\n");
  EXPECT_EQ(damaged(sizes.file - 1), "bad section output\n");
  EXPECT_EQ(damaged(good.find("a frozen tokenizer")), "bad program\n");
  std::ofstream(scratch / "bad", std::ios::binary) << good.substr(0, good.size() - (1 << 20));
  EXPECT_EQ(run({scratch / "bad", "check"}).out, "truncated\n");
}

LinkInput with_features(bool dynamic) {
  LinkInput features = input();
  features.dynamic = dynamic;
  features.commands = {"features"};
  return features;
}

constexpr char kFeatures[] =
    "constructors 1\nexception thrown, thread's variables gone 1\nwait 50 ms\n"
    "stat good, No such file or directory\nstreams 18 9 word\nrandom ffffffff\ndestructor\n";

// A dynamic program is the same to its user, and to the C and C++ libraries' functions.
TEST(Dynamic, RunsAsAStaticOneDoes) {
  Scratch scratch;
  link_artifact(with_features(false), scratch / "static");
  EXPECT_EQ(run({scratch / "static", "features"}).out, kFeatures);
  const ArtifactSizes sizes = link_artifact(with_features(true), scratch / "out", {.keep_symbols = true});
  EXPECT_LT(sizes.system, 1500000u);
  EXPECT_EQ(run({scratch / "out"}).out, kExpected);
  EXPECT_EQ(run({scratch / "out", "features"}).out, kFeatures);
  EXPECT_EQ(run({scratch / "out", "check"}).out, "good\n");
  const Ran stripped = run({"strip", scratch / "out"});
  if (stripped.status == 127) GTEST_SKIP() << "no strip";
  EXPECT_EQ(stripped.out, "");
  EXPECT_EQ(run({scratch / "out", "features"}).out, kFeatures);
  EXPECT_EQ(run({scratch / "out", "check"}).out, "good\n");
}

// It wants libc and libpthread alone, in versions of 2.17 and before.
TEST(Dynamic, AsksForOldVersionsAlone) {
  Scratch scratch;
  link_artifact(with_features(true), scratch / "out");
  const Ran ran = run({"readelf", "-W", "-l", "-d", "-V", "--dyn-syms", scratch / "out"});
  if (ran.status == 127) GTEST_SKIP() << "no readelf";
  EXPECT_EQ(ran.out.find("Warning"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("/lib64/ld-linux-x86-64.so.2"), std::string::npos);
  std::set<std::string> needed;
  for (std::size_t at = 0; (at = ran.out.find("Shared library: [", at)) != ran.out.npos; ++at)
    needed.insert(ran.out.substr(at + 17, ran.out.find(']', at) - at - 17));
  EXPECT_EQ(needed, (std::set<std::string>{"libc.so.6", "libm.so.6", "libpthread.so.0"}));
  int versions = 0;
  for (std::size_t at = 0; (at = ran.out.find("GLIBC_2.", at)) != ran.out.npos; ++at, ++versions)
    EXPECT_LE(std::atoi(ran.out.c_str() + at + 8), 17) << ran.out.substr(at, 40);
  EXPECT_GT(versions, 20);
  EXPECT_NE(ran.out.find("pthread_cond_timedwait@GLIBC_2.3.2"), std::string::npos);
}

TEST(Dynamic, IsNotMadeForEveryTarget) {
  Scratch scratch;
  LinkInput other = with_features(true);
  other.target = "aarch64-linux-gnu";
  EXPECT_EQ(error_of([&] { link_artifact(other, scratch / "out"); }),
            "programs that open libraries are not made for aarch64-linux-gnu");
}

// Large enough for alignment to huge pages.
TEST(Artifact, AlignsLargeImages) {
  Scratch scratch;
  const ArtifactSizes sizes = link_artifact(input(weights(80 << 20)), scratch / "out");
  EXPECT_EQ((sizes.file - sizes.weights) % (2 << 20), 0u);
  EXPECT_EQ(run({scratch / "out", "check"}).out, "good\n");
}

// Past every 32-bit offset; a test of its own by name, as it writes 5 GB.
TEST(Artifact, DISABLED_FiveGigabytes) {
  Scratch scratch;
  if (fs::space(scratch.path()).available < (12ull << 30)) GTEST_SKIP() << "less than 12 GB of disk";
  const ArtifactSizes sizes = link_artifact(input(weights(5ull << 30)), scratch / "out");
  EXPECT_GT(sizes.file, 5ull << 30);
  EXPECT_EQ(run({scratch / "out"}).out, kExpected);
  EXPECT_EQ(run({scratch / "out", "check"}).out, "good\n");
  EXPECT_EQ(run({"strip", scratch / "out"}).status, 0);
  EXPECT_EQ(run({scratch / "out"}).out, kExpected);
}

TEST(Artifact, SectionsFromSeveralThreads) {
  Scratch scratch;
  WeightImage image;
  constexpr std::size_t kSections = 8, kBytes = 300000;
  for (std::size_t i = 0; i < kSections; ++i)
    image.sections.push_back({cat("part", i), i * (kBytes + 4096), kBytes});
  image.write = [](WeightSink& sink) {
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 2; ++t)
      threads.emplace_back([&sink, t] {
        for (std::size_t i = t; i < kSections; i += 2)
          for (std::size_t done = 0; done < kBytes; done += 1000)
            sink.append(i, std::vector<std::uint8_t>(1000, static_cast<std::uint8_t>(i)));
      });
    for (std::thread& thread : threads) thread.join();
  };
  link_artifact(input(image), scratch / "out");
  EXPECT_EQ(run({scratch / "out", "check"}).out, "good\n");
}

TEST(Artifact, WorksWithoutProc) {
  if (::geteuid() != 0) GTEST_SKIP() << "chroot needs root";
  Scratch scratch;
  const Ran ran = run({"true"}, [&] {
    if (::chroot(scratch.path().c_str()) != 0 || ::chdir("/") != 0) ::_exit(125);
    link_artifact(input(), "/out");
    ::_exit(0);
  });
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_EQ(scratch.names(), std::vector<std::string>{"out"});
  EXPECT_EQ(run({scratch / "out"}).out, kExpected);
  link_artifact(input(), scratch / "usual");
  EXPECT_TRUE(contents(scratch / "out") == contents(scratch / "usual"));
}

TEST(Artifact, FailureLeavesWhatWasThere) {
  Scratch scratch;
  std::ofstream(scratch / "out") << "old";
  LinkInput unlinkable = input();
  unlinkable.objects[0].bytes = emit_object(
      "declare i32 @nowhere()\n"
      "define i32 @generated_function(i32 %x) {\n"
      "  %r = call i32 @nowhere()\n  ret i32 %r\n}\n");
  const std::string text = error_of([&] { link_artifact(unlinkable, scratch / "out"); });
  EXPECT_NE(text.find("undefined symbol: nowhere"), std::string::npos) << text;
  EXPECT_NE(text.find("layers.o"), std::string::npos) << text;  // the input's name, not its descriptor

  LinkInput torn = input(weights(3 << 20, [] { throw_user("model.gguf: shrank while being read"); }));
  EXPECT_EQ(error_of([&] { link_artifact(torn, scratch / "out"); }), "model.gguf: shrank while being read");

  LinkInput short_of = input();
  short_of.weights->write = [](WeightSink&) {};
  EXPECT_NE(
      error_of([&] { link_artifact(short_of, scratch / "out"); }).find("weights token_embd: 0 of 1 bytes"),
      std::string::npos);

  EXPECT_EQ(scratch.names(), std::vector<std::string>{"out"});
  EXPECT_EQ(contents(scratch / "out"), "old");
  // And the linker still works.
  link_artifact(input(), scratch / "out");
  EXPECT_EQ(run({scratch / "out"}).out, kExpected);
}

TEST(Artifact, SignalLeavesNothing) {
  Scratch scratch;
  for (int signal : {SIGINT, SIGTERM}) {
    const Ran ran = run({"true"}, [&] {
      ::signal(signal, [](int number) {
        unlink_live_temp_files();
        ::signal(number, SIG_DFL);
        ::raise(number);
      });
      link_artifact(input(weights(3 << 20, [signal] { ::raise(signal); })), scratch / "out");
    });
    EXPECT_EQ(ran.status, -signal) << ran.out;
    EXPECT_EQ(scratch.names(), std::vector<std::string>{});
  }
}

TEST(Artifact, OutputsThatCannotBe) {
  Scratch scratch;
  const std::string folder = scratch.path().string();
  EXPECT_EQ(error_of([&] { check_output(folder); }), cat("cannot write '", folder, "': Is a directory"));
  EXPECT_EQ(error_of([&] { check_output(scratch / "no/out"); }),
            cat("cannot write '", folder, "/no/out': No such file or directory"));
  EXPECT_NE(error_of([&] { check_output("/dev/full"); }).find("not a regular file"), std::string::npos);
  EXPECT_EQ(error_of([&] { link_artifact(input(), folder); }),
            cat("cannot write '", folder, "': Is a directory"));
  LinkInput other = input();
  other.target = "riscv64-linux-gnu";
  EXPECT_NE(error_of([&] { link_artifact(other, scratch / "out"); }).find("'riscv64-linux-gnu'"),
            std::string::npos);
  EXPECT_EQ(scratch.names(), std::vector<std::string>{});
}

TEST(Artifact, DiskFull) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting needs root";
  Scratch scratch;
  fs::create_directory(scratch / "small");
  if (::mount("none", (scratch / "small").c_str(), "tmpfs", 0, "size=3m") != 0)
    GTEST_SKIP() << "cannot mount";
  const std::string text = error_of([&] { link_artifact(input(), scratch / "small/out"); });
  EXPECT_NE(text.find("small/out': needs 3.8 MiB, the disk has 3.0 MiB left"), std::string::npos) << text;
  EXPECT_TRUE(fs::is_empty(scratch / "small"));
  ::umount((scratch / "small").c_str());
}

TEST(Artifact, SavesTemps) {
  Scratch scratch;
  fs::create_directory(scratch / "temps");
  link_artifact(input(), scratch / "out", {.save_temps_dir = scratch / "temps"});
  for (const char* name : {"layers.o", "gc-data.o", "program.map", "program"})
    EXPECT_TRUE(fs::exists(scratch / cat("temps/", name))) << name;
}

TEST(Artifact, WithoutWeights) {
  Scratch scratch;
  LinkInput bare = input();
  bare.weights.reset();
  const ArtifactSizes sizes = link_artifact(bare, scratch / "out");
  EXPECT_EQ(sizes.file, fs::file_size(scratch / "out"));
  EXPECT_EQ(sizes.weights, 0u);
}

}  // namespace
}  // namespace gc::link
