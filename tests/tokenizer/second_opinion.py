"""Tokenizes random strings with the compiler and with Hugging Face's `tokenizers`, built from the same vocabulary as the
models' makers build theirs, and tells where the two differ.

usage: second_opinion.py COMPILER VOCABULARY.gguf... [--strings N] [--seed S]

Needs numpy, gguf and tokenizers from PyPI (samples/setup.sh python tokenizers). Vocabularies: gpt-2, llama-bpe, qwen2,
smollm, starcoder, refact (byte-pair encoding), llama and gemma (SentencePiece), bert (WordPiece); others are refused.
The strings mix scripts, code, numbers, marks and white space; they are in normal form C, since some of the fast
tokenizers bring text to it and llama.cpp, whose files these are, never does.
"""
import argparse
import json
import random
import subprocess
import sys
import unicodedata

from gguf import GGUFReader
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
NORMAL, USER_DEFINED = 1, 4  # types of tokens
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


class Vocabulary:
    def __init__(self, path):
        reader = GGUFReader(path)

        def value(name, default=None):
            field = reader.fields.get("tokenizer.ggml." + name)
            return default if field is None else field.contents()

        self.model = value("model")
        self.pre = value("pre", "")
        self.tokens = value("tokens")
        self.scores = value("scores")
        self.types = value("token_type", [])
        self.merges = value("merges", [])
        self.unknown = value("unknown_token_id", 0)
        self.prefix = value("add_space_prefix", True)

    def ids(self):
        return {t: i for i, t in enumerate(self.tokens)}


def byte_level(v, *splits, regex, ignore_merges=False):
    ranks = [tuple(m.split(" ", 1)) for m in v.merges]
    t = Tokenizer(models.BPE(v.ids(), ranks, ignore_merges=ignore_merges))
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)])
    return t


def sentence_piece(v):
    """Scores become ranks of merges, as transformers converts such models."""
    ids = v.ids()
    plain = {t for t, kind in zip(v.tokens, v.types) if kind == NORMAL}
    merges = []
    for token in plain:
        parts = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in plain and token[i:] in plain]
        merges += [(-v.scores[ids[token]], ids[a], ids[b], a, b) for a, b in parts]
    merges.sort()
    t = Tokenizer(models.BPE(ids, [(m[3], m[4]) for m in merges], unk_token=v.tokens[v.unknown], fuse_unk=True,
                             byte_fallback=True))
    steps = [normalizers.Prepend("\u2581")] if v.prefix else []
    t.normalizer = normalizers.Sequence(steps + [normalizers.Replace(" ", "\u2581")])
    t.add_tokens([AddedToken(t, normalized=False) for t, kind in zip(v.tokens, v.types) if kind == USER_DEFINED])
    return t


def word_piece(v):
    words = {}
    for i, token in enumerate(v.tokens):
        if token.startswith("\u2581"):
            words[token[1:]] = i
        elif len(token) > 2 and token[0] == "[" and token[-1] == "]":
            words[token] = i
        else:
            words["##" + token] = i
    t = Tokenizer(models.WordPiece(words, unk_token="[UNK]", max_input_chars_per_word=1 << 20))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return t


def fast_tokenizer(v):
    def split(expression):
        return pre_tokenizers.Split(Regex(expression), "isolated")

    if v.model == "gpt2" and v.pre == "gpt-2":
        return byte_level(v, regex=True)
    if v.model == "gpt2" and v.pre == "llama-bpe":
        return byte_level(v, split(LLAMA3), regex=False, ignore_merges=True)
    if v.model == "gpt2" and v.pre == "qwen2":
        return byte_level(v, split(QWEN2), regex=False)
    if v.model == "gpt2" and v.pre in ("smollm", "starcoder", "refact"):
        return byte_level(v, pre_tokenizers.Digits(individual_digits=True), regex=True)
    if v.model == "llama":
        return sentence_piece(v)
    if v.model == "bert":
        return word_piece(v)
    return None


ALPHABETS = [
    "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", " ", " \n\t\r", "etaoin shrdlu",
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "áéíóúñçüößåøæœ", "абвгдежзийклмнопрстуфхцчшщъыьэюя", "αβγδεζηθικλμνξοπρστυφχψω",
    "日本語漢字中文學生大小上下人", "ひらがなカタカナ", "한국어안녕하세요", "ابتثجحخدذرزس", "अआइईउऊकखगघ", "กขฃคฅฆง", "אבגדהוזח",
    "😀🚀🌍👍🏽‍❤️", "“”‘’—–…€£¥©®™°±²³½", "٠١٢٣٤٥", "Ⅷ①²", "\u00a0\u2003\u3000\u200b",
]
WORDS = ["the", "The", "don't", "I'LL", "we've", "function", "return", "==", "!=", "->", "://", "http", "1,000.50",
         "2026-11-30", "  ", "\n\n", "\r\n", "\t", "    ", "...", "C++", "naïve", "Straße", "I", "'s", "x'", "''"]


def random_string(rng):
    parts = []
    for _ in range(rng.randint(1, 8)):
        if rng.random() < 0.4:
            parts.append(rng.choice(WORDS))
        else:
            letters = rng.choice(ALPHABETS)
            parts.append("".join(rng.choice(letters) for _ in range(rng.randint(1, 12))))
        if rng.random() < 0.5:
            parts.append(" ")
    return unicodedata.normalize("NFC", "".join(parts))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("compiler")
    arguments.add_argument("vocabularies", nargs="+")
    arguments.add_argument("--strings", type=int, default=3000)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    wrong = 0
    for path in options.vocabularies:
        v = Vocabulary(path)
        fast = fast_tokenizer(v)
        if fast is None:
            sys.exit(f"{path}: no fast tokenizer is known for {v.model} {v.pre}")
        rng = random.Random(options.seed)
        texts = [random_string(rng) for _ in range(options.strings)]
        if v.model == "bert":  # llama.cpp keeps of a Hangul syllable the first letter, and so do we
            texts = [t for t in texts if not any("\uac00" <= c <= "\ud7a3" for c in t)]
        lines = "".join(json.dumps(t) + "\n" for t in texts).encode()
        done = subprocess.run([options.compiler, "tokenize", path, "--json-lines", "--no-bos"], input=lines,
                              stdout=subprocess.PIPE, check=True)
        ours = [json.loads(line) for line in done.stdout.splitlines()]
        theirs = [e.ids for e in fast.encode_batch(texts, add_special_tokens=False)]
        differ = [i for i in range(len(texts)) if ours[i] != theirs[i]]
        print(f"{path}: {len(texts) - len(differ)} of {len(texts)} strings alike")
        for i in differ[:5]:
            print(f"  {texts[i]!r}\n    ours   {[v.tokens[t] for t in ours[i]]}\n    theirs {[v.tokens[t] for t in theirs[i]]}")
        wrong += len(differ)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
