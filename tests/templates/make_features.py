#!/usr/bin/env python3
"""Writes features.json: what jinja2 (3.1), in the environment of chat templates, makes of small templates, one feature
each. Needs jinja2 from PyPI; run it after adding a case."""
import datetime
import json
import pathlib

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

CONTEXT = {
    "s": "Hello, World", "u": "Größe ŁÓDŹ σίγΜΑΣ 漢字 🙂 ﬁ", "n": 7, "f": 2.5, "t": True, "z": None, "empty": [],
    "l": [3, 1, 2], "words": ["b", "A", "c", "a"], "d": {"b": 1, "a": "x", "items": [1], "C": None},
    "nested": [{"k": {"v": 1}, "n": "x"}, {"k": {"v": 2}, "n": "y"}, {"n": "z"}],
    "html": "<b>\"it's\" & so</b>", "lines": "one\n\n  two\nthree\n", "ctl": "\x00\x1f\x7f\t\"\\/é🙂",
    "tree": [{"v": 1, "c": [{"v": 2, "c": [{"v": 3, "c": []}]}, {"v": 4, "c": []}]}],
}

CASES = r'''
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ -2 ** 2 }}
{{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1e3 }} {{ 1e16 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} {{ 1.0 }} {{ 123456789.125 }} {{ 1e22 }} {{ 1e-4 }}
{{ 5.0e-324 }} {{ 1.7976931348623157e308 }} {{ 0.30000000000000004 }} {{ 1/3 }} {{ 2.675|round(2) }} {{ 1e300 * 1e10 }}
{{ 10 / 4 }} {{ 3 * 'ab' }} {{ [1] * 3 }} {{ 'a' 'b' }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 }}
{{ true + 1 }} {{ true == 1 }} {{ 1 == 1.0 }} {{ '1' == 1 }} {{ none == false }} {{ [1, 2] == (1, 2) }} {{ [1, [2]] == [1, [2]] }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1 != 2 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ not 1 == 2 }}
{{ 1 in [1] }} {{ 1 not in [1] }} {{ 'ell' in s }} {{ 'b' in d }} {{ '' in '' }} {{ not 'x' in s }}
{{ 'x' ~ 1 ~ none ~ true ~ 2.0 ~ [1, 'a'] }} {{ missing ~ 'x' }}
{{ 1 if t else 2 }} {{ 1 if z }}| {{ 1 if false else 2 if false else 3 }} {{ (1 if z) is defined }}
{{ t and 'yes' or 'no' }} {{ z or 'dflt' }} {{ 0 and 1 }} {{ '' or [] }}
{{ [1, 'a', none, true, 1.5, {'k': [()]}, (1,), (1, 2)] }}
{{ "it's" }} {{ ["it's", 'say "hi"', 'b\\s', "both ' \"", 'nl\n', 'é🙂', '\x00\x7f\u200b'] }}
{{ {'a': 1, 2: 'b', none: true, 1.5: []} }} {{ {} }} {{ [] }} {{ () }}
{{ 'abc'[::-1] }} {{ [1, 2, 3, 4][-2:] }} {{ l[0] }} {{ l[-1] }} {{ s[1:4] }} {{ s[:-3] }} {{ s[::2] }} {{ u[-9:-5] }} {{ u[3] }} {{ l[5:1] }} {{ l[::-1] }} {{ s[10:100] }} {{ l[-100:2] }} {{ (1,2,3)[1:] }}
{{ d.b }} {{ d['b'] }} {{ d.missing }}| {{ d['items'] }} {{ d.get('zz') }} {{ d.get('zz', 5) }} {{ d.get('a') }} {{ nested[0].k.v }} {{ nested.0.n }} {{ nested[2].k }}|
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {{ d.keys()|list }} {{ d.values()|list }} {{ d.items() }}
{{ d|dictsort }} {{ d|dictsort(true) }} {{ {'b': 1, 'a': 2}|dictsort(by='value') }} {{ {'b': 1, 'a': 2}|dictsort(reverse=true) }}
{{ l|sort }} {{ l|sort(reverse=true) }} {{ words|sort }} {{ words|sort(case_sensitive=true) }} {{ nested|sort(attribute='n', reverse=true)|map(attribute='n')|list }}
{{ l|first }} {{ l|last }} {{ l|length }} {{ l|count }} {{ s|length }} {{ u|length }} {{ d|length }} {{ empty|first }}| {{ l|sum }} {{ l|max }} {{ l|min }} {{ nested|sum(attribute='missing') if false }}
{{ l|join(',') }} {{ l|join }} {{ nested|join('-', attribute='n') }} {{ l|reverse|list }} {{ s|reverse }} {{ words|unique|list }} {{ s|list }}
{{ nested|map(attribute='n')|list }} {{ nested|map(attribute='k.v', default=0)|list }} {{ words|map('upper')|list }} {{ words|map('replace', 'a', 'Q')|join }}
{{ [0, 1, 2, '']|select|list }} {{ l|select('odd')|list }} {{ l|reject('equalto', 1)|list }} {{ nested|selectattr('k')|list|length }} {{ nested|selectattr('n', 'equalto', 'y')|list }} {{ nested|rejectattr('k', 'defined')|list }} {{ none|select|list }} {{ none|map('upper')|list }}
{{ nested|selectattr('k', 'defined')|map(attribute='k')|map(attribute='v')|sum }} {{ l|select('>', 1)|list }} {{ l|select('in', [1, 2])|list }}
{{ s|upper }} {{ s|lower }} {{ s|title }} {{ s|capitalize }} {{ u|upper }} {{ u|lower }} {{ u|title }} {{ u.swapcase() }} {{ u.capitalize() }} {{ 'ß'.upper() }} {{ "they're bill's".title() }} {{ "foo-bar (baz)"|title }}
{{ '  x '|trim }}| {{ 'xxaxx'|trim('x') }} {{ '\u00a0\u2003x\n'|trim }}| {{ '--a-'.strip('-') }} {{ '  a '.lstrip() }}| {{ '  a '.rstrip() }}| {{ 'éxé'.strip('é') }}
{{ s|replace('l', 'L') }} {{ s|replace('l', 'L', 1) }} {{ s.replace('l', '') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'abc'.replace('', '-') }} {{ 'abc'.replace('', '-', 2) }} {{ 'éé'.replace('', '.') }}
{{ s.split() }} {{ s.split(',') }} {{ s.split('l', 1) }} {{ '  a  b c '.split() }} {{ '  a  b c '.split(none, 1) }} {{ 'a,b,,c'.split(',') }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a b c'.rsplit(' ', 1) }} {{ ' a b  c '.rsplit(none, 1) }} {{ 'a--b--c'.rsplit('--') }}
{{ lines.splitlines() }} {{ lines.splitlines(true) }} {{ 'a\r\nb\rc'.splitlines() }} {{ 'k=v=w'.partition('=') }} {{ 'k=v=w'.rpartition('=') }} {{ 'kv'.partition('=') }}
{{ s.startswith('He') }} {{ s.endswith(('x', 'ld')) }} {{ s.startswith('lo', 3) }} {{ s.find('o') }} {{ s.find('zz') }} {{ s.rfind('o') }} {{ u.find('漢') }} {{ s.count('l') }} {{ s.count('') }} {{ s.index('W') }}
{{ 'abc'.isalpha() }} {{ 'ab1'.isalnum() }} {{ '12'.isdigit() }} {{ ''.isdigit() }} {{ ' \t'.isspace() }} {{ 'Ab'.islower() }} {{ 'AB1'.isupper() }} {{ 'é'.isascii() }} {{ '12'.isnumeric() }}
{{ 'x'.center(5) }}| {{ 'x'.center(4, '*') }} {{ 'x'.ljust(3) }}| {{ 'x'.rjust(3, '0') }} {{ '-5'.zfill(4) }} {{ 'ab'.removeprefix('a') }} {{ 'ab'.removesuffix('b') }} {{ '-'.join(['a', 'b']) }} {{ ', '.join(d.keys()) }}
{{ '%s is %d' % ('x', 5) }} {{ '%05.2f|%-5s|%5s|%+d|%x|%X|%o|%%' % (3.14159, 'a', 'b', 5, 255, 255, 8) }} {{ '%s' % 5 }} {{ '%r' % 'a' }} {{ '%(k)s' % {'k': 1} }} {{ '%e' % 12345.678 }} {{ '%g %g %g' % (0.0001, 1e10, 1.5) }} {{ '%5.1f|%3d|%03d' % (2.25, 5, 5) }} {{ '%.3s' % 'abcdef' }} {{ '%c%c' % ('a', 98) }}
{{ '{} {}'.format(1, 'a') }} {{ '{1} {0}'.format(1, 'a') }} {{ '{x}'.format(x=3) }} {{ '{:>5}|{:<5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd') }} {{ '{:05d} {:+} {:,} {:.2f} {:x} {:#x} {:b} {:%} {:e}'.format(5, 5, 1234567, 3.14159, 255, 255, 5, 0.25, 1234.5) }} {{ '{{}} {0[0]} {0[1]}'.format([1, 2]) }} {{ '{!r} {:>{w}}'.format('a', 'b', w=4) }} {{ '{:.3}'.format('abcdef') }} {{ '{:g} {:.3g}'.format(1.5, 1234.5) }} {{ '{}'.format(1.0) }}
{{ "%s %s"|format(1, 2) }} {{ "%(a)s"|format(a=1) }}
{{ 42|string + 'x' }} {{ '42'|int + 1 }} {{ 'x'|int }} {{ 'x'|int(5) }} {{ '3.9'|int }} {{ 3.9|int }} {{ ' 12 '|int }} {{ '1f'|int(0, 16) }} {{ '0x1f'|int(0, 16) }} {{ '2.5'|float }} {{ 'x'|float }} {{ true|int }} {{ '1_000'|int }} {{ none|int }}
{{ 2.5|round }} {{ 3.5|round }} {{ 2.45|round(1) }} {{ 7|round }} {{ 2.1|round(method='ceil') }} {{ 2.9|round(0, 'floor') }} {{ -5|abs }} {{ -2.5|abs }} {{ 1234|round(-2) }} {{ 2.5|round|int }}
{{ missing|default('d') }} {{ z|default('d') }} {{ z|default('d', true) }} {{ ''|d('e', boolean=true) }} {{ missing|default }}| {{ d.zz|default([]) }}
{{ lines|indent }}| {{ lines|indent(2, true) }}| {{ lines|indent(2, blank=true) }}| {{ 'a\nb'|indent('> ', first=true) }} {{ ''|indent }}|
{{ d|tojson }} {{ l|tojson(indent=2) }} {{ d|tojson(indent=4) }} {{ ctl|tojson }} {{ ctl|tojson(ensure_ascii=true) }} {{ [1.0, 1e100, -0.0, 2.5e-7, none, true]|tojson }} {{ {'b': 1, 'a': {}}|tojson(sort_keys=true) }} {{ [1, {'a': []}]|tojson(separators=(',', ':')) }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ []|tojson(indent=2) }} {{ html|tojson }} {{ (1, 2)|tojson }} {{ [[], {}, [1]]|tojson(indent=1) }}
{{ html|e }} {{ html|safe }} {{ ('<b>'|safe) + '<i>' }} {{ '<i>' + ('<b>'|safe) }} {{ ('<b>'|safe) ~ '<i>' }} {{ html|escape|upper }} {{ html|e|e }} {{ html|forceescape }} {{ ('<'|safe).join(['>', '&']) if false }}
{{ [1,2,3,4,5]|batch(2)|list }} {{ [1,2,3,4,5]|batch(2, 'x')|list }} {{ [1,2,3,4,5]|slice(3)|list }} {{ [1,2,3,4,5]|slice(3, 'x')|list }}
{{ 'hello world foo'|truncate(9) }} {{ 'hello world'|truncate(9, true, '..', 0) }} {{ 'hello world foo bar'|wordcount }} {{ 'x'|center(5) }}|
{% for g, items in nested|groupby('n') %}{{ g }}:{{ items|length }};{% endfor %}{% for g in [{'a': 'X', 'b': 1}, {'a': 'x', 'b': 2}, {'a': 'w', 'b': 3}]|groupby('a') %}{{ g.grouper }}={{ g.list|map(attribute='b')|list }} {% endfor %}
{{ d|items|list }} {{ missing|items|list }} {{ d|attr('get') is callable }} {{ d|attr('b') }}|
{{ 1 is number }} {{ true is number }} {{ true is integer }} {{ 1 is integer }} {{ 1.5 is float }} {{ 's' is string }} {{ d is mapping }} {{ l is mapping }} {{ l is sequence }} {{ s is sequence }} {{ s is iterable }} {{ 5 is iterable }} {{ z is none }} {{ z is not none }} {{ t is true }} {{ 1 is true }} {{ t is boolean }} {{ missing is defined }} {{ missing is undefined }} {{ z is defined }} {{ d.zz is defined }}
{{ 4 is even }} {{ 3 is odd }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 'a' is lower }} {{ 'A' is upper }} {{ 1 is eq 1 }} {{ 1 is lt 2 }} {{ 2 is ge(2) }} {{ 'a' is in ['a'] }} {{ 1 is sameas 1 }} {{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ range is callable }} {{ missing is sequence }} {{ missing is iterable }} {{ range(3) is sequence }} {{ d.items() is sequence }} {{ l|map('abs') is sequence }}
{{ range(5)|list }} {{ range(2, 8, 3)|list }} {{ range(3, 0, -1)|list }} {{ range(3) }} {{ range(5)[1:3]|list }} {{ range(10)|length }} {{ range(0)|list }} {{ dict(a=1, b=2) }} {{ dict([('x', 1)]) }} {{ dict({'a': 1}, b=2) }}
{% set ns = namespace(x=0, y=[]) %}{% for i in [1, 2, 3] %}{% set ns.x = ns.x + i %}{% set ns.y = ns.y + [i] %}{% endfor %}{{ ns.x }} {{ ns.y }} {{ ns.zz is defined }} {% set ns.new = 1 %}{{ ns.new }}
{% set x = 0 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}
{% for i in [1, 2] %}{% if i == 1 %}{% set q = 5 %}{% endif %}{{ q }}|{% endfor %}
{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }} {{ loop.previtem }}/{{ loop.nextitem }};{% endfor %}
{% for i in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(i > 1) }}{% endfor %} {% for i in empty %}x{% else %}none{% endfor %} {% for i in missing %}x{% else %}undefined{% endfor %}
{% for i in range(10) if i is odd %}{{ i }}{{ loop.length }}{% if not loop.last %},{% endif %}{% endfor %}
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %} {% for k in d %}{{ k }}{% endfor %} {% for c in 'é🙂' %}[{{ c }}]{% endfor %} {% set a, b = 1, 2 %}{{ a }}{{ b }} {% set p = 1, 2 %}{{ p }}
{% for n in tree recursive %}{{ loop.depth0 }}:{{ n.v }}{% if n.c %}({{ loop(n.c) }}){% endif %} {% endfor %}
{% macro m(a, b='z', c=a) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 'q') }}{{ m(b=2, a=3) }}{{ m() }}{{ m.name }}
{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, k=3) }} {% macro w(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call w('b') %}in{% endcall %} {% macro e(l) %}{% for x in l %}{{ caller(x) }}{% endfor %}{% endmacro %}{% call(i) e([1, 2]) %}<{{ i }}>{% endcall %}
{% macro fact(n) %}{{ 1 if n < 2 else n * (fact(n - 1)|int) }}{% endmacro %}{{ fact(10) }} {% set g = 1 %}{% macro show() %}{{ g }}{% endmacro %}{% set g = 2 %}{{ show() }}
{% set x %}a{{ 1 }}b{% endset %}{{ x }}{{ x|length }} {% set y | upper %}abc{% endset %}{{ y }} {% filter upper|replace('B', '-') %}abc{% endfilter %} {% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }} {% block name %}in block{% endblock %}
{% generation %}gen{% endgeneration %} {% raw %}{{ raw }} {% if %}{% endraw %} {# comment #}x{#- c -#} y {% print 1, 2 %}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }} {% set j = joiner('; ') %}{{ j() }}a{{ j() }}b{{ j() }}
{% if 0 %}a{% elif 0.0 %}b{% elif '' %}c{% elif [] %}d{% elif {} %}e{% elif none %}f{% elif missing %}g{% else %}h{% endif %} {% if not d.zz %}ok{% endif %}
{{ strftime_now('%d %b %Y') }} {{ strftime_now('%Y-%m-%d %H:%M:%S %j %a %A %B %p %I %y %-d %e %F %T %%') }} {{ strftime_now('%U %W %V %G %u %w %D %R %C %h') }}
{{ '\u00e9\x41\n\t\\ \'\" \101 \q' }} {{ 'a\
b' }} {{ "\U0001F642" }}
{{ (s)|upper ~ '!' }} {{ s|upper|lower|title }} {{ -1|abs }} {{ (-1)|abs }} {{ 2 + 3|float }} {{ not false and true }} {{ 'a' if 'x' in s else 'b' }} {{ s.split(', ')[1][0] }} {{ [1,2,3][1:][0] }} {{ 'abc' is string and true }} {{ 1 is not string }} {{ (1, 2)|length }} {{ l|join(', ')|upper }}
{{ [[1, 2], [3]]|map('join', '+')|join(';') }} {{ ['a', 'b']|map('tojson')|join(', ') }} {{ nested|map(attribute='n')|map('upper')|join }}
{{ {'a': 1}.get('a') }} {{ {'x': {'y': 2}}.x.y }} {{ {'a': 1, 'a': 2} }} {{ [1, 2, 3].index(2) }} {{ [1, 1].count(1) }} {{ d.copy() == d }}
{{ *[1], }}
{% set f = range %}{{ f(*[1, 3])|list }} {% macro k(a, b) %}{{ a }}-{{ b }}{% endmacro %}{{ k(**{'a': 1, 'b': 2}) }} {{ k(*[3, 4]) }}
{{ '🙂é漢'[1:] }} {{ '🙂é漢'|upper|list }} {{ 'İ'|lower|length }} {{ 'ŉ'|upper }} {{ 'Ǆ'|lower }} {{ 'ΑΣ ΑΣΑ'|lower }}
{{ 9223372036854775807 }} {{ -9223372036854775807 - 1 }} {{ 9223372036854775806 + 1 }}
{{ l.append(4) }}
{{ d.update({'x': 1}) }}
{{ d.pop('a') is defined }}
{{ missing.foo }}
{{ missing() }}
{{ missing + 'x' }}
{{ 'x' + missing }}
{{ 'x' + 1 }}
{{ 1 + 'x' }}
{{ [1] + 'x' }}
{{ 'x' + l }}
{{ none + 1 }}
{{ 1 / 0 }}
{{ 1 < 'a' }}
{{ l['x'].y }}
{{ l[9].y }}
{{ none.x.y }}
{{ none[1:] }}
{{ s.nope() }}
{{ s() }}
{{ 5|length }}
{{ z|length }}
{{ z|list }}
{% for i in 5 %}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{% endfor %}
{{ {[1]: 2} }}
{{ 1 in 5 }}
{{ 1 in 'a' }}
{{ l|map('upper')|tojson }}
{{ missing|tojson }}
{{ raise_exception('Roles must alternate: ' ~ n) }}
{{ l|map('nope')|list }}
{% if false %}{{ s|nope }}{% endif %}ok
{{ 'x' if true else s|nope }}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(b=2) }}
{% set z.x = 1 %}
{{ range(1000000) }}
{{ ''|first|upper }}
{{ s.index('zz') }}
{{ ','.join([1]) }}
{{ s.__class__ }}
{{ s.__class__.__mro__ }}
{{ '{0.__class__}'.format(s) }}
{{ l|sort(attribute='x')|first is defined }}
{{ [1, 'a']|sort }}
{{ loop }}
{% for i in l %}{{ loop(l) }}{% endfor %}
{{ '%d' % 'x' }}
{{ '%s %s' % 'x' }}
{{ '%s' % ('x', 'y') }}
{{ '{}'.format() }}
'''

