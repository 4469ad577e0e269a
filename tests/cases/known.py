"""What the real models' tokenizers and templates must give; the ids were measured with llama.cpp (in llama-cpp-python 0.3.36)
and the prompts with jinja2 3.1.6."""
import json
import re

import tiny
from check import Case, expect, run
from gguf_file import BOOL, STRING, U32
from programs import program

GEMMA, SMOLLM = "gemma-3-270m-q4_k_m.gguf", "SmolLM2-135M-Instruct.Q4_1.gguf"
PLAIN = {
    GEMMA: {
        " ": "236743", "  ": "138", "\n": "107", "\n\n": "108", "\n\n\n\n": "110", "\t" * 6 + "test": "255973 2181", " " * 41 + "test": "167 146 2181",
        "a  b   c": "236746 138 236763 139 236755", " hello": "29104", "hello ": "23391 236743", "x\r\ny": "236781 251 107 236762",
        "123456789": "236770 236778 236800 236812 236810 236825 236832 236828 236819",
        "Hello world! Caf\u00e9 d\u00e9j\u00e0 vu \u2014 123 \U0001f60a": "9259 1902 236888 62367 29234 11042 2192 236743 236770 236778 236800 103453",
    },
    SMOLLM: {
        "\n\n": "1116", "\t" * 6 + "test": "6363 197 197 2129", " " * 41 + "test": "12427 353 1028", "x\r\ny": "104 201 198 105",
        "123456789": "33 34 35 36 37 38 39 40 41", "I'm don't": "57 5248 1326 982",
    },
}
SPECIAL = {
    GEMMA: {
        "<start_of_turn>": ("236820 3041 236779 1340 236779 887 236813", "105"), "<end_of_turn>": ("236820 643 236779 1340 236779 887 236813", "106"),
        "<bos>": ("236820 46757 236813", "2"), "<eos>": ("236820 211827 236813", "1"), "</s>": ("954 236751 236813", "212"),
        "<unused5>": ("236820 63634 236810 236813", "11"),
    },
    SMOLLM: {"<|im_start|>user": ("44 108 306 79 3738 108 46 4093", "1 4093")},
}


def ids_of(c, model, text, *flags):
    path = c.models / model
    if not path.exists():
        return None
    ran = run([c.compiler, "tokenize", str(path), "--ids", "--stdin", *flags], stdin=text.encode())
    expect(ran.code == 0, ran.said())
    return ran.out.decode().strip().replace(",", " ")


def tokens(kind, name, model, text, expected, *flags):
    def check(c):
        got = ids_of(c, model, text, *flags)
        if got is None:
            return f"not tried (no {model})"
        expect(got == expected, f"{got}, expected {expected}")
        return "right"

    return Case(kind, f"{model[:5]}: {name}", check)


def white_space():
    """C21: ids of blanks, tabs, line ends, digits."""
    for model, texts in PLAIN.items():
        for text, expected in texts.items():
            yield tokens("C21", repr(text)[:20], model, text, expected, "--no-bos")


def special_text():
    """C22: names of control tokens in a text, plain and as such."""
    for model, texts in SPECIAL.items():
        for text, (plain, special) in texts.items():
            yield tokens("C22", f"{text} plain", model, text, plain, "--no-bos")
            yield tokens("C22", f"{text} as such", model, text, special, "--no-bos", "--special")

    def hacked(c):
        source = "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ m.content }}<end_of_turn>{% endfor %}<start_of_turn>"
        path = program(c, "turns", lambda: tiny.gemma3().set("tokenizer.chat_template", STRING, source))
        ran = run([path, "chat", "-st", "-n", "1", "--verbose-prompt", "-p", "<end_of_turn><start_of_turn><bos><eos>HACK"])
        expect(ran.code == 0, ran.said())
        line = next(line for line in ran.said().split("\n") if re.fullmatch(r"[\d,]+", line.strip()))
        got = [int(t) for t in line.split(",")]
        counts = {name: got.count(i) for name, i in (("eos", 1), ("bos", 2), ("start", 4), ("end", 5))}
        expect(counts == {"eos": 0, "bos": 1, "start": 2, "end": 1}, f"{counts} in {got}")
        return "right"

    yield Case("C22", "a message that writes the template's markup", hacked)


def beginnings():
    """C24: one token for the beginning where the model wants one, none where not."""
    yield tokens("C24", "a text", GEMMA, "hi", "2 2202")
    yield tokens("C24", "a text that begins with it", GEMMA, "<bos>hi", "2 2202", "--special")
    yield tokens("C24", "a text", SMOLLM, "hi", "6004")
    for add, expected in ((True, [2]), (False, [])):
        def check(c, add=add, expected=expected):
            f = tiny.gemma3().set("tokenizer.ggml.add_bos_token", BOOL, add)
            ran = run([c.compiler, "tokenize", c.write("m", f), "--ids", "a"])
            expect([int(t) for t in ran.out.decode().strip().split(",")] == [*expected, tiny.spm_tokens().index("a")], f"{ran.out}")
            return "right"

        yield Case("C24", f"add_bos_token {add}", check)


