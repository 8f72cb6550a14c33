"""What a process's descriptors lead to, in words, without looking at any file."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from pyio_trace.running.holders import Holders, descriptor_facts
from pyio_trace.running.kernel_process import KernelProcess
from pyio_trace.running.mount_table import Mount, Mounts
from pyio_trace.running.sockets import Socket, socket_of

_NUMBERED = re.compile(r"(pipe|socket):\[(\d+)\]")
_WATCHED = re.compile(rb"^tfd:\s*(\d+)", re.MULTILINE)
#: Most descriptors of a poll that are described, and most processes that are named.
_MOST, _NAMED = 6, 3


class Target(NamedTuple):
    """What a descriptor or a path leads to.

    kind: "file", "fifo", "pipe", "socket", "process" (a pidfd), "descriptors"
    (an epoll), "other" or ""; text: what is shown; link: what the links to
    the other end say, "" for none; fd: -1 for a path; waits_to: what the thread
    does with it, "read" or "write", "" otherwise; inode: 0 if it is not known;
    pid: of a pidfd.
    """

    kind: str
    text: str
    link: str = ""
    fd: int = -1
    inode: int = 0
    mount: Mount | None = None
    pid: int = 0


class Descriptors:
    """The descriptors of one process."""

    def __init__(self, process: KernelProcess) -> None:
        self._process = process
        self._mounts: Mounts | None = None

    @property
    def mounts(self) -> Mounts:
        """The mounts of the process."""
        if self._mounts is None:
            self._mounts = Mounts(self._process)
        return self._mounts

    def target(self, fd: int, in_pipe: bool = False) -> Target:
        """What a descriptor leads to.  in_pipe: the kernel waits in its code for pipes, so a file is a FIFO."""
        link = self._process.link(f"fd/{fd}")
        if not link:
            return Target("", f"descriptor {fd}", fd=fd)
        facts = descriptor_facts(self._process.read(f"fdinfo/{fd}"))
        numbered = _NUMBERED.fullmatch(link)
        if numbered and numbered[1] == "pipe":
            return Target("pipe", "a pipe", link, fd, int(numbered[2]))
        if numbered:
            found = socket_of(self._process, int(numbered[2]))
            return Target("socket", _socket_text(found), f"socket:[{found.peer}]" if found.peer else "", fd)
        if link == "anon_inode:[pidfd]":
            pid = facts.get("Pid", 0)
            return Target("process", f"process {pid}", fd=fd, pid=max(pid, 0))
        if link == "anon_inode:[eventpoll]":
            return self.polled(self.watched(fd), fd)
        if link.startswith("anon_inode:"):
            return Target("other", f"an {link.removeprefix('anon_inode:').strip('[]')}", fd=fd)
        mount = self.mounts.of_id(facts.get("mnt_id", -1))
        kind = "fifo" if in_pipe else "file"
        return Target(kind, link, link if in_pipe else "", fd, facts.get("ino", 0), mount)

    def path(self, folder: int, path: str, in_pipe: bool = False) -> Target:
        """What a path leads to, from the folder of a descriptor (AT_FDCWD: the current one)."""
        if path and not path.startswith("/"):
            start = self._process.link("cwd" if folder == _AT_FDCWD else f"fd/{folder}")
            path = os.path.join(start, path) if start else path
        elif not path and folder != _AT_FDCWD:
            return self.target(folder, in_pipe)
        mount = self.mounts.of_path(path) if path.startswith("/") else None
        return Target("fifo" if in_pipe else "file", path, path if in_pipe else "", mount=mount)

    def watched(self, fd: int) -> list[int]:
        """The descriptors that an epoll watches."""
        return [int(number) for number in _WATCHED.findall(self._process.read(f"fdinfo/{fd}"))]

    def polled(self, fds: list[int], own: int = -1) -> Target:
        """Descriptors that are waited for at once, of which the first pipe has its other end looked for.  own: of the
        epoll that watches them."""
        found = [self.target(fd) for fd in fds[:_MOST] if not self._is_epoll(fd)]
        texts = list(dict.fromkeys(one.text for one in found))
        more = f" and {len(fds) - _MOST} more" if len(fds) > _MOST else ""
        link = next((one.link for one in found if one.kind == "pipe"), "")
        return Target("descriptors", ", ".join(texts) + more if texts else "nothing", link, own)

    def _is_epoll(self, fd: int) -> bool:
        return self._process.link(f"fd/{fd}") == "anon_inode:[eventpoll]"


_AT_FDCWD = -100


def signed(word: int) -> int:
    """An int of C from a register."""
    word &= 0xFFFFFFFF
    return word - (1 << 32) if word >> 31 else word


def _socket_text(found: Socket) -> str:
    name = {"tcp": "a TCP connection", "udp": "a UDP socket", "unix": "a Unix socket"}.get(found.kind, "a socket")
    if found.state == "listening":
        return f"connections to {found.local}" if found.local else "connections"
    if found.state == "connecting":
        return f"{found.remote}, which does not answer yet"
    where = f" to {found.remote}" if found.remote else f" at {found.local}" if found.local else ""
    return name + where + (f" ({found.state})" if found.state.startswith("closed") else "")


class OtherEnd(NamedTuple):
    """Who may end a wait: the numbers of other processes; own: this process has that end itself; known: everybody was
    looked at."""

    pids: list[int]
    own: bool
    known: bool


def other_end(target: Target, holders: Holders, pid: int, call: str) -> OtherEnd | None:
    """Who has the other end of a pipe, a FIFO or a Unix socket; None: the kind has none that can be seen."""
    if not target.link:
        return None
    found = holders.of(target.link)
    if target.kind in ("pipe", "fifo", "descriptors"):
        # A reader waits for whoever has it open for writing, and the other way round.
        useless = os.O_WRONLY if call == "write" else os.O_RDONLY
        found = [one for one in found if one.flags & os.O_ACCMODE != useless]
    others = sorted({one.pid for one in found if one.pid != pid})
    return OtherEnd(others, any(one.pid == pid for one in found), holders.complete)
