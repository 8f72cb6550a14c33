"""Finds libraries with system-call instructions of their own, whose calls bypass libc and so the hooks.

The search reads library files.  It runs when some I/O is known to have bypassed the hooks, and in `doctor`; never in a
traced program.  On x86-64 the two bytes of the instruction occur by chance about once in 150 KB.  So an occurrence
counts only if a call number is loaded into the register shortly before it, and an instruction after it uses the result.
Among 870 libraries of a Python installation and Debian (590 MiB), this finds 12 that have such calls, and one (LLVM)
that does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from pyio_trace.elf import Elf, ElfError, read_elf
from pyio_trace.log.heap import Heap
from pyio_trace.log.live import LiveLog
from pyio_trace.log.sorting import distinct

_X86_64 = 62  # e_machine
_CALL = b"\x0f\x05"
_BEFORE = 32
#: mov $NUMBER, %eax or %rax; mov %rdi or %rsi, %rax
_NUMBER = re.compile(rb"\xb8.[\x00\x01]\x00\x00|\x48\xc7\xc0.[\x00\x01]\x00\x00|\x48\x89[\xf8\xf0]", re.DOTALL)
#: First bytes of: ret; a move, comparison or test of the result; pop; jump
_AFTER = frozenset(b"\xc3\x48\x49\x4c\x3d\x85\x89\x41\x83\x31\xeb\xe9\x5b\x5c\x5d\x5e\x5f")
_SVC = 0xD4000001  # svc #0 of aarch64
_MOST_BYTES = 1 << 28  # of one library's code
_PIECE, _OVERLAP = 1 << 22, 64  # bytes that are searched at once; both multiples of an aarch64 instruction
_MOST_FILES = 1024
_MOST_LISTED = 4096


def makes_calls(elf: Elf) -> bool:
    """Whether a library's code has system-call instructions.  Raises OSError."""
    for _, offset, size, _, flags in elf.segments:
        end = offset + min(size, _MOST_BYTES)
        for start in range(offset, end if flags & 1 else offset, _PIECE):
            # Pieces overlap: the bytes before an instruction matter.
            first = max(start - _OVERLAP, offset)
            if _has_calls(elf.image.at(first, min(start + _PIECE, end) - first), elf.machine):
                return True
    return False


def _has_calls(code: bytes, machine: int) -> bool:
    if machine != _X86_64:
        return bool((np.frombuffer(code, "<u4", len(code) // 4) == _SVC).any())
    at = code.find(_CALL)
    while at >= 0:
        if code[at + 2 : at + 3] and code[at + 2] in _AFTER and _NUMBER.search(code, max(at - _BEFORE, 0), at):
            return True
        at = code.find(_CALL, at + 1)
    return False


def loaded(log: LiveLog, heap: Heap) -> list[str]:
    """Paths of the libraries that were patched in the run's processes, without Python's own modules; sorted."""
    visited: set[int] = set()
    paths: set[str] = set()
    for identity in distinct(log.processes()["loaded"]).tolist():
        while identity and identity not in visited and len(visited) < _MOST_LISTED * 16:
            visited.add(identity)
            found = heap.loaded(identity)
            if found is None:
                break
            identity, string = found
            path = heap.text(string)
            if path and len(paths) < _MOST_LISTED:
                paths.add(path)
    return sorted(paths)


def that_make_calls(paths: Iterable[str]) -> list[str]:
    """The libraries among these that have such instructions; those that cannot be read count as having none."""
    return [path for path in list(paths)[:_MOST_FILES] if _makes_calls(path)]


def _makes_calls(path: str) -> bool:
    try:
        return makes_calls(read_elf(path))
    except (ElfError, OSError):
        return False
