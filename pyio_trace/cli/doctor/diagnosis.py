"""What the doctor has found: facts, instruments, loaded objects."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Instrument:
    """How one library is instrumented.  state: active, waiting, off or unknown; reason: what it waits for, or why."""

    name: str
    state: str
    reason: str = ""


@dataclass
class LoadedObject:
    """One program or library in a process.

    state: hooked, partly, not hooked, nothing to hook, left alone, or not readable; reason: why.
    patched: how many slots point to our hooks; unpatched: reason -> functions whose slots do not.
    raw_calls: it has system-call instructions of its own, whose calls are not seen.
    """

    path: str
    base: int
    state: str
    reason: str = ""
    patched: int = 0
    unpatched: dict[str, list[str]] = field(default_factory=dict)
    raw_calls: bool = False


@dataclass
class Report:
    """works: whether tracing works.  facts: (subject, text) pairs."""

    facts: list[tuple[str, str]] = field(default_factory=list)
    instruments: list[Instrument] = field(default_factory=list)
    objects: list[LoadedObject] = field(default_factory=list)
    works: bool = True

    def to_dict(self) -> dict[str, Any]:
        """For --format json."""
        return {
            "works": self.works,
            "facts": dict(self.facts),
            "instruments": [asdict(one) for one in self.instruments],
            "objects": [asdict(one) for one in self.objects],
        }

    def lines(self) -> list[str]:
        """For --format text."""
        lines = [f"{what + ':':<18} {words}" for what, words in self.facts]
        if self.instruments:
            lines += ["", "Instruments"]
            lines += [
                f"  {one.name:<28} {one.state}{': ' if one.reason else ''}{one.reason}" for one in self.instruments
            ]
        if self.objects:
            lines += ["", "Loaded objects    (functions hooked, not hooked)", *_object_lines(self.objects)]
        return lines


def _object_lines(objects: list[LoadedObject]) -> list[str]:
    lines = []
    for one in objects:
        if one.state in ("hooked", "partly", "not hooked", "not readable"):
            missing = sum(map(len, one.unpatched.values()))
            lines.append(f"  {one.patched:>5} {missing:>5}  {one.path}{': ' if one.reason else ''}{one.reason}")
            lines += [f"{'':>15}{reason}: {_some(names)}" for reason, names in sorted(one.unpatched.items())]
    raw = [one.path for one in objects if one.raw_calls]
    lines += [f"{'':>13}  {path}: has system calls of its own, which are not seen" for path in raw]
    alone = [one for one in objects if one.state == "left alone"]
    lines += [f"{'':>13}  {one.path}: {one.reason}" for one in alone]
    idle = sum(one.state == "nothing to hook" for one in objects)
    if idle:
        lines.append(f"{'':>13}  {idle} more that call nothing we hook")
    return lines


def _some(names: list[str]) -> str:
    distinct = sorted(set(names))
    return ", ".join(distinct[:8]) + (f" and {len(distinct) - 8} more" if len(distinct) > 8 else "")
