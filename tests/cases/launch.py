"""launch.py FD ADDRESS_SPACE COMMAND...: runs it, and writes to FD "errno 0 0 0" or "0 wait-status CPU-seconds KiB".

A process's greatest memory, as wait4 tells it, is at least that of whoever forked it, before exec: beside a driver that has
grown to hundreds of megabytes every program would seem as large. So this small process forks them.
"""
import os
import resource
import signal
import sys

report, address_space = map(int, sys.argv[1:3])
command = sys.argv[3:]
os.set_inheritable(report, False)
# Exec closes its end, or an error comes through it.
failed, failing = os.pipe()
pid = os.fork()
if pid == 0:
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python
        signal.signal(ignored, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if address_space:
        resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(failing, str(error.errno).encode())
    os._exit(127)
os.close(failing)
error = os.read(failed, 16)
_, status, usage = os.wait4(pid, 0)
seconds = usage.ru_utime + usage.ru_stime
os.write(report, f"{int(error or 0)} {status} {seconds} {usage.ru_maxrss}".encode())
