// The chat: conversations in the browser's storage, answers as they stream.
"use strict";
const $ = (id) => document.getElementById(id);
const store = {
  get(name, otherwise) { try { return JSON.parse(localStorage.getItem("chat." + name)) ?? otherwise; } catch { return otherwise; } },
  set(name, value) { try { localStorage.setItem("chat." + name, JSON.stringify(value)); } catch { say("The browser keeps no more: delete a conversation.", true); } },
};
// Of the sampler: what the server takes, its name here, step.
const FIELDS = [["temperature", "Temperature", 0.05], ["top_k", "Top k", 1], ["top_p", "Top p", 0.01], ["min_p", "Min p", 0.01],
  ["repeat_penalty", "Repeat penalty", 0.01], ["max_tokens", "Most tokens of an answer", 1], ["seed", "Seed", 1]];
let all = store.get("all", []), now = null, running = null;

function say(text, error) { $("status").textContent = text; $("status").classList.toggle("error", Boolean(error)); }
async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // pages without TLS have no clipboard: the old way
    const area = make("textarea", { value: text });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const before = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = before; }, 1200);
}
function save() { store.set("all", all); store.set("now", now.id); }
function headers() {
  const key = store.get("key", "");
  return { "Content-Type": "application/json", ...(key ? { Authorization: "Bearer " + key } : {}) };
}

// ---- Conversations ----
function begin() {
  now = { id: Date.now().toString(36) + Math.random().toString(36).slice(2), title: "", messages: [] };
  all.unshift(now);
  show();
}
function showList() {
  $("list").replaceChildren(...all.map((c) => {
    const open = make("button", { type: "button", textContent: c.title || "Empty" });
    open.onclick = () => { stop(); now = c; show(); };
    const remove = make("button", { type: "button", textContent: "×" });
    remove.setAttribute("aria-label", "Delete " + (c.title || "this conversation"));
    remove.onclick = () => { if (c === now) stop(); all = all.filter((o) => o !== c); if (c === now) all.length ? (now = all[0], show()) : begin(); else { save(); showList(); } };
    return make("li", { className: c === now ? "now" : "" }, open, remove);
  }));
}
function tool(label, action) {
  const b = make("button", { type: "button", textContent: label });
  b.onclick = () => action(b);
  return b;
}
function render(turn, m) {
  const body = m.role === "user" ? make("div", { className: "body", textContent: m.content }) : make("div", { className: "body" }, markdown(m.content));
  const parts = [make("div", { className: "who", textContent: m.role === "user" ? "You" : "Model" })];
  if (m.reasoning) parts.push(make("details", { open: !m.content }, make("summary", { textContent: "Reasoning" }), m.reasoning));
  turn.replaceChildren(...parts, body);
}
function addTools(turn, m, i) {
  const tools = make("div", { className: "tools" }, tool("Copy", (b) => copyText(m.content, b)));
  if (m.role === "user") tools.append(tool("Edit", () => edit(turn, m, i)));
  else tools.append(tool("Regenerate", () => { if (running) return; now.messages.length = i; show(); answer(); }));
  if (m.speed) tools.append(make("span", { className: "speed", textContent: m.speed }));
  turn.append(tools);
}
function edit(turn, m, i) {
  if (running) return;
  const area = make("textarea", { value: m.content, rows: Math.min(12, m.content.split("\n").length + 1) });
  area.setAttribute("aria-label", "Edit message");
  const send = () => { const text = area.value.trim(); if (!text) return; now.messages.length = i; show(); ask(text); };
  area.onkeydown = (e) => { if (e.key === "Enter" && !e.shiftKey) { e.preventDefault(); send(); } if (e.key === "Escape") show(); };
  turn.replaceChildren(area, make("div", { className: "tools" }, tool("Send", send), tool("Cancel", show)));
  area.focus();
}
function addTurn(m) {
  const turn = make("div", { className: "turn " + m.role });
  render(turn, m);
  $("log").append(turn);
  return turn;
}
function show() {
  $("log").replaceChildren();
  now.messages.forEach((m, i) => addTools(addTurn(m), m, i));
  $("log").scrollTop = $("log").scrollHeight;
  save();
  showList();
}

