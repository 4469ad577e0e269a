// The server against clients that speak HTTP byte by byte, rightly and wrongly.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>
#include <vector>

#include "runtime/apps/server/http/server.h"

namespace gcrt::serve {
namespace {

// Echoes bodies; "/stream" sends pieces until the client goes; "/later" answers from another thread.
class Echo : public Handler {
 public:
  Refusal refuse(const Request& request) override {
    if (request.path == "/closed") return {401, "{\"closed\":true}", {{"WWW-Authenticate", "Bearer"}}};
    return {};
  }
  void handle(std::shared_ptr<Exchange> exchange) override {
    const Request& r = exchange->request();
    if (r.path == "/stream") {
      exchange->begin(200, "text/event-stream");
      exchange->write("data: 1\n\n");
      exchange->on_gone([this] { gone.set_value(); });
      return;
    }
    if (r.path == "/pieces") {
      exchange->begin(200, "text/plain");
      for (const char* piece : {"a", "bc", "def"}) exchange->write(piece);
      return exchange->end();
    }
    if (r.path == "/later") {
      later_.emplace_back([exchange] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        exchange->respond(200, "text/plain", "later");
      });
      return;
    }
    if (r.path == "/flood") {
      exchange->begin(200, "text/plain");
      for (int i = 0; i < 64; ++i) exchange->write(std::string(1 << 20, 'x'));
      return exchange->end();
    }
    exchange->respond(200, "text/plain", r.method + " " + r.path + " " + r.query + " " + r.body);
  }
  std::string error_body(int status, std::string_view message) override {
    return "{\"status\":" + std::to_string(status) + ",\"message\":\"" + std::string(message) + "\"}";
  }
  std::promise<void> gone;

