// Markdown to nodes. Nothing that a model writes becomes HTML: every node is made by name, every text is a text node, and
// links are http(s) alone.
"use strict";
function make(name, properties, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}
function inline(text) {
  const out = [];
  const rule = /(`+)([\s\S]+?)\1(?!`)|\*\*(\S(?:[\s\S]*?\S)?)\*\*|\*([^\s*](?:[^*]*[^\s*])?)\*|~~([^~]+)~~|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)|(https?:\/\/[^\s<>)"']*[^\s<>)"'.,;:!?])/;
  while (text) {
    const m = rule.exec(text);
    if (!m) { out.push(text); break; }
    if (m.index) out.push(text.slice(0, m.index));
    if (m[2] !== undefined) out.push(make("code", { textContent: m[2].trim() }));
    else if (m[3] !== undefined) out.push(make("strong", {}, ...inline(m[3])));
    else if (m[4] !== undefined) out.push(make("em", {}, ...inline(m[4])));
    else if (m[5] !== undefined) out.push(make("del", {}, ...inline(m[5])));
    else out.push(make("a", { href: m[7] || m[8], rel: "noopener noreferrer nofollow", target: "_blank", textContent: m[6] || m[8] }));
    text = text.slice(m.index + m[0].length);
  }
  return out;
}
function codeBlock(code, language) {
  const button = make("button", { type: "button", textContent: "Copy" });
  button.onclick = () => copyText(code, button);
  return make("div", { className: "code" }, make("pre", {}, make("code", { textContent: code, title: language })), button);
}
function cells(line) { return line.replace(/^\s*\||\|\s*$/g, "").split("|").map((s) => s.trim()); }
function listAt(lines, at, depth) {
  const item = /^(\s*)(?:[-*+]|(\d{1,9})[.)])\s+(.*)$/;
  const first = item.exec(lines[at]);
  const list = make(first[2] === undefined ? "ul" : "ol", {});
  if (first[2] !== undefined && first[2] !== "1") list.start = Number(first[2]);
  const indent = first[1].length;
  while (at < lines.length) {
    const m = item.exec(lines[at]);
    if (m && m[1].length <= indent + 1 && m[1].length >= indent) {
      list.append(make("li", {}, ...inline(m[3])));
      at++;
    } else if (m && m[1].length > indent && list.lastChild && depth < 20) {
      const [inner, next] = listAt(lines, at, depth + 1);
      list.lastChild.append(inner);
      at = next;
    } else if (!m && /^\s{2,}\S/.test(lines[at]) && list.lastChild) {
      list.lastChild.append(" ", ...inline(lines[at].trim()));
      at++;
    } else break;
  }
  return [list, at];
}
function markdown(text) {
  const out = document.createDocumentFragment();
  const lines = text.split("\n");
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    let m = /^\s*(```+|~~~+)\s*([\w+#.-]*)\s*$/.exec(line);
    if (m) {
      const end = lines.findIndex((l, i) => i > at && l.trim().startsWith(m[1]) && l.trim() === m[1]);
      const last = end < 0 ? lines.length : end;
      out.append(codeBlock(lines.slice(at + 1, last).join("\n"), m[2]));
      at = last + 1;
    } else if ((m = /^(#{1,6})\s+(.*)$/.exec(line))) {
      out.append(make("h" + Math.min(6, m[1].length + 1), {}, ...inline(m[2])));
      at++;
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      out.append(make("hr", {}));
      at++;
    } else if (/^\s*>/.test(line)) {
      const from = at;
      while (at < lines.length && /^\s*>/.test(lines[at])) at++;
      out.append(make("blockquote", {}, ...inline(lines.slice(from, at).map((l) => l.replace(/^\s*>\s?/, "")).join("\n"))));
    } else if (line.includes("|") && /^\s*\|?[\s:|-]*-[\s:|-]*$/.test(lines[at + 1] || "") && (lines[at + 1] || "").includes("|")) {
      const table = make("table", {}, make("tr", {}, ...cells(line).map((c) => make("th", {}, ...inline(c)))));
      for (at += 2; at < lines.length && lines[at].includes("|"); at++)
        table.append(make("tr", {}, ...cells(lines[at]).map((c) => make("td", {}, ...inline(c)))));
      out.append(table);
    } else if (/^\s*([-*+]|\d{1,9}[.)])\s+/.test(line)) {
      const [list, next] = listAt(lines, at, 0);
      out.append(list);
      at = next;
    } else if (line.trim() === "") {
      at++;
    } else {
      const from = at++;
      while (at < lines.length && lines[at].trim() !== "" && !/^\s*(```|~~~|#{1,6}\s|>|[-*+]\s|\d{1,9}[.)]\s)/.test(lines[at])) at++;
      out.append(make("p", {}, ...inline(lines.slice(from, at).join("\n"))));
    }
  }
  return out;
}
