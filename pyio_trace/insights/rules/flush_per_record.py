"""A file is flushed after every record.

Each flush empties Python's buffer with a system call, so buffering is in vain.
`print(..., flush=True)` and line buffering do this too. Flush when somebody has
to see the text, or at the end. Flushes of a file that is synced as often are left
out: the syncs need them, and sync-per-write says what to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import Layer, OpClass, Role
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Evidence, Finding, Remedy
from pyio_trace.insights.libraries import readers
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.insights.source_files import statement
from pyio_trace.units import number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import Group
    from pyio_trace.insights.observed import Observed


_PRINT = Remedy("Leave it to the buffer.", "print(record, file=f, flush=True)", "print(record, file=f)")
_FLUSH = Remedy(
    "Leave it to the buffer, or flush once for many records.",
    "for record in records:\n    f.write(record)\n    f.flush()",
    "for record in records:\n    f.write(record)",
)
_CALLS = re.compile(rb"\.flush\s*\(")
_LOGGING = Remedy(
    "Handlers of logging flush each record; this one leaves it to its buffer, and to close().",
    "handler = logging.FileHandler(path)",
    "class Buffered(logging.FileHandler):\n    def flush(self): ...\nhandler = Buffered(path)",
    "logging",
)
FLUSHES = ("TextIOWrapper.flush", "BufferedWriter.flush", "Buffered.flush", "BufferedRandom.flush")


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    flushes, syncs = run.calls.where(op=FLUSHES, own=True), run.calls.where(role=Role.SYNC)
    for place in flushes.by("site"):
        if place.calls < limits["flushes"]:
            continue
        paths = place.rows.codes("path")
        if 2 * syncs.where(path=paths).total("calls") > place.calls:
            continue
        writes = run.calls.where(layer=Layer.POSIX, kind=OpClass.WRITE, path=paths, site=place["site"], inside=1)
        written = writes.total("moved")
        if not written or written > limits["bytes"] * place.calls:  # nothing: the line before has flushed it
            continue
        each = written // max(writes.total("calls"), 1)  # a flush may have had nothing to write
        share = max(0.0, 1 - written / (limits["bytes"] * place.calls))
        gain = run.gain(
            run.times(writes, share), f"writes that buffers of {size(int(limits['bytes']))} make fewer", "estimate"
        )
        yield Finding(
            title=f"A flush after every {size(each)}",
            evidence=[
                Evidence(
                    f"{number(place.calls)} flushes; the writes beneath took {seconds(writes.total('time'))} for "
                    f"{size(written)}.",
                    {"flushes": place.calls, "written": written, "time_ns": writes.total("time")},
                )
            ],
            remedy=_remedy(run, place),
            query=sql.rows({"op": FLUSHES, "site": run.calls.site(place["site"])}),
            **run.about(place.rows, gain),
        )


def _remedy(run: Observed, place: Group) -> Remedy:
    if "logging" in readers(run, place.rows):
        return _LOGGING
    return _FLUSH if any(_CALLS.search(statement(one.file, one.line)) for one in run.sites(place.rows)) else _PRINT


RULE = Rule(
    "synchronisation",
    find,
    limits={
        "flushes": Limit(1000, "of one line, at least", few=20),
        "bytes": Limit(8192, "written for each flush, at most: Python's buffer"),
    },
    trial=Trial("pyio_trace.insights.trials.writes:flushed_once"),
)
