"""tarfile: members that are extracted and added, and scans for all members.

Passes over a compressed archive are in the rows of its codec (gzip, bz2, lzma), beneath these.  Small members have no
row where that would take a tenth of the time of using them.
"""

from __future__ import annotations

import sys

from pyio_trace.capture.instrumentation.instrument import Instrument, Target
from pyio_trace.capture.instruments._codecs import Attributes, is_in_memory
from pyio_trace.capture.instruments._files import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_SMALL = 65536  # bytes; likewise WORTH_A_ROW in csrc/ext/watch/watched_call.c


def _archive(archive: object, *args: object, **kwargs: object) -> Any:
    known = Attributes(archive)
    return NotImplemented if is_in_memory(known.get("fileobj")) else known.get("name")


def _slot(member: object, name: str) -> Any:
    """An attribute of a TarInfo, without code of its class; None if it is something else."""
    kind = sys.modules["tarfile"].TarInfo
    return getattr(kind, name).__get__(member) if issubclass(type(member), kind) else None


def _name(member: object) -> str | None:
    found = member if isinstance(member, str) else _slot(member, "name")
    return plain(found) if isinstance(found, str) else None


def _of_member(archive: object, member: object, *args: object, **kwargs: object) -> Any:
    path = _archive(archive)
    return path if path is NotImplemented else (path, {"member": _name(member)})


def _of_large_member(archive: object, member: Any, *args: object, **kwargs: object) -> Any:
    if type(member) is sys.modules["tarfile"].TarInfo and member.size < _SMALL:
        return NotImplemented
    return _of_member(archive, member)


def _size(member: object) -> int | None:
    """The bytes of a regular file; None for others, which have no data."""
    regular = _slot(member, "type") in sys.modules["tarfile"].REGULAR_TYPES
    size: int | None = _slot(member, "size") if regular else None
    return size


def _extracted(result: object, archive: object, member: object, *args: object, **kwargs: object) -> int | None:
    return _size(member)


def _added(result: object, archive: object, member: object, fileobj: object = None) -> int | None:
    return None if fileobj is None else _size(member)


def _scanned(result: object, archive: object) -> dict[str, object]:
    return {"members": len(Attributes(archive)["members"])}


instrument = Instrument(
    "tarfile",
    version=lambda module: None,
    targets=(
        Target("TarFile._extract_member", name="TarFile.extract", path=_of_member, moved=_extracted),
        Target("TarFile.extractfile", path=_of_large_member),
        Target("_FileInFile.read", moved="len"),
        Target("TarFile._load", name="TarFile.getmembers", path=_archive, after=_scanned),
        Target("TarFile.addfile", path=_of_large_member, moved=_added),
    ),
)
