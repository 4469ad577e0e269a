#pragma once
// Which names a server answers to. A web page may point its own name at 127.0.0.1 (DNS rebinding): its requests are then of one
// origin with this server, and no rule of browsers protects it, but they say the page's name in Host. A server that
// listens on the loopback is asked for by few names, so all others are refused. Elsewhere the names are not known.
#include <string>
#include <string_view>
#include <vector>

namespace gcrt::serve {

// What a server at this address is called, with `more`; empty: it may be anything.
std::vector<std::string> known_hosts(const std::string& address, const std::vector<std::string>& more);
// `header`: a name or address and perhaps a port. Empty, as only HTTP/1.0 has it, which no browser speaks: allowed.
bool host_allowed(std::string_view header, const std::vector<std::string>& known);

}  // namespace gcrt::serve
