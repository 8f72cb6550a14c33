"""Opening, closing, asking and listing take more of the I/O time than reading and writing.

Many small files are the usual reason: each costs an open, a close and often a
few stat calls, and on a parallel file system one server answers them all. Fewer,
larger files (an archive, HDF5, Parquet, SQLite) need one open for many items.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import OpClass, Role
from pyio_trace.insights import sql, words
from pyio_trace.insights.finding import Confidence, Evidence, Finding
from pyio_trace.insights.libraries import readers, writes
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.insights.words import mechanisms as m
from pyio_trace.units import number, percent, seconds

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed


METADATA = (OpClass.META, OpClass.OPEN, OpClass.CLOSE)


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    calls = run.calls.where(role=Role.IO, own=True)
    metadata = calls.where(kind=METADATA)
    whole, time, count = calls.total("time"), metadata.total("time"), metadata.total("calls")
    if not count or count < limits["calls"] or time < limits["share"] * whole:
        return
    files = metadata.distinct("path")
    if files < limits["paths"] * count:  # the same few files again: fewer would not help
        return
    gain = run.gain(run.times(metadata), "all metadata calls; fewer files need some of them")
    yield Finding(
        title=f"Metadata calls take {percent(time / whole if whole else 1.0)} of the time in calls on files",
        evidence=[
            Evidence(
                f"{number(count)} opens, closes, stats and listings of {number(files)} paths took {seconds(time)}; "
                f"reads, writes and seeks took {seconds(whole - time)}.",
                {"calls": count, "paths": files, "time_ns": time, "io_ns": whole},
            )
        ],
        remedy=words.remedy(
            m.FILES_WRITTEN if writes(run.calls.where(own=True)) else m.FILES_READ, readers(run, metadata)
        ),
        confidence=Confidence(0.6, "how few calls would do is not known"),
        query=sql.rows({"op_role": "io", "op_class": ["meta", "open", "close"], "site": metadata.lines()[:20]}),
        **run.about(metadata, gain),
    )


RULE = Rule(
    "metadata",
    find,
    general=True,
    yields_to=("stat-storm", "list-again", "missing-paths", "polling"),
    limits={
        "calls": Limit(3000, "metadata calls, at least"),
        "share": Limit(0.5, "of the time in calls on files, at least"),
        "paths": Limit(0.01, "different paths for each call, at least"),
    },
    topic="metadata",
)