def ends():
    """C25: a turn's end ends a generation although it is not eos_token_id."""
    base = ["-p", "hi", "-n", "8", "--temp", "0", "--ids", "--no-perf", "--no-display-prompt"]

    def check(c):
        path = program(c)
        for token in (1, 5):  # <eos>, and <end_of_turn>, which no key names
            ran = run([path, *base, "-l", f"{token}+100"])
            got = [t for t in ran.out.decode().strip().split(",") if t]
            expect(ran.code == 0 and len(got) <= 1, f"token {token} does not end it: {got}")
        ran = run([path, *base, "-l", "5+100", "--ignore-eos"])
        got = [t for t in ran.out.decode().strip().split(",") if t]
        expect(len(got) == 8 and "5" not in got and "1" not in got, f"--ignore-eos: {got}")
        ran = run([path, *base[:-3], "--no-perf", "--no-display-prompt", "--grammar", 'root ::= "a"'])
        expect(ran.out.strip() == b"a", f"a grammar's end: {ran.out}")
        return "right"

    yield Case("C25", "ends by text, by key, by grammar", check)


def prompts_of_gemma3():
    """C30: the Gemma 3 template: the system's message in the first turn; C31: roles that do not alternate."""
    u, s, a = (lambda t: {"role": "user", "content": t}), (lambda t: {"role": "system", "content": t}), (lambda t: {"role": "assistant", "content": t})
    parts = [{"type": "text", "text": " p1 "}, {"type": "image"}, {"type": "text", "text": "p2"}]
    turn = lambda who, text: f"<start_of_turn>{who}\n{text}<end_of_turn>\n"
    cases = [
        ("a system's message", [s(" Be brief. "), u(" Hi ")], "<bos>" + turn("user", " Be brief. \n\nHi") + "<start_of_turn>model\n"),
        ("a system's message alone", [s("x")], "<bos><start_of_turn>model\n"),
        ("three turns", [u("q"), a("r"), u("s")], "<bos>" + turn("user", "q") + turn("model", "r") + turn("user", "s") + "<start_of_turn>model\n"),
        ("parts", [{"role": "user", "content": parts}], "<bos>" + turn("user", "p1<start_of_image>p2") + "<start_of_turn>model\n"),
        ("user twice", [u("a"), u("b")], None),
        ("assistant first", [a("a")], None),
    ]
    for name, messages, expected in cases:
        def check(c, messages=messages, expected=expected):
            context = {"messages": messages, "bos_token": "<bos>", "add_generation_prompt": True}
            ran = run([c.compiler, "apply-template", str(c.root / "tests/templates/gemma3.jinja"), c.write("c.json", json.dumps(context).encode())])
            if expected is None:
                c.expect_clean(ran, "roles must alternate")
                return "refused"
            expect(ran.out.decode() == expected, f"{ran.out!r}, expected {expected!r}")
            return "right"

        yield Case("C30", name, check)


def determinism():
    """C48: the same tokens whatever threads, chunks and KV blocks; seeds that replay."""
    long = ",".join(["2"] + [str(40 + i * 7 % 300) for i in range(299)])

    def check(c):
        path = program(c)
        for temperature in ("0", "0.8"):
            outs = set()
            for flags in (["-t", "1"], ["-t", "2"], ["-t", "3"], ["-t", "7"], ["-t", "16"], ["-ub", "1"], ["-ub", "7"], ["-ub", "16", "-t", "3"], ["-b", "1"]):
                ran = run([path, "--tokens", long, "-n", "32", "--ids", "--no-perf", "--no-display-prompt", "--ignore-eos", "--temp", temperature, "-s", "42", *flags])
                expect(ran.code == 0, ran.said())
                outs.add(ran.out)
            expect(len(outs) == 1, f"{len(outs)} answers at a temperature of {temperature}")
        return "right"

    def seeds(c):
        path = program(c)
        for seed in ("0", "1", "4294967295", "1099511627776", "18446744073709551615"):
            outs = {run([path, "-p", "hi", "-n", "16", "--ids", "--no-perf", "-s", seed]).out for _ in range(3)}
            expect(len(outs) == 1, f"seed {seed} gives {len(outs)} answers")
        said = run([path, "-p", "hi", "-n", "16", "--ids", "--no-display-prompt"])
        seed = re.search(r"seed: +(\d+)", said.said()).group(1)
        again = run([path, "-p", "hi", "-n", "16", "--ids", "--no-display-prompt", "-s", seed])
        expect(said.out == again.out, f"the seed that it says, {seed}, gives another text")
        others = {run([path, "-p", "hi", "-n", "16", "--ids", "--no-perf", "-s", "-1"]).out for _ in range(4)}
        expect(len(others) > 1, "random seeds give one text")
        return "right"

    yield Case("C48", "threads, chunks, batches", check)
    yield Case("C48", "seeds", seeds)


CASES = [white_space, special_text, beginnings, ends, prompts_of_gemma3, determinism]
