"""A file that gets its name when it is complete, and replaces nothing but an earlier log of pyio_trace.

The folder is opened once, and others may be able to write to it.  So the file is
created there without a name: if its writer is killed, nothing of it is left.  Where
the file system or the kernel cannot do that, it is created under a random name and
never through a link.  If its final name is in use by then, it gets a similar one.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, BinaryIO

from pyio_trace.errors import LogError
from pyio_trace.existing_files import LOG_MAGIC

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

_FOLDER = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_CLOEXEC
_LAST_NUMBER = 999
_AT_ONCE = 1 << 20
_NO_REPLACE, _EXCHANGE = 1, 2  # RENAME_NOREPLACE, RENAME_EXCHANGE


class Folder:
    """An open folder, which stays the same folder even if another gets its name.  Raises OSError."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.descriptor = os.open(path or ".", _FOLDER)

    def __del__(self) -> None:
        if getattr(self, "descriptor", -1) >= 0 and os is not None:  # at interpreter exit os is None
            os.close(self.descriptor)

    def has(self, name: str, identity: tuple[int, int]) -> bool:
        """Whether this name belongs to the file with this device and inode."""
        try:
            return _identity(os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)) == identity
        except OSError:
            return False

    def remove(self, name: str, identity: tuple[int, int]) -> bool:
        """Removes the file if it has this device and inode; returns whether it did."""
        if not self.has(name, identity):
            return False
        try:
            os.unlink(name, dir_fd=self.descriptor)
        except OSError:
            return False
        return True


