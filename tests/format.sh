#!/usr/bin/env bash
# All tracked C++ sources are formatted as .clang-format says. To format them: tests/format.sh --fix
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode=(--dry-run -Werror)
[ "${1:-}" != --fix ] || mode=(-i)
git ls-files -z -- '*.cc' '*.h' | xargs -0 -r -P "$(nproc)" -n 32 clang-format-22 --style=file "${mode[@]}"
