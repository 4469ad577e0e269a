"""rank_model.py OUT.gguf: the zoo's small model that ranks documents, with words: the letters and a few more."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "zoo"))
import zoo  # noqa: E402
from gguf import GGUFWriter  # noqa: E402

letters = "abcdefghijklmnopqrstuvwxyz"
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + ["\u2581" + c for c in letters] + list(letters)
recipe = zoo.Recipe("jina-bert-v2-rank")
words += [f"[unused{i}]" for i in range(recipe.n_vocab - len(words))]
recipe.keys += [("tokenizer.ggml.model", "str", "bert")] + [
    (f"tokenizer.ggml.{name}_token_id", "u32", words.index(word))
    for name, word in (("padding", "[PAD]"), ("unknown", "[UNK]"), ("cls", "[CLS]"), ("bos", "[CLS]"), ("eos", "[SEP]"), ("seperator", "[SEP]"))]
add = GGUFWriter.add_token_list
GGUFWriter.add_token_list = lambda self, _: add(self, words)
zoo.make(recipe, sys.argv[1], "F32")
