"""Vocabularies, strings of the file, templates, grammars and schemas."""
import json
import re
import struct

import tiny
from check import Case, Failed, accepts, expect, refuses, run, survives
from gguf_file import ARRAY, BOOL, F32, I32, STRING, U8, I8, U32, Array

ATTACKS = {
    "an escape sequence": "\x1b]0;owned\x07\x1b[2J",
    "C1 controls": "\x9b2J\x85",
    "lines": "a\nerror: b\r\nc",
    "NUL": "a\0b",
    "quotes": "'\"`$(touch /tmp/owned)\\",
    "the end of a comment": "*/ int x; /* // \\\n??/",
    "markup": "<script>alert(1)</script>&\"'",
    "a format": "%s%n%x{}{0}",
    "a path": "../../../../etc/passwd",
    "right to left": "\u202egnp.exe",
    "invalid UTF-8": b"\xff\xfe\xc0\x80\xed\xa0\x80",
    "a megabyte": "x" * 2**20,
}


def with_keys(keys, base=tiny.gemma3):
    f = base()
    for name, kind, v in keys:
        f.set(name, kind, v)
    return f


def byte_tokens():
    """C11: tokens of bytes, maps of characters, lists and ids of vocabularies."""
    case = lambda name, f, pattern: refuses("C11", name, f, pattern)

    def with_token(i, text, **lists):
        tokens = tiny.spm_tokens()
        tokens[i] = text
        return with_keys([("tokenizer.ggml.tokens", ARRAY, Array(STRING, tokens))])

    for text in ("<0x-1>", "<0xZZ>", "<0x0g>", "<0x>", "<0x000>", "<0x100>", "<0x 1>", "<0x+1>", "", "<0x0A", "0x0A>", "<0X0A>"):
        yield case(f"a byte token {text!r}", with_token(10, text), r"tokenizer\.ggml\.tokens.*token 10")
    n = len(tiny.spm_tokens())
    for name, element, good in (("scores", F32, 0.0), ("token_type", I32, 1)):
        for count in (0, 1, n - 1, n + 1, 10 * n):
            yield case(f"{count} {name} for {n} tokens", with_keys([(f"tokenizer.ggml.{name}", ARRAY, Array(element, [good] * count))]),
                       rf"tokenizer\.ggml\.{name}")
        yield case(f"{name} as strings", with_keys([(f"tokenizer.ggml.{name}", ARRAY, Array(STRING, ["1"] * n))]), rf"tokenizer\.ggml\.{name}")
    for kind in (-1, 7, 100, 2**31 - 1, -(2**31)):
        yield case(f"a token of type {kind}", with_keys([("tokenizer.ggml.token_type", ARRAY, Array(I32, [kind] + [1] * (n - 1)))]), "token_type")
    for score in (float("nan"), float("inf")):
        yield case(f"a score of {score}", with_keys([("tokenizer.ggml.scores", ARRAY, Array(F32, [score] + [0.0] * (n - 1)))]), "scores")
    for key in ("bos", "eos", "eot", "unknown", "padding", "fim_pre"):
        for i in (n, 2**31, -2):
            kind = I32 if i < 0 else U32
            yield survives("C11", f"{key} is {i}", with_keys([(f"tokenizer.ggml.{key}_token_id", kind, i)]))
        yield case(f"{key} is a string", with_keys([(f"tokenizer.ggml.{key}_token_id", STRING, "1")]), f"{key}_token_id")
    yield case("tokens as numbers", with_keys([("tokenizer.ggml.tokens", ARRAY, Array(U32, [1] * n))]), "tokenizer.ggml.tokens")
    yield case("no tokens", with_keys([("tokenizer.ggml.tokens", ARRAY, Array(STRING, []))]), "tokenizer.ggml.tokens")
    for merges in (["a"], [""], [" "], ["a "], ["a b c"], ["no such"], ["h e"] * 2, ["\0 \0"], ["x" * 100000 + " y"]):
        f = with_keys([("tokenizer.ggml.merges", ARRAY, Array(STRING, merges))], lambda: tiny.llama(vocabulary=tiny.bpe_keys()))
        yield survives("C11", f"merges {str(merges)[:30]}", f)
    f = tiny.llama(vocabulary=tiny.bpe_keys()).drop("tokenizer.ggml.merges")
    yield case("byte-level BPE without merges", f, "merges")
    for name in ("nosuch", "", "GPT-2", "gpt-2\0"):
        yield survives("C11", f"pre-tokenizer {name!r}", tiny.llama(vocabulary=tiny.bpe_keys()).set("tokenizer.ggml.pre", STRING, name))
    yield case("an unknown pre-tokenizer", tiny.llama(vocabulary=tiny.bpe_keys()).set("tokenizer.ggml.pre", STRING, "nosuch"), "nosuch")
    yield case("an unknown tokenizer", tiny.llama().set("tokenizer.ggml.model", STRING, "nosuch"), "tokenizer.ggml.model.*no-tokenizer")
    yield accepts("C11", "an unknown tokenizer, left out", tiny.llama().set("tokenizer.ggml.model", STRING, "nosuch"), options=["--no-tokenizer"])

    def unigram(charsmap):
        keys = [(k, t, v) for k, t, v in tiny.spm_keys() if k != "tokenizer.ggml.model"]
        keys += [("tokenizer.ggml.model", STRING, "t5"), ("tokenizer.ggml.precompiled_charsmap", ARRAY, Array(U8, list(charsmap)))]
        return tiny.gemma3(vocabulary=keys)

    trie = lambda units: b"".join(struct.pack("<I", u) for u in units)
    maps = {"1 byte": b"a", "2 bytes": b"ab", "3 bytes": b"abc", "4 bytes": bytes(4), "a length of 2^32 - 4": struct.pack("<I", 2**32 - 4) + b"abcd",
            "a length past the end": struct.pack("<I", 400) + bytes(16), "a length of 3": struct.pack("<I", 3) + b"abcde",
            "a root past the trie": struct.pack("<I", 1024) + trie([0x7FFFFC00] + [0] * 255) + b"a\0",
            "a child past the trie": struct.pack("<I", 1024) + trie([0x400] + [0x7FFFFC00 | i ^ 1 for i in range(1, 256)]) + b"a\0",
            "a replacement past the end": struct.pack("<I", 1024) + trie([0x400] + [0x500 | i ^ 1 for i in range(1, 256)]) + b"a\0",
            "a replacement that does not end": struct.pack("<I", 1024) + trie([0] * 256) + b"a",
            "random bytes": bytes((i * 197 + 31) % 256 for i in range(5000))}
    for name, data in maps.items():
        yield case(f"a map of characters: {name}", unigram(data), "precompiled_charsmap")
    yield case("a map of characters as numbers", unigram(b"").set_array("tokenizer.ggml.precompiled_charsmap", I32, [1]), "precompiled_charsmap")


