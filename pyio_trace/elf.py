"""What an ELF file says of itself, as far as hooking calls depends on it.

Reads 64-bit little-endian files (x86-64, aarch64): whether a program is linked
statically, and the slots that the dynamic linker fills with addresses of named
functions.  csrc/core/got.c reads the same from memory, inside the process.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_RELOCATION = struct.Struct("<QQq")
_SYMBOL = struct.Struct("<IBBHQQ")
_WORDS = struct.Struct("<qQ")
_LOAD, _DYNAMIC, _INTERPRETER, _RELRO = 1, 2, 3, 0x6474E552
_NULL, _PLT_SIZE, _STRINGS, _SYMBOLS, _RELA, _RELA_SIZE, _PLT = 0, 2, 5, 6, 7, 8, 23
_WRITABLE = 2
_MOST_SEGMENTS = 64
#: machine -> relocation types: of a function called, of one whose address is taken, of a pointer kept in data.
_KINDS = {62: {7: "call", 6: "address", 1: "pointer"}, 183: {1026: "call", 1025: "address", 257: "pointer"}}


class ElfError(Exception):
    """Not an ELF file of a kind that is known here, or a damaged one."""


@dataclass(frozen=True)
class Slot:
    """A place that holds the address of a named function.  at: relative to where the file is loaded; kind: call,
    address or pointer; own: the file defines the function itself."""

    at: int
    kind: str
    name: str
    addend: int
    own: bool


@dataclass
class Elf:
    """One file.  segments: (address, offset, bytes in the file, bytes in memory, flags) of what is loaded; relro:
    (from, to) of what is read-only once it has been filled, or None."""

    data: bytes | mmap.mmap
    machine: int
    interpreter: bool = False
    segments: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    relro: tuple[int, int] | None = None
    dynamic: dict[int, int] = field(default_factory=dict)

    @property
    def low(self) -> int:
        """The lowest address anything is loaded at, a page's start."""
        return min((segment[0] for segment in self.segments), default=0) & ~0xFFF

    def slots(self, wanted: set[str]) -> Iterator[Slot]:
        """The slots of functions with these names."""
        kinds = _KINDS.get(self.machine, {})
        size, plt = self.dynamic.get(_RELA_SIZE, 0), self.dynamic.get(_PLT_SIZE, 0)
        names: dict[int, tuple[str, bool]] = {}
        for table, length in ((self.dynamic.get(_RELA), size), (self.dynamic.get(_PLT), plt)):
            if table is None:
                continue
            raw = self._at(table, length // _RELOCATION.size * _RELOCATION.size)
            for at, info, addend in _RELOCATION.iter_unpack(raw):
                kind = kinds.get(info & 0xFFFFFFFF)
                if kind is None or info < 1 << 32:
                    continue
                if info >> 32 not in names:
                    names[info >> 32] = self._symbol(info >> 32)
                name, own = names[info >> 32]
                if name in wanted:
                    yield Slot(at, kind, name, addend, own)

    def _symbol(self, number: int) -> tuple[str, bool]:
        entry = self._at(self.dynamic.get(_SYMBOLS, 0) + number * _SYMBOL.size, _SYMBOL.size)
        name, _, _, section, _, _ = _SYMBOL.unpack(entry)
        start = self._offset(self.dynamic.get(_STRINGS, 0) + name)
        end = self.data.find(b"\0", start, start + 4096)
        return self.data[start : max(end, start)].decode("ascii", "replace"), section != 0

    def _offset(self, address: int) -> int:
        for start, offset, there, _, _ in self.segments:
            if start <= address < start + there:
                return offset + address - start
        raise ElfError("an address that is not in the file")

    def _at(self, address: int, length: int) -> bytes:
        start = self._offset(address)
        found = self.data[start : start + length]
        if len(found) < length:
            raise ElfError("cut off")
        return found


def read_elf(path: str | os.PathLike[str]) -> Elf:
    """Raises ElfError, OSError."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size < _HEADER.size:
            raise ElfError("too small")
        data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    try:
        return _read(data)
    except (struct.error, ValueError):
        raise ElfError("damaged") from None


def _read(data: mmap.mmap) -> Elf:
    ident, _, machine, _, _, segments_at, _, _, _, size, count, *_ = _HEADER.unpack_from(data)
    if ident[:6] != b"\x7fELF\x02\x01" or size != _SEGMENT.size:
        raise ElfError("not a 64-bit little-endian ELF file")
    elf = Elf(data, machine)
    dynamic = None
    for number in range(min(count, _MOST_SEGMENTS)):
        kind, flags, offset, address, _, in_file, in_memory, _ = _SEGMENT.unpack_from(data, segments_at + number * size)
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
        for tag, value in _WORDS.iter_unpack(data[start : start + length // _WORDS.size * _WORDS.size]):
            if tag == _NULL:
                break
            elf.dynamic.setdefault(tag, value)
    return elf


def is_static(path: str) -> bool:
    """Whether a program is linked statically: no dynamic linker runs in it, so there is no slot to hook."""
    try:
        elf = read_elf(path)
    except (ElfError, OSError):
        return False
    return bool(elf.segments) and not elf.interpreter
