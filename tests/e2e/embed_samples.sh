# The samples of C++, two models in one program, a sampler of one's own, and a batch.
source "$(dirname "$0")/../lib/e2e.sh"

command -v make >/dev/null || skip "no make"
command -v c++ >/dev/null || command -v clang++-22 >/dev/null || skip "no C++ compiler"
cc="$(command -v cc || command -v clang-22)" cxx="$(command -v c++ || command -v clang++-22)"
# build NAME: in a copy, beside the libraries that its README makes.
build() {
  cp "$root/samples/$1/"* "$work/"
  (cd "$work" && make CC="$cc" CXX="$cxx" CFLAGS="-std=c99 -O2 -Wall -Wextra -Werror" \
    CXXFLAGS="-std=c++17 -O2 -Wall -Wextra -Werror") >"$work/log" 2>&1 || fail "$1: $(cat "$work/log")"
}

compile "$gemma3_gguf" "$work/gemma3"
compile "$gemma3_gguf" "$work/gemma3.o" --emit obj --header "$work/gemma3.h"
compile "$gemma3_gguf" "$work/libgemma3.a" --emit archive --header "$work/gemma3.h"
compile "$smollm2_gguf" "$work/libsmollm2.a" --emit archive --header "$work/smollm2.h"
compile "$smollm2_gguf" "$work/smollm2"

# Bit for bit the same alone and in company.
build batch
texts=("The capital of France is" "Once upon a time" "2 + 2 =" "床前明月光,")
"$work/batch" "${texts[@]}" >"$work/together" || fail "batch"
for text in "${texts[@]}"; do "$work/batch" "$text"; done >"$work/apart" || fail "batch of one"
same "$work/together" "$work/apart" "batch and one by one"
"$work/gemma3" -p "${texts[0]}" -n 24 --temp 0 2>/dev/null >"$work/expected"
head -n "$(wc -l <"$work/expected")" "$work/together" | cmp -s - "$work/expected" ||
  fail "batch: $(head -n 2 "$work/together"), expected $(cat "$work/expected")"

build custom_sampler
prompt="A story about a cat and a dog:"
"$work/custom_sampler" "$prompt" >"$work/text" || fail "custom_sampler"
[ "$(wc -c <"$work/text")" -gt 60 ] || fail "custom_sampler: $(cat "$work/text")"
! grep -qi e "$work/text" || fail "custom_sampler wrote an e: $(cat "$work/text")"

build two_models
"$work/two_models" "The capital of France is" "What is the capital of France?" >"$work/both" || fail "two_models"
"$work/gemma3" -p "The capital of France is" -n 24 --temp 0 2>/dev/null >"$work/expected"
head -n "$(wc -l <"$work/expected")" "$work/both" | cmp -s - "$work/expected" ||
  fail "two_models: $(cat "$work/both"), expected first $(cat "$work/expected")"
grep -q Paris "$work/both" || echo "note: $(tail -n 1 "$work/both")"

build embed_cpp
(cd "$work" && ./chat "What is the capital of France?" >first 2>first.err) || fail "chat: $(cat "$work/first.err")"
[ -s "$work/system.state" ] || fail "chat left no state"
(cd "$work" && ./chat "What is the capital of France?" >second 2>second.err) || fail "chat again"
grep -q "restored" "$work/second.err" || fail "chat did not restore: $(cat "$work/second.err")"
same "$work/first" "$work/second" "chat with a restored state"
# What was saved is refused where it does not belong, and made anew.
printf 'x' | dd of="$work/system.state" bs=1 seek=2000 conv=notrunc 2>/dev/null
(cd "$work" && ./chat "What is the capital of France?" >third 2>third.err) || fail "chat with a damaged state"
! grep -q "restored" "$work/third.err" || fail "chat restored a damaged state"
same "$work/first" "$work/third" "chat after a damaged state"
(cd "$work" && ./chat "Tell me a long story." system.state 1 2>/dev/null) | says "enough" || fail "chat was not cancelled"