WHITESPACE = [
    "  {% if true %}\n  x\n  {% endif %}\ny\n", "a\n  {%- if true -%}  \n b {%- endif %}\n\n c\n\n", "{%+ if true %}\n  a{%+ endif %}\nb",
    "  {%+ if true +%}\n x\n  {% endif +%}\ny", "a {{- 1 -}} b {{ 2 }} \n c {{+ 3 }}\n", "x\n   {# c #}\n y {#- d -#} \n z", "\r\na\r\nb\rc\n\n",
    "{% raw %}\n  {{ x }}\n  {%- endraw %}\nz", "  {%- raw -%}  a  {%- endraw -%}  b", "a\n\t{% set x = 1 %}\t\nb{{ x }}\n", "{% if true %}{% endif %}  {% if true %}\nq{% endif %}",
    "{{ {'a': {'b': 1}}['a']['b'] }}}", "\n\n  {% for i in [1, 2] %}\n  {{ i }}\n  {% endfor %}\n  end\n\n", "{{ '}}' }}{{ '%}' }}", "a{# {{ #}b{#+ x +#}\nc",
    "{% for i in [1] -%}\n  {% if i %}\n  t\n  {%- endif %}\n{% endfor %}\n", "é {%- if true %} ü{% endif -%}  ß",
]

