// A chat as its users have it, around a fake model: with pipes, and on a terminal. The model answers with the letters
// that follow the message's last one, up to 'z'; after 'S' it answers slowly and for ever.
#include <gtest/gtest.h>
#include <pty.h>
#include <termios.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/apps/cli/testdata/run_program.h"

namespace {

namespace fs = std::filesystem;
using cli::Ran;
using cli::run;

std::vector<std::string> chat(std::vector<std::string> words) {
  words.insert(words.begin(), {"chat", "--temp", "0"});
  return words;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ChatTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/chat-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) { return folder_ + "/" + name; }
  std::string folder_;
};

// ---- Pipes ----

TEST_F(ChatTest, AnswersLines) {
  const Ran r = run(chat({}), {.input = "w\n\nx\n"});
  EXPECT_EQ(r.status, 0);
  EXPECT_EQ(r.out, "xyz\nyz\n");
  EXPECT_EQ(r.err, "");
}

TEST_F(ChatTest, KeepsWhatTheModelHasRead) {
  const Ran r = run(chat({"-v"}), {.input = "w\nx"});
  EXPECT_EQ(r.out, "xyz\nyz\n");
  // <s>[user]w: 8 tokens. Then [user]x comes in addition to the answer, of which all but the end was read.
  EXPECT_NE(r.err.find("[prompt: 8 tokens, "), std::string::npos) << r.err;
  EXPECT_NE(r.err.find(" 0 kept; answer: 4 tokens"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find(" 8 kept; answer: 3 tokens"), std::string::npos) << r.err;
}

TEST_F(ChatTest, OneTurn) {
  EXPECT_EQ(run({"-st", "--temp", "0", "-p", "w"}, {.input = "x"}).out, "xyz\n");
  EXPECT_EQ(run({"-st", "--temp", "0"}, {.input = "/exit\nmore\nx\n"}).out, "yz\n");
  EXPECT_EQ(run({"-cnv", "--temp", "0", "-p", "w"}, {.input = "x"}).out, "xyz\nyz\n");
  EXPECT_EQ(run({"-no-cnv", "--temp", "0", "--no-perf", "-p", "w"}).out, "wxyz\n");
  const Ran r = run({"-st"});
  EXPECT_EQ(r.status, 1);
  EXPECT_EQ(r.err, "fake: error: there is no message\n");
}

TEST_F(ChatTest, TheSystemsMessageAndVariables) {
  const Ran r = run(chat({"-sys", "be\\n", "-st", "-p", "x", "-v"}));
  EXPECT_EQ(r.out, "yz\n");
  EXPECT_NE(r.err.find("[prompt: 19 tokens"), std::string::npos) << r.err;
  EXPECT_EQ(run(chat({"--chat-template-kwargs", "{\"thinking_option\": \"v\"}", "-st", "-p", "x"})).out,
            "wxyz\n");
}

TEST_F(ChatTest, LinesGoOn) { EXPECT_EQ(run(chat({}), {.input = "a\\\nx\ny"}).out, "yz\nz\n"); }

TEST_F(ChatTest, Stops) {
  EXPECT_EQ(run(chat({"-r", "yz", "-st", "-p", "w"})).out, "x\n");
  EXPECT_EQ(run(chat({"-n", "2", "-st", "-p", "w"})).out, "xy\n");
}

TEST_F(ChatTest, Commands) {
  const std::string file = path("talk.json");
  const Ran r = run(chat({"-c", "500"}), {.input = "/system -\n/system Be good\nw\n/save " + file +
                                                   "\n/clear\nx\n/system\n/load " + file +
                                                   "\n/regen\n/usr/bin/w\n//exit w\n/exit\nnever"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.out, "xyz\nyz\nBe good\nxyz\nxyz\nxyz\n");
  EXPECT_EQ(contents(file), R"({"messages": [
  {"role": "system", "content": "Be good"},
  {"role": "user", "content": "w"},
  {"role": "assistant", "content": "xyz"}
]}
)");
  EXPECT_EQ(run(chat({}), {.input = "/help\n"}).out.find("  /help           this list\n"), 0u);
}

