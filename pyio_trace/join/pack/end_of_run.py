"""Packs or copies a live log when its run has ended, and removes it.

The process that ends the run knows from its own memory which file the log is:
device, inode and run id.  Any other file that has the log's name by then is
neither read nor removed.  The log is looked for under the folder's name, in
whatever folder has that name by then.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from pyio_trace.errors import LogError
from pyio_trace.join.pack.new_file import Folder, NewFile
from pyio_trace.join.pack.packer import unwritable, write
from pyio_trace.join.processes.liveness import is_running
from pyio_trace.join.sources.live_source import LiveSource
from pyio_trace.log import layout
from pyio_trace.output import PACKED_SUFFIX

if TYPE_CHECKING:
    import pyarrow as pa

#: Seconds that processes of the run may take to end.
_PATIENCE, _PATIENCE_AFTER_INTERRUPT = 0.05, 1.0


class Identity(NamedTuple):
    """Identifies the file of a live log, and its run."""

    device: int
    inode: int
    run: int


class EndedLog:
    """A live log whose run has ended, opened and checked once.

    identity None: any regular file of that name will do.
    Raises LogError: log-lost, log-unreadable, what LiveLog raises.
    """

    def __init__(self, path: str, identity: Identity | None) -> None:
        self.path = path
        name = os.path.basename(path)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        try:
            self.folder = Folder(os.path.dirname(path))
            # Checked before opening: opening a device or a FIFO can have effects.
            self._check(os.stat(name, dir_fd=self.folder.descriptor, follow_symlinks=False), identity)
            opened = os.open(name, flags, dir_fd=self.folder.descriptor)
        except (FileNotFoundError, NotADirectoryError):
            raise LogError("log-lost", f"lost: there is no live log {path!r} any more") from None
        except OSError as error:
            raise LogError("log-unreadable", f"{path}: cannot be read: {error.strerror}") from None
        status = os.fstat(opened)
        self._file = status.st_dev, status.st_ino
        try:
            self._check(status, identity)
        except LogError:
            os.close(opened)
            raise
        self.source = LiveSource(path, opened)
        if identity is not None and self.source.run_id != identity.run:
            raise self._lost()

    def wait_for_others(self, own: Collection[int] = (), *, helpers: bool = True) -> list[int]:
        """Waits a moment for processes that are ending; returns the numbers of those that are still running.

        Helpers of multiprocessing end when the pipe from their parent does.  Ctrl-C goes to a whole group, and a
        process takes longer to end by it.  own: processes that write nothing more; helpers: see LiveSource.alive().
        """
        patience = _PATIENCE_AFTER_INTERRUPT if self.source.first_ended.endswith("(SIGINT)") else _PATIENCE
        latest = time.monotonic() + patience
        while (alive := self.source.alive(own, helpers=helpers)) and time.monotonic() < latest:
            while any(map(is_running, alive)) and time.monotonic() < latest:
                time.sleep(0.001)
            # They may have started others, and have written more.
            self.source = LiveSource(self.path, self._open(os.O_RDONLY))
        return alive

    def cut(self) -> None:
        """Cuts the file to its used part, if the run has ended without a process that could.  Raises OSError."""
        used = -(-self.source.used // layout.PAGE) * layout.PAGE
        opened = self._open(os.O_WRONLY)
        try:
            if used < os.fstat(opened).st_size:
                os.ftruncate(opened, used)
        finally:
            os.close(opened)

    def _open(self, how: int) -> int:
        """Opens the same file once more."""
        name = os.path.basename(self.path)
        flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        opened = os.open(name, how | flags, dir_fd=self.folder.descriptor)
        status = os.fstat(opened)
        if (status.st_dev, status.st_ino) != self._file:
            os.close(opened)
            raise self._lost()
        return opened

    def _check(self, status: os.stat_result, identity: Identity | None) -> None:
        same = identity is None or (status.st_dev, status.st_ino) == (identity.device, identity.inode)
        if not same or not stat.S_ISREG(status.st_mode):
            raise self._lost()

    def _lost(self) -> LogError:
        return LogError("log-lost", f"lost: the live log {self.path!r} is not this run's any more")

    def remove(self) -> bool:
        """Removes the live log, unless another file has its name now; returns whether it did."""
        return self.folder.remove(os.path.basename(self.path), self._file)


class FinalLog(NamedTuple):
    """The log that is kept.  path: may differ from the requested one; removed: whether the live log was removed."""

    path: str
    size: int
    removed: bool


def finish_log(
    live: EndedLog,
    final: str,
    mode: int,
    progress: Callable[[int, int], None] | None = None,
    read: Callable[[Iterator[pa.RecordBatch]], Mapping[str, str]] | None = None,
) -> FinalLog:
    """Packs the live log, or copies it if the final name is not *.parquet, and removes it.

    final: the name; if anything but a log from before the run has it, the result gets a similar one.
    mode: permissions of the file.  read: see packer.write(); not called for a copy.
    Raises LogError: log-unwritable; then the live log stays.
    """
    where, name = os.path.split(final)
    try:
        folder = live.folder if where == os.path.dirname(live.path) else Folder(where)
        with NewFile(folder, mode) as new:
            if final.endswith(PACKED_SUFFIX):
                write(live.source, new.file, progress, read)
            else:
                live.source.copy_to(new.file)
            got = new.place(name, before=live.source.info()["start"])
            size = os.fstat(new.file.fileno()).st_size
    except OSError as error:
        raise unwritable(final, error) from None
    return FinalLog(os.path.join(where, got), size, live.remove())


def finish_part(live: str, identity: tuple[int, int, int], final: str, mode: int) -> tuple[str, list[str]]:
    """Ends the log of a part of a program, which goes on: packs the live log unless a process still writes to it.

    Returns the path of the log that there is now, and what the user must be told.
    Raises LogError: log-unwritable (the live log stays), log-lost.
    """
    ended = EndedLog(live, Identity(*identity))
    running = ended.wait_for_others(helpers=False)
    if running:
        return live, [why_it_stays(live, final, running)]
    if ended.source.gone():  # one may have written after the log was opened
        ended = EndedLog(live, Identity(*identity))
    result = finish_log(ended, final, mode)
    return result.path, messages_about(result, final, live)


def why_it_stays(live: str, final: str, running: list[int]) -> str:
    """What the user must be told about a live log to which these processes may still write."""
    later = f"pyio-trace pack {live} {final}" if final.endswith(PACKED_SUFFIX) else f"mv {live} {final}"
    who = ", ".join(str(pid) if pid else "one that has just been forked" for pid in running)
    return f"the log stays live, as processes still run: {who}; later: {later}"


def messages_about(result: FinalLog, final: str, live: str) -> list[str]:
    """What the user must be told about the result, one line each."""
    lines = []
    if result.path != final:
        lines.append(f"{final!r} was taken by another file; the log is {result.path!r}")
    if not result.removed:
        lines.append(f"the live log stays: {live}")
    return lines
