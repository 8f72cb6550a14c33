"""Reads what matters for hooking calls from an ELF file.

Reads 64-bit little-endian files (x86-64, aarch64): whether a program is linked
statically, and the slots that the dynamic linker fills with addresses of named
functions.  csrc/core/patch/got.c reads the same from memory, inside the process.

The file may come from another user and may change while it is read.  Whatever
sizes it claims, no more memory is used than the bounds below allow.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import field

from pyio_trace.light_dataclass import dataclass

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_RELOCATION = struct.Struct("<QQq")
_SYMBOL = struct.Struct("<IBBHQQ")
_WORDS = struct.Struct("<qQ")
_LOAD, _DYNAMIC, _INTERPRETER, _RELRO = 1, 2, 3, 0x6474E552
_NULL, _PLT_SIZE, _STRINGS, _SYMBOLS, _RELA, _RELA_SIZE, _PLT = 0, 2, 5, 6, 7, 8, 23
_WRITABLE = 2
_MOST_SEGMENTS = 64
#: Limits in bytes: a table of relocations (the largest libraries have some 30 MB), the dynamic section, a name.
_LARGEST_TABLE, _LARGEST_DYNAMIC, _LONGEST_NAME = 64 << 20, 1 << 16, 256
_BLOCK, _MOST_BLOCKS = 1 << 16, 64
#: machine -> relocation types: for a call, for an address taken by code, for a pointer in data.
_KINDS = {62: {7: "call", 6: "address", 1: "pointer"}, 183: {1026: "call", 1025: "address", 257: "pointer"}}


class ElfError(Exception):
    """The file is not ELF, is damaged, or is of a kind that is not supported."""


@dataclass(frozen=True)
class Slot:
    """A place that holds the address of a named function.

    at: relative to the address where the file is loaded.  kind: call, address or
    pointer.  own: whether the file defines the function itself.
    """

    at: int
    kind: str
    name: str
    addend: int
    own: bool


class Image:
    """A file's bytes.  They are read, not mapped, because reading a truncated mapping raises SIGBUS."""

    def __init__(self, descriptor: int) -> None:
        """descriptor: this object closes it."""
        self._descriptor = descriptor
        self._blocks: dict[int, bytes] = {}

    def __del__(self) -> None:
        os.close(self._descriptor)

    def at(self, start: int, length: int) -> bytes:
        """Bytes from `start` on; fewer if the file ends there.  Raises ElfError, OSError."""
        if start < 0 or start > 1 << 62 or length > _LARGEST_TABLE:
            raise ElfError("a part of it is said to be larger than any")
        if length > _BLOCK:
            return os.pread(self._descriptor, length, start)
        first, within = divmod(start, _BLOCK)
        found = self._block(first)[within : within + length]
        if within + length > _BLOCK:
            found += self._block(first + 1)[: within + length - _BLOCK]
        return found

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            if len(self._blocks) >= _MOST_BLOCKS:
                self._blocks.clear()
            self._blocks[number] = os.pread(self._descriptor, _BLOCK, number * _BLOCK)
        return self._blocks[number]


@dataclass
class Elf:
    """One file.

    segments: (address, offset, bytes in the file, bytes in memory, flags) of each
    loaded segment.  relro: (start, end) of the part that becomes read-only
    after relocation, or None.
    """

    image: Image
    machine: int
    interpreter: bool = False
    segments: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    relro: tuple[int, int] | None = None
    dynamic: dict[int, int] = field(default_factory=dict)

    @property
    def low(self) -> int:
        """The lowest address of any segment, rounded down to a page."""
        return min((segment[0] for segment in self.segments), default=0) & ~0xFFF

    def slots(self, wanted: set[str]) -> Iterator[Slot]:
        """The slots of functions with these names."""
        kinds = _KINDS.get(self.machine, {})
        size, plt = self.dynamic.get(_RELA_SIZE, 0), self.dynamic.get(_PLT_SIZE, 0)
        names: dict[int, tuple[str, bool] | None] = {}  # symbol -> its name, if wanted, and whether it is defined here
        for table, length in ((self.dynamic.get(_RELA), size), (self.dynamic.get(_PLT), plt)):
            if table is None:
                continue
            raw = self._at(table, length // _RELOCATION.size * _RELOCATION.size)
            for at, info, addend in _RELOCATION.iter_unpack(raw):
                kind = kinds.get(info & 0xFFFFFFFF)
                if kind is None or info < 1 << 32:
                    continue
                if info >> 32 not in names:
                    symbol = self._symbol(info >> 32)
                    names[info >> 32] = symbol if symbol[0] in wanted else None
                found = names[info >> 32]
                if found is not None:
                    yield Slot(at, kind, found[0], addend, found[1])

    def _symbol(self, number: int) -> tuple[str, bool]:
        entry = self._at(self.dynamic.get(_SYMBOLS, 0) + number * _SYMBOL.size, _SYMBOL.size)
        name, _, _, section, _, _ = _SYMBOL.unpack(entry)
        start = self._offset(self.dynamic.get(_STRINGS, 0) + name)
        text, end, _ = self.image.at(start, _LONGEST_NAME).partition(b"\0")
        return text.decode("ascii", "replace") if end else "", section != 0

    def _offset(self, address: int) -> int:
        for start, offset, there, _, _ in self.segments:
            if start <= address < start + there:
                return offset + address - start
        raise ElfError("an address that is not in the file")

    def _at(self, address: int, length: int) -> bytes:
        start = self._offset(address)
        found = self.image.at(start, length)
        if len(found) < length:
            raise ElfError("cut off")
        return found


def read_elf(path: str | os.PathLike[str]) -> Elf:
    """Raises ElfError, OSError."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # before opening it: a FIFO would block
        raise ElfError("no regular file")
    return read_elf_at(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY))


def read_elf_at(descriptor: int) -> Elf:
    """The file of a descriptor, which the result closes.  Raises ElfError, OSError."""
    image = Image(descriptor)
    try:
        return _read(image)
    except (struct.error, ValueError):
        raise ElfError("damaged") from None


def _read(image: Image) -> Elf:
    head = image.at(0, _HEADER.size)
    if len(head) < _HEADER.size:
        raise ElfError("too small")
    ident, _, machine, _, _, segments_at, _, _, _, size, count, *_ = _HEADER.unpack(head)
    if ident[:6] != b"\x7fELF\x02\x01" or size != _SEGMENT.size:
        raise ElfError("not a 64-bit little-endian ELF file")
    elf = Elf(image, machine)
    dynamic = None
    for number in range(min(count, _MOST_SEGMENTS)):
        segment = image.at(segments_at + number * size, size)
        kind, flags, offset, address, _, in_file, in_memory, _ = _SEGMENT.unpack(segment)
        if kind == _LOAD:
            elf.segments.append((address, offset, in_file, in_memory, flags))
        elif kind == _DYNAMIC:
            dynamic = offset, in_file
        elif kind == _INTERPRETER:
            elf.interpreter = True
        elif kind == _RELRO:
            elf.relro = address, address + in_memory
    if dynamic is not None:
        start, length = dynamic
        section = image.at(start, min(length, _LARGEST_DYNAMIC) // _WORDS.size * _WORDS.size)
        for tag, value in _WORDS.iter_unpack(section):
            if tag == _NULL:
                break
            elf.dynamic.setdefault(tag, value)
    return elf


def is_static(path: str) -> bool:
    """Whether a program is linked statically: it then has no dynamic linker, and no slot to hook."""
    try:
        elf = read_elf(path)
    except (ElfError, OSError):
        return False
    return bool(elf.segments) and not elf.interpreter
