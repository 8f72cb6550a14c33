"""Checks what exists at the path of a new log or output, and whether it may be replaced.

Only our own logs are replaced, and never one that a command reads.  Traced
programs import this module if such a file exists, so it reads a few bytes of it
itself: the log reader (pyio_trace/log/) needs pyarrow.
"""

import os
import stat

from pyio_trace.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

#: How a live log begins.
LOG_MAGIC = b"PYIOLOG\n"
# Offsets in pt_header (csrc/core/format/log_format.h) of a live log's size until its run ends, of the process that
# writes it, its host and its pid namespace.
BUDGET_AT, OWNER_PID_AT, BOOT_ID_AT, NAMESPACE_AT, _HEADER_READ = 16, 40, 104, 1592, 2048
_PARQUET_MAGIC = b"PAR1"
# Each Parquet log of ours has this in the keys of its metadata (pyio_trace/log/).
_PACKED_MARK = b"pyio_trace"


def check_replaceable(path: str, *, may_be_numbered: bool = False) -> None:
    """Raise ConfigError unless a new log may take this path.

    It may if nothing is there, or an empty file, or a log of ours that no
    process is still writing.  A log that a run in another container is writing,
    or with may_be_numbered any run, is no error either: the new log then gets a
    number.  Anything else may be the user's data, or is not a file.  The core
    checks again when it makes the log (csrc/core/log/file_owner.c).
    """
    _check_is_file(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO would block
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ConfigError("log-exists", f"{path!r} is not a file that a log can replace: name another with -o")
            start = file.read(_HEADER_READ)
            live = start.startswith(LOG_MAGIC)
            ours = not start or live or (start.startswith(_PARQUET_MAGIC) and is_packed_log(file))
            ended = status.st_size < _number(start, BUDGET_AT, 8)
            locked = live and not ended and not may_be_numbered and _is_locked(descriptor) and _is_of_here(start)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError("unwritable-log", f"the log {path!r} cannot be written: {error.strerror}") from None
    if not ours:
        raise ConfigError(
            "log-exists", f"{path!r} exists and is not a log of ours: name another file with -o, or remove it"
        )
    if os.lstat(path).st_uid != os.geteuid():
        raise ConfigError("log-exists", f"{path!r} is another user's log: name another file with -o")
    if locked:
        owner = _number(start, OWNER_PID_AT, 4)
        raise ConfigError(
            "log-in-use", f"{path!r} is being written by process {owner}: name another with -o (%p: unique)"
        )


def _number(header: bytes, at: int, size: int) -> int:
    return int.from_bytes(header[at : at + size], "little")


def _is_locked(descriptor: int) -> bool:
    """Whether the processes of a run have locked this log.  Where files cannot be locked, the core decides later."""
    from fcntl import LOCK_EX, LOCK_NB, flock  # not earlier: the program may not have imported fcntl

    try:
        flock(descriptor, LOCK_EX | LOCK_NB)  # released when the file is closed
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _is_of_here(header: bytes) -> bool:
    """Whether a live log was made on this host and in this pid namespace, so that its owner's pid is valid here."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            boot = file.read().strip()
        namespace = os.stat("/proc/self/ns/pid")
    except OSError:
        return False
    numbers = b"".join(number.to_bytes(8, "little") for number in (namespace.st_dev, namespace.st_ino))
    return header[BOOT_ID_AT : BOOT_ID_AT + 36] == boot and header[NAMESPACE_AT : NAMESPACE_AT + 16] == numbers


def _check_is_file(path: str) -> None:
    """Raise ConfigError if something has this name that is neither a regular file nor a link to one.

    It is not opened, because a FIFO would block.  csrc/core/log/file_owner.c has the same rule.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return  # nothing there, or opening it will fail and report why
    if stat.S_ISDIR(mode):
        raise ConfigError("not-a-log", f"{path!r} is a folder: name a file in it for the log")
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
    kind = kinds.get(stat.S_IFMT(mode))
    ours = not path.startswith(("/dev/", "/proc/")) or path.startswith("/dev/shm/")
    if kind is None and not ours and os.path.islink(path):
        kind = "a link of the system's"  # /dev/stdout
    if kind is not None:
        raise ConfigError("not-a-file", f"{path!r} is {kind}, which a log would replace: name a file for the log")


def check_output(log: str, output: str) -> None:
    """Raise ConfigError if writing to `output` would overwrite the log that is read, or one of a folder of logs.

    Block devices are refused too; other devices, pipes and terminals may be written to.
    """
    try:
        there = os.stat(output)
    except OSError:
        return
    if stat.S_ISBLK(there.st_mode):
        raise ConfigError("not-a-file", f"{output}: a device with data on it; name a file")
    if not stat.S_ISREG(there.st_mode):
        return
    read = [log]
    if os.path.isdir(log):
        read = [entry.path for entry in os.scandir(log) if entry.is_file() and _is_log(entry.path)]
    if any(os.path.exists(path) and os.path.samestat(os.stat(path), there) for path in read):
        raise ConfigError("contradictory-options", f"{output}: the log that is read here; name another file to write")


def _is_log(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO may have come to be there
        with open(descriptor, "rb") as file:
            start = file.read(len(LOG_MAGIC))
            return start == LOG_MAGIC or (start.startswith(_PARQUET_MAGIC) and is_packed_log(file))
    except OSError:
        return False


def begins_with(path: "str | os.PathLike[str]", magic: bytes) -> bool:
    """Whether a file begins so.  Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO may have come to be there
    try:
        return os.read(descriptor, len(magic)) == magic
    finally:
        os.close(descriptor)


def is_packed_log(file: "BinaryIO") -> bool:
    """Whether an open Parquet file is a log of ours, by the keys in its footer."""
    size = file.seek(0, os.SEEK_END)
    if size < 12:
        return False
    file.seek(size - 8)
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _PARQUET_MAGIC or length + 12 > size:
        return False
    file.seek(size - 8 - length)
    before = b""
    while length > 0:  # in parts: a sparse file may claim to have any length
        part = file.read(min(length, 1 << 20))
        if _PACKED_MARK in before + part or not part:
            break
        before, length = part[-len(_PACKED_MARK) :], length - len(part)
    return length > 0 and bool(part)


def has_mapped(pid: int, path: str) -> bool:
    """Whether a process on this machine has the file mapped."""
    try:
        inode = os.stat(path).st_ino
        with open(f"/proc/{pid}/maps", "rb") as maps:
            return any(line.split(None, 5)[4] == str(inode).encode() for line in maps)
    except (OSError, IndexError):
        return False
