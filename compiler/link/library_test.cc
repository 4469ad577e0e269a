// Models as parts of programs: libraries are loaded here, objects and archives first linked into one. What C and C++
// compilers and other linkers make of them is in tests/e2e/embed*.sh.
#include "compiler/link/library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "compiler/base/error.h"
#include "compiler/link/api_header.h"
#include "compiler/link/archive_file.h"
#include "compiler/link/lld.h"
#include "compiler/link/testdata/emit.h"
#include "runtime/abi/image.h"

extern "C" const std::uint8_t test_bundle_begin[], test_bundle_end[];

namespace gc::link {
namespace {

namespace fs = std::filesystem;

struct Answer {
  int first, last, generated, blob;
};

class Library : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::path(::testing::TempDir()) / "library-XXXXXX").string();
    GC_CHECK(::mkdtemp(name.data()));
    folder_ = name;
  }
  void TearDown() override {
    if (loaded_) ::dlclose(loaded_);
    fs::remove_all(folder_);
  }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }

  // Weights of `size` bytes that begin with `first` and end with `last`; a function that adds `plus`.
  static LinkInput input(EmitKind emit, const std::string& prefix, std::uint8_t first, std::uint8_t last,
                         int plus, std::uint64_t size = 100'000) {
    LinkInput input;
    input.emit = emit;
    input.prefix = prefix;
    input.objects = {{"layers.o", emit_object(cat("source_filename = \"secret.ll\"\n",
                                                  "define i32 @generated_function(i32 %x) {\n",
                                                  "  %sum = add i32 %x, ", plus, "\n  ret i32 %sum\n}\n"))}};
    input.blobs = {{"test_blob", 16, {first}}};
    input.weights = WeightImage{{{"all", 0, size}}, [=](WeightSink& sink) {
                                  std::vector<std::uint8_t> bytes(size, 7);
                                  bytes.front() = first, bytes.back() = last;
                                  sink.append(0, bytes);
                                }};
    input.carried = {test_bundle_begin, test_bundle_end};
    return input;
  }
  static std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // The files joined into a shared library, as a user's linker would.
  void load(const std::vector<std::string>& files, std::vector<std::string> flags = {"-z", "defs"}) {
    if (files.size() == 1 && files[0].ends_with(".so")) {
      loaded_ = ::dlopen(files[0].c_str(), RTLD_NOW | RTLD_LOCAL);
    } else {
      std::vector<std::string> bytes;
      for (const std::string& file : files) bytes.push_back(contents(file));
      std::vector<LinkerArg> args = {LinkerArg::flag("-shared"), LinkerArg::flag("--whole-archive")};
      for (std::size_t i = 0; i < files.size(); ++i)
        args.push_back(LinkerArg::file(
            files[i], {reinterpret_cast<const std::uint8_t*>(bytes[i].data()), bytes[i].size()}));
      const auto linked = run_lld(args, folder_.string()).program;
      std::ofstream(at("joined.so"), std::ios::binary)
          .write(reinterpret_cast<const char*>(linked.data()), static_cast<std::streamsize>(linked.size()));
      loaded_ = ::dlopen(at("joined.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    }
    ASSERT_NE(loaded_, nullptr) << ::dlerror();
  }
  Answer ask(const std::string& prefix, int question) {
    using Ask = int(int, Answer*);
    auto* f = reinterpret_cast<Ask*>(::dlsym(loaded_, (prefix + "_ask").c_str()));
    Answer answer{};
    EXPECT_NE(f, nullptr);
    if (f) EXPECT_EQ(f(question, &answer), 0);
    return answer;
  }
  void expect(const Answer& a, int first, int last, int generated) {
    EXPECT_EQ(a.first, first);
    EXPECT_EQ(a.last, last);
    EXPECT_EQ(a.generated, generated);
    EXPECT_EQ(a.blob, first);
  }

  fs::path folder_;
  void* loaded_ = nullptr;
};

TEST_F(Library, Shared) {
  LinkInput in = input(EmitKind::kShared, "one", 11, 12, 1);
  in.header_path = at("one.h");
  const ArtifactSizes sizes = link_artifact(in, at("libone.so"));
  EXPECT_EQ(sizes.file, fs::file_size(at("libone.so")));
  EXPECT_GT(sizes.runtime, 100u);
  EXPECT_GT(sizes.code, 3u);
  load({at("libone.so")});
  expect(ask("one", 41), 11, 12, 42);
  EXPECT_EQ(::dlsym(loaded_, "same_name_in_every_model"), nullptr);
  EXPECT_EQ(::dlsym(loaded_, "gcm_ask"), nullptr);
  const std::string bytes = contents(at("libone.so"));
  for (const char* leak : {"secret.ll", "LLD", "clang", "generated_function", "gcm_", "test_blob"})
    EXPECT_EQ(bytes.find(leak), bytes.npos) << leak;
  EXPECT_NE(contents(at("one.h")).find("one_ask(int question"), std::string::npos);
}

TEST_F(Library, TwoObjectsInOneProgram) {
  link_artifact(input(EmitKind::kObject, "one", 11, 12, 1), at("one.o"));
  link_artifact(input(EmitKind::kObject, "two", 21, 22, 2), at("two.o"));
  load({at("one.o"), at("two.o")});
  expect(ask("one", 41), 11, 12, 42);
  expect(ask("two", 41), 21, 22, 43);
  EXPECT_EQ(::dlsym(loaded_, "same_name_in_every_model"), nullptr);
  const std::string bytes = contents(at("one.o"));
  for (const char* leak : {"secret.ll", "LLD", "clang"}) EXPECT_EQ(bytes.find(leak), bytes.npos) << leak;
}

TEST_F(Library, Archive) {
  for (std::uint64_t size : {99'999u, 100'000u}) {
    const ArtifactSizes sizes =
        link_artifact(input(EmitKind::kArchive, "one", 11, 12, 1, size), at(cat("lib", size, ".a")));
    EXPECT_EQ(sizes.file, fs::file_size(at(cat("lib", size, ".a"))));
    EXPECT_EQ(sizes.file % 2, 0u);
    load({at(cat("lib", size, ".a"))});
    expect(ask("one", 41), 11, 12, 42);
    ::dlclose(std::exchange(loaded_, nullptr));
  }
}

TEST_F(Library, SameBytesAgain) {
  for (EmitKind emit : {EmitKind::kObject, EmitKind::kArchive, EmitKind::kShared}) {
    link_artifact(input(emit, "one", 11, 12, 1), at("one"));
    fs::create_directories(at("other"));
    link_artifact(input(emit, "one", 11, 12, 1), at("other/one"));
    EXPECT_TRUE(contents(at("one")) == contents(at("other/one")));
  }
}

TEST_F(Library, WeightsBeside) {
  for (EmitKind emit : {EmitKind::kObject, EmitKind::kShared}) {
    LinkInput in = input(emit, "one", 11, 12, 1);
    EXPECT_FALSE(has_sidecar(in));
    in.weights_place = WeightsPlace::kExternal;
    EXPECT_TRUE(has_sidecar(in));
    const std::string out = at(emit == EmitKind::kShared ? "one.so" : "one.o");
    const ArtifactSizes sizes = link_artifact(in, out);
    EXPECT_EQ(sizes.weights, fs::file_size(out + ".weights"));
    EXPECT_LT(sizes.file, 50'000u);
    const std::string image = contents(out + ".weights");
    EXPECT_TRUE(gc_image_check_header(reinterpret_cast<const gc_image_header*>(image.data()), image.size()));
    load({out});
    auto* name = reinterpret_cast<const char* (*)()>(::dlsym(loaded_, "one_sidecar"));
    ASSERT_NE(name, nullptr);
    // A program of any name looks for what the object's was; a library for its own.
    EXPECT_STREQ(name(), emit == EmitKind::kShared ? "" : "one.o.weights");
    ::dlclose(std::exchange(loaded_, nullptr));
  }
  LinkInput large = input(EmitKind::kObject, "one", 11, 12, 1);
  large.weights->sections[0].size = std::uint64_t{3} << 30;
  EXPECT_TRUE(has_sidecar(large));
  large.emit = EmitKind::kShared;
  EXPECT_FALSE(has_sidecar(large));
}

TEST_F(Library, FailureLeavesNothing) {
  LinkInput torn = input(EmitKind::kShared, "one", 11, 12, 1);
  torn.header_path = at("one.h");
  torn.weights_place = WeightsPlace::kExternal;
  torn.weights->write = [](WeightSink&) { throw_user("shrank"); };
  EXPECT_THROW(link_artifact(torn, at("one.so")), UserError);
  EXPECT_TRUE(fs::is_empty(folder_));
  LinkInput bad = input(EmitKind::kObject, "9lives", 11, 12, 1);
  EXPECT_THROW(link_artifact(bad, at("one.o")), UserError);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST(ApiHeader, Prefixes) {
  EXPECT_EQ(prefix_from("out/libgemma3.so"), "gemma3");
  EXPECT_EQ(prefix_from("gemma-3-270m.o"), "gemma_3_270m");
  EXPECT_EQ(prefix_from("4b.a"), "m4b");
  EXPECT_EQ(prefix_from("lib"), "lib");
  EXPECT_EQ(prefix_from("\xff"), "m_");
  check_prefix("a_9");
  for (const char* bad : {"", "_a", "9a", "a-b", "\xc3\xa9"})
    EXPECT_THROW(check_prefix(bad), UserError) << bad;
}

TEST(ApiHeader, RenamesWholePrefixesOnly) {
  EXPECT_EQ(with_prefix("gcm_ask GCM_OK xgcm_ gcmx (gcm_a)", "m1"), "m1_ask M1_OK xgcm_ gcmx (m1_a)");
  EXPECT_EQ(api_functions("#define GCM_API\nGCM_API int\n gcm_a(int);\nGCM_API const char *gcm_b(void);\n"),
            (std::vector<std::string>{"gcm_a", "gcm_b"}));
  EXPECT_EQ(make_header("x", "m1", {"a */ b\n", "c"}), "/* a * / b \n * c\n */\nx");
}

TEST(ArchiveFile, TooLarge) {
  EXPECT_THROW(archive_head("model.o", 10'000'000'000, {"a"}), UserError);
  EXPECT_EQ(archive_head("model.o", 9'999'999'999, {"a", "bc"}).size() % 16, 0u);
}

}  // namespace
}  // namespace gc::link
