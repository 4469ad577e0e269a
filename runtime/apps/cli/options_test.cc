#include "runtime/apps/cli/options.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace gcrt {
namespace {

struct Parsed {
  Status status;
  Options options;
  std::string message;
};

Parsed parse(Command command, std::vector<std::string> words) {
  Parsed p;
  words.insert(words.begin(), "model");
  // Flags of text kind point into the arguments, as those of main would.
  static std::vector<std::vector<std::string>> kept;
  kept.push_back(std::move(words));
  std::vector<char*> argv;
  for (std::string& word : kept.back()) argv.push_back(word.data());
  argv.push_back(nullptr);
  char text[256] = "";
  p.status = parse_options(command, static_cast<int>(argv.size()) - 1, argv.data(), &p.options, text);
  p.message = text;
  return p;
}

TEST(Options, AllWaysToWriteAFlag) {
  const std::vector<std::vector<std::string>> ways = {
      {"-n", "48"},          {"-n48"},        {"--predict", "48"}, {"--predict=48"}, {"-predict", "48"},
      {"--n-predict", "48"}, {"--pred", "48"}};
  for (const auto& words : ways) {
    const Parsed p = parse(Command::kComplete, words);
    EXPECT_EQ(p.status, kOk) << words[0] << ": " << p.message;
    EXPECT_EQ(p.options.n_predict, 48) << words[0];
  }
}

TEST(Options, EveryFlagOfComplete) {
  const Parsed p = parse(Command::kComplete, {"-p",
                                              "-dash",
                                              "-c",
                                              "100",
                                              "-t",
                                              "3",
                                              "-b",
                                              "64",
                                              "-ub",
                                              "32",
                                              "-s",
                                              "18446744073709551615",
                                              "--temp",
                                              "0.5",
                                              "--top-k",
                                              "5",
                                              "--top-p",
                                              "0.25",
                                              "--min-p",
                                              "0",
                                              "--repeat-penalty",
                                              "1.5",
                                              "--repeat-last-n",
                                              "-1",
                                              "--presence-penalty",
                                              "-0.5",
                                              "--frequency-penalty",
                                              "1e-1",
                                              "--ignore-eos",
                                              "--no-display-prompt",
                                              "-ctk",
                                              "f32",
                                              "-ctv",
                                              "f32",
                                              "--isa",
                                              "x",
                                              "--no-escape",
                                              "--no-perf",
                                              "--stop",
                                              "a",
                                              "--stop",
                                              "b",
                                              "--ids"});
  ASSERT_EQ(p.status, kOk) << p.message;
  const Options& o = p.options;
  EXPECT_STREQ(o.prompt, "-dash");
  EXPECT_EQ(o.n_ctx, 100);
  EXPECT_EQ(o.threads, 3);
  EXPECT_EQ(o.n_batch, 64);
  EXPECT_EQ(o.n_ubatch, 32);
  EXPECT_EQ(o.seed, UINT64_MAX);
  EXPECT_FALSE(o.random_seed);
  EXPECT_EQ(o.temp, 0.5f);
  EXPECT_EQ(o.top_k, 5);
  EXPECT_EQ(o.top_p, 0.25f);
  EXPECT_EQ(o.min_p, 0.0f);
  EXPECT_EQ(o.repeat_penalty, 1.5f);
  EXPECT_EQ(o.repeat_last_n, -1);
  EXPECT_EQ(o.presence_penalty, -0.5f);
  EXPECT_EQ(o.frequency_penalty, 0.1f);
  EXPECT_TRUE(o.ignore_eos);
  EXPECT_FALSE(o.display_prompt);
  EXPECT_EQ(o.cache_k, static_cast<uint32_t>(GC_KV_F32));
  EXPECT_STREQ(o.isa, "x");
  EXPECT_FALSE(o.escape);
  EXPECT_FALSE(o.perf);
  EXPECT_TRUE(o.ids);
  ASSERT_EQ(o.stops.n, 2u);
  EXPECT_STREQ(o.stops.values[1], "b");
}

TEST(Options, UnsetMeansTheModelsOwn) {
  const Options o = parse(Command::kComplete, {}).options;
  EXPECT_TRUE(std::isnan(o.temp) && std::isnan(o.top_p) && std::isnan(o.min_p) &&
              std::isnan(o.repeat_penalty));
  EXPECT_EQ(o.repeat_last_n, Options::kUnset);
  EXPECT_EQ(o.mirostat, Options::kUnset);
  EXPECT_TRUE(std::isnan(o.xtc_probability));
  EXPECT_EQ(o.top_k, Options::kUnset);
  EXPECT_TRUE(o.random_seed);
  EXPECT_EQ(o.n_predict, -1);
}

TEST(Options, SameLettersMeanWhatTheCommandSays) {
  const Parsed p =
      parse(Command::kBench, {"-p", "16,32", "-n", "8", "-npl", "1,8,16", "-r", "2", "-o", "json"});
  ASSERT_EQ(p.status, kOk) << p.message;
  EXPECT_EQ(p.options.bench_prompt.n, 2u);
  EXPECT_EQ(p.options.bench_prompt.values[1], 32);
  EXPECT_EQ(p.options.bench_gen.values[0], 8);
  EXPECT_EQ(p.options.bench_sequences.values[2], 16);
  EXPECT_EQ(p.options.repetitions, 2);
  EXPECT_EQ(p.options.bench_format, static_cast<uint32_t>(BenchFormat::kJson));
  const Parsed l = parse(Command::kLogits, {"--tokens", "1,2", "-o", "F", "--decode"});
  ASSERT_EQ(l.status, kOk) << l.message;
  EXPECT_STREQ(l.options.output, "F");
  EXPECT_TRUE(l.options.decode);
}

TEST(Options, WordsKeepTheirOrder) {
  const Parsed p = parse(Command::kTokenize, {"a", "--ids", "b", "--", "--no-bos"});
  ASSERT_EQ(p.status, kOk) << p.message;
  ASSERT_EQ(p.options.words.n, 3u);
  EXPECT_STREQ(p.options.words.values[0], "a");
  EXPECT_STREQ(p.options.words.values[1], "b");
  EXPECT_STREQ(p.options.words.values[2], "--no-bos");
  EXPECT_TRUE(p.options.ids);
  EXPECT_TRUE(p.options.add_bos);
}

struct Wrong {
  Command command;
  std::vector<std::string> words;
  const char* message;
};
const Wrong kWrong[] = {
    {Command::kComplete, {"--device", ""}, "--device: the name is empty"},
    {Command::kComplete, {"--isa", ""}, "--isa: the name is empty"},
    {Command::kComplete, {"-n", "x"}, "-n: 'x' is not a whole number"},
    {Command::kComplete, {"-n", "1.5"}, "-n: '1.5' is not a whole number"},
    {Command::kComplete, {"-n", ""}, "-n: '' is not a whole number"},
    {Command::kComplete, {"-n", "99999999999999999999"}, "-n: '99999999999999999999' is not a whole number"},
    {Command::kComplete, {"-n", "-3"}, "-n: -3 is out of range: -2 to 2147483647"},
    {Command::kComplete, {"-c", "-1"}, "-c: -1 is out of range: 0 to 2147483647"},
    {Command::kComplete, {"-t", "4097"}, "-t: 4097 is out of range: -1 to 4096"},
    {Command::kComplete, {"--temp", "nan"}, "--temp: 'nan' is not a number"},
    {Command::kComplete, {"--temp", "1e99"}, "--temp: '1e99' is not a number"},
    {Command::kComplete, {"--top-p", "0,9"}, "--top-p: '0,9' is not a number"},
    {Command::kComplete, {"-s", "-2"}, "-s: '-2' is not a seed: a whole number from 0, or -1"},
    {Command::kComplete, {"-ctk", "f64"}, "-ctk: 'f64' is none of f32, f16, bf16, q8_0"},
    {Command::kComplete,
     {"-ctk", "f32", "-ctv", "f16"},
     "-ctk f32 and -ctv f16: keys and values have the same type"},
    {Command::kComplete, {"--stop", ""}, "--stop: the text is empty"},
    {Command::kComplete, {"-p"}, "'-p' needs a value"},
    {Command::kComplete, {"--ignore-eos=1"}, "--ignore-eos takes no value"},
    {Command::kComplete, {"--temprature", "1"}, "unknown flag '--temprature'; did you mean --temperature?"},
    {Command::kComplete, {"--top_k=3"}, "unknown flag '--top_k'; did you mean --top-k?"},
    {Command::kComplete, {"-upb", "3"}, "unknown flag '-upb'; did you mean -ub?"},
    {Command::kComplete, {"--nothing-like-it"}, "unknown flag '--nothing-like-it'"},
    {Command::kComplete, {"-Z"}, "unknown flag '-Z'"},
    {Command::kComplete, {"--decode"}, "unknown flag '--decode': it belongs to 'logits'"},
    {Command::kBench, {"-p", "1,x"}, "-p: '1,x' is not a list of whole numbers"},
    {Command::kBench, {"-npl", "0"}, "-npl: 0 is out of range: 1 to 1024"},
    {Command::kBench, {"-o", "xml"}, "-o: 'xml' is none of md, json, csv"},
};

TEST(Options, WrongOnesAreExplained) {
  for (const Wrong& w : kWrong) {
    const Parsed p = parse(w.command, w.words);
    EXPECT_EQ(p.status, kErrInput) << w.message;
    EXPECT_EQ(p.message, w.message);
  }
}

TEST(Options, Commands) {
  Command command = Command::kComplete;
  EXPECT_TRUE(find_command("bench", &command));
  EXPECT_EQ(command, Command::kBench);
  EXPECT_FALSE(find_command("ben", &command));
}

TEST(Options, CompleteAndChatTogether) {
  std::vector<std::string> words = {"model",    "-p", "a",      "-sys", "b",   "-st",
                                    "--prompt", "c",  "--keep", "-1",   "-co", "off"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  Options o;
  char text[256] = "";
  ASSERT_EQ(parse_options(Command::kComplete, 12, argv.data(), &o, text, true), kOk) << text;
  EXPECT_EQ(std::string(o.prompt), "c");
  EXPECT_EQ(std::string(o.system), "b");
  EXPECT_TRUE(o.single_turn);
  EXPECT_EQ(o.keep, -1);
  EXPECT_EQ(o.color, static_cast<uint32_t>(Color::kOff));
  EXPECT_EQ(parse(Command::kChat, {"--keep", "3"}).status, kErrInput);
  EXPECT_EQ(parse(Command::kComplete, {"--single-turn"}).message,
            "unknown flag '--single-turn': it belongs to 'chat'");
}

}  // namespace
}  // namespace gcrt
