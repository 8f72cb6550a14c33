"""Several processes write one file.

A file system separates their writes with locks, by block or stripe. Writes that
are small, or that share a block, wait for each other. Let each process write
whole blocks, a file of its own, or send its part to one writer (collective I/O).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from pyio_trace.analysis.calls.name_patterns import role_of
from pyio_trace.enums import OpClass, Role
from pyio_trace.insights import libraries, sql, words
from pyio_trace.insights.finding import Confidence, Evidence, Finding
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.insights.words import mechanisms as m
from pyio_trace.log.sorting import distinct
from pyio_trace.units import counted, number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    writes = run.calls.where(role=Role.IO, kind=OpClass.WRITE)
    pairs = writes.where(path=[code for code in distinct(writes.columns["path"]).tolist() if code >= 0])
    users = pairs.sums("path", "process")
    paths, count = np.unique(users["path"], return_counts=True)
    for file in pairs.where(path=paths[count >= limits["processes"]].tolist()).by("path"):
        path = run.calls.path(file["path"]) or ""
        each = file.moved // max(file.calls, 1)
        if file.calls < limits["writes"] or each > limits["bytes"] or role_of(path) != "data":
            continue
        processes = file.rows.distinct("process")
        gain = run.gain(run.times(file.rows), "all their writes; some of the time is the writing itself")
        yield Finding(
            title=f"{number(processes)} processes write {path.rpartition('/')[2]}, {size(each)} at a time",
            evidence=[
                Evidence(
                    f"{counted(file.calls, 'write')} of {size(file.moved)} in all took {seconds(file.time)}.",
                    {"processes": processes, "writes": file.calls, "bytes": file.moved, "time_ns": file.time},
                )
            ],
            remedy=words.remedy(m.SHARED, libraries.readers(run, file.rows)),
            severity="warning",
            confidence=Confidence(0.5, "how long a write waited for another process is not in the log"),
            query=sql.rows(
                {"path": path, "op_class": "write", "op_role": "io"}, select="process, " + sql.SUMS, group="process, op"
            ),
            **run.about(file.rows, gain),
        )


RULE = Rule(
    "balance",
    find,
    limits={
        "processes": Limit(2, "that write the file, at least"),
        "writes": Limit(100, "of them, at least"),
        "bytes": Limit(1 << 20, "of one write on average, at most"),
    },
    topic="shared",
    yields_to=("mpi-independent", "shared-unaligned"),
)
