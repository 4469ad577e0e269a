// The program as its users run it, around a fake model: what comes out where, and with which exit code.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/apps/cli/testdata/run_program.h"

namespace {

namespace fs = std::filesystem;
using cli::kProgram;
using cli::Ran;
using cli::run;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

class Cli : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/cli-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) { return folder_ + "/" + name; }
  size_t files() { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {})); }
  std::string folder_;
};

#define EXPECT_FAILS(ran, text)                                     \
  do {                                                              \
    const Ran r = ran;                                              \
    EXPECT_EQ(r.status, 1);                                         \
    EXPECT_EQ(r.err, std::string("fake: error: ") + (text) + "\n"); \
  } while (0)

// ---- complete ----

TEST_F(Cli, PrintsThePromptAndWhatFollows) {
  const Ran r = run({"-p", "abc", "--temp", "0", "-n", "4"});
  EXPECT_EQ(r.status, 0);
  EXPECT_EQ(r.out, "abcdefg\n");
  EXPECT_NE(r.err.find("prompt:      4 tokens"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("generation:  4 tokens"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("seed:"), std::string::npos) << r.err;
}

TEST_F(Cli, NoPerfIsSilent) {
  const Ran r = run({"-p", "w", "--temp", "0", "--no-perf", "--no-display-prompt"});
  EXPECT_EQ(r.status, 0);
  EXPECT_EQ(r.out, "xyz\n");
  EXPECT_EQ(r.err, "");
}

TEST_F(Cli, PromptsFromFiles) {
  write_file(path("p"), "ab\\x41b\n");
  EXPECT_EQ(run({"-f", path("p"), "--temp", "0", "-n", "1", "--no-perf"}).out, "abAbc\n");
  EXPECT_EQ(run({"-f", path("p"), "-n", "1", "--temp", "0", "--no-escape"}).out, "ab\\x41bc\n");
  EXPECT_EQ(run({"-bf", path("p"), "-n", "1", "--temp", "0"}).out, "ab\\x41b\n\v\n");
  // Any bytes, from standard input.
  const std::string odd("a\0\xff b", 5);
  EXPECT_EQ(run({"-f", "-", "-n", "1", "--temp", "0"}, {.input = odd}).out, odd + "c\n");
  EXPECT_FAILS(run({"-f", path("none")}), "cannot open '" + path("none") + "': No such file or directory");
  EXPECT_FAILS(run({"-f", folder_}), "cannot read '" + folder_ + "': Is a directory");
}

TEST_F(Cli, TokenIds) {
  EXPECT_EQ(run({"--tokens", "1, 100", "--ids", "-n", "3", "--temp", "0"}).out, "1,100,101,102,103\n");
  EXPECT_EQ(run({"--tokens", "259", "--temp", "0"}).out, "Hello world!\n");
  EXPECT_EQ(run({"--tokens", "259", "--temp", "0", "--stop", "ld", "--no-display-prompt"}).out, " wor\n");
  EXPECT_FAILS(run({"--tokens", "1,x2"}), "'x2' is not a token id");
  EXPECT_FAILS(run({"--tokens", "1,-2"}), "'-2' is not a token id");
  EXPECT_FAILS(run({"--tokens", "99999999999"}), "'99999999999' is not a token id");
  EXPECT_FAILS(run({"--tokens", "300", "--ids"}), "token 300: the model has 300 tokens");
  EXPECT_FAILS(run({"--tokens", "1", "-p", "x"}),
               "more than one prompt: -p, -f, -bf and --tokens exclude each other");
}

TEST_F(Cli, SeedsRepeat) {
  const std::vector<std::string> words = {"-p",      "0", "-n",      "30", "--temp", "30",
                                          "--top-p", "1", "--min-p", "0",  "--ids"};
  auto with = [&](const char* seed) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {"-s", seed});
    return run(all).out;
  };
  EXPECT_EQ(with("5"), with("5"));
  EXPECT_NE(with("5"), with("6"));
  EXPECT_NE(with("-1"), with("-1"));
}