BROKEN = [
    "{{ x", "{% if x %}", "{% endif %}", "{{ 'abc }}", "{# x", "{{ 1 + }}", "{% for %}{% endfor %}", "{% nope %}", "{{ (1 }}", "{{ 1 ) }}", "{{ s|nope }}",
    "{{ s is nope }}", "{% set %}", "{% break %}", "{% macro %}{% endmacro %}", "{{ a.}}", "{% if x %}{% else %}", "{{ $ }}", "{% set true = 1 %}",
    "{% raw %}x", "{{ f(a=1, 2) }}", "{{ [1, 2 }}", "{% block a %}", "{{ 'a' 5 }}", "{% for x in y %}{% endif %}",
]


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: datetime.datetime(2026, 1, 2, 3, 4, 5).strftime(f)
    return env


def case(source):
    try:
        return {"template": source, "prompt": environment().from_string(source).render(**CONTEXT)}
    except Exception as e:
        return {"template": source, "error": str(e)}


def main():
    one_line = [c.replace("\0", "\n") for c in CASES.strip().replace("\\\n", "\\\0").split("\n")]
    # Each {{ }} of a line by itself too, so that one that fails does not hide the others.
    pieces = [p + "}}" for c in one_line if c.startswith("{{") and "{%" not in c and "'{" not in c for p in c.split("}}")[:-1]]
    sources = one_line + [p.strip() for p in pieces if "{{" in p and p.count("{{") == 1] + WHITESPACE + BROKEN
    seen = dict.fromkeys(sources)
    out = {"context": CONTEXT, "cases": [case(s) for s in seen]}
    path = pathlib.Path(__file__).parent / "features.json"
    path.write_text(json.dumps(out, ensure_ascii=False, indent=0) + "\n")
    print(len(out["cases"]), "cases,", sum("error" in c for c in out["cases"]), "errors")


if __name__ == "__main__":
    main()
