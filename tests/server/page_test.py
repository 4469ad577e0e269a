"""page_test.py URL FOLDER: the page of OUT serve in headless Chromium, by keyboard; screenshots go to FOLDER.

Speaks WebDriver to chromedriver itself: that is a dozen requests of JSON.
"""
import base64
import json
import pathlib
import re
import subprocess
import sys
import time
import urllib.request

url, folder = sys.argv[1], pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
ENTER, ESCAPE, TAB, SHIFT = "\ue007", "\ue00c", "\ue004", "\ue008"


class Browser:
    def __init__(self, driver, **options):
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,800"]
        self.driver, self.session = driver, ""
        options = {"args": arguments, **options}
        self.session = "/session/" + self.call("POST", "/session", {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}})["sessionId"]

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.driver + self.session + path, json.dumps(body if body is not None else {}).encode() if method == "POST" else None,
                                         {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)["value"]

    def go(self, address):
        self.call("POST", "/url", {"url": address})

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def keys(self, text):
        """To what has the focus."""
        actions = []
        for key in text:
            actions += [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def click(self, selector):
        element = self.call("POST", "/element", {"using": "css selector", "value": selector})
        self.call("POST", "/element/" + next(iter(element.values())) + "/click")

    def wait(self, script, *arguments, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.run("return " + script, *arguments)
            if value:
                return value
            time.sleep(0.1)
        self.shot("failed")
        raise AssertionError(f"it does not come true: {script}; the page says {self.run('return document.body.innerText')!r}")

    def shot(self, name):
        (folder / (name + ".png")).write_bytes(base64.b64decode(self.call("GET", "/screenshot")))

    def quit(self):
        self.call("DELETE", "")


def no_overflow(b):
    width, inner = b.run("return [document.documentElement.scrollWidth, innerWidth]")
    assert width <= inner, f"{width} pixels in a window of {inner}"


def idle(b):
    b.wait("!running && document.querySelector('#send').textContent === 'Send'")


def test_chat(b):
    b.go(url)
    b.run("window.violations = []; document.addEventListener('securitypolicyviolation', (e) => violations.push(e.violatedDirective + ' ' + e.blockedURI))")
    b.wait("document.querySelector('#model').textContent !== '…'")
    b.run("for (const [n, v] of [['temperature', '0'], ['max_tokens', '40']]) { const s = store.get('settings', {}); s[n] = v; store.set('settings', s); } showSettings(defaults)")
    assert b.run("return document.activeElement.id") == "text"
    b.keys("What is the capital of France?" + ENTER)
    b.wait("document.querySelectorAll('.turn').length === 2")
    idle(b)
    b.wait("document.querySelectorAll('.turn.assistant .body')[0].textContent.trim() === 'The capital of France is Paris.'")
    speed = b.run("return document.querySelector('.turn.assistant .speed').textContent")
    assert re.fullmatch(r"\d+\.\d tokens/s, \d+ tokens", speed), speed
    b.shot("chat_light")
    # What stays after a reload.
    b.go(url)
    b.wait("document.querySelectorAll('.turn').length === 2")
    assert b.run("return document.querySelector('#list li.now').textContent").startswith("What is the capital of France?")


def test_stop_regenerate_edit(b):
    b.run("const s = store.get('settings', {}); s.max_tokens = '2000'; s.temperature = '1.5'; s.seed = '3'; store.set('settings', s); showSettings(defaults); document.querySelector('#text').focus()")
    b.keys("Tell a very long story." + ENTER)
    b.wait("document.querySelectorAll('.turn').length === 4 && document.querySelectorAll('.turn')[3].textContent.length > 30")
    assert b.run("return document.querySelector('#send').textContent") == "Stop"
    b.keys(ESCAPE)
    idle(b)
    assert b.run("return document.querySelector('#status').textContent") == "Stopped."
    kept = b.run("return now.messages[3].content")
    assert kept
    b.run("const s = store.get('settings', {}); s.max_tokens = '12'; s.temperature = '0'; store.set('settings', s); showSettings(defaults)")
    b.click(".turn:nth-child(4) .tools button:nth-child(2)")  # Regenerate
    b.wait("now.messages.length === 4 && !running && now.messages[3].content !== arguments[0]", kept)
    b.click(".turn:nth-child(1) .tools button:nth-child(2)")  # Edit
    b.run("document.activeElement.value = ''")
    b.keys("And of Italy: what is its capital?" + ENTER)
    b.wait("now.messages.length === 2 && !running")
    assert "Rome" in b.run("return now.messages[1].content"), b.run("return now.messages")


def test_settings(b):
    b.click("#settings")
    b.wait("!document.querySelector('#panel').hidden")
    b.run("const s = document.querySelector('#system'); s.value = 'Answer only with the word pineapple.'; s.onchange()")
    sent = b.run("return request()")
    assert sent["messages"][0] == {"role": "system", "content": "Answer only with the word pineapple."} and sent["max_tokens"] == 12, sent
    b.shot("settings_light")
    b.click("#theme")
    assert b.run("return document.documentElement.classList.contains('dark')")
    b.shot("settings_dark")
    b.click("#reset")
    assert b.run("return request().messages[0].role") == "user"
    b.click("#settings")


def test_markdown(b):
    text = """# Title
A *word*, **two**, `code <b>`, ~~gone~~, [link](https://example.org/a) and [bad](javascript:alert(1)).
<img src=x onerror="window.hacked=1"><script>window.hacked=2</script>

```python
def f(x):
    return "<script>window.hacked=3</script>"
```
1. one
   - inner **bold**
2. two

| a | b |
|---|---|
| 1 | <svg onload=window.hacked=4> |

> quoted

***
The end https://example.org/b."""
    b.run("now.messages.push({role: 'user', content: '<b>plain</b> <script>window.hacked=5</script>'}, {role: 'assistant', content: arguments[0], reasoning: '<i>thought</i>'}); show()", text)
    html = b.run("return [...document.querySelectorAll('.turn.assistant')].at(-1).querySelector('.body').innerHTML")
    for piece in ("<h2>Title</h2>", "<em>word</em>", "<strong>two</strong>", "<code>code &lt;b&gt;</code>", "<del>gone</del>", 'href="https://example.org/a"',
                  "&lt;img src=x", "<pre><code", "<ol><li>one<ul><li>inner <strong>bold</strong></li></ul></li><li>two</li></ol>", "<td>1</td>",
                  "<blockquote>quoted</blockquote>", "<hr>", 'href="https://example.org/b'):
        assert piece in html, (piece, html)
    assert "<script" not in html and "<img" not in html and "<svg" not in html and 'href="javascript' not in html, html
    assert b.run("return [...document.querySelectorAll('.turn.user')].at(-1).querySelector('.body').textContent").startswith("<b>plain</b>")
    time.sleep(0.3)
    assert b.run("return window.hacked === undefined")
    b.click(".code button")
    b.wait("document.querySelector('.code button').textContent === 'Copied'", seconds=5)
    b.shot("markdown_dark")
    b.click("#theme")
    b.shot("markdown_light")


def test_policy(b):
    with urllib.request.urlopen(url) as response:
        policy, page = response.headers["Content-Security-Policy"], response.read().decode()
    assert "default-src 'none'" in policy and "unsafe" not in policy, policy
    outside = re.findall(r"(?:src|href)=\"?(?:https?:)?//[^\s\">]+", page)
    assert not outside, outside
    assert b.run("return window.violations ?? []") == []
    # A script that the page has not is not run.
    b.run("const s = document.createElement('script'); s.textContent = 'window.hacked = 6'; document.body.append(s); s.remove()")
    assert b.run("return window.hacked === undefined")


def test_conversations(b):
    b.click("#menu")
    b.wait("!document.querySelector('#side').hidden")
    b.click("#new")
    b.wait("document.querySelectorAll('.turn').length === 0 && all.length === 2")
    assert b.run("return document.activeElement.id") == "text"
    b.shot("conversations")
    b.click("#list li:nth-child(2) button")
    b.wait("document.querySelectorAll('.turn').length > 2")
    b.click("#list li:nth-child(2) button:nth-child(2)")  # delete
    b.wait("all.length === 1")
    # By keyboard alone: every control can be reached.
    reached = set()
    b.run("document.activeElement.blur()")
    for _ in range(20):
        b.keys(TAB)
        reached.add(b.run("return document.activeElement.id"))
    assert {"menu", "theme", "settings", "new", "log", "text", "send"} <= reached, reached


def test_phone(b):
    b.go(url)
    b.wait("document.querySelector('#model').textContent !== '…'")
    b.run("const s = {max_tokens: '30', temperature: '0'}; store.set('settings', s); document.querySelector('#text').focus()")
    b.keys("Count to twenty." + ENTER)
    b.wait("now.messages.length === 2 && !running")
    no_overflow(b)
    b.shot("phone_chat")
    b.run("now.messages.push({role: 'assistant', content: '```\\n' + 'x'.repeat(300) + '\\n```\\n' + 'y'.repeat(300)}); show()")
    no_overflow(b)
    for button, name in (("#settings", "phone_settings"), ("#menu", "phone_menu")):
        b.click(button)
        no_overflow(b)
        b.shot(name)
        b.click(button)
    size = b.run("const r = document.querySelector('#send').getBoundingClientRect(); return [r.width, r.height, r.right, innerWidth]")
    assert size[1] >= 32 and size[2] <= size[3], size


process = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
try:
    for line in process.stdout:
        found = re.search(r"started successfully on port (\d+)", line)
        if found:
            break
    driver = f"http://127.0.0.1:{found[1]}"
    browser = Browser(driver)
    for test in (test_chat, test_stop_regenerate_edit, test_settings, test_markdown, test_policy, test_conversations):
        test(browser)
        print("passed", test.__name__)
    browser.quit()
    phone = Browser(driver, mobileEmulation={"deviceMetrics": {"width": 390, "height": 844, "pixelRatio": 2.0}})
    test_phone(phone)
    print("passed test_phone")
    phone.quit()
finally:
    process.kill()
