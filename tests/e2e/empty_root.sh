# The executable needs nothing but itself: it runs in a root directory that holds no other file.
source "$(dirname "$0")/../lib/e2e.sh"

if [ "$(id -u)" = 0 ]; then
  enter=(chroot)
elif unshare --user --map-root-user true 2>/dev/null; then
  enter=(unshare --user --map-root-user chroot)
else
  skip "neither root nor user namespaces: no way to change the root directory"
fi
mkdir "$work/empty"
compile "$gemma3_gguf" "$work/empty/gemma3"
[ "$(ls -A "$work/empty")" = gemma3 ] || fail "beside the executable lies: $(ls -A "$work/empty")"
file_kind="$(LC_ALL=C readelf -hl "$work/empty/gemma3")"
! grep -q INTERP <<<"$file_kind" || fail "the executable asks for a dynamic loader"
"${enter[@]}" "$work/empty" /gemma3 -p "The capital of France is" -n 8 --temp 0 >"$work/text" 2>"$work/stderr" ||
  fail "in an empty root: exit code $?: $(cat "$work/stderr")"
[ -s "$work/text" ] || fail "in an empty root: printed nothing"
