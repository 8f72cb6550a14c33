"""Compressed files of the standard library: bytes out, and how often decompression began again.

gzip, bz2, lzma and zstd read through one class, DecompressReader, which a BufferedReader calls whenever its
buffer is empty.  Its calls are watched: as many as there are buffers, however small the reads of the program.  Seeking
backwards beyond the buffer begins at the start of the file again (_rewind).  The row of close() has the sums.

Bytes out are those that came out of the decompressor: also those that a seek has skipped, and up to a buffer that the
program has not asked for.
"""

from __future__ import annotations

import sys
from _io import BufferedReader, BytesIO

from pyio_trace.capture.instrumentation.instrument import Target
from pyio_trace.capture.instrumentation.weak_id_map import WeakIdMap
from pyio_trace.capture.instruments._files import has

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_STREAMS = "_compression" if sys.version_info < (3, 14) else "compression._common._streams"

#: Of a reader that began again: how many passes have ended, and the bytes that came out in them.
_ended = WeakIdMap()


#: By class: whether it, or one that it is derived from, has something of that name itself.
_classes = WeakIdMap()
_missing = object()


class Attributes:
    """The attributes of an object, without code of its class.

    Not by its __dict__: once that exists, Python up to 3.12 looks up each attribute of the object more slowly.
    """

    __slots__ = ("_in_class", "_thing")

    def __init__(self, thing: object) -> None:
        kind = type(thing)
        in_class = _classes.get(kind)
        if in_class is None:
            in_class = {}
            _classes.set(kind, in_class)
        self._thing, self._in_class = thing, in_class

    def get(self, name: str, default: Any = None) -> Any:
        """The attribute; the default if the object has none."""
        in_class = self._in_class.get(name)
        if in_class is None:
            in_class = self._in_class[name] = has(type(self._thing), name)
        if in_class:  # perhaps a property of a class of the program
            return object.__getattribute__(self._thing, "__dict__").get(name, default)
        try:
            return object.__getattribute__(self._thing, name)
        except AttributeError:
            return default

    def __getitem__(self, name: str) -> Any:
        """The attribute; raises KeyError."""
        found = self.get(name, _missing)
        if found is _missing:
            raise KeyError(name)
        return found

    def __contains__(self, name: str) -> bool:
        """Whether the object has it."""
        return self.get(name, _missing) is not _missing


def is_in_memory(source: object) -> bool:
    """Whether reading it is no I/O."""
    return type(source) is BytesIO


def begins_again(thing: object, out: int) -> dict[str, object]:
    """Count a pass that ended after `out` bytes.  Returns the details of the row."""
    passes, before = _ended.get(thing) or (0, 0)
    _ended.set(thing, (passes + 1, before + out))
    return {"pass": passes + 2, "out": out}


def all_passes(thing: object, out: int) -> dict[str, object]:
    """The sums, for the row of close().  out: the bytes of the pass that ends now."""
    passes, before = _ended.get(thing) or (0, 0)
    return {"out": before + out, "passes": passes + 1}


# ---- reading -------------------------------------------------------------------------------


def _rewound(reader: object) -> Any:
    known = Attributes(reader)
    source = known["_fp"]
    if type(source).__name__ == "_PaddedFile":  # gzip's
        source = Attributes(source)["file"]
    return NotImplemented if is_in_memory(source) else (source, begins_again(reader, known["_pos"]))


def reading(buffer: object) -> dict[str, object] | None:
    """The sums of a file that is read through this buffer; None: it is written."""
    if type(buffer) is not BufferedReader:
        return None
    reader = buffer.raw
    return all_passes(reader, Attributes(reader)["_pos"])


#: All of them begin again by the same function.
REWIND = Target("DecompressReader._rewind", module=_STREAMS, path=_rewound)
READ = Target("DecompressReader.read", module=_STREAMS, moved="len")


# ---- closing -------------------------------------------------------------------------------


def _closing(file: object) -> Any:
    known = Attributes(file)
    source = known.get("_fp")
    if source is None or is_in_memory(source):
        return NotImplemented
    sums = reading(known.get("_buffer"))
    return source, {"in": known["_pos"]} if sums is None else sums


def closing(owner: str, module: str | None = None) -> Target:
    """close() of a class that has _fp, _buffer and, if it writes, _pos."""
    return Target(f"{owner}.close", module=module, path=_closing)
