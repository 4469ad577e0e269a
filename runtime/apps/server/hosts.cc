#include "runtime/apps/server/hosts.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>

namespace gcrt::serve {
namespace {

bool same_name(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

// Behind an address of IPv6 a port begins after the ']'.
std::string_view without_port(std::string_view host) {
  const std::size_t bracket = host.rfind(']');
  const std::size_t colon = host.find(':', bracket == host.npos ? 0 : bracket);
  return host.substr(0, colon);
}

}  // namespace

std::vector<std::string> known_hosts(const std::string& address, const std::vector<std::string>& more) {
  boost::system::error_code e;
  const auto ip = boost::asio::ip::make_address(address == "localhost" ? "127.0.0.1" : address, e);
  if (e) return {};  // a UNIX socket: no web page reaches it
  const bool loopback =
      ip.is_loopback() || (ip.is_v6() && ip.to_v6().is_v4_mapped() && ip.to_v6().to_bytes()[12] == 127);
  if (!loopback && more.empty()) return {};
  std::vector<std::string> known = {"localhost", "127.0.0.1", "[::1]",
                                    ip.is_v6() ? "[" + ip.to_string() + "]" : ip.to_string()};
  known.insert(known.end(), more.begin(), more.end());
  return known;
}

bool host_allowed(std::string_view header, const std::vector<std::string>& known) {
  if (known.empty() || header.empty()) return true;
  const std::string_view name = without_port(header);
  return std::any_of(known.begin(), known.end(), [&](const std::string& k) { return same_name(name, k); });
}

}  // namespace gcrt::serve
