"""Reads the entry points of installed distributions, without importlib.metadata.

A folder of the path may have anything in it, and importlib.metadata opens
whatever is called ``entry_points.txt``: a FIFO blocks for ever, and a link to
/dev/zero has no end.  Here only regular files of a bounded size are read.
csrc/ext/imports/distributions.c has the same rule for traced programs, where it
is faster.
"""

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from zipfile import ZipFile

MOST = 1 << 20  #: bytes of a file; entry points have some hundred.  MOST in distributions.c.
#: Installers write .dist-info; Debian's packages, and `setup.py develop`, have .egg-info.
_ENDINGS = (".dist-info", ".egg-info")
_FILE = "entry_points.txt"
_LARGEST_ARCHIVE = 1 << 30


def of_group(group: str, path: "Iterable[str]") -> "dict[str, str]":
    """The entries of a group by name, ``module:attribute`` if sound.  The first on the path counts, as for imports."""
    found: dict[str, str] = {}
    for folder in path:
        for text in _texts(folder):
            if group.encode() in text:
                found = {**section(text.decode(errors="replace"), group), **found}
    return found


def section(text: str, group: str) -> "dict[str, str]":
    """The entries of a group in an entry_points.txt by name, each without its extras."""
    found, within = {}, False
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("["):
            within = line == f"[{group}]"
        elif within and "=" in line and not line.startswith(("#", ";")):
            name, _, where = line.partition("=")
            found[name.strip()] = ":".join(part.strip() for part in where.partition("[")[0].split(":"))
    return found


def is_dotted(where: str) -> bool:
    """Whether it names a module, or something in one: ``"package.module"``, ``"package.module:name"``."""
    return all(part.isidentifier() for part in where.replace(":", ".", 1).split("."))


def content(path: str, most: int = MOST) -> "bytes | None":
    """The bytes of a file; None unless it is a regular file of at most so many bytes that can be read."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # before opening it: opening a device can have effects
            return None
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            found = file.read(most + 1)
        except OSError:
            return None
    return found if len(found) <= most else None


def _texts(folder: str) -> "Iterator[bytes]":
    """The entry points of each distribution in a folder or an archive of the path."""
    try:
        names = sorted(os.listdir(folder))
    except NotADirectoryError:
        yield from _in_archive(folder)
        return
    except (OSError, ValueError):
        return
    inner = [name for name in names if name.endswith(_ENDINGS)]
    if folder.endswith(".egg"):
        inner.append("EGG-INFO")
    for name in inner:
        text = content(os.path.join(folder, name, _FILE))
        if text is not None:
            yield text


def _in_archive(path: str) -> "Iterator[bytes]":
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_ARCHIVE:
            return
        import zipfile  # seldom needed

        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file, zipfile.ZipFile(file) as archive:
            yield from _members(archive)
    except Exception:  # zipfile raises anything for a damaged archive
        return


def _members(archive: "ZipFile") -> "Iterator[bytes]":
    for name in archive.namelist():
        folder, _, last = name.rpartition("/")
        if last == _FILE and (folder.endswith(_ENDINGS) or folder == "EGG-INFO") and "/" not in folder:
            with archive.open(name) as member:  # its size is only what the archive says
                text = member.read(MOST + 1)
            if len(text) <= MOST:
                yield text
