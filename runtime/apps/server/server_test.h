#pragma once
// The routes over HTTP, with the real engine over a model that continues the alphabet (fake_model.h): its template is
// "<s>[role]content...", 'a' is followed by 'b', and 'z' by the end.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstdlib>
#include <string>
#include <thread>

#include "runtime/apps/server/batch_engine.h"
#include "runtime/apps/server/http/server.h"
#include "runtime/apps/server/routes.h"
#include "runtime/generate/testdata/fake_model.h"

namespace gcrt::serve {

struct Reply {
  int status = 0;
  std::string head, body;
  json::value json() const {
    json::error_code e;
    json::value v = json::parse(body, e);
    EXPECT_FALSE(e) << head << body;
    return v;
  }
  // The "data:" of each event.
  std::vector<std::string> events() const {
    std::vector<std::string> out;
    for (std::size_t at = 0; (at = body.find("data: ", at)) != body.npos;) {
      const std::size_t end = body.find("\n\n", at);
      out.push_back(body.substr(at + 6, end - at - 6));
      at = end;
    }
    return out;
  }
};

class ServerTest : public testing::Test {
 protected:
  void SetUp() override {
    Model model;
    char message[256] = "";
    ASSERT_EQ(open_model("", "", &model, message), kOk) << message;
    service_.open_text();
    service_.options.model = "alphabet";
    service_.options.sampling.temperature = 0;
    BatchOptions b;
    b.slots = 2;
    b.queue = 4;
    ASSERT_EQ(batcher_.init(model, &service_.tokenizer, b, message), kOk) << message;
    ASSERT_EQ(batcher_.start(), kOk);
    service_.engine = &engine_;
    std::string error;
    ASSERT_TRUE(http_.listen("127.0.0.1", 0, &error)) << error;
    thread_ = std::thread([this] { loop_.run(); });
  }
  void TearDown() override {
    asio::post(loop_, [this] {
      http_.drain([this] { loop_.stop(); });
      http_.close_all();
    });
    thread_.join();
    batcher_.stop(0);
    pool_.join();
  }

  int open() {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(http_.port());
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    return fd;
  }
  static void send_all(int fd, const std::string& bytes) {
    EXPECT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
  }
  static Reply read_reply(int fd) {
    std::string all;
    char buffer[65536];
    for (ssize_t n; (n = ::recv(fd, buffer, sizeof buffer, 0)) > 0;) all.append(buffer, std::size_t(n));
    ::close(fd);
    Reply r;
    const std::size_t end = all.find("\r\n\r\n");
    r.head = all.substr(0, end);
    r.status = std::atoi(r.head.c_str() + 9);
    std::string rest = end == all.npos ? "" : all.substr(end + 4);
    if (r.head.find("chunked") == r.head.npos) {
      r.body = rest;
      return r;
    }
    for (std::size_t at = 0;;) {
      const std::size_t line = rest.find("\r\n", at);
      const std::size_t n = std::strtoul(rest.c_str() + at, nullptr, 16);
      if (n == 0 || line == rest.npos) return r;
      r.body += rest.substr(line + 2, n);
      at = line + 2 + n + 2;
    }
  }
  Reply ask(const std::string& method, const std::string& path, const std::string& body = "",
            const std::string& headers = "") {
    const int fd = open();
    send_all(fd, method + " " + path + " HTTP/1.1\r\nHost: " + host_ + "\r\nConnection: close\r\n" + headers +
                     (method == "POST" ? "Content-Type: application/json\r\nContent-Length: " +
                                             std::to_string(body.size()) + "\r\n"
                                       : "") +
                     "\r\n" + body);
    return read_reply(fd);
  }
  Reply post(const std::string& path, const std::string& body) { return ask("POST", path, body); }
  static std::string chat(const std::string& text, const std::string& more = "") {
    return R"({"messages": [{"role": "user", "content": ")" + text + "\"}]" +
           (more.empty() ? "" : ", " + more) + "}";
  }
  // 400, and which field.
  void refused(const std::string& path, const std::string& body, const std::string& param, int status = 400) {
    const Reply r = post(path, body);
    EXPECT_EQ(r.status, status) << body << r.body;
    if (r.status < 400) return;
    const json::object e = r.json().at("error").as_object();
    EXPECT_FALSE(e.at("message").as_string().empty());
    if (param.empty())
      EXPECT_TRUE(e.at("param").is_null()) << body << r.body;
    else
      EXPECT_EQ(e.at("param"), json::value(param)) << body << r.body;
  }

  std::string host_ = "h";  // what requests say
  asio::io_context loop_{1};
  asio::thread_pool pool_{2};
  Service service_{gc_the_model, loop_, pool_};
  Batcher batcher_;
  BatchEngine engine_{batcher_};
  Router router_{service_};
  HttpServer http_{loop_, router_, HttpLimits()};
  std::thread thread_;
};

}  // namespace gcrt::serve