TEST_F(Cli, ContextsEnd) {
  const Ran r = run({"-p", "0", "--temp", "0", "-c", "10", "--no-perf"});
  EXPECT_EQ(r.status, 0);
  EXPECT_EQ(r.out, "0000000000\n");  // <s> and '0' leave room for 8, and the last one is not run
  EXPECT_EQ(r.err, "fake: the context of 10 tokens is full (-c)\n");
  EXPECT_FAILS(run({"-p", "0123456789", "-c", "4", "--no-display-prompt"}),
               "the prompt has 11 tokens, and the context 4 (-c)");
  EXPECT_FAILS(run({"-p", "0", "-c", "1048577"}),
               "a context of 1048577 is more than the 1048576 positions that this file was compiled for");
}

TEST_F(Cli, BadNumbersAndModels) {
  EXPECT_FAILS(run({"-p", "N", "--no-display-prompt"}), "the model's output is not a number");
  EXPECT_FAILS(run({"-p", "a", "-ctk", "q8_0", "-ctv", "q8_0"}),
               "this file has no code for a KV cache of q8_0; it has f32, f16");
  EXPECT_FAILS(run({"-p", "a", "--isa", "none"}), "this file has no program 'none'; it has: test other");
  EXPECT_FAILS(run({"-p", "a", "--repeat-penalty", "0"}), "repeat_penalty must be above 0");
  EXPECT_FAILS(run({"-p", "a", "--samplers", "top_k;what"}), "no sampler is called 'what'");
  EXPECT_FAILS(run({"-p", "a\nb", "--tem\np"}), "unknown flag '--tem?p'; did you mean --temp?");
}

TEST_F(Cli, SamplersByFlags) {
  // A bias decides; a ban, too.
  const Ran base = run({"-p", "0", "--temp", "0", "-n", "1", "--ids", "--no-perf", "--no-display-prompt"});
  EXPECT_EQ(base.status, 0);
  const std::string first(base.out.substr(0, base.out.find_first_of(",\n")));
  const Ran banned = run({"-p", "0", "--temp", "0", "-n", "1", "--ids", "--no-perf", "--no-display-prompt",
                          "-l", first + "-inf"});
  EXPECT_EQ(banned.status, 0);
  EXPECT_NE(banned.out, base.out);
  EXPECT_FAILS(run({"-p", "a", "--logit-bias", "3"}),
               "--logit-bias: '3' is not a token id, + or -, and a number");
  EXPECT_FAILS(run({"-p", "a", "--sampler-seq", "kq"}), "no sampler has the letter 'q'");
  EXPECT_FAILS(run({"-p", "a", "--typical", "nan"}), "--typical: 'nan' is not a number");
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--mirostat", "2", "--mirostat-lr", "0.2", "--mirostat-ent", "4"},
        {"--mirostat", "1"},
        {"--dry-multiplier", "0.8", "--dry-sequence-breaker", "none"},
        {"--dry-multiplier", "0.8", "--xtc-probability", "0.5", "--typical", "0.9", "--top-nsigma", "2"},
        {"--sampler-seq", "edskypmxta", "--adaptive-target", "0.5", "--dynatemp-range", "0.2"}}) {
    std::vector<std::string> all = {"-p", "0", "-n", "8", "-s", "7", "--no-perf"};
    all.insert(all.end(), more.begin(), more.end());
    const Ran a = run(all), b = run(all);
    EXPECT_EQ(a.status, 0) << a.err;
    EXPECT_EQ(a.out, b.out);
  }
}

TEST_F(Cli, ClosedOutputEndsQuietly) {
  const Ran r = run({"-p", "0", "--temp", "0", "-c", "100000"}, {.in_child = [] {
                      int fds[2];
                      if (pipe(fds)) _exit(126);
                      close(fds[0]);
                      dup2(fds[1], 1);
                    }});
  EXPECT_EQ(r.status, 1);
  EXPECT_EQ(r.err, "");
  const Ran full = run({"-p", "0", "--temp", "0", "-c", "1000"},
                       {.in_child = [] { dup2(open("/dev/full", O_WRONLY), 1); }});
  EXPECT_EQ(full.status, 1);
  EXPECT_EQ(full.err, "fake: error: cannot write: No space left on device\n");
}