 private:
  std::vector<std::jthread> later_;  // joined before the event loop goes, which they use
};

class Client {
 public:
  explicit Client(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }
  explicit Client(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    path.copy(to.sun_path, sizeof to.sun_path - 1);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  }
  ~Client() { ::close(fd_); }
  void say(const std::string& bytes) {
    ASSERT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
  }
  // What comes until `end` is in it, the connection ends, or nothing comes for a minute: a busy machine is no failure.
  std::string hear(const std::string& end = "") {
    std::string all;
    for (;;) {
      pollfd p{fd_, POLLIN, 0};
      if (::poll(&p, 1, 60000) <= 0) return all + "[nothing more]";
      char buffer[65536];
      const ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
      if (n < 0) return all + "[reset]";
      if (n == 0) return all + "[end]";
      all.append(buffer, static_cast<std::size_t>(n));
      if (!end.empty() && all.find(end) != all.npos) return all;
    }
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

class HttpTest : public testing::Test {
 protected:
  void run(HttpLimits limits = small()) {
    server_ = std::make_unique<HttpServer>(loop_, echo_, limits);
    std::string error;
    ASSERT_TRUE(server_->listen(host_, 0, &error)) << error;
    thread_ = std::thread([this] { loop_.run(); });
  }
  void TearDown() override {
    if (!thread_.joinable()) return;
    asio::post(loop_, [this] {
      server_->drain([this] { loop_.stop(); });
      server_->close_all();
    });
    thread_.join();
    server_.reset();
  }
  static HttpLimits small() {
    HttpLimits l;
    l.header_bytes = 4096;
    l.body_bytes = 100000;
    return l;
  }
  std::string ask(const std::string& bytes, const std::string& end = "") {
    Client c(server_->port());
    c.say(bytes);
    return c.hear(end);
  }
  static std::string status(const std::string& response) { return response.substr(0, 12); }

  asio::io_context loop_;
  Echo echo_;
  std::string host_ = "127.0.0.1";
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

TEST_F(HttpTest, AnswersAndKeepsTheConnection) {
  run();
  Client c(server_->port());
  for (int i = 0; i < 3; ++i) {
    c.say("POST /a/b?x=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
    const std::string r = c.hear("hello");
    EXPECT_EQ(status(r), "HTTP/1.1 200");
    EXPECT_NE(r.find("\r\n\r\nPOST /a/b x=1 hello"), r.npos) << r;
    EXPECT_NE(r.find("Connection: keep-alive"), r.npos);
  }
}

TEST_F(HttpTest, ReadsRequestsCutAnywhereAndTogether) {
  run();
  const std::string one =
      "POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
  Client slow(server_->port());
  for (const char c : one) slow.say(std::string(1, c));
  EXPECT_NE(slow.hear("abcde").find("POST /p  abcde"), std::string::npos);
  Client many(server_->port());
  many.say(one + one + "GET /later HTTP/1.1\r\nHost: h\r\n\r\n" + one +
           "GET /end HTTP/1.1\r\nHost: h\r\n\r\n");
  const std::string all = many.hear("GET /end");
  std::size_t at = all.find("POST /p  abcde");
  ASSERT_NE(at, all.npos) << all;
  at = all.find("POST /p  abcde", at + 1);
  ASSERT_NE(at, all.npos);
  at = all.find("later", at);
  ASSERT_NE(at, all.npos);
  EXPECT_NE(all.find("POST /p  abcde", at), all.npos);
}

TEST_F(HttpTest, RefusesWhatIsNoRequest) {
  run();
  const std::pair<const char*, const char*> cases[] = {
      {"nonsense\r\n\r\n", "HTTP/1.1 400"},
      {"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400"},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "HTTP/1.1 400"},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n", "HTTP/1.1 400"},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
       "HTTP/1.1 400"},
      {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 400"},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999\r\n\r\n", "HTTP/1.1 413"},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
       "HTTP/1.1 415"},
      {"POST / HTTP/1.1\r\nHost: h\r\nExpect: cake\r\nContent-Length: 3\r\n\r\n", "HTTP/1.1 417"},
      {"POST /closed HTTP/1.1\r\nHost: h\r\nContent-Length: 99999\r\n\r\n", "HTTP/1.1 401"},
  };
  for (const auto& [bytes, want] : cases) {
    const std::string r = ask(bytes, "}");
    EXPECT_EQ(status(r), want) << bytes;
    EXPECT_NE(r.find("Connection: close"), r.npos) << bytes;
    EXPECT_NE(r.find("application/json"), r.npos) << bytes;
  }
  EXPECT_EQ(status(ask("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(70000, 'x') + "\r\n\r\n", "}")),
            "HTTP/1.1 431");
  std::string many;
  for (int i = 0; i < 10000; ++i) many += "X: y\r\n";
  EXPECT_EQ(status(ask("GET / HTTP/1.1\r\nHost: h\r\n" + many + "\r\n", "}")), "HTTP/1.1 431");
  EXPECT_EQ(status(ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n", " ")), "HTTP/1.1 200");
}

TEST_F(HttpTest, LimitsHeadersThatComeInPieces) {
  run();
  std::string fields;
  while (fields.size() < 3000) fields += "X: y\r\n";
  // Each piece is below the limit of 4096 bytes; the second ends the headers.
  for (const bool large : {false, true}) {
    Client c(server_->port());
    c.say("GET /a HTTP/1.1\r\nHost: h\r\n" + fields);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    c.say((large ? fields : "") + "Last: x\r\n\r\n");
    EXPECT_EQ(status(c.hear(large ? "}" : "GET /a")), large ? "HTTP/1.1 431" : "HTTP/1.1 200");
  }
}

TEST_F(HttpTest, ContinuesWhoAsks) {
  run();
  Client c(server_->port());
  c.say("POST /e HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(c.hear("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  c.say("abc");
  EXPECT_NE(c.hear("abc").find("POST /e  abc"), std::string::npos);
}

TEST_F(HttpTest, SendsPiecesAndHeadsAndOldHttp) {
  run();
  EXPECT_NE(ask("GET /pieces HTTP/1.1\r\nHost: h\r\n\r\n", "0\r\n\r\n")
                .find("1\r\na\r\n2\r\nbc\r\n3\r\ndef\r\n0\r\n\r\n"),
            std::string::npos);
  const std::string old = ask("GET /pieces HTTP/1.0\r\n\r\n", "[never]");
  EXPECT_TRUE(old.ends_with("\r\n\r\nabcdef[end]")) << old;
  const std::string head = ask("HEAD /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "[never]");
  EXPECT_TRUE(head.ends_with("\r\n\r\n[end]")) << head;
  EXPECT_NE(head.find("Content-Length: 9"), head.npos) << head;
}

TEST_F(HttpTest, NoticesAtOnceThatAClientHasGone) {
  run();
  {
    Client c(server_->port());
    c.say("GET /stream HTTP/1.1\r\nHost: h\r\n\r\n");
    c.hear("data: 1");
  }
  EXPECT_EQ(echo_.gone.get_future().wait_for(std::chrono::seconds(2)), std::future_status::ready);
}

TEST_F(HttpTest, GivesUpOnWhoDoesNotRead) {
  HttpLimits limits = small();
  limits.pending_bytes = 1 << 20;
  run(limits);
  Client c(server_->port());
  c.say("GET /flood HTTP/1.1\r\nHost: h\r\n\r\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(c.hear().size(), 40u << 20);
  EXPECT_EQ(status(ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n", " ")), "HTTP/1.1 200");
}

TEST_F(HttpTest, EndsTheSlow) {
  HttpLimits limits = small();
  limits.header_seconds = 1;
  limits.body_seconds = 1;
  run(limits);
  EXPECT_EQ(status(ask("GET / HTTP/1.1\r\nHos")), "HTTP/1.1 408");
  EXPECT_EQ(status(ask("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc")), "HTTP/1.1 408");
}

TEST_F(HttpTest, MoreClientsThanConnectionsWait) {
  HttpLimits limits = small();
  limits.connections = 4;
  run(limits);
  std::vector<std::thread> clients;
  std::atomic<int> right{0};
  for (int i = 0; i < 32; ++i)
    clients.emplace_back([&] {
      right += ask("GET /later HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").find("later") !=
               std::string::npos;
    });
  for (std::thread& t : clients) t.join();
  EXPECT_EQ(right, 32);
}

TEST_F(HttpTest, UnixSockets) {
  // Not the tests' own folder, which may leave no room in the 107 bytes of such a path.
  char folder[] = "/tmp/http_test.XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  host_ = std::string(folder) + "/s";
  run();
  Client c(host_);
  c.say("GET /u HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_NE(c.hear("GET /u").find("HTTP/1.1 200"), std::string::npos);
  HttpServer second(loop_, echo_, {});
  std::string error;
  EXPECT_FALSE(second.listen(host_, 0, &error));
  EXPECT_NE(error.find("in use"), error.npos) << error;
  EXPECT_FALSE(second.listen("example.org", 0, &error));
  EXPECT_NE(error.find("by number"), error.npos) << error;
  std::filesystem::remove_all(folder);
}

TEST_F(HttpTest, DrainingLetsAnswersEnd) {
  run();
  Client idle(server_->port()), busy(server_->port());
  idle.say("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  idle.hear("GET");
  busy.say("GET /later HTTP/1.1\r\nHost: h\r\n\r\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::promise<void> done;
  asio::post(loop_, [&] { server_->drain([&] { done.set_value(); }); });
  const std::string r = busy.hear();
  EXPECT_NE(r.find("later"), r.npos) << r;
  EXPECT_TRUE(r.ends_with("[end]")) << r;
  EXPECT_EQ(idle.hear(), "[end]");
  ::shutdown(idle.fd(), SHUT_RDWR), ::shutdown(busy.fd(), SHUT_RDWR);
  EXPECT_EQ(done.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

TEST(Tls, SaysWhatIsWrongWithTheFiles) {
  std::string error;
  EXPECT_EQ(gc_part_tls("/nonexistent.pem", "/nonexistent.key", &error), nullptr);
  EXPECT_NE(error.find("--ssl-cert-file '/nonexistent.pem'"), error.npos) << error;
}

}  // namespace
}  // namespace gcrt::serve
