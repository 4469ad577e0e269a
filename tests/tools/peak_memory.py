"""Runs a command and prints the peak of its private memory in KiB: peak_memory.py COMMAND...

Private is what the process wrote or allocated itself (RssAnon): pages of mapped files are the page cache's and are
not counted. Sampled every millisecond, so a peak shorter than that can be missed.
"""
import subprocess
import sys
import time

child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
peak = 0
while child.poll() is None:
    try:
        with open(f"/proc/{child.pid}/status", encoding="ascii") as status:
            peak = max([peak] + [int(line.split()[1]) for line in status if line.startswith("RssAnon")])
    except OSError:
        break  # it has just ended
    time.sleep(0.001)
if child.wait() != 0:
    sys.exit(f"exit code {child.returncode}: {' '.join(sys.argv[1:])}")
print(peak)