class NewFile:
    """A file being written: write to `file`, then place() it.  Without that, leaving the context removes it.

    Raises OSError.
    """

    def __init__(self, folder: Folder, mode: int = 0o600) -> None:
        self._folder = folder
        self._at = folder.descriptor
        self._name = f".pyio-{os.urandom(16).hex()}.tmp"  # until it is placed, if it has one
        self._mode = mode
        self._placed = False
        try:
            self._begin(os.open(".", os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600, dir_fd=self._at), named=False)
        except OSError:
            self._begin_named()

    def _begin_named(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._begin(os.open(self._name, flags, 0o600, dir_fd=self._at), named=True)

    def _begin(self, descriptor: int, *, named: bool) -> None:
        self.file: BinaryIO = os.fdopen(descriptor, "w+b")
        self._named = named
        self._identity = _identity(os.fstat(descriptor))
        with contextlib.suppress(OSError):  # a file system without permissions
            os.fchmod(descriptor, self._mode)  # whatever the umask says

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # a failed write has been reported already
            self.file.close()
        if not self._placed and self._named:
            self._folder.remove(self._name, self._identity)

    def place(self, name: str, *, before: int | None = None, beside: bool = True) -> str:
        """Gives the file its name once it is on disk; returns the name that it got.

        name: in the folder.  A file of that name is replaced if it is a log of
        pyio_trace or empty, and was last changed before `before` (ns; None: at
        any time).  beside: if anything else has the name, "-2" or the next free
        number is put before the suffix.  Raises OSError, LogError: log-exists.
        """
        self._to_disk()  # its source may be removed next
        if not self._named and self._link_nameless(name):
            return self._done(name)
        if self._link(name) or self._replace(name, before):
            return self._done(name)
        if not beside:
            path = os.path.join(self._folder.path, name)
            raise LogError("log-exists", f"{path!r} exists and is not a log of ours: name another, or remove it")
        stem, suffix = os.path.splitext(name)
        for number in range(2, _LAST_NUMBER + 1):
            other = f"{stem}-{number}{suffix}"
            if self._link(other):
                return self._done(other)
        raise FileExistsError(17, f"its name is taken, and so are those up to -{_LAST_NUMBER}")

    def _to_disk(self) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())

    def _link_nameless(self, name: str) -> bool:
        """Gives a nameless file this name, or if that fails the temporary one; returns whether it has this name."""
        for one in (name, self._name):
            try:
                os.link(f"/proc/self/fd/{self.file.fileno()}", one, dst_dir_fd=self._at, follow_symlinks=True)
            except FileExistsError:
                continue
            except OSError:  # no /proc, or links are forbidden
                self._copy_to_named()
                return False
            self._named = True
            return one == name
        raise FileExistsError(17, "its temporary name is taken")

    def _copy_to_named(self) -> None:
        import shutil  # rarely needed

        nameless = self.file
        self._begin_named()
        nameless.seek(0)
        shutil.copyfileobj(nameless, self.file, _AT_ONCE)
        nameless.close()
        self._to_disk()

    def _done(self, name: str) -> str:
        self._placed = True
        self._folder.remove(self._name, self._identity)
        return name

    def _link(self, name: str) -> bool:
        """Gives the file a name that no file has; returns whether that worked."""
        try:
            os.link(self._name, name, src_dir_fd=self._at, dst_dir_fd=self._at, follow_symlinks=False)
        except FileExistsError:
            return False
        except OSError as error:  # a file system without links
            if not self._free(name):
                return False
            if not self._rename(self._name, name, _NO_REPLACE):
                self._rename_by_reserving(name, error)
        return True

    def _free(self, name: str) -> bool:
        try:
            os.stat(name, dir_fd=self._at, follow_symlinks=False)
        except FileNotFoundError:
            return True
        return False

    def _rename_by_reserving(self, name: str, why: OSError) -> None:
        """For file systems without links and RENAME_NOREPLACE: reserves the name with an empty file first."""
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(name, flags, 0o600, dir_fd=self._at)
        except OSError:
            raise why from None
        reserved = _identity(os.fstat(descriptor))
        os.close(descriptor)
        try:
            if not self._folder.has(name, reserved):
                raise why
            os.replace(self._name, name, src_dir_fd=self._at, dst_dir_fd=self._at)
        except OSError:
            self._folder.remove(name, reserved)
            raise

    def _replace(self, name: str, before: int | None) -> bool:
        """Replaces the file of this name if it is an earlier log of pyio_trace; returns whether it did."""
        old = self._earlier_log(name, before)
        if old is None:
            return False
        if self._rename(self._name, name, _EXCHANGE):
            # The replaced file now has our temporary name.  If it is not the one that was checked, swap back.
            if self._folder.remove(self._name, old):
                return True
            self._rename(self._name, name, _EXCHANGE)
            return False
        if not self._folder.has(name, old):
            return False
        os.replace(self._name, name, src_dir_fd=self._at, dst_dir_fd=self._at)
        return True

    def _earlier_log(self, name: str, before: int | None) -> tuple[int, int] | None:
        """(device, inode) of the file of this name, if it is the user's and a log of pyio_trace or empty; else None."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        try:
            if not stat.S_ISREG(os.stat(name, dir_fd=self._at, follow_symlinks=False).st_mode):
                return None  # opening a device can have effects
            with os.fdopen(os.open(name, flags, dir_fd=self._at), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                    return None
                if before is not None and status.st_ctime_ns >= before:
                    return None
                return _identity(status) if status.st_size == 0 or _is_log(file) else None
        except OSError:
            return None

    def _rename(self, old: str, new: str, flags: int) -> bool:
        """renameat2(), which Python does not have; False: it failed, for whatever reason."""
        import ctypes  # pyarrow has imported it already

        try:
            renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
        except (AttributeError, OSError):  # an old C library
            return False
        status: int = renameat2(self._at, os.fsencode(old), self._at, os.fsencode(new), flags)
        return status == 0


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _is_log(file: BinaryIO) -> bool:
    """Whether an open file is a log of pyio_trace, by its contents."""
    from pyio_trace.log.parquet_log import KEY, MAGIC

    start = file.read(len(LOG_MAGIC))
    if not start.startswith(MAGIC):
        return start == LOG_MAGIC
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return KEY in (pq.read_metadata(file).metadata or {})
    except (pa.ArrowException, ValueError, OSError):
        return False
