#include "compiler/link/archive_file.h"

#include "compiler/base/error.h"

namespace gc::link {
namespace {

constexpr std::size_t kMemberHead = 60;

// No date, user or group.
std::string member_head(std::string_view name, std::uint64_t size) {
  std::string head(name);
  const auto pad = [&](std::size_t to) { head.resize(to, ' '); };
  pad(16);
  head += "0";
  pad(28);
  head += "0";
  pad(34);
  head += "0";
  pad(40);
  head += "100644";
  pad(48);
  head += std::to_string(size);
  GC_CHECK(head.size() <= 58);
  pad(58);
  return head + "`\n";
}

void put_big_endian(std::string& out, std::uint64_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
}

}  // namespace

std::vector<std::uint8_t> archive_head(std::string_view member_name, std::uint64_t member_size,
                                       const std::vector<std::string>& symbols) {
  if (member_size > 9'999'999'999)
    throw_user("an archive's member has less than 10 GB, and this one would have ", human_bytes(member_size),
               "; --weights external puts the weights into a file of their own");
  GC_CHECK(!member_name.empty() && member_name.size() < 16, member_name);
  std::string names;
  for (const std::string& symbol : symbols) names.append(symbol).push_back('\0');
  const std::string magic = "!<arch>\n";
  std::size_t table = 4 + 4 * symbols.size() + names.size();
  const std::size_t member = (magic.size() + 2 * kMemberHead + table + 15) / 16 * 16;
  names.resize(names.size() + member - (magic.size() + 2 * kMemberHead + table));
  table = 4 + 4 * symbols.size() + names.size();
  std::string out = magic + member_head("/", table);
  put_big_endian(out, symbols.size());
  for (std::size_t i = 0; i < symbols.size(); ++i) put_big_endian(out, member - kMemberHead);
  out += names + member_head(std::string(member_name) + "/", member_size);
  GC_CHECK(out.size() == member);
  return {out.begin(), out.end()};
}

}  // namespace gc::link
