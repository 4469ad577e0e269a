"""clock.py FD N|steady COMMAND...: runs it with a clock that jumps, and writes to FD how many readings were changed.

A number: the date and time of day (CLOCK_REALTIME, time, gettimeofday) go forth and back at every reading by the next of
JUMPS, from the N-th on, as when somebody sets the clock. steady: the monotonic clock is LEAP seconds further at every reading
than at the one before, as after a virtual machine was stopped. It never goes back: the kernel promises that much.

A static program has no library to replace its clock in, and setting the machine's would touch all else: so the program is
traced. Its vDSO is hidden from it at exec (AT_SYSINFO_EHDR among the auxiliary vector becomes AT_IGNORE), so that every reading
is a system call, whose answer is changed on its way back. x86-64 Linux.
"""
import ctypes
import os
import signal
import struct
import sys

TRACEME, PEEK, POKE, GETREGS, SETREGS, SYSCALL, CONT, SETOPTIONS = 0, 2, 5, 12, 13, 24, 7, 0x4200
OPTIONS = 0x1 | 0x2 | 0x4 | 0x8 | 0x100000  # TRACESYSGOOD, forks, vforks, clones; EXITKILL
SYS_GETTIMEOFDAY, SYS_TIME, SYS_CLOCK_GETTIME = 96, 201, 228
WALL, STEADY = (0, 5, 11), (1, 4, 6, 7)  # clocks by number
JUMPS = (3600, -3600, 86400 * 366, -(86400 * 365 * 80), 86400 * 365 * 300, -1, 2**31, 10**11, -(10**11), 10**17, -(10**18))  # seconds
LEAP = 1000
AT_NULL, AT_IGNORE, AT_SYSINFO_EHDR = 0, 1, 33
RAX, RDI, RSI, ORIG_RAX, RSP = 10, 14, 13, 15, 19  # of user_regs_struct, by 8 bytes

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def ptrace(request, pid, address=0, data=0):
    ctypes.set_errno(0)
    got = libc.ptrace(request, pid, address, data)
    if got == -1 and ctypes.get_errno():
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return got & 2**64 - 1


def registers(pid):
    r = (ctypes.c_uint64 * 27)()
    ptrace(GETREGS, pid, 0, ctypes.addressof(r))
    return r


def hide_vdso(pid):
    """At exec, when the stack holds argc, argv, 0, environment, 0, auxiliary vector."""
    at = registers(pid)[RSP]
    at += 8 * (ptrace(PEEK, pid, at) + 2)
    while ptrace(PEEK, pid, at):
        at += 8
    at += 8
    while (kind := ptrace(PEEK, pid, at)) != AT_NULL:
        if kind == AT_SYSINFO_EHDR:
            ptrace(POKE, pid, at, AT_IGNORE)
        at += 16


def signed(word):
    return word - 2**64 if word >= 2**63 else word


def change(pid, steady, shift):
    """After a system call: what it read of the clock, changed by seconds; whether it read it."""
    r = registers(pid)
    call = r[ORIG_RAX]
    if signed(r[RAX]) < 0:
        return False
    if call == SYS_CLOCK_GETTIME and r[RDI] in (STEADY if steady else WALL):
        at = r[RSI]
    elif call == SYS_GETTIMEOFDAY and not steady and r[RDI]:
        at = r[RDI]
    elif call == SYS_TIME and not steady:
        r[RAX] = (signed(r[RAX]) + shift) & 2**64 - 1
        ptrace(SETREGS, pid, 0, ctypes.addressof(r))
        at = r[RDI]
    else:
        return False
    if at:
        ptrace(POKE, pid, at, (signed(ptrace(PEEK, pid, at)) + shift) & 2**64 - 1)
    return True


def main():
    report, steady, command = int(sys.argv[1]), sys.argv[2] == "steady", sys.argv[3:]
    begin = 0 if steady else int(sys.argv[2])
    os.set_inheritable(report, False)
    first = os.fork()
    if first == 0:
        ptrace(TRACEME, 0)
        os.execvp(command[0], command)
    os.waitpid(first, 0)
    ptrace(SETOPTIONS, first, 0, OPTIONS)
    hide_vdso(first)
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda number, _: os.kill(first, number))
    ptrace(SYSCALL, first)
    inside, changed, code = set(), 0, None  # threads between a system call's start and end
    while True:
        try:
            pid, status = os.waitpid(-1, 0x40000000)  # __WALL
        except ChildProcessError:
            break
        if not os.WIFSTOPPED(status):
            if pid == first:
                code = os.waitstatus_to_exitcode(status)
            continue
        stop, passed = os.WSTOPSIG(status), 0
        try:
            if stop == signal.SIGTRAP | 0x80:
                if pid in inside:
                    inside.discard(pid)
                    shift = LEAP * (changed + 1) if steady else JUMPS[(begin + changed) % len(JUMPS)]
                    changed += change(pid, steady, shift)
                else:
                    inside.add(pid)
            elif stop not in (signal.SIGTRAP, signal.SIGSTOP):
                passed = stop
            ptrace(SYSCALL, pid, 0, passed)
        except ProcessLookupError:
            continue  # killed meanwhile
    os.write(report, struct.pack("<q", changed))
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
