"""A program on a pseudo-terminal: what it writes is waited for, keys are typed."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

KEYS = {"up": "\x1b[A", "down": "\x1b[B", "enter": "\r", "ctrl-c": "\x03", "ctrl-d": "\x04"}


class Terminal:
    def __init__(self, *command, rows=24, columns=80, env=None):
        self.seen = self.text = ""
        self.bytes = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "xterm"} | (env or {}))
            os.execv(command[0], command)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            chunk = os.read(self.fd, 65536)
        except OSError:  # the program ended
            return False
        self.bytes += chunk
        self.text = self.bytes.decode(errors="replace")
        return bool(chunk)

    def expect(self, pattern, seconds=60):
        """Waits for a match behind what was matched before; returns what stood in front of it, and it."""
        end = time.monotonic() + seconds
        while True:
            rest = self.text[len(self.seen):]
            found = re.search(pattern, rest)
            if found:
                self.seen += rest[: found.end()]
                return rest[: found.end()]
            left = end - time.monotonic()
            if left <= 0 or not self.read(left):
                sys.exit(f"no {pattern!r} in {rest!r}\nall of it: {self.text!r}")

    def type(self, *keys):
        os.write(self.fd, "".join(KEYS.get(k, k) for k in keys).encode())

    def end(self, seconds=20):
        """Waits for the program's end; the exit code, a negative one is a signal's number."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        sys.exit(f"the program did not end: {self.text!r}")