TEST_F(ChatTest, CommandsThatFail) {
  const std::pair<std::string, std::string> kWrong[] = {
      {"/nope", "there is no command /nope, see /help; a message that begins with / begins with // here"},
      {"/regen", "there is no message to answer"},
      {"/exit now", "/exit takes no 'now'"},
      {"/save", "/save FILE: no file is named"},
      {"/save " + folder_ + "/no/file", "cannot write '" + folder_ + "/no/file': No such file or directory"},
      {"/load " + path("none"), "cannot open '" + path("none") + "': No such file or directory"},
  };
  for (const auto& [line, error] : kWrong) {
    const Ran r = run(chat({}), {.input = line + "\n"});
    EXPECT_EQ(r.status, 1) << line;
    EXPECT_EQ(r.err, "fake: error: " + error + "\n");
  }
  std::ofstream(path("bad")) << "[{\"role\": 1}]";
  EXPECT_EQ(run(chat({}), {.input = "/load " + path("bad") + "\n"}).err,
            "fake: error: '" + path("bad") + "': message 0 has no role\n");
}

TEST_F(ChatTest, TextsThatAreNone) {
  EXPECT_EQ(run(chat({}), {.input = std::string("a\0b\n", 4)}).err,
            "fake: error: the message has a zero byte\n");
  EXPECT_EQ(run(chat({"-st"}), {.input = "a\xFFz"}).err,
            "fake: error: the message has bytes that are not UTF-8\n");
  EXPECT_EQ(run(chat({"-sys", "\xFF"})).err,
            "fake: error: the system's message has bytes that are not UTF-8\n");
  EXPECT_EQ(run(chat({"-p", "raise"})).err, "fake: error: line 1: no\n");
  EXPECT_EQ(run(chat({"-p", "x", "-f", "y"})).err,
            "fake: error: more than one message: -p and -f exclude each other\n");
  EXPECT_EQ(run(chat({"-p", "N"})).err, "fake: error: the model's output is not a number\n");
}

TEST_F(ChatTest, Grammars) {
  EXPECT_EQ(run(chat({"-st", "-p", "w", "--grammar", "root ::= \"xy\" \"!\""})).out, "xy!\n");
  std::ofstream(path("g.gbnf")) << "root ::= [x-z] [x-z]\n";
  EXPECT_EQ(run(chat({"--grammar-file", path("g.gbnf")}), {.input = "w\nw\n"}).out, "xy\nxy\n");
  EXPECT_EQ(run({"-p", "w", "--temp", "0", "--no-perf", "--grammar", "root ::= \"x\"?"}).out, "wx\n");
  const Ran r = run(chat({"-st", "-p", "w", "--grammar", "root ::= nope"}));
  EXPECT_EQ(r.status, 1);
  EXPECT_EQ(r.err.find("fake: error: the grammar: "), 0u) << r.err;
  EXPECT_EQ(run(chat({"--grammar", "root ::= \"x\"", "-j", "{}"})).err,
            "fake: error: more than one grammar: --grammar, --grammar-file, -j and -jf exclude each other\n");
}

TEST_F(ChatTest, Reasoning) {
  EXPECT_EQ(run(chat({"-st", "-p", "x", "--reasoning", "off"})).out,
            "ghijklmnopqrstuvwxyz\n");  // "off" ends the prompt
  EXPECT_EQ(run(chat({"-st", "-p", "x", "-rea", "on"})).out, "opqrstuvwxyz\n");
  // The prompt opens the reasoning: '?' follows '>', and nothing closes it.
  EXPECT_EQ(run(chat({"-st", "-p", "<think>", "-n", "5"})).out, "");
  EXPECT_EQ(run(chat({"-st", "-p", "<think>", "-n", "5", "--reasoning-format", "none"})).out, "?@ABC\n");
  EXPECT_EQ(run(chat({"-st", "-p", "<think>", "-n", "14", "--reasoning-budget", "3"})).out, "?@A\n");
  EXPECT_EQ(run(chat({"-st", "-p", "<think>", "-n", "11", "--reasoning-budget", "0"})).out, "?@A\n");
  // A grammar is the answer's.
  EXPECT_EQ(
      run(chat({"-st", "-p", "<think>", "--reasoning-budget", "3", "--grammar", "root ::= \"?@\""})).out,
      "?@\n");
  std::ofstream(path("in")) << "<think>\n/save " + path("talk") + "\n";
  run(chat({"-n", "14", "--reasoning-budget", "3"}), {.input = contents(path("in"))});
  EXPECT_NE(contents(path("talk")).find(R"("content": "?@A", "reasoning_content": "?@A")"), std::string::npos)
      << contents(path("talk"));
}

TEST_F(ChatTest, TellsItsPrompts) {
  const Ran r = run(chat({"-st", "-p", "</s>", "--verbose-prompt"}));
  EXPECT_EQ(r.err, "1,94,120,118,104,117,96,63,50,118,65\n");
}

