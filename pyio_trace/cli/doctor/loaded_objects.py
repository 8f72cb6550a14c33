"""Which slots of the objects in a process point to our hooks, and why the others do not.

The slots are found in the objects' files, by the rules by which csrc/core/patch/got.c
patches them, and their values in the memory of the process.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from dataclasses import dataclass

from pyio_trace.cli.doctor.diagnosis import LoadedObject
from pyio_trace.cli.doctor.process_memory import Area, Memory
from pyio_trace.elf import Elf, ElfError, Slot, read_elf_at
from pyio_trace.join.processes.raw_syscalls import makes_calls
from pyio_trace.running.foreign_files import open_inside

CORE = "libpyio_trace.so"
#: The objects of pt_object_is_systems() in csrc/core/patch/objects.c, and why they are not patched.
LEFT_ALONE = {
    "libc.so": "libc: what it calls is its own",
    "libc-2.": "libc: what it calls is its own",
    "libc.musl": "libc and the dynamic linker",
    "ld-linux": "the dynamic linker",
    "ld-musl": "libc and the dynamic linker",
    "ld-2.": "the dynamic linker",
    "libpthread": "a part of libc",
    "libdl.so": "a part of libc",
    "librt.so": "a part of libc",
    "libutil.so": "a part of libc",
    "libutil-2.": "a part of libc",
    "linux-vdso": "the kernel's",
    "libasan.so": "a sanitizer, which has hooks of its own",
    "libubsan.so": "a sanitizer, which has hooks of its own",
    "libtsan.so": "a sanitizer, which has hooks of its own",
    "liblsan.so": "a sanitizer, which has hooks of its own",
}
_OURS = (CORE, "_capture.")
_LATE = "not patched yet (loaded since the last pass: the next import or dlsym patches it)"


@dataclass(frozen=True)
class SlotState:
    """A slot of a hooked name.  at: its address in the process; reason: empty if it points to a hook."""

    at: int
    name: str
    value: int
    reason: str


@dataclass
class _Loaded:
    path: str
    base: int
    end: int
    executable: bool


class Inspection:
    """The objects of one process.  names: the functions that are hooked."""

    def __init__(self, pid: int, areas: list[Area], memory: Memory, names: set[str], tracing: bool = True) -> None:
        self._pid = pid
        self._areas = areas
        self._starts = [area.start for area in areas]
        self._memory = memory
        self._names = names
        self._tracing = tracing
        self._latest: tuple[str, Elf] | None = None
        self._core = [(a.start, a.end) for a in areas if os.path.basename(a.path) == CORE]

    def objects(self) -> list[LoadedObject]:
        """Programs and libraries, in the order of their addresses."""
        return [self._object(one) for one in self._loaded() if one.executable]

    def slots(self, path: str, base: int) -> list[SlotState]:
        """The slots of one object.  Raises ElfError, OSError."""
        elf = self._elf(path)
        bias = base - elf.low
        slots = [(slot, self._memory.word(bias + slot.at)) for slot in elf.slots(self._names)]
        some = any(self._is_hook(value) for _, value in slots)
        return [
            SlotState(bias + slot.at, slot.name, value or 0, self._reason(slot, value, elf, bias, some))
            for slot, value in slots
        ]

    def _loaded(self) -> list[_Loaded]:
        """Files and the areas mapped from them; the first area of each is the file's beginning."""
        found: list[_Loaded] = []
        latest: dict[str, _Loaded] = {}
        for area in self._areas:
            if not area.path.startswith("/"):
                continue
            last = latest.get(area.path)
            if area.offset == 0 and (last is None or not self._belongs(last, area)):
                last = latest[area.path] = _Loaded(area.path, area.start, area.end, False)
                found.append(last)
            if last is not None:
                last.end = max(last.end, area.end)
                last.executable |= "x" in area.rights
        return found

    def _belongs(self, loaded: _Loaded, area: Area) -> bool:
        """Whether an area with a file's beginning is a second view of an object that is loaded there already."""
        try:
            elf = self._elf(loaded.path)
        except (ElfError, OSError):
            return area.start == loaded.end
        return area.start < loaded.base - elf.low + max((s[0] + s[3] for s in elf.segments), default=0)

    def _elf(self, path: str) -> Elf:
        """The file at a path in the process's root, which may be a container.  Raises ElfError, OSError."""
        if self._latest is None or self._latest[0] != path:
            self._latest = None
            self._latest = path, read_elf_at(open_inside(self._pid, path))
        return self._latest[1]

    def _object(self, loaded: _Loaded) -> LoadedObject:
        result = LoadedObject(loaded.path, loaded.base, "nothing to hook")
        name = os.path.basename(loaded.path)
        reason = (
            "pyio_trace's own"
            if name.startswith(_OURS)
            else next((why for start, why in LEFT_ALONE.items() if name.startswith(start)), "")
        )
        if reason:
            result.state, result.reason = "left alone", reason
            return result
        try:
            if not self._elf(loaded.path).dynamic:
                result.state, result.reason = "not hooked", "statically linked: there are no slots"
                return result
            slots = self.slots(loaded.path, loaded.base)
            result.raw_calls = makes_calls(self._elf(loaded.path))
        except OSError as error:
            result.state, result.reason = "not readable", _without_file(loaded.path, error)
            return result
        except ElfError as error:
            result.state, result.reason = "not readable", f"its file cannot be understood ({error})"
            return result
        for slot in slots:
            if slot.reason:
                result.unpatched.setdefault(slot.reason, []).append(slot.name)
            else:
                result.patched += 1
        if slots:
            result.state = "hooked" if not result.unpatched else "partly" if result.patched else "not hooked"
        return result

    def _is_hook(self, value: int | None) -> bool:
        return value is not None and any(start <= value < end for start, end in self._core)

    def _reason(self, slot: Slot, value: int | None, elf: Elf, bias: int, some: bool) -> str:
        if self._is_hook(value):
            return ""
        if value is None:
            return "its memory cannot be read"
        if slot.own:
            return "defined by the object itself"
        if value == 0:
            return "bound to nothing (optional, and not there)"
        if not self._tracing:
            return "tracing is not on"
        if slot.kind == "pointer" and slot.addend:
            return "points into the function, not at it"
        low, high = bias + elf.low, bias + max(s[0] + s[3] for s in elf.segments)
        if low <= value < high and slot.kind != "call":
            return "leads on through a slot of this object"
        target = self._at(value)
        name = os.path.basename(target)
        if slot.name.startswith("H5") and name.startswith("libhdf5"):
            return f"a copy of HDF5 that is not served: too old (before 1.10), or one too many ({target})"
        if not (low <= value < high) and not name.startswith(tuple(LEFT_ALONE)):
            return f"another tool's: leads to {target or 'generated code'}"
        if not some:
            return _LATE
        sealed = elf.relro is not None and elf.relro[0] <= slot.at < elf.relro[1]
        return "kept read-only (RELRO)" if sealed else f"bound to another function of that name ({name})"

    def _at(self, address: int) -> str:
        number = bisect_right(self._starts, address) - 1
        area = self._areas[number] if number >= 0 else None
        return area.path if area is not None and address < area.end else ""


def _without_file(path: str, error: OSError) -> str:
    if path.endswith(" (deleted)"):
        return "its file has been replaced or removed since it was loaded"
    return f"its file cannot be read ({error.strerror})"
