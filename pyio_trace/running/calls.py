"""What a thread waits for, from the system call it is in and the call's arguments."""

from __future__ import annotations

import os
import struct
import time
from typing import NamedTuple

from pyio_trace.running.descriptors import Descriptors, Target, signed
from pyio_trace.running.kernel_process import Call, KernelProcess
from pyio_trace.running.system_calls import system_call

#: fcntl()'s commands that wait for a lock, and flock: the kinds of /proc/locks.
_SETLKW, _OFD_SETLKW = 7, 38
_WRITES = ("write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg", "sendmmsg", "vmsplice")
_OPENS = ("open", "openat", "openat2", "creat")
_POLLS = ("poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2")
_SLEEPS = ("nanosleep", "clock_nanosleep")
_WAITS = ("wait4", "waitid")
_FUTEX_PRIVATE, _FUTEX_COMMAND = 128, 127
_NEVER = 0xFFFFFFFFFFFFFFFF
_TIMER_ABSTIME = 1
_MOST_POLLED = 1024
_P_PID, _P_PIDFD = 1, 3
#: What the kernel waits in, where the call itself is a restarted one: part of a function's name -> the call.
_RESTARTED = {"nanosleep": "nanosleep", "futex": "futex", "poll": "poll", "select": "select"}
#: Which of these a C library uses for a function, depends on its version: the function is named.
_PLAIN = {
    "ppoll": "poll", "pselect6": "select", "epoll_pwait": "epoll_wait", "epoll_pwait2": "epoll_wait",
    "pread64": "pread", "pwrite64": "pwrite", "newfstatat": "fstatat", "clock_nanosleep": "nanosleep",
}  # fmt: skip


class Waiting(NamedTuple):
    """What a call waits for.

    kind: "file", "pipe", "fifo", "socket", "file lock", "lock" (between threads),
    "shared lock" (between processes), "poll", "sleep", "child", "process",
    "fault" (a page fault), "call" (any other).  call: its name; target: None for
    none; lock: the kind of a file lock in /proc/locks; way: "read" or "write",
    as far as that matters; timed: whether it ends by itself; left_ns: of a sleep,
    if that is known; child: its number, 0: any.
    """

    kind: str
    call: str
    target: Target | None = None
    lock: str = ""
    way: str = ""
    timed: bool = False
    left_ns: int | None = None
    child: int = 0


def waiting(process: KernelProcess, descriptors: Descriptors, call: Call, kernel: str) -> Waiting:
    """What a thread waits for in a call.  kernel: the function of the kernel that it sleeps in, "" if not known."""
    found = _waiting(process, descriptors, call, kernel)
    return found._replace(call=_PLAIN.get(found.call, found.call))


def _waiting(process: KernelProcess, descriptors: Descriptors, call: Call, kernel: str) -> Waiting:
    if call.number < 0:
        return Waiting("fault", "page fault")
    name, shape = system_call(call.number)
    if name == "restart_syscall":
        name = next((known for part, known in _RESTARTED.items() if part in kernel), name)
    args = call.arguments if len(call.arguments) == 6 else (0,) * 6
    if name in _POLLS:
        return _poll(process, descriptors, name, args)
    if name in _SLEEPS:
        return Waiting("sleep", name, timed=True, left_ns=_left(process, name, args))
    if name in _WAITS:
        return _child(descriptors, name, args)
    if name.startswith("futex"):
        return _futex(name, args)
    if name == "flock":
        return Waiting("file lock", name, descriptors.target(signed(args[0])), lock="FLOCK")
    if name == "fcntl" and args[1] in (_SETLKW, _OFD_SETLKW):
        lock = "POSIX" if args[1] == _SETLKW else "OFDLCK"
        return Waiting("file lock", name, descriptors.target(signed(args[0])), lock=lock)
    target = _target(process, descriptors, shape, args, "pipe" in kernel or "fifo" in kernel or "partner" in kernel)
    if target is None:
        return Waiting("call", name)
    if name in _OPENS:
        flags = args[{"openat": 2, "open": 1}.get(name, 5)] if name in ("open", "openat") else os.O_WRONLY
        return Waiting(target.kind, "open", target, way="write" if flags & os.O_ACCMODE == os.O_WRONLY else "read")
    if target.kind == "descriptors":
        return Waiting("poll", name, target)
    return Waiting(target.kind or "call", name, target, way="write" if name in _WRITES else "read")


