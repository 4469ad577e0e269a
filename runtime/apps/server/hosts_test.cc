#include "runtime/apps/server/hosts.h"

#include <gtest/gtest.h>

namespace gcrt::serve {
namespace {

TEST(Hosts, OfTheLoopback) {
  for (const char* address : {"127.0.0.1", "localhost", "::1", "127.0.0.5", "::ffff:127.0.0.1"}) {
    const auto known = known_hosts(address, {});
    for (const char* host :
         {"localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8080", ""})
      EXPECT_TRUE(host_allowed(host, known)) << address << " " << host;
    for (const char* host :
         {"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example",
          "127.0.0.2", "[::2]", "[::1].evil.example", "::1", ":8080", "localhost@evil.example", " "})
      EXPECT_FALSE(host_allowed(host, known)) << address << " " << host;
  }
  EXPECT_TRUE(host_allowed("127.0.0.5:80", known_hosts("127.0.0.5", {})));
  EXPECT_TRUE(host_allowed("Model.example:80", known_hosts("127.0.0.1", {"model.example"})));
}

TEST(Hosts, Elsewhere) {
  for (const char* address : {"0.0.0.0", "::", "192.168.1.2", "/run/model.sock", "model.sock"})
    EXPECT_TRUE(host_allowed("any.example", known_hosts(address, {}))) << address;
  // Who says names wants them.
  const auto known = known_hosts("192.168.1.2", {"model.example"});
  EXPECT_TRUE(host_allowed("model.example", known) && host_allowed("192.168.1.2:80", known));
  EXPECT_FALSE(host_allowed("evil.example", known));
  EXPECT_TRUE(host_allowed("any.example", known_hosts("model.sock", {"model.example"})));
}

}  // namespace
}  // namespace gcrt::serve
