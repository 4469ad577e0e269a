// Whole text files for the tools.
#pragma once

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "compiler/base/error.h"

namespace gc::tools {

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw_user("cannot read ", path);
  return text.str();
}

// Runs a tool's body: errors become one line on stderr and the exit code (1; 70 for our bugs).
template <class F>
int guarded(const char* tool, F body) {
  try {
    return body();
  } catch (const Error& e) {
    fprintf(stderr, "%s: error: %s\n", tool, e.what());
    return e.kind() == ErrorKind::kInternal ? 70 : 1;
  } catch (const std::exception& e) {
    fprintf(stderr, "%s: error: %s\n", tool, e.what());
    return 70;
  }
}

}  // namespace gc::tools
