"""A file is made durable again and again, while the program waits, though only the last time may matter.

Each `os.fsync` waits until the device has all that was written since the one
before. If nobody needs the file after a crash in between, sync it once, at the
end; if somebody does, let a thread wait. sync-per-write is about syncs after
small writes, commit-per-row about those of SQLite.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from pyio_trace.enums import Layer, OpClass, Role
from pyio_trace.insights import sql
from pyio_trace.insights.file_events import FILE_EVENTS, Event
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.units import counted, number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.observed import Observed


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    syncs = run.calls.where(role=Role.SYNC, own=True)
    others = [code for code in syncs.codes("path") if not run.is_database(run.calls.path(code) or "")]
    syncs = syncs.where(path=others)  # SQLite's are commit-per-row's
    syncs = syncs.where(path=_kept(run, syncs))
    writes = run.calls.where(layer=(Layer.POSIX, Layer.STDIO), kind=OpClass.WRITE)
    for place in syncs.by("site"):
        paths = place.rows.codes("path")
        written, files = writes.where(path=paths).total("moved"), len(paths)
        pairs = len(place.rows.sums("process", "path")["path"])  # of a process and a file
        if place.calls < limits["syncs"] * pairs or written < limits["bytes"] * place.calls:
            continue
        needed = pairs / place.calls
        gain = run.gain(run.times(place.rows, 1 - needed), "the time in all syncs of a file but one")
        yield Finding(
            title=f"{number(place.calls)} syncs of {counted(files, 'file')}, while the program waits",
            evidence=[
                Evidence(
                    f"{number(place.calls)} syncs took {seconds(place.time)}, for {size(written)} written.",
                    {"syncs": place.calls, "files": files, "written": written, "time_ns": place.time},
                )
            ],
            remedy=Remedy(
                "Sync once, at the end; or let a thread wait for it.",
                "for step in steps:\n    write(f, step)\n    os.fsync(f.fileno())",
                "for step in steps:\n    write(f, step)\nos.fsync(f.fileno())",
            ),
            confidence=Confidence(0.7, "whether the file is needed after a crash in between is not known"),
            query=sql.rows({"site": run.calls.site(place["site"]), "op_role": "sync"}),
            **run.about(place.rows, gain),
        )


def _kept(run: Observed, syncs: CallTable) -> list[int]:
    """Codes of the files without those that are renamed after about each sync: each is a new file, which has to be in
    place before its name is."""
    events = run.of(FILE_EVENTS).events
    renamed = np.sort(events["path"][events["kind"] == Event.RENAMED])
    sums = syncs.sums("path")
    times = np.searchsorted(renamed, sums["path"], "right") - np.searchsorted(renamed, sums["path"])
    kept: list[int] = sums["path"][2 * times < sums["calls"]].tolist()
    return kept


RULE = Rule(
    "synchronisation",
    find,
    limits={
        "syncs": Limit(3, "syncs of each file by a process, at least"),
        "bytes": Limit(65536, "written for each sync, at least"),
    },
    needs=(FILE_EVENTS,),
    topic="sync",
    yields_to=("checkpoint-stall", "sync-per-write"),
    trial=Trial("pyio_trace.insights.trials.writes:synced_once", rows="files"),
)
