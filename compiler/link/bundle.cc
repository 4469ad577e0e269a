// bundle OUT.zst NAME=FILE...: packs files into the form that carried.h reads.
#include <zstd.h>

#include <cstdio>
#include <exception>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/base/error.h"
#include "compiler/base/mapped_file.h"
#include "compiler/base/temp_file.h"

namespace {

void write_bundle(const std::string& output, const std::vector<std::string_view>& files) {
  std::string table, bytes;
  for (std::string_view argument : files) {
    const std::size_t equals = argument.find('=');
    if (equals == argument.npos) gc::throw_user("expected NAME=FILE, found ", gc::quote(argument));
    const gc::MappedFile file{std::string(argument.substr(equals + 1))};
    table += gc::cat(argument.substr(0, equals), " ", file.size(), "\n");
    bytes.append(reinterpret_cast<const char*>(file.bytes().data()), file.size());
  }
  const std::string whole = table + "\n" + bytes;
  std::vector<std::uint8_t> packed(ZSTD_compressBound(whole.size()));
  constexpr int kLevel = 19;  // seconds here, once; unpacking takes the same time at any level
  const std::size_t n = ZSTD_compress(packed.data(), packed.size(), whole.data(), whole.size(), kLevel);
  if (ZSTD_isError(n)) gc::throw_internal("zstd: ", ZSTD_getErrorName(n));
  packed.resize(n);
  gc::TempFile out(output);
  out.append(packed);
  out.commit();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 3) gc::throw_user("usage: bundle OUT.zst NAME=FILE...");
    write_bundle(argv[1], {argv + 2, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bundle: error: %s\n", error.what());
    return 1;
  }
  return 0;
}
