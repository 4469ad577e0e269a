#!/usr/bin/env bash
# All tracked C++ sources are formatted as .clang-format says. To format them: tests/format.sh --fix
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v clang-format-22 >/dev/null || { echo "clang-format-22 is not installed: run samples/setup.sh build"; exit 1; }
files() { git ls-files -z -- '*.cc' '*.h' | xargs -0 -r -P "$(nproc)" -n 16 clang-format-22 --style=file "$@"; }

if [ "${1:-}" = --fix ]; then
  files -i
elif ! files --dry-run -Werror 2>&1 | sed -n 's/^\([^ :]*\):[0-9:]* error.*/\1/p' | sort | uniq -c; then
  echo "number of places that are formatted otherwise; tests/format.sh --fix puts them right"
  exit 1
fi