// ---- Answers ----
function stop() { if (running) running.abort(); }
function ask(text) {
  if (!now.title) now.title = text.slice(0, 60);
  now.messages.push({ role: "user", content: text });
  show();
  answer();
}
function request() {
  const body = { messages: [], stream: true, stream_options: { include_usage: true } };
  const system = store.get("system", "");
  if (system.trim()) body.messages.push({ role: "system", content: system });
  for (const m of now.messages) body.messages.push({ role: m.role, content: m.content });
  const settings = store.get("settings", {});
  for (const [name] of FIELDS) if (settings[name] !== undefined && settings[name] !== "") body[name] = Number(settings[name]);
  return body;
}
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks)
      for (const line of block.split("\n")) if (line.startsWith("data: ") && line !== "data: [DONE]") yield JSON.parse(line.slice(6));
  }
}
async function answer() {
  const conversation = now, m = { role: "assistant", content: "", reasoning: "" };
  const turn = addTurn(m), log = $("log"), control = new AbortController();
  let drawn = false;
  running = control;
  $("send").textContent = "Stop";
  say("…");
  const draw = () => {
    if (drawn) return;
    drawn = true;
    requestAnimationFrame(() => {
      drawn = false;
      const follow = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
      if (turn.isConnected && running === control) render(turn, m);
      if (follow) log.scrollTop = log.scrollHeight;
    });
  };
  try {
    const response = await fetch("v1/chat/completions", { method: "POST", headers: headers(), body: JSON.stringify(request()), signal: control.signal });
    if (!response.ok) throw new Error((await response.json()).error?.message ?? response.statusText);
    for await (const event of events(response)) {
      if (event.error) throw new Error(event.error.message);
      const delta = event.choices?.[0]?.delta ?? {};
      if (delta.reasoning_content) m.reasoning += delta.reasoning_content;
      if (delta.content) m.content += delta.content;
      if (event.timings) m.speed = event.timings.predicted_per_second.toFixed(1) + " tokens/s, " + event.timings.predicted_n + " tokens";
      draw();
    }
    say("");
  } catch (e) {
    say(control.signal.aborted ? "Stopped." : String(e.message ?? e), !control.signal.aborted);
  }
  if (running === control) { running = null; $("send").textContent = "Send"; }
  if (m.content || m.reasoning) conversation.messages.push(m);
  if (conversation === now) show(); else save();
}

// ---- The rest of the page ----
function toggle(button, part) {
  const open = part.hidden;
  part.hidden = !open;
  button.setAttribute("aria-expanded", String(open));
}
function setTheme(dark) { document.documentElement.classList.toggle("dark", dark); }
function grow() { const t = $("text"); t.style.height = "auto"; t.style.height = t.scrollHeight + 2 + "px"; }
function showSettings(defaults) {
  const settings = store.get("settings", {});
  $("fields").replaceChildren(...FIELDS.map(([name, label, step]) => {
    const field = make("input", { type: "number", step, id: "set-" + name, value: settings[name] ?? "", placeholder: defaults[name] ?? "" });
    field.onchange = () => { const s = store.get("settings", {}); s[name] = field.value; store.set("settings", s); };
    return make("label", {}, label, field);
  }));
  $("system").value = store.get("system", "");
  $("key").value = store.get("key", "");
}
let defaults = {};
async function learn() {
  try {
    const response = await fetch("props", { headers: headers() });
    if (!response.ok) throw new Error((await response.json()).error?.message ?? response.statusText);
    const props = await response.json();
    $("model").textContent = document.title = props.model_alias;
    defaults = props.default_generation_settings.params;
    for (const name of Object.keys(defaults)) if (typeof defaults[name] === "number") defaults[name] = Number(defaults[name].toFixed(4));
    if (!props.chat_template_caps.supports_chat) say("This model has no chat template: it cannot chat.", true);
  } catch (e) { say(String(e.message ?? e), true); }
  showSettings(defaults);
}
$("form").onsubmit = (e) => {
  e.preventDefault();
  if (running) return stop();
  const text = $("text").value.trim();
  if (!text) return;
  $("text").value = "";
  grow();
  ask(text);
};
$("text").oninput = grow;
$("text").onkeydown = (e) => { if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); if (!running) $("form").requestSubmit(); } };
document.addEventListener("keydown", (e) => { if (e.key === "Escape") { if (running) stop(); else $("text").focus(); } });
$("menu").onclick = () => toggle($("menu"), $("side"));
$("settings").onclick = () => toggle($("settings"), $("panel"));
$("new").onclick = () => { stop(); begin(); $("text").focus(); };
$("system").onchange = () => store.set("system", $("system").value);
$("key").onchange = () => { store.set("key", $("key").value); learn(); };
$("reset").onclick = () => { store.set("settings", {}); store.set("system", ""); showSettings(defaults); };
$("theme").onclick = () => { const dark = !document.documentElement.classList.contains("dark"); store.set("dark", dark); setTheme(dark); };
setTheme(store.get("dark", matchMedia("(prefers-color-scheme: dark)").matches));
now = all.find((c) => c.id === store.get("now", "")) ?? all[0];
if (now) show(); else begin();
grow();
learn();