TEST_F(ChatTest, TheContextsEnd) {
  Ran r = run(chat({"-st", "-c", "10", "-p", "a"}));
  EXPECT_EQ(r.status, 1);
  EXPECT_EQ(r.out, "bcd\n");
  EXPECT_EQ(
      r.err,
      "fake: error: the context of 10 tokens is full: /clear begins anew, -c N gives more, --context-shift "
      "goes on\n");
  r = run(chat({"-st", "-c", "5", "-p", "a"}));
  EXPECT_EQ(
      r.err,
      "fake: error: the conversation has 8 tokens, and the context has room for 5: /clear begins anew, -c N "
      "gives more, --context-shift forgets the oldest turns\n");
  EXPECT_EQ(run(chat({"-st", "-c", "12", "-p", "a", "--context-shift"})).out, "bcdefghijklmnopqrstuvwxyz\n");
  // Old turns go: a context that holds two of them answers any number.
  r = run(chat({"-c", "48", "--context-shift"}), {.input = "w\nw\nw\nw\nw\nw\n"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.out, "xyz\nxyz\nxyz\nxyz\nxyz\nxyz\n");
}

TEST_F(ChatTest, WithoutATemplate) {
  fs::create_symlink(fs::absolute(cli::kProgram), path("fake-plain"));
  const Ran r = run({"chat"}, {.program = path("fake-plain")});
  EXPECT_EQ(r.status, 1);
  EXPECT_EQ(r.err,
            "fake-plain: error: this file has no chat template: compile it with --chat-template NAME or "
            "--chat-template-file FILE\n");
}

TEST_F(ChatTest, AnInterruptEndsWhatNobodyCanGoOnWith) {
  bool sent = false;
  const Ran r = run(chat({"-p", "S", "-n", "1000", "-c", "2000"}),
                    {.on_output = [&](pid_t child, const std::string& out) {
                      if (!sent && out.size() > 5) kill(child, SIGINT), sent = true;
                    }});
  EXPECT_EQ(r.status, 130);
  EXPECT_LT(r.out.size(), 900u);
}

TEST_F(ChatTest, CompletesWhatComesIn) {
  EXPECT_EQ(run({"--temp", "0", "--no-perf"}, {.input = "abw\n"}).out, "abwxyz\n");
  const Ran r = run({});
  EXPECT_EQ(r.status, 1);
  EXPECT_EQ(r.err, "fake: error: nothing to do: -p TEXT continues a text; see 'fake help'\n");
  EXPECT_EQ(run({"complete", "--single-turn", "-p", "a"}).err,
            "fake: error: unknown flag '--single-turn': it belongs to 'chat'\n");
}

// ---- A terminal ----

class Terminal {
 public:
  Terminal(const std::vector<std::string>& words, const char* term = "xterm") {
    winsize size = {24, 60, 0, 0};
    child_ = forkpty(&fd_, nullptr, nullptr, &size);
    if (child_ != 0) return;
    setenv("TERM", term, 1);
    unsetenv("NO_COLOR");
    std::vector<char*> argv = {const_cast<char*>(cli::kProgram)};
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  ~Terminal() {
    if (child_ > 0) kill(child_, SIGKILL), waitpid(child_, nullptr, 0);
    close(fd_);
  }
  // Waits until `text` is written, after what was found before.
  bool sees(const std::string& text, int milliseconds = 120000) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    for (;;) {
      const size_t found = all_.find(text, seen_);
      if (found != std::string::npos) {
        seen_ = found + text.size();
        return true;
      }
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      pollfd in = {fd_, POLLIN, 0};
      if (left.count() <= 0 || poll(&in, 1, static_cast<int>(left.count())) <= 0) return false;
      char chunk[4096];
      const ssize_t n = read(fd_, chunk, sizeof chunk);
      if (n <= 0) return false;
      all_.append(chunk, static_cast<size_t>(n));
    }
  }
  void type(const std::string& keys) {
    ASSERT_EQ(write(fd_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  // The exit code, or -signal; a program that goes on for two minutes is killed.
  int ends() {
    sees("\xff\xff");
    int status = 0;
    pid_t gone = 0;
    for (int i = 0; i < 50 && gone == 0; ++i) {  // the terminal closes a moment before the program is gone
      gone = waitpid(child_, &status, WNOHANG);
      if (gone == 0) usleep(100'000);
    }
    if (gone == 0) kill(child_, SIGKILL), waitpid(child_, &status, 0);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  bool echoes() const {
    termios mode = {};
    tcgetattr(fd_, &mode);
    return (mode.c_lflag & ECHO) != 0 && (mode.c_lflag & ICANON) != 0;
  }
  pid_t child() const { return child_; }
  const std::string& all() const { return all_; }

 private:
  int fd_ = -1;
  pid_t child_ = -1;
  std::string all_;
  size_t seen_ = 0;
};

#define SEES(terminal, text) ASSERT_TRUE((terminal).sees(text)) << (terminal).all()

TEST_F(ChatTest, OnATerminalAChatBegins) {
  Terminal t({"--temp", "0"});
  SEES(t, "fake?[2J \"model\": /help");
  SEES(t, "> ");
  t.type("w\r");
  SEES(t, "xyz\r\n");
  SEES(t, "> ");
  t.type("x\r");
  SEES(t, "yz\r\n");
  SEES(t, "> ");
  t.type("\x04");
  EXPECT_EQ(t.ends(), 0);
  EXPECT_TRUE(t.echoes());
  EXPECT_NE(t.all().find("\x1b[32m"), std::string::npos);
}

TEST_F(ChatTest, EditsAndRemembers) {
  Terminal t(chat({"-co", "off"}));
  SEES(t, "> ");
  t.type("zw\x01\x1b[3~\r");  // "w"
  SEES(t, "xyz\r\n");
  t.type("\x1b[A\x7fx\r");
  SEES(t, "yz\r\n");
  t.type("\x1b[200~a\rw\x1b[201~\r");
  SEES(t, "xyz\r\n");
  t.type("/re\t\r");
  SEES(t, "/regen");
  SEES(t, "xyz\r\n");
  t.type("/nope\r");
  SEES(t, "there is no command /nope");
  t.type("/exit\r");
  EXPECT_EQ(t.ends(), 0);
  EXPECT_EQ(t.all().find("\x1b[32m"), std::string::npos);
}

TEST_F(ChatTest, CtrlCStopsTheAnswerAlone) {
  Terminal t(chat({"-c", "100000"}));
  SEES(t, "> ");
  t.type("S\r");
  SEES(t, "SSSSS");
  t.type("\x03");
  SEES(t, "(stopped)");
  SEES(t, "> ");
  t.type("w\r");
  SEES(t, "xyz\r\n");
  SEES(t, "> ");
  t.type("draft\x03");
  SEES(t, "> ");
  t.type("\x03");
  SEES(t, "/exit to leave");
  t.type("x\r");
  SEES(t, "yz\r\n");
  t.type("\x04");
  EXPECT_EQ(t.ends(), 0);
}

TEST_F(ChatTest, ReasoningIsDim) {
  Terminal t(chat({"-n", "14", "--reasoning-budget", "3"}));
  SEES(t, "> ");
  t.type("<think>\r");
  SEES(t, "\x1b[2m?@A\r\n\x1b[0m\r\n?@A\r\n");
  Terminal plain(chat({"-n", "14", "--reasoning-budget", "3", "-co", "off"}));
  SEES(plain, "> ");
  plain.type("<think>\r");
  SEES(plain, "[thinking] ?@A\r\n\r\n?@A\r\n");
}

TEST_F(ChatTest, WhatIsTypedMeanwhileWaits) {
  Terminal t(chat({"-n", "200", "-c", "10000"}));
  SEES(t, "> ");
  t.type("S\r");
  SEES(t, "SSSSS");
  t.type("w\r");
  SEES(t, "> w");
  SEES(t, "xyz\r\n");
  EXPECT_EQ(t.all().find("SwS"), std::string::npos);
}

TEST_F(ChatTest, TheTerminalIsLeftAsItWas) {
  Terminal t(chat({}));
  SEES(t, "> ");
  EXPECT_FALSE(t.echoes());
  kill(t.child(), SIGTERM);
  EXPECT_EQ(t.ends(), -SIGTERM);
  EXPECT_TRUE(t.echoes());
}

TEST_F(ChatTest, ADumbTerminalGivesLines) {
  Terminal t(chat({}), "dumb");
  SEES(t, "> ");
  t.type("w\n");
  SEES(t, "xyz\r\n");
  t.type("\x04");
  EXPECT_EQ(t.ends(), 0);
  EXPECT_EQ(t.all().find('\x1b'), std::string::npos);
}

}  // namespace
