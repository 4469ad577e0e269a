"""make_page.py PAGE.html STYLE.css SCRIPT.js... OUT.h: one page with style and scripts inside, and the policy that allows just these.

Run in the build. The page's <!--style--> and <!--script--> are where they go.
"""
import base64
import hashlib
import sys


def digest(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def literal(text):
    """A string of C++ in pieces: compilers limit one."""
    out = []
    for at in range(0, len(text), 2000):
        piece = text[at:at + 2000].replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("?", "\\?")
        out.append('    "' + piece + '"')
    return "\n".join(out)


page, style, *scripts, out = sys.argv[1:]
html, css = (open(name, encoding="utf-8").read() for name in (page, style))
js = "\n".join(open(name, encoding="utf-8").read() for name in scripts)
assert "</script" not in js and "</style" not in css
html = html.replace("<!--style-->", "<style>" + css + "</style>").replace("<!--script-->", "<script>" + js + "</script>")
policy = ("default-src 'none'; script-src " + digest(js) + "; style-src " + digest(css) + "; connect-src 'self'; "
          "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
with open(out, "w", encoding="utf-8") as f:
    f.write("#pragma once\n#include <string_view>\n\nnamespace gcrt::serve {\n\n"
            "inline constexpr std::string_view kPage =\n" + literal(html) + ";\n"
            "inline constexpr char kPagePolicy[] =\n    \"" + policy + "\";\n\n}  // namespace gcrt::serve\n")