def duplicate_tokens():
    """C27: tokens that are there twice: the first is written, all are read."""
    tokens = tiny.spm_tokens() + ["a", "a"]
    f = tiny.gemma3(vocabulary=tiny.spm_keys(tokens))

    def lowest(c, program):
        ran = run([program, "tokenize", "--ids", "--no-bos", "a"])
        expect(ran.out.decode().strip() == str(tokens.index("a")), f"tokens of 'a': {ran.out} {ran.said()}")

    yield accepts("C27", "two more tokens 'a'", f, lowest)
    yield accepts("C27", "two equal control tokens", with_keys([("tokenizer.ggml.tokens", ARRAY, Array(STRING, ["<eos>"] + tiny.spm_tokens()[1:]))]))


def strings():
    """STR: strings of the file that attack a terminal, a compiler, a page or a shell."""
    for name, text in ATTACKS.items():
        raw = text if isinstance(text, bytes) else text.encode()

        def plain(c, program):
            for command in (["info"], ["info", "--json"], ["--version"], ["help"]):
                ran = run([program, *command])
                expect(ran.code == 0, f"{command}: exit code {ran.code}: {ran.said()}")
                said = ran.out.decode("utf-8", "strict") if command[-1] == "--json" else ran.out.decode("utf-8", "replace")
                expect(not [ch for ch in said if ord(ch) < 32 and ch != "\n" or 127 <= ord(ch) < 160], f"{command} prints {said[:300]!r}")
                if command[-1] == "--json":
                    json.loads(said)

        f = tiny.llama()
        for key in ("general.name", "general.license", "general.author", "general.license.link", "general.description"):
            f.set(key, STRING, raw)
        yield accepts("STR", f"names and licences: {name}", f, plain)
        if len(raw) < 1000:
            g = tiny.llama()
            g.tensor("blk.0.attn_q.weight").name = raw
            yield refuses("STR", f"a tensor's name: {name}", g, "tensor")
            g = tiny.llama()
            g.keys.append((raw, U32, 1))
            yield accepts("STR", f"a key: {name}", g)
            yield refuses("STR", f"an architecture: {name}", tiny.llama().set("general.architecture", STRING, raw), "architecture")
            yield refuses("STR", f"a pre-tokenizer: {name}", tiny.llama(vocabulary=tiny.bpe_keys()).set("tokenizer.ggml.pre", STRING, raw), "pre")

        def inspected(c, f=f):
            path = c.write("model.gguf", f)
            for options in ([], ["--json"]):
                ran = run([c.compiler, "inspect", path, *options])
                expect(ran.code == 0, ran.said())
                said = ran.out.decode("utf-8", "strict")
                expect(not [ch for ch in said if ord(ch) < 32 and ch != "\n" or 127 <= ord(ch) < 160], f"inspect prints controls: {name}")
            return "accepted"

        def pages(c, f=f):
            for emit in ("html", "dot"):
                ran = run([c.compiler, c.write("model.gguf", f), "--emit", emit])
                expect(ran.code == 0, ran.said())
                expect(b"<script>alert" not in ran.out, f"--emit {emit} has the script")
            return "accepted"

        def header(c, f=f):
            outcome, out = c.compile(f, "--emit", "obj", "--header", c.path("m.h"), name="m.o")
            expect(outcome.code == 0, outcome.said())
            text = open(c.path("m.h"), "rb").read()
            body = re.sub(rb"//[^\n]*", b"", re.sub(rb"/\*.*?\*/", b"", text, flags=re.S))
            expect(b"int x;" not in body and b"error:" not in body and b"\0" not in text, "the header has the file's text as code")
            return "accepted"

        yield Case("STR", f"inspect: {name}", inspected)
        yield Case("STR", f"pictures: {name}", pages)
        yield Case("STR", f"the C header: {name}", header)
        vocabulary = tiny.spm_tokens()
        vocabulary[300] = raw
        vocabulary[4] = raw + b"2"
        yield survives("STR", f"tokens: {name}", with_keys([("tokenizer.ggml.tokens", ARRAY, Array(STRING, vocabulary))]))


