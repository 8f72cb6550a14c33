"""zipfile: members that are read and written, and how often one was begun again.

The calls that are watched are those in which ZipExtFile fills its buffer, and the ends of members: as many for a
program that reads lines as for one that reads all at once.  The end of a member below 64 KiB has no row, which would
take a tenth of the time of reading it.
"""

from __future__ import annotations

import sys
from _io import _IOBase

from pyio_trace.capture.instrumentation.instrument import Instrument, Target
from pyio_trace.capture.instruments._codecs import Attributes, all_passes, begins_again, is_in_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_STORED = 0
_is_closed: Any = _IOBase.__dict__["closed"].__get__


def _archive_of(member: Attributes) -> Any:
    """The file that a ZipExtFile reads, which it shares with others of its archive."""
    source = member["_fileobj"]
    return Attributes(source)["_file"] if type(source).__name__ == "_SharedFile" else source


def _out(member: Attributes) -> int | None:
    """The bytes of this pass so far; None: not known, since parts were skipped, or the source cannot seek."""
    size = member.get("_orig_file_size")
    if size is None or (member["_compress_type"] == _STORED and member["_expected_crc"] is None):
        return None
    out: int = size - member["_left"]
    return out


def _seeking(file: object, offset: Any, whence: Any = 0) -> Any:
    """A row for a seek that begins the member again: the same decision as ZipExtFile.seek()."""
    known = Attributes(file)
    size = known.get("_orig_file_size")
    if size is None or _is_closed(file) or type(offset) is not int or whence not in (0, 1, 2):
        return NotImplemented
    buffered, at = len(known["_readbuffer"]), known["_offset"]
    now = size - known["_left"] - buffered + at
    place = min(max(offset + (0, now, size)[whence], 0), size)
    if place >= now - at:
        return NotImplemented
    archive = _archive_of(known)
    if is_in_memory(archive):
        return NotImplemented
    return archive, {"member": known["name"], **begins_again(file, _out(known) or 0)}


def _closing(file: object) -> Any:
    known = Attributes(file)
    if _is_closed(file):
        return NotImplemented
    archive = _archive_of(known)
    if is_in_memory(archive):
        return NotImplemented
    out = _out(known)
    details = all_passes(file, out or 0)
    if out is None:
        del details["out"]
    details["member"] = known["name"]
    return archive, details


def _closing_written(file: object) -> Any:
    known = Attributes(file)
    archive = Attributes(known["_zipfile"])["fp"]
    if _is_closed(file) or is_in_memory(archive):
        return NotImplemented
    name = sys.modules["zipfile"].ZipInfo.filename.__get__(known["_zinfo"])
    return archive, {"member": name, "in": known["_file_size"]}


instrument = Instrument(
    "zipfile",
    version=lambda module: None,
    targets=(
        Target("ZipExtFile._read1", moved="len"),
        Target("ZipExtFile.seek", only_if="_orig_file_size", path=_seeking),
        Target("ZipExtFile.close", only_if="_orig_file_size", path=_closing),
        Target("_ZipWriteFile.close", only_if="_file_size", path=_closing_written),
    ),
)
