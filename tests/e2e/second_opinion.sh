# Token ids of random strings, against Hugging Face's tokenizers built from the same vocabularies.
source "$(dirname "${BASH_SOURCE[0]}")/../lib/e2e.sh"

python "$root/tests/tokenizer/second_opinion.py" "$compiler" "$gemma3_gguf" "$smollm2_gguf" --strings 2000