MESSAGES = [{"role": "user", "content": "hi"}]


def template(name, source, expected=None, error=None, messages=MESSAGES):
    """`error`: a pattern, refused in one line; neither: either way, in bounds."""

    def check(c):
        path, context = c.write("t.jinja", source.encode()), c.write("c.json", json.dumps(messages).encode())
        ran = run([c.compiler, "apply-template", path, context])
        c.expect_small(ran)
        if expected is not None:
            expect(ran.code == 0 and ran.out.decode() == expected, f"exit code {ran.code}, {ran.out[:200]!r}, {ran.said()}")
            return "rendered"
        if ran.code == 0 and error is None:
            return "rendered"
        c.expect_clean(ran, error or "")
        return "refused"

    return Case("TPL", name, check)


def templates():
    """TPL: templates that loop, grow, nest, reach for what is not theirs, or are none."""
    bombs = {
        "a long loop": "{% for i in range(1000000000) %}{{ i }}{% endfor %}",
        "a long silent loop": "{% for i in range(1000000000) %}{% endfor %}",
        "loops in loops": "{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) %}{% endfor %}{% endfor %}{% endfor %}",
        "a repeated string": "{{ 'a' * 10000000000 }}",
        "a doubled string": "{% set ns = namespace(s='a') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s|length }}",
        "a doubled list": "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s|length }}",
        "a list of everything": "{{ range(10000000000)|list|length }}",
        "replacements that grow": "{% set ns = namespace(s='a') %}{% for i in range(60) %}{% set ns.s = ns.s.replace('a', 'aaaa') %}{% endfor %}{{ ns.s|length }}",
        "a macro that calls itself": "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
        "two macros that call each other": "{% macro f(x) %}{{ g(x) }}{% endmacro %}{% macro g(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
        "a wide format": "{{ '%999999999d' % 1 }}",
        "a wide centre": "{{ 'a'|center(10000000000) }}",
        "a wide indent": "{{ 'a\\nb'|indent(10000000000) }}",
        "a list in itself": "{% set l = [1] %}{% set _ = l.append(l) %}{{ l }}{{ l|tojson }}{{ l == l }}",
        "a power": "{{ 2 ** 100000000 }}",
        "a division by zero": "{{ 1 // 0 }}{{ 1 % 0 }}{{ 1 / 0 }}",
        "the least number": "{{ (-9223372036854775807 - 1) // -1 }}{{ -(-9223372036854775807 - 1) }}",
        "splits": "{{ ('a,' * 1000000).split(',')|length }}",
        "slices": "{{ 'abc'[9223372036854775807:-9223372036854775807:-9223372036854775807] }}{{ [1, 2][::0] }}",
        "batches": "{{ [1, 2, 3]|batch(0)|list }}",
        "attributes of Python": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "globals of Python": "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "an import": "{% import 'os' as os %}{% include '/etc/passwd' %}{% extends '/etc/passwd' %}",
    }
    for name, source in bombs.items():
        yield template(name, source)
    for n in (100, 1000, 10000, 100000):
        for what, opened, closed in (("parentheses", "(", ")"), ("lists", "[", "]"), ("dicts", "{'a':", "}")):
            yield template(f"{n} nested {what}", "{{ " + opened * n + "1" + closed * n + " }}")
        yield template(f"{n} nested ifs", "{% if true %}" * n + "{% endif %}" * n)
        yield template(f"{n} nested loops", "{% for x in [1] %}" * n + "{% endfor %}" * n)
        yield template(f"{n} times not", "{{ " + "not " * n + "1 }}")
        yield template(f"{n} times minus", "{{ " + "-" * n + "1 }}")
        yield template(f"{n} filters", "{{ 'a'" + "|upper" * n + " }}")
        yield template(f"{n} sums", "{{ 1" + "+1" * n + " }}")
        yield template(f"{n} attributes", "{{ a" + ".b" * n + " }}")
        yield template(f"{n} elifs", "{% if 0 %}" + "{% elif 0 %}" * n + "{% endif %}")
    for source in ("{{", "{%", "{#", "{{ }}", "{% %}", "{% if %}", "{% endif %}", "{% for %}", "{% for x in %}{% endfor %}", "{{ 'a }}", "{{ a b }}",
                   "{{ a. }}", "{{ a[ }}", "{{ a| }}", "{{ f( }}", "{% set %}", "{% set a %}", "{% macro %}", "{% nosuch %}", "{{ 1|nosuch }}",
                   "{{ 1 is nosuch }}", "{% if 1 %}", "{% raw %}", "{{ '\\x", "{{ 99999999999999999999999 }}x", "{% else %}", "{% endfor %}"):
        yield template(f"{source!r} is none", source, error="" if "999" not in source else None)
    yield template("undefined prints nothing", "[{{ nosuch }}]", "[]")
    yield template("an attribute of undefined", "{{ nosuch.a }}", error="undefined")
    yield template("what it raises", "{{ raise_exception('roles\x1b[2J must alternate') }}", error="must alternate")
    yield template("its own escape sequences", "{{ messages[0].content }}\x1b[2J", "hi\x1b[2J")
    for name, text in (("no JSON", b"{"), ("no messages", b"{}"), ("NaN", b"[NaN]"), ("invalid UTF-8", b'["\xff"]'), ("NUL", b'"\0"'),
                       ("deep", b"[" * 100000), ("deep objects", b'{"a":' * 100000), ("nothing", b""), ("a big number", b"[1e999]"),
                       ("twice the same key", b'{"messages": [], "messages": 1}'), ("half a surrogate", b'["\\ud83d"]')):
        def context(c, text=text):
            ran = run([c.compiler, "apply-template", c.write("t", b"{{ messages }}"), c.write("c.json", text)])
            c.expect_small(ran)
            if ran.code != 0:
                c.expect_clean(ran, "")
                return "refused"
            return "rendered"

        yield Case("TPL", f"the context: {name}", context)
    for name, source in bombs.items():
        def compiled(c, source=source):
            # Templates of a file are compiled into the program, which a bomb must not stop.
            outcome, program = c.compile(tiny.gemma3().set("tokenizer.chat_template", STRING, source))
            if outcome.code != 0:
                c.expect_clean(outcome, "template")
                return "refused"
            ran = run([program, "chat", "-st", "-p", "hi", "-n", "1"])
            expect(ran.code in (0, 1), f"exit code {ran.code}: {ran.said()}")
            expect(c.sanitized or ran.kib < 512 * 1024 and ran.seconds < 5, f"{ran.kib} KiB, {ran.seconds} s")
            return "accepted"

        yield Case("TPL", f"in a program: {name}", compiled)


