"""The machine beside the program (--system): disks, network, other processes, processors, memory, page cache.

Result: SystemUse, whose rows are Traffic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import layout

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.base.system import Ints, System
    from pyio_trace.join.sources.facade import Log

_TOP = 1000


@dataclass(frozen=True)
class Traffic:
    """What one thing moved while it was looked at.

    kind: disk, network, other (a process that does not belong to the run; pid
    None: those that moved least) or own (the run's processes).  seen_ns: stretches of
    time in which it moved anything.  read_bytes, written_bytes: of a network,
    received and sent; of processes, from and to storage.  requests: reads and
    writes of a disk, packets of a network.  wait_ns: mean time of a request, of
    disks; busy_ns: how long a disk had any request; lost: packets.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("kind", "name", "pid", "read_bytes", "written_bytes", "busy_ns", "wait_ns")

    name: str
    kind: str
    host: str
    pid: int | None
    seen_ns: int
    read_bytes: int
    written_bytes: int
    requests: int | None
    wait_ns: int | None
    busy_ns: int | None
    lost: int | None


@dataclass(frozen=True)
class Machine:
    """One host.

    seen_ns: how long it was looked at, in looks.  cpu_share: of its processors'
    time, in use by anybody; cpu_wait_share: idle while a disk was waited for.
    cpu_stall_ns, memory_stall_ns, io_stall_ns: how long any task on it was stalled for
    want of these, io_full_stall_ns: all tasks (None: the kernel does not say).
    available_bytes: the least memory that was free or could be freed; cached_bytes: the
    page cache at the end; dirty_bytes: the most that waited to be written.
    cost_ns: processor time that looking took; unread: processes whose traffic may not be
    read, the most at once.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("host", "seen_ns", "cpu_share", "io_stall_ns", "memory_stall_ns", "dirty_bytes")

    host: str
    looks: int
    seen_ns: int
    cpu_share: float | None
    cpu_wait_share: float | None
    cpu_stall_ns: int | None
    memory_stall_ns: int | None
    io_stall_ns: int | None
    io_full_stall_ns: int | None
    available_bytes: int | None
    cached_bytes: int | None
    dirty_bytes: int | None
    cost_ns: int
    unread: int


@dataclass(frozen=True)
class SystemUse:
    """rows: by host, disks first, most bytes first; more: further ones, with less; machines: one for each host."""

    machines: list[Machine]
    rows: list[Traffic]
    more: int


class SystemOfRun:
    """The reducer; operations do not matter to it."""

    columns: ClassVar[tuple[str, ...]] = ("time",)

    def partial(self, batch: pa.RecordBatch) -> None:
        return None

    def combine(self, part: None, later: None) -> None:
        return None

    def finish(self, part: None, log: Log) -> SystemUse:
        system = log.seen_of_system()
        rows = [row for kind in ("disk", "network", "other", "own") for row in _traffic(system.of_kind(kind), kind)]
        order = {kind: at for at, kind in enumerate(layout.SYSTEM_KINDS)}
        rows.sort(key=lambda row: (row.host, order[row.kind], -row.read_bytes - row.written_bytes, row.name))
        return SystemUse(_machines(system.of_kind("machine")), rows[:_TOP], max(len(rows) - _TOP, 0))


def _groups(*keys: Ints) -> list[Ints]:
    """The rows of each combination of keys."""
    if not len(keys[0]):
        return []
    _, group = np.unique(np.stack(keys), axis=1, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group.ravel()[order])) + 1)


def _sum(values: Ints) -> int | None:
    """The sum of the known values; None: there are none."""
    known = values[values >= 0]
    return int(known.sum()) if len(known) else None


def _traffic(system: System, kind: str) -> list[Traffic]:
    rows = []
    for at in _groups(system["host"], system["name"], system["pid"]):
        one = {name: values[at] for name, values in system.columns.items()}
        requests = [_sum(one[name]) for name in ("reads", "writes")]
        waits = [_sum(one[name]) for name in ("read_time", "write_time")]
        asked = None if None in requests else sum(filter(None, requests))
        first = int(at[0])
        pid = int(one["pid"][0])
        rows.append(
            Traffic(
                name=system.texts[int(system["name"][first])], kind=kind, host=system.texts[int(system["host"][first])],
                pid=pid if pid >= 0 else None, seen_ns=int(one["duration"].sum()),
                read_bytes=_sum(one["read_bytes"]) or 0, written_bytes=_sum(one["written_bytes"]) or 0,
                requests=asked, wait_ns=sum(filter(None, waits)) // asked if asked and waits[0] is not None else None,
                busy_ns=_sum(one["busy"]), lost=_sum(one["lost"]),
            )
        )  # fmt: skip
    return rows


def _machines(system: System) -> list[Machine]:
    found = []
    for at in _groups(system["host"]):
        one = {name: values[at] for name, values in system.columns.items()}
        ns = int((one["duration"] * np.maximum(one["cores"], 1).clip(1, 1 << 16)).sum())
        busy, wait = _sum(one["cpu_busy"]), _sum(one["cpu_wait"])
        known = {name: one[name][one[name] >= 0] for name in ("available", "cached", "dirty")}
        found.append(
            Machine(
                host=system.texts[int(system["host"][int(at[0])])], looks=len(at), seen_ns=int(one["duration"].sum()),
                cpu_share=min(busy / ns, 1.0) if ns and busy is not None else None,
                cpu_wait_share=min(wait / ns, 1.0) if ns and wait is not None else None,
                cpu_stall_ns=_sum(one["cpu_stall"]), memory_stall_ns=_sum(one["memory_stall"]),
                io_stall_ns=_sum(one["io_stall"]), io_full_stall_ns=_sum(one["io_stall_full"]),
                available_bytes=int(known["available"].min()) if len(known["available"]) else None,
                cached_bytes=int(known["cached"][-1]) if len(known["cached"]) else None,
                dirty_bytes=int(known["dirty"].max()) if len(known["dirty"]) else None,
                cost_ns=_sum(one["cost"]) or 0, unread=int(one["unread"].max(initial=0)),
            )
        )  # fmt: skip
    return sorted(found, key=lambda machine: machine.host)


REDUCER = SystemOfRun
