"""Small writes to a file that was opened with O_SYNC or O_DSYNC: each waits until it is on the device.

The flag is a sync after every write. Where a crash may cost the last records,
collect them in a buffer and write, or sync, once for many of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import Layer, OpClass
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.open_flags import OPENS
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    waiting = [one for one in run.of(OPENS) if "SYNC" in one.flags]
    writes = run.calls.where(layer=Layer.POSIX, kind=OpClass.WRITE, path={one.path for one in waiting}, errno=0)
    for place in writes.by("site"):
        each = place.moved // max(place.calls, 1)
        if place.calls < limits["writes"] or each > limits["bytes"]:
            continue
        paths = place.rows.codes("path")
        flags = sorted({one.flags for one in waiting if one.path in paths})
        saved = run.times(place.rows, (place.calls - 1) / place.calls)
        gain = run.gain(saved, "all these writes but one; a sync of all data at the end takes some of it")
        yield Finding(
            title=f"{number(place.calls)} writes of {size(each)} to a file opened with {flags[0]}",
            evidence=[
                Evidence(
                    f"Each waits until it is on the device: {size(place.moved)} took {seconds(place.time)}, "
                    f"{seconds(place.time // place.calls)} a write.",
                    {"writes": place.calls, "bytes": place.moved, "time_ns": place.time},
                )
            ],
            remedy=Remedy(
                "Write many records at once, and sync them once.",
                "fd = os.open(path, os.O_WRONLY | os.O_DSYNC)\nfor record in records:\n    os.write(fd, record)",
                "with open(path, 'wb') as f:\n    f.writelines(records)\n    f.flush(); os.fsync(f.fileno())",
            ),
            confidence=Confidence(0.85, "the flags of each open are in the log"),
            query=sql.rows({"path": place.rows.paths(), "op_class": "write", "layer": "posix"}),
            **run.about(place.rows, gain),
        )


RULE = Rule(
    "synchronisation",
    find,
    limits={
        "writes": Limit(20, "of one line to such files, at least", few=3),
        "bytes": Limit(65536, "of one of them on average, at most"),
    },
    needs=(OPENS,),
    topic="sync",
    yields_to=("sync-per-write",),
    each_call=True,
)