def grammar(kind, name, source, text, answer=None, error=None, schema=False):
    """`answer`: whether the text is a sentence; `error`: a pattern of the refusal; neither: any of these, in bounds."""

    def check(c):
        flag = "--json-schema" if schema else "--grammar"
        source_bytes = source if isinstance(source, bytes) else source.encode()
        ran = run([c.compiler, "check-grammar", flag, c.write("grammar", source_bytes), "-"], stdin=text.encode())
        c.expect_small(ran)
        if answer is not None:
            expect(ran.code == (0 if answer else 2), f"exit code {ran.code}: {ran.out[:200]!r} {ran.said()}")
            return "accepted"
        if ran.code in (0, 2) and error is None:
            return "accepted"
        c.expect_clean(ran, error or "")
        return "refused"

    return Case(kind, name, check)


def recursion():
    """C38: left recursion, empty alternatives, missing rules."""
    g = lambda *args, **more: grammar("C38", *args, **more)
    for source, good, bad in (
        ('root ::= root "a" | "b"', "baaa", "aab"),
        ('root ::= e\ne ::= (i | e "+" e)\ni ::= [0-9]+', "1+22+3", "1++2"),
        ('root ::= x "a" | "c"\nx ::= y "b"\ny ::= root', "cba", "cb"),
        ('root ::= ("a"*)*', "aaaa", "ab"),
        ('root ::= ("" | "x")* "y"', "xxxy", "xx"),
        ('root ::= (("a"?)*)+ "b"', "aab", "a"),
        ('root ::= ""', "", "a"),
        ('root ::= "a" |', "", "b"),
        ('root ::= ("a" | ) "b"', "b", "a"),
    ):
        yield g(f"{source!r}, a sentence", source, good, True)
        yield g(f"{source!r}, no sentence", source, bad, False)
    for source in ('root ::= nosuch', 'rot ::= "a"', "", "root", "root ::", 'root ::= "a', "root ::= [a", "root ::= (", "root ::= )", "root ::= a*",
                   'root ::= "\\q"', 'root ::= "\\x4"', 'root ::= "\\u12"', "root ::= [b-a]", "root ::= *", "root ::= {1}", 'root ::= "a"{', "::= a", "\0"):
        yield g(f"{source!r}", source, "", error="")


