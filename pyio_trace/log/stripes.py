"""How Lustre has spread a file over its servers, from the extended attribute `lustre.lov`.

The attribute is anyone's bytes.  Its layouts, in the names of lustre_user.h, all
little-endian: lov_mds_md of version 1 and 3 (one way for the whole file), and
lov_comp_md_v1 (components, each with a part of the file, that hold one of these).
"""

from __future__ import annotations

import json
import os
import struct
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

ATTRIBUTE = "lustre.lov"
#: The name of the attachment of a Parquet log.
ATTACHMENT = "stripes"
_MOST_KEPT = 1 << 20
V1, V3, COMPOSITE = 0x0BD10BD0, 0x0BD30BD0, 0x0BD60BD0
#: Most components, and bytes of an attribute, that are believed; files that are asked, and seconds for all of them.
_COMPONENTS, _BYTES, _FILES, _SECONDS = 256, 65536, 256, 0.5
#: lmm_stripe_count of a file on all servers, of which the attribute names those that there are.
_ALL = 0xFFFF
#: lmm_pattern of a component on the metadata server, and of one whose objects were released to an archive.
_ON_METADATA, _PATTERNS = 0x100, {0x1, 0x2, 0x4, 0x100}
#: lcme_flags of a component that has objects.
_INITIATED = 0x10
_ONE, _POOL, _OBJECT = struct.Struct("<II16sIHH"), 16, 24
_HEAD, _ENTRY = struct.Struct("<IIIHH"), struct.Struct("<IIQQII")
_HEAD_SIZE, _ENTRY_SIZE = 32, 48
_TO_THE_END = (1 << 64) - 1


class Component(NamedTuple):
    """A part of a file.  begin, end: bytes, None: to the end; servers: how many, -1: all there are, 0: none yet, or the
    metadata server; size: bytes of a stripe."""

    begin: int
    end: int | None
    servers: int
    size: int


def decoded(raw: bytes) -> list[Component]:
    """The components of a file, in order.  Raises ValueError for bytes that are no such attribute."""
    if not 8 <= len(raw) <= _BYTES:
        raise ValueError(f"{len(raw)} bytes are no layout of a file")
    magic = int.from_bytes(raw[:4], "little")
    if magic in (V1, V3):
        return [Component(0, None, *_of_one(raw))]
    if magic != COMPOSITE:
        raise ValueError(f"no layout has the number {magic:#x}")
    return _composite(raw)


def _of_one(raw: bytes) -> tuple[int, int]:
    """(servers, size of a stripe)."""
    if len(raw) < _ONE.size:
        raise ValueError("the layout is cut off")
    magic, pattern, _, size, count, _ = _ONE.unpack_from(raw)
    if magic not in (V1, V3) or pattern & 0xFFFF not in _PATTERNS:
        raise ValueError("no layout of this kind")
    objects = len(raw) - _ONE.size - (_POOL if magic == V3 else 0)
    if objects < 0 or size % 65536 or not size:
        raise ValueError("a layout that cannot be")
    if pattern & _ON_METADATA:
        return 0, size
    if count == _ALL:
        return -1, size
    if objects and count * _OBJECT > objects:
        raise ValueError("the layout has fewer objects than stripes")
    return count, size


def _composite(raw: bytes) -> list[Component]:
    if len(raw) < _HEAD_SIZE:
        raise ValueError("the layout is cut off")
    _, size, _, _, count = _HEAD.unpack_from(raw)
    if not 1 <= count <= _COMPONENTS or size > len(raw) or _HEAD_SIZE + count * _ENTRY_SIZE > size:
        raise ValueError("the layout is cut off")
    found = []
    for at in range(_HEAD_SIZE, _HEAD_SIZE + count * _ENTRY_SIZE, _ENTRY_SIZE):
        _, flags, begin, end, offset, length = _ENTRY.unpack_from(raw, at)
        if offset < _HEAD_SIZE + count * _ENTRY_SIZE or offset + length > size or begin >= end:
            raise ValueError("a component that cannot be")
        stripes, unit = _of_one(raw[offset : offset + length])
        if begin >= 1 << 63 or (end != _TO_THE_END and end >= 1 << 63):
            raise ValueError("a component that cannot be")
        found.append(Component(begin, None if end == _TO_THE_END else end, stripes if flags & _INITIATED else 0, unit))
    return sorted(found, key=lambda one: one.begin)


# ---- as a text of a log


def to_text(components: list[Component]) -> str:
    """Such as "0-1048576:1x65536 1048576-:4x1048576"."""
    return " ".join(f"{one.begin}-{'' if one.end is None else one.end}:{one.servers}x{one.size}" for one in components)


def of_text(text: str) -> list[Component]:
    """The components of a text.  Raises ValueError for one that to_text() has not written."""
    words = text[:_BYTES].split(" ")
    if len(words) > _COMPONENTS:
        raise ValueError("too many components")
    found = []
    for word in words:
        extent, _, stripes = word.partition(":")
        (begin, _, end), (count, _, size) = extent.partition("-"), stripes.partition("x")
        numbers = [begin, end or "0", count.removeprefix("-"), size]
        if not all(one.isascii() and one.isdecimal() and len(one) < 20 for one in numbers):
            raise ValueError("no layout")
        found.append(Component(int(begin), int(end) if end else None, int(count), int(size)))
    return found


def checked(text: str) -> dict[str, str]:
    """The layouts that a packed log has.  Raises ValueError for a text that is none."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("too deep") from None
    if not isinstance(found, dict) or len(found) > _MOST_KEPT or not all(type(one) is str for one in found.values()):
        raise ValueError("no layouts")
    for layout in found.values():
        of_text(layout)
    return found


# ---- asking


def of_files(paths: Iterable[str], ask: Callable[[str], bytes] | None = None) -> dict[str, str]:
    """Path -> layout (to_text()) of some files, the first ones; those that have none, or are gone, are left out.

    A path may lead anywhere by now: a symbolic link is not followed, and only the attribute is read.
    """
    ask = ask or (lambda path: os.getxattr(path, ATTRIBUTE, follow_symlinks=False))
    until = time.monotonic() + _SECONDS
    found = {}
    for asked, path in enumerate(paths):
        if asked == _FILES or time.monotonic() > until:
            break
        try:
            found[path] = to_text(decoded(ask(path)))
        except (OSError, ValueError):
            continue
    return found
