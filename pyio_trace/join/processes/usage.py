"""What processes used besides I/O: processor time, and time in imports.

A process that ends measures itself.  For one that was killed, the kernel gives
the figures to the parent that waits for it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.records import LAST_TICK
from pyio_trace.join.processes.kernel_io import sane
from pyio_trace.log import layout
from pyio_trace.log.live import LiveLog


class Cpu(NamedTuple):
    """Processor time of one process while it was traced, in ns, without that of its children."""

    cpu_user: int
    cpu_system: int


class Storage(NamedTuple):
    """As in kernel_io.KernelIO, of a process that was killed: all that is known of its I/O beyond its rows."""

    storage_read: int
    storage_written: int


class Imports(NamedTuple):
    """Import statements that loaded modules, without those inside others; ns in them; when the script began, ns since
    the epoch."""

    imports: int
    import_time: int
    script_begin: int | None


def usage_of(log: LiveLog, own_pages: NDArray[np.int64]) -> list[list[Cpu | Storage | Imports]]:
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
    found: list[list[Cpu | Storage | Imports]] = []
    for own, killed, time, moved, imports in zip(
        known.tolist(), waited.tolist(), cpu, storage, _imports(log), strict=True
    ):
        found.append([*([time] if own else []), *([moved] if killed else []), *([imports] if imports else [])])
    return found


def _imports(log: LiveLog) -> list[Imports | None]:
    """None: the process has no Python, or ran none of its code."""
    entries = log.processes()
    time = log.clock.span(np.minimum(entries["import_ticks"], np.uint64(LAST_TICK)).view(np.int64)).tolist()
    begin = log.clock.epoch(entries["script_since"]).tolist()
    rows = zip(entries["version"], entries["imports"].tolist(), time, begin, entries["script_since"] > 0, strict=True)
    return [
        Imports(count, ns, script if began else None) if bytes(version).strip(b"\0") else None
        for version, count, ns, script, began in rows
    ]