def repetitions():
    """C39: repetitions, depths and lengths past reason."""
    g = lambda *args, **more: grammar("C39", *args, **more)
    for count in ("{2000000000,2147483647}", "{5,0}", "{99999999999999999999}", "{0,99999999999999999999}", "{-1}", "{1,-1}", "{4294967296}", "{,}"):
        yield g(f"a{count}", f'root ::= "a"{count}', "a")
    yield g("a{5,0} is refused", 'root ::= "a"{5,0}', "a", error="")
    yield g("a thousand to the third", 'root ::= ((("a"{1000}){1000}){1000})', "a")
    yield g("a thousand to the tenth", "root ::= " + "(" * 10 + '"a"' + "{1000})" * 10, "a")
    for n in (100, 1000, 60000, 1000000):
        yield g(f"{n} parentheses", "root ::= " + "(" * n + '"a"' + ")" * n, "a")
        yield g(f"{n} parentheses, open", "root ::= " + "(" * n, "a", error="")
        yield g(f"{n} stars", 'root ::= "a"' + "*" * n, "aa")
    for n in (5000, 100000):
        yield g(f"a chain of {n} rules", "".join(f"r{i} ::= r{i + 1}\n" for i in range(n)).replace("r0 ", "root ") + f'r{n} ::= "a"', "a")
    yield g("many alternatives", "root ::= " + " | ".join(f'"{i}"' for i in range(20000)), "777", True)
    yield g("a long literal", f'root ::= "{"a" * 1000000}"', "a" * 1000000, True)
    yield g("2000 letters of 2000", "root ::= [a-z]{2000}", "a" * 2000, True)
    for n in (1999, 2001):
        yield g(f"{n} letters of 2000", "root ::= [a-z]{2000}", "a" * n, False)
    for most in (2000, 10000):
        schema = json.dumps({"type": "string", "maxLength": most})
        yield g(f"a string of {most} of {most}", schema, json.dumps("a" * most), True, schema=True)
        yield g(f"a string of {most + 1} of {most}", schema, json.dumps("a" * (most + 1)), False, schema=True)
    yield g("invalid UTF-8", b'root ::= "\xff\xfe"', "a")
    yield g("NUL", b'root ::= "a\0b"', "a")


