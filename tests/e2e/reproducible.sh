# The same inputs and options give the same bytes, whatever MODEL and OUT are called, wherever they lie, whenever and
# from whatever folder it is compiled.
source "$(dirname "$0")/../lib/e2e.sh"

zoo make gemma3-270m-like "$work/model.gguf" --type Q4_K
compile "$work/model.gguf" "$work/first"
mkdir "$work/folder"
cp "$work/model.gguf" "$work/folder/another-name.gguf"
(cd "$work/folder" && TZ=Asia/Tokyo LC_ALL=C compile another-name.gguf ./second)
same "$work/first" "$work/folder/second" "under other names"

compile "$gemma3_gguf" "$work/first"
compile "$gemma3_gguf" "$work/second"
same "$work/first" "$work/second" "gemma-3-270m twice"
