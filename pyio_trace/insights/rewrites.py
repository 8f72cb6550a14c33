"""Finds names whose content a run wrote again and again, in place or by renaming a new file over the old one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import field

import numpy as np

from pyio_trace.insights.file_events import Event, FileEvents
from pyio_trace.light_dataclass import dataclass


@dataclass
class Rewritten:
    """A name.  sizes: bytes of each version, oldest first; paths: codes of the name and of the files that were renamed
    to it."""

    name: str
    sizes: list[int] = field(default_factory=list)
    paths: set[int] = field(default_factory=set)

    @property
    def grows(self) -> bool:
        """Whether most of a version was in the one before: the last is well above the average size."""
        return 3 * self.sizes[-1] * len(self.sizes) > 4 * sum(self.sizes)


def rewritten(found: FileEvents, path_of: Callable[[int], str | None], least: float) -> list[Rewritten]:
    """Names whose content was written at least this many times, those with the most bytes first."""
    events, kind, path = found.events, found.events["kind"], found.events["path"]
    targets = Counter(found.names.get(code, "") for code in events["to"][kind == Event.RENAMED].tolist())
    to = [code for code, name in found.names.items() if targets[name] >= least]
    codes, count = np.unique(path[kind == Event.EMPTIED], return_counts=True)
    renamed = path[(kind == Event.RENAMED) & np.isin(events["to"], to)]
    chosen = np.concatenate([codes[count >= least], renamed])
    rows = np.flatnonzero(np.isin(path, chosen[chosen >= 0]) & ((kind <= Event.REMOVED) | (kind == Event.WRITTEN)))
    rows = rows[np.argsort(events["first"][rows], kind="stable")]
    names: dict[str, Rewritten] = {}
    unfinished: dict[int, int] = defaultdict(int)  # code of a path -> bytes since its last mark
    columns = (events[name][rows].tolist() for name in ("kind", "path", "to", "moved"))
    for what, code, new, moved in zip(*columns, strict=True):
        if what == Event.WRITTEN:
            unfinished[code] += moved
            continue
        size = unfinished.pop(code, 0)
        if what == Event.RENAMED:
            _add(names, found.names.get(new, ""), code, size)
        elif what == Event.EMPTIED:
            _add(names, path_of(code) or "", code, size)
    for code, size in unfinished.items():
        _add(names, path_of(code) or "", code, size)
    often = [one for one in names.values() if one.name and len(one.sizes) >= least]
    return sorted(often, key=lambda one: -sum(one.sizes))


def _add(names: dict[str, Rewritten], name: str, code: int, size: int) -> None:
    if size:
        one = names.setdefault(name, Rewritten(name))
        one.sizes.append(size)
        one.paths.add(code)