TEST_F(Cli, InterruptEndsTheGeneration) {
  bool sent = false;
  const Ran r =
      run({"-p", "S", "--temp", "0", "-c", "100000"}, {.on_output = [&](pid_t child, const std::string& out) {
            if (!sent && out.size() > 5) kill(child, SIGINT), sent = true;
          }});
  EXPECT_EQ(r.status, 130);
  EXPECT_LT(r.out.size(), 2000u);
  EXPECT_EQ(r.out.back(), '\n');
  EXPECT_NE(r.err.find("generation:"), std::string::npos) << r.err;
}

#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)  // they need the addresses
TEST_F(Cli, SaysWhatMemoryItNeeds) {
  const Ran r = run({"-p", "a", "-c", "1000000"}, {.in_child = [] {
                      // Over what the program itself maps, under a million positions of a kilobyte.
                      const rlimit limit = {512 << 20, 512 << 20};
                      setrlimit(RLIMIT_AS, &limit);
                    }});
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("not enough memory: a context of 1000000 needs"), std::string::npos) << r.err;
}
#endif

// ---- the rest ----

TEST_F(Cli, NothingToDo) {
  EXPECT_FAILS(run({}), "nothing to do: -p TEXT continues a text; see 'fake help'");
  EXPECT_FAILS(run({"serve"}), "this file was made without 'serve': the compiler's --with adds it");
  EXPECT_FAILS(run({"sing"}), "unexpected argument 'sing': a prompt is given with -p; see 'help'");
  const Ran help = run({"help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_NE(help.out.find("tokenize"), std::string::npos);
  EXPECT_NE(help.out.find("--repeat-penalty X"), std::string::npos);
  EXPECT_NE(run({"bench", "-h"}).out.find("-npl N,N"), std::string::npos);
  EXPECT_EQ(run({"--version"}).out, "test 1\nfake?[2J \"model\": test other\n");
}

TEST_F(Cli, Tokenize) {
  EXPECT_EQ(run({"tokenize", "--ids", "ab"}).out, "1,100,101\n");
  EXPECT_EQ(run({"tokenize", "--ids", "--no-bos", "ab"}).out, "100,101\n");
  EXPECT_EQ(run({"tokenize", "ab"}).out, "     1 -> '<s>'\n   100 -> 'a'\n   101 -> 'b'\n");
  EXPECT_EQ(run({"tokenize", "--ids", "--no-bos", "--stdin"}, {.input = std::string("\0\xff", 2)}).out,
            "3,258\n");
  EXPECT_EQ(run({"tokenize", "--ids", ""}).out, "1\n");
  EXPECT_EQ(run({"tokenize", "--ids", "--no-bos", "--", "-h"}).out, "48,107\n");
  EXPECT_FAILS(run({"tokenize"}), "nothing to tokenize: TEXT, -f FILE or --stdin");
  EXPECT_FAILS(run({"tokenize", "a", "b"}),
               "more than one text: quote it, or give one of TEXT, -f FILE and --stdin");
}

std::vector<float> floats(const std::string& path) {
  const std::string bytes = contents(path);
  std::vector<float> values(bytes.size() / 4);
  memcpy(values.data(), bytes.data(), values.size() * 4);
  return values;
}

TEST_F(Cli, Logits) {
  std::string ids = "1";
  for (int i = 0; i < 39; ++i) ids += "," + std::to_string(100 + i % 7);
  ASSERT_EQ(run({"logits", "--tokens", ids, "-o", path("prompt")}).status, 0);
  const std::vector<float> logits = floats(path("prompt"));
  ASSERT_EQ(logits.size(), 40u * 300);
  EXPECT_EQ(logits[300 + 101], 10);        // after id 100
  EXPECT_EQ(logits[300 + 299], -1 - 101);  // 1 + 100 so far
  write_file(path("ids"), ids + "\n");
  ASSERT_EQ(run({"logits", "--tokens-file", path("ids"), "--decode", "-o", path("decode")}).status, 0);
  ASSERT_EQ(run({"logits", "--tokens", ids, "-ub", "7", "-o", path("chunks")}).status, 0);
  EXPECT_EQ(floats(path("decode")), logits);
  EXPECT_EQ(floats(path("chunks")), logits);
  EXPECT_EQ(files(), 4u);  // no temporary is left
}

TEST_F(Cli, LogitsThatFail) {
  write_file(path("old"), "old");
  EXPECT_FAILS(run({"logits", "--tokens", "1,300", "-o", path("old")}),
               "token 300: the model has 300 tokens");
  EXPECT_FAILS(run({"logits", "--tokens", "1", "-o", folder_ + "/no/file"}),
               "cannot write '" + folder_ + "/no/file': No such file or directory");
  EXPECT_FAILS(run({"logits", "--tokens", "1"}), "no output: -o FILE");
  EXPECT_FAILS(run({"logits", "--tokens", "", "-o", path("old")}), "there are no tokens");
  EXPECT_FAILS(run({"logits", "--tokens", "1,2,3", "-c", "2", "-o", path("old")}),
               "there are 3 tokens, and the context has 2 (-c)");
  EXPECT_FAILS(run({"logits", "--tokens", "1,2", "-o", "/dev/full"}),
               "cannot write '/dev/full': No space left on device");
  EXPECT_EQ(contents(path("old")), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(Cli, Info) {
  const Ran text = run({"info"});
  EXPECT_EQ(text.status, 0);
  EXPECT_NE(text.out.find("fake?[2J \"model\"\n"), std::string::npos);
  EXPECT_NE(text.out.find("memory for a context of 64"), std::string::npos) << text.out;
  const Ran json = run({"info", "--json", "-c", "128"});
  EXPECT_EQ(json.status, 0);
  for (const char* part : {"\"name\": \"fake\\u001b[2J \\\"model\\\"\"", "\"n_ctx\": 128",
                           "\"kv_bytes\": {\"f32\": 131072, \"f16\": 131072}", "\"code_bytes\": 11",
                           "\"weights_bytes\": 1052672"})
    EXPECT_NE(json.out.find(part), std::string::npos) << part << " in " << json.out;
}

#if !__has_feature(address_sanitizer)  // the checksum of the program reads what lies between variables
TEST_F(Cli, CheckReadsItAll) {
  const Ran good = run({"check"});
  EXPECT_EQ(good.status, 0) << good.out << good.err;
  EXPECT_EQ(good.out, "good: program, tokenizer and 2 sections of weights, 1052672 bytes\n");
}

TEST_F(Cli, CheckNamesWhatIsDamaged) {
  fs::create_symlink(fs::absolute(kProgram), path("fake-damaged"));
  const Ran r = run({"check"}, {.program = path("fake-damaged")});
  EXPECT_EQ(r.status, 1);
  EXPECT_EQ(r.out, "damaged: weights 'two', 524288 bytes\n");
  EXPECT_EQ(r.err, "fake-damaged: error: 1 part of this file is damaged\n");
}

#endif

TEST_F(Cli, Bench) {
  const Ran md = run({"bench", "-p", "8", "-n", "4", "-npl", "1,3", "-r", "2", "-t", "1"});
  EXPECT_EQ(md.status, 0) << md.err;
  for (const char* part : {"read bandwidth: ", " GOPS of fmul", "|             pp8 |", "|             tg4 |",
                           "|        tg4 npl3 |", "share_of_bound"})
    EXPECT_NE(md.out.find(part), std::string::npos) << part << " in\n" << md.out;
  const Ran json = run({"bench", "-p", "8", "-n", "0", "-r", "2", "-o", "json"});
  EXPECT_EQ(json.status, 0) << json.err;
  for (const char* part :
       {"\"n_prompt\": 8", "\"n_gen\": 0", "\"avg_ts\": ", "\"stddev_ts\": ", "\"samples_ns\": [",
        "\"peak_unit\": \"fmul\"", "\"gops\": ", "\"share_of_bound\": "})
    EXPECT_NE(json.out.find(part), std::string::npos) << part << " in\n" << json.out;
  const Ran csv = run({"bench", "-p", "0", "-n", "4", "-r", "1", "-o", "csv"});
  EXPECT_EQ(csv.status, 0) << csv.err;
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 2);
  EXPECT_FAILS(run({"bench", "-p", "0", "-n", "0"}), "nothing to measure: -p and -n are 0");
}

}  // namespace