def characters():
    """C43: classes of characters of more than one byte."""
    g = lambda *args: grammar("C43", *args)
    for source, good, bad in (
        ('root ::= [\U0001f600-\U0001f64f]+ "."', "\U0001f600\U0001f64f.", "\U0001f680."),
        ('root ::= "\\U0001F600"', "\U0001f600", "\U0001f601"),
        ("root ::= [\u0430-\u044f]{3}", "\u0430\u0431\u044f", "\u0430\u0431a"),
        ("root ::= [\u4e00-\u9fa5]+", "\u4e00\u4e2d\u9fa5", "\u3042"),
        ("root ::= [^a]", "\U0001f600", "ab"),
        ("root ::= [^a]", "b", "a"),
        ('root ::= "\\x41"', "A", "a"),
        ("root ::= [\\x00-\\x1F]", "\x1f", " "),
        ("root ::= [\\U00010000-\\U0010FFFF]", "\U0010ffff", "\uffff"),
    ):
        yield g(f"{source!r} {good!r}", source, good, True)
        yield g(f"{source!r} {bad!r}", source, bad, False)


def schemas():
    """C41: references, their order, loops, escapes, and what no grammar can say."""
    s = lambda name, schema, text="1", answer=None, error=None: grammar(
        "C41", name, schema if isinstance(schema, (str, bytes)) else json.dumps(schema), text, answer, error, schema=True)
    a, b = {"enum": ["x", "y"]}, {"type": "object", "properties": {"payload": {"$ref": "#/$defs/A"}}, "required": ["payload"]}
    for name, defs in (("before", {"C": b, "A": a}), ("after", {"A": a, "C": b})):
        schema = {"$defs": defs, "$ref": "#/$defs/C"}
        yield s(f"$defs {name} use", schema, '{"payload": "x"}', True)
        yield s(f"$defs {name} use, another value", schema, '{"payload": "z"}', False)
    tree = {"$defs": {"n": {"type": "object", "properties": {"l": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}}, "required": ["l"],
                            "additionalProperties": False}}, "$ref": "#/$defs/n"}
    yield s("a tree", tree, '{"l": {"l": {"l": null}}}', True)
    yield s("no tree", tree, '{"l": {"l": 1}}', False)
    path = {"type": "object", "properties": {"a": {"anyOf": [{"type": "integer"}]}, "b": {"$ref": "#/properties/a/anyOf/0"}}, "required": ["a", "b"]}
    yield s("a reference into an array", path, '{"a": 1, "b": 2}', True)
    for name, ref in (("itself", "#"), ("nothing", "#/nope"), ("a place past an array", "#/anyOf/7"), ("another host", "http://example.com/a.json"),
                      ("a file", "file:///etc/passwd"), ("an empty name", ""), ("odd escapes", "#/%zz/~2")):
        yield s(f"a reference to {name}", {"$ref": ref}, error="")
    yield s("two that refer to each other", {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, error="")
    yield s("escapes in references", {"$defs": {"a/b~c%d": {"const": 1}}, "$ref": "#/$defs/a~1b~0c%25d"}, "1", True)
    for name in ('a"b', "", "\u00e9", "\\", "\n", "\u202e"):
        schema = {"type": "object", "properties": {name: {"const": 1}}, "required": [name], "additionalProperties": False}
        yield s(f"a property {name!r}", schema, json.dumps({name: 1}, ensure_ascii=False), True)
    for text in ('"\\u00e9"', '"\\ud83d\\ude00"', '"\U0001f600"'):
        yield s(f"the string {text}", {"type": "string"}, text, True)
    for text, good in (("{}", True), ("true", True)):
        yield s(f"the schema {text}", text, '[1, {"a": null}]', good)
    yield s("the schema false", "false", "1")
    yield s("types as a list", {"type": ["string", "null"]}, "null", True)
    for name, text in (("no JSON", "{"), ("nothing", ""), ("a number", "1"), ("a string", '"a"'), ("a list", "[]"), ("deep", '{"not":' * 50000),
                       ("a type that is none", '{"type": "nosuch"}'), ("a type that is a number", '{"type": 1}'), ("properties that are a list", '{"properties": []}'),
                       ("items that are a number", '{"items": 1}'), ("an empty enum", '{"enum": []}'), ("an empty anyOf", '{"anyOf": []}'),
                       ("negative lengths", '{"minLength": -1}'), ("lengths past each other", '{"type": "string", "minLength": 5, "maxLength": 1}'),
                       ("numbers past each other", '{"type": "integer", "minimum": 5, "maximum": 1}'), ("a length of 1e400", '{"maxLength": 1e400}'),
                       ("a length of 2^63", '{"type": "string", "minLength": 9223372036854775808}'), ("a pattern that is none", '{"pattern": "("}'),
                       ("a pattern that explodes", '{"pattern": "^((a{1,1000}){1,1000}){1,1000}$"}'), ("a pattern of patterns", '{"pattern": "(a+)+$"}'),
                       ("invalid UTF-8", b'{"const": "\xff"}'), ("half a surrogate", '{"const": "\\ud83d"}'), ("a NUL", '{"const": "\\u0000"}'),
                       ("100000 required", json.dumps({"type": "object", "required": [str(i) for i in range(100000)]})),
                       ("many properties", json.dumps({"type": "object", "properties": {str(i): {} for i in range(3000)}})),
                       ("many anyOf", json.dumps({"anyOf": [{"const": i} for i in range(10000)]})),
                       ("allOf of anyOf", json.dumps({"allOf": [{"anyOf": [{"minimum": i}, {"maximum": -i}]} for i in range(40)]})),
                       ("a doubling of references", json.dumps({"$defs": {str(i): {"type": "array", "prefixItems": [{"$ref": f"#/$defs/{i + 1}"}] * 2}
                                                                          for i in range(60)} | {"60": {}}, "$ref": "#/$defs/0"}))):
        yield s(name, text)


CASES = [byte_tokens, duplicate_tokens, strings, templates, recursion, repetitions, characters, schemas]