#: Parts of the names of the kernel functions in which threads wait -> what for, where the call itself is hidden from us
#: (Yama).  The first that fits counts.
_BY_KERNEL = (
    ("futex", "lock"), ("nanosleep", "sleep"), ("do_wait", "child"), ("partner", "fifo"), ("pipe", "pipe"),
    ("poll", "poll"), ("select", "poll"), ("locks_", "file lock"), ("flock", "file lock"), ("posix_lock", "file lock"),
    ("sk_wait", "socket"), ("recv", "socket"), ("sock", "socket"), ("unix_stream", "socket"), ("inet_", "socket"),
    ("fuse", "file"), ("request_wait", "file"), ("folio", "file"), ("io_schedule", "file"), ("rpc_", "file"),
)  # fmt: skip


def waiting_in(kernel: str) -> Waiting:
    """What a thread waits for, as far as the kernel's function tells."""
    kind = next((kind for part, kind in _BY_KERNEL if part in kernel), "call")
    return Waiting(kind, "", timed=kind == "sleep")


def _target(
    process: KernelProcess, descriptors: Descriptors, shape: str, args: tuple[int, ...], in_pipe: bool
) -> Target | None:
    if shape in ("fd", "second"):
        return descriptors.target(signed(args[shape == "second"]), in_pipe)
    if shape == "at":
        return descriptors.path(signed(args[0]), process.string(args[1]), in_pipe)
    if shape == "path":
        return descriptors.path(-100, process.string(args[0]), in_pipe)
    return None


def _poll(process: KernelProcess, descriptors: Descriptors, name: str, args: tuple[int, ...]) -> Waiting:
    if name.startswith("epoll"):
        fds = descriptors.watched(signed(args[0]))
        timed = args[3] != 0 if name == "epoll_pwait2" else signed(args[3]) >= 0
    elif name in ("poll", "ppoll"):
        count = min(args[1], _MOST_POLLED)
        read = process.memory(args[0], count * 8)
        fds = [fd for fd, _, _ in struct.iter_unpack("=ihh", read[: len(read) // 8 * 8]) if fd >= 0]
        timed = signed(args[2]) >= 0 if name == "poll" else args[2] != 0
    else:
        count = min(args[0], _MOST_POLLED)
        fds = sorted({fd for at in args[1:4] if at for fd in _bits(process.memory(at, -(-count // 64) * 8), count)})
        timed = args[4] != 0
    if len(fds) == 1 and not name.startswith("epoll"):
        target = descriptors.target(fds[0])
        if target.kind == "process":
            return Waiting("process", name, target, timed=timed)
        return Waiting(
            target.kind if target.kind in ("pipe", "socket") else "poll", name, target, way="read", timed=timed
        )
    return Waiting("poll", name, descriptors.polled(fds), timed=timed)


def _bits(words: bytes, count: int) -> list[int]:
    return [bit for bit in range(min(count, len(words) * 8)) if words[bit // 8] >> bit % 8 & 1]


def _left(process: KernelProcess, name: str, args: tuple[int, ...]) -> int | None:
    """How long a sleep until a moment still lasts, ns; one for a time does not say."""
    if name != "clock_nanosleep" or not args[1] & _TIMER_ABSTIME:
        return None
    read = process.memory(args[2], 16)
    if len(read) < 16:
        return None
    seconds, nanoseconds = map(int, struct.unpack("=qq", read))
    try:
        return max(seconds * 1_000_000_000 + nanoseconds - time.clock_gettime_ns(signed(args[0])), 0)
    except OSError:
        return None


def _child(descriptors: Descriptors, name: str, args: tuple[int, ...]) -> Waiting:
    if name == "waitid":
        if args[0] == _P_PIDFD:
            return Waiting("child", name, child=descriptors.target(signed(args[1])).pid)
        return Waiting("child", name, child=signed(args[1]) if args[0] == _P_PID else 0)
    return Waiting("child", name, child=max(signed(args[0]), 0))


def _futex(name: str, args: tuple[int, ...]) -> Waiting:
    private = name != "futex" or bool(args[1] & _FUTEX_PRIVATE)
    timed = args[3] not in (0, _NEVER)
    return Waiting("lock" if private else "shared lock", name, timed=timed)
