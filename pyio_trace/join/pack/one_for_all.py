"""The ranks of a parallel job that end together have one packer: the first to end packs the logs of the others too.

Each rank has a run and a log of its own.  Without this, as many interpreters as
there are ranks on a host would load the reading half at once, and compete for
the cores.  The first listens on a socket while it packs; one that ends meanwhile
tells it which log to pack, and leaves.

Only different ranks that one launcher has started do this, as nobody looks for a
log before the launcher has ended.  If a user starts several commands at once, each
log is there before its command ends, even if a batch job has given all of them a
rank.

The socket has a name that is in no folder and vanishes with the process.  Both
sides check that the other belongs to the same user and sees the same files:
containers may share these names, and a process in one must not have files
written in another.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from pyio_trace.values import rank_in

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST = 1 << 16  # bytes of a request
_PATIENCE = 2.0  # seconds that an answer may take
#: Seconds between tries: a packer that takes no more requests has its name for a moment longer.
_PAUSES = (0.0, 0.01, 0.05)
_TAKEN = b"1"


class Request(NamedTuple):
    """A live log to pack.  identity: DEVICE:INODE:RUN of its file; final: path of the packed log; mode: its
    permissions, octal; rank: of its first process."""

    log: str
    identity: str
    final: str
    mode: str
    rank: str


def rank_of(environ: Mapping[str, str] = os.environ) -> str | None:
    """The rank of a process with this environment; None: it is none, or the only one."""
    found = rank_in(environ)
    return None if found is None or found[2] == 1 else str(found[0])


def job_of(owner: int) -> str | None:
    """A name for what was started by the same launcher as the process `owner`; None: that is not known."""
    try:
        launcher = int(_stat(owner)[1])
        return f"pyio-trace-{os.getuid()}-{launcher}-{_stat(launcher)[19].decode()}"
    except (OSError, ValueError, IndexError):
        return None


def _stat(pid: int) -> list[bytes]:
    """Fields of /proc/PID/stat from the third on: 1 is the parent's id, 19 the time of the start."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()


class Packer:
    """The packer of a job.  Takes requests of other ranks until there are no more."""

    def __init__(self, listening: socket.socket, rank: str) -> None:
        """rank: its own."""
        self._listening = listening
        self._ranks = {rank}
        self._requests: list[Request] = []
        self._open = True
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, name="pyio_trace-ranks", daemon=True).start()

    def next(self) -> Request | None:
        """The next log to pack; None: there is none, and no more are taken."""
        with self._lock:
            if self._requests:
                return self._requests.pop(0)
            self._open = False
        with contextlib.suppress(OSError):  # it has failed before
            self._listening.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._listening.close()
        return None

    def _listen(self) -> None:
        while self._open:
            try:
                peer, _ = self._listening.accept()
            except OSError:  # closed, or out of descriptors: the others then pack for themselves
                return
            with peer:
                peer.settimeout(_PATIENCE)
                self._answer(peer)

    def _answer(self, peer: socket.socket) -> None:
        try:
            request = _received(peer) if _is_ours(peer) else None
            with self._lock:
                if request is None or not self._open or request.rank in self._ranks:
                    return
                peer.sendall(_TAKEN)  # fails if the rank has given up waiting: it then packs for itself
                self._ranks.add(request.rank)
                self._requests.append(request)
        except OSError:
            return


def packer_or_hand_over(job: str, request: Request) -> Packer | None:
    """A packer if this process is to pack for its job, which begins with its own log; None: another one packs that.

    Raises OSError if neither is possible; this process then packs only its own.
    """
    for pause in _PAUSES:
        time.sleep(pause)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.bind("\0" + job)
            listening.listen(128)
            return Packer(listening, request.rank)
        except (OSError, RuntimeError):  # the name is taken; no more threads can be started
            listening.close()
        if _is_taken(job, request):
            return None
    raise OSError("there is no packer, and this process cannot be one")


def _is_taken(job: str, request: Request) -> bool:
    """Asks the packer of the job to pack this log; returns whether it will."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(_PATIENCE)
        try:
            peer.connect("\0" + job)
            if not _is_ours(peer):
                return False
            peer.sendall(json.dumps(request).encode())
            peer.shutdown(socket.SHUT_WR)
            return peer.recv(1) == _TAKEN
        except OSError:
            return False


def _received(peer: socket.socket) -> Request | None:
    text = b""
    while part := peer.recv(_LONGEST):
        text += part
        if len(text) > _LONGEST:
            return None
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    sound = isinstance(fields, list) and len(fields) == len(Request._fields) and all(isinstance(f, str) for f in fields)
    return Request(*fields) if sound else None


def _is_ours(peer: socket.socket) -> bool:
    """Whether the process at the other end belongs to the same user, in the same mount and pid namespace and root."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, user, _ = struct.unpack("3i", credentials)
    if user != os.getuid():
        return False
    try:
        places = ("ns/mnt", "ns/pid", "root")
        return all(os.path.samefile(f"/proc/{pid}/{place}", f"/proc/self/{place}") for place in places)
    except OSError:  # it cannot be seen from here
        return False
