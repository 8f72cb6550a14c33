"""What processes used besides I/O: processor time, time in imports, and what watching libraries took.

A process that ends measures itself.  For one that was killed, the kernel gives
the figures to the parent that waits for it.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.records import LAST_TICK
from pyio_trace.join.processes.kernel_io import sane
from pyio_trace.log import layout
from pyio_trace.log.heap import Heap
from pyio_trace.log.live import LiveLog

#: Packages of a process that are read, as many as it notes, and that are listed.
_MOST_PACKAGES, _LISTED = 256, 20


class Cpu(NamedTuple):
    """Processor time of one process while it was traced, in ns, without that of its children."""

    cpu_user: int
    cpu_system: int


class Storage(NamedTuple):
    """As in kernel_io.KernelIO, of a process that was killed: all that is known of its I/O beyond its rows."""

    storage_read: int
    storage_written: int


class Imports(NamedTuple):
    """Import statements that loaded modules, without those inside others; ns in them, and in those before the script
    began, None: not known; when it began, ns since the epoch.  import_packages: the packages that took longest;
    import_package_times: ns in each, without the other packages that it imports, and less what took under a millisecond
    at once."""

    imports: int
    import_time: int
    early_import_time: int | None
    script_begin: int | None
    import_packages: list[str]
    import_package_times: list[int]


class Watching(NamedTuple):
    """ns that calls of libraries took longer because they were watched."""

    watch_time: int


def usage_of(log: LiveLog, heap: Heap, own_pages: NDArray[np.int64]) -> list[list[Cpu | Storage | Imports | Watching]]:
    """What is known of each process, in the order of log.processes().  own_pages: see own_pages()."""
    entries = log.processes()
    accounts = entries["accounts"]
    waited = accounts & layout.ACCOUNT_WAITED != 0
    whole = layout.ACCOUNT_BEGIN | layout.ACCOUNT_END
    known = waited | (accounts & whole == whole)

    def used(name: str) -> NDArray[np.int64]:
        """The increase; what the kernel told a parent includes the children that the process had waited for."""
        before = sane(entries["begin_account"][name])
        inside = np.where(waited, sane(entries["children_account"][name]), 0)
        increase: NDArray[np.int64] = sane(entries["end_account"][name]) - before - inside
        return np.maximum(increase, 0)

    cpu = map(Cpu, used("cpu_user").tolist(), used("cpu_system").tolist())
    written = np.maximum(used("storage_written") - own_pages, 0)
    storage = map(Storage, used("storage_read").tolist(), written.tolist())
    watching = map(Watching, _spans(log, entries["watch_ticks"]))
    found: list[list[Cpu | Storage | Imports | Watching]] = []
    for own, killed, time, moved, imports, watched in zip(
        known.tolist(), waited.tolist(), cpu, storage, _imports(log, heap), watching, strict=True
    ):
        of_python = [imports, watched] if imports else []
        found.append([*([time] if own else []), *([moved] if killed else []), *of_python])
    return found


def _spans(log: LiveLog, ticks: NDArray[np.uint64]) -> list[int]:
    """ns of each number of ticks."""
    spans: list[int] = log.clock.span(np.minimum(ticks, np.uint64(LAST_TICK)).view(np.int64)).tolist()
    return spans


def _imports(log: LiveLog, heap: Heap) -> list[Imports | None]:
    """None: the process has no Python, or ran none of its code."""
    entries = log.processes()
    noted = entries["early_import_ticks"]  # plus 1
    time, early = _spans(log, entries["import_ticks"]), _spans(log, np.maximum(noted, 1) - np.uint64(1))
    begin = log.clock.epoch(entries["script_since"]).tolist()
    rows = zip(
        entries["version"], entries["imports"].tolist(), time, early, noted > 0, begin,
        entries["script_since"] > 0, entries["packages"], strict=True,
    )  # fmt: skip
    return [
        Imports(count, ns, before if known else None, script if began else None, *_packages(log, heap, int(newest)))
        if bytes(version).strip(b"\0")
        else None
        for version, count, ns, before, known, script, began, newest in rows
    ]


def _packages(log: LiveLog, heap: Heap, newest: int) -> tuple[list[str], list[int]]:
    """The packages of a process and the ns in each, the one with the most time first."""
    ticks: Counter[str] = Counter()
    seen: set[int] = set()  # a forged list may be a circle
    while newest and newest not in seen and len(seen) < _MOST_PACKAGES:
        seen.add(newest)
        newest, name, own = heap.package(newest) or (0, 0, 0)
        text = heap.text(name)
        if text:
            ticks[text] += min(own, LAST_TICK)
    found = ticks.most_common(_LISTED)
    spans = log.clock.span(np.array([min(own, LAST_TICK) for _, own in found], np.int64)).tolist()
    return [name for name, _ in found], spans
