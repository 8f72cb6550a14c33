"""The figures that runs are compared by: calls, bytes, files and time of a file, a line, or the whole run."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.scan.batch_rows import READ, WRITE
from pyio_trace.analysis.sums.dense_sums import NCLASSES, OPENS, OTHERS, READS, WRITES, roles
from pyio_trace.analysis.tables.run_sums import COPIED_TO, Groups, totals
from pyio_trace.enums import OpClass
from pyio_trace.join.base.roles import MOVING
from pyio_trace.log.sorting import distinct

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Counts:
    """opens, reads, writes, metadata: calls of POSIX and of C streams, calls: all of them; requests: outermost calls of
    file objects and libraries; bytes_read, bytes_written: by POSIX and C streams, copies included; errors: those of
    `calls` that failed; files: distinct ones; time: ns in outermost calls, summed over threads."""

    opens: int = 0
    reads: int = 0
    writes: int = 0
    metadata: int = 0
    calls: int = 0
    requests: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    errors: int = 0
    files: int = 0
    time: int = 0

    def __bool__(self) -> bool:
        """Whether there was anything at all."""
        return any(getattr(self, name) for name in FIGURES)


FIGURES: tuple[str, ...] = tuple(one.name for one in fields(Counts))
#: The figures that are the same in each run of a program that does the same: all but the time.
COUNTS: tuple[str, ...] = tuple(name for name in FIGURES if name != "time")
#: The figures that are sizes.
SIZES = ("bytes_read", "bytes_written")

NOTHING = Counts()


def counts_by(groups: Groups, labels: Ints, size: int, of_files: bool = False) -> list[Counts]:
    """The figures of the groups with each label, from 0 to size - 1; groups with a negative label are left out.

    of_files: labels are files, so that a copy counts for two.
    """
    keep = np.flatnonzero(labels >= 0)
    labels = labels[keep]
    kind, calls, moved = groups.kind[keep], groups.calls[keep], groups.moved[keep]
    moving = np.isin(groups.layer[keep], MOVING)
    role = np.full(len(kind), -1, np.int64)
    own = kind < NCLASSES
    role[own] = roles(kind[own].astype(np.int8))
    role[~moving] = -1

    def total(values: Ints, mask: NDArray[np.bool_]) -> Ints:
        return totals(np.where(mask, values, 0), labels, size)

    copies, copied_to = kind == OpClass.COPY, kind == COPIED_TO
    once = np.ones(len(labels), np.bool_) if of_files else ~copied_to
    columns = {
        "opens": total(calls, role == OPENS),
        "reads": total(calls, role == READS),
        "writes": total(calls, (role == WRITES) | (moving & copied_to)),
        "metadata": total(calls, role == OTHERS),
        "calls": total(calls, moving & once),
        "requests": total(groups.outermost[keep], ~moving & once),
        "bytes_read": total(moved, moving & ((kind == READ) | copies)),
        "bytes_written": total(moved, moving & ((kind == WRITE) | copied_to)),
        "errors": total(groups.errors[keep], moving & once),
        "files": _files(groups.file[keep], labels, moving, size),
        "time": total(groups.outer_time[keep], once),
    }
    return [Counts(*(int(columns[name][one]) for name in FIGURES)) for one in range(size)]


def _files(file: Ints, labels: Ints, moving: NDArray[np.bool_], size: int) -> Ints:
    """How many distinct files each label has."""
    at = np.flatnonzero(moving & (file > 0))
    pairs = distinct_pairs(labels[at], file[at])
    return np.bincount(pairs[0], minlength=size).astype(np.int64)


def distinct_pairs(first: Ints, second: Ints) -> tuple[Ints, Ints]:
    """The distinct pairs of two numbers, none negative, whose largest ones have a product below 2**63."""
    base = int(second.max(initial=0)) + 1
    pairs = distinct(first * base + second)
    return pairs // base, pairs % base
