"""A program waits for a sync after each small write.

`os.fsync` returns when the data are on the device, which takes milliseconds on
most, whatever the size. Where a crash may cost the last records, one sync at
the end or every few seconds is enough; a database or a log that is written in
batches does this by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import Layer, OpClass, Role
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Evidence, Finding, Remedy, Term
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.units import number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    syncs = run.calls.where(role=Role.SYNC, own=True, inside=0)
    if not len(syncs):
        return
    writes = run.calls.where(layer=Layer.POSIX, kind=OpClass.WRITE)
    for place in syncs.by("site"):
        if place.calls < limits["syncs"]:
            continue
        written = writes.where(path=place.rows.codes("path")).total("moved")
        each = written // place.calls
        if each > limits["bytes"]:
            continue
        saved = run.times(place.rows, (place.calls - 1) / place.calls)
        gain = run.gain(saved, "the time in all but one sync", terms=[Term("in fsync and fdatasync", place.time)])
        yield Finding(
            title=f"A sync after every {size(each)}",
            evidence=[
                Evidence(
                    f"{number(place.calls)} syncs took {seconds(place.time)}, for {size(written)} written.",
                    {"syncs": place.calls, "written": written, "time_ns": place.time},
                )
            ],
            remedy=Remedy(
                "Sync once for many records.",
                "for record in records:\n    f.write(record)\n    f.flush(); os.fsync(f.fileno())",
                "for record in records:\n    f.write(record)\nf.flush(); os.fsync(f.fileno())",
            ),
            query=sql.rows({"site": run.calls.site(place["site"]), "op_role": "sync"}),
            **run.about(place.rows, gain),
        )


RULE = Rule(
    "synchronisation",
    find,
    limits={
        "syncs": Limit(20, "syncs of one line, at least"),
        "bytes": Limit(65536, "written for each sync, at most"),
    },
    topic="sync",
    yields_to=("checkpoint-stall",),
    trial=Trial("pyio_trace.insights.trials.writes:synced_once", rows="files"),
)
