"""A process reads, computes, reads, computes: nothing is read while it computes.

A thread that reads the next item while this one is in work hides one behind the
other: the run takes as long as the longer of the two, not their sum.  Giving an item
from one thread to another takes time, too: where there are very many small reads,
more than it saves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.enums import OpClass, Role
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import number, percent, seconds

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed


#: ns to give an item from one thread to another, and to switch to that one.
_HAND_OVER = 30_000
_FILES = Remedy(
    "Read the next item in a thread. From Python 3.14 on, map(..., buffersize=2) limits how many wait.",
    "for path in paths:\n    work(read(path))",
    "with ThreadPoolExecutor(1) as pool:\n    for item in pool.map(read, paths):\n        work(item)",
)
_BLOCKS = Remedy(
    "Read the next block in a thread, while this one is in work.",
    "while block := f.read(size):\n    work(block)",
    "with ThreadPoolExecutor(1) as pool:\n    block = f.read(size)\n    while block:\n"
    "        later = pool.submit(f.read, size)\n        work(block)\n        block = later.result()",
)


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    # Of a DataLoader without workers, loader-in-trainer says whether some would hide its fetches.
    fetching = {epoch.process for epoch in run.overview.loaders if epoch.workers == 0}
    for process in run.overview.processes:
        split = process.split
        if split.idle_ns is not None or process.index in fetching:
            continue
        reading = run.calls.where(process=process.index, role=Role.IO, kind=OpClass.READ, own=True)
        reading = reading.where(path=[code for code in reading.codes("path") if _is_known(run, code)])
        time, computing = min(reading.total("time"), split.io_ns), split.other_ns
        if not len(reading) or reading.total("calls") < limits["reads"] or split.beside_ns > limits["beside"] * time:
            continue
        spread = run.persistence(int(reading.columns["first"].min()), int(reading.columns["last"].max())) or 0.0
        if time < limits["share"] * split.wall_ns or spread < limits["spread"]:
            continue
        gained = min(time, computing) - _HAND_OVER * reading.total("calls")
        if gained <= 0:
            continue
        gain = run.gain({process.index: gained}, "the smaller of reading and computing, less 30 us for each read")
        yield Finding(
            title=f"{process.name} reads and computes by turns, {percent(time / max(split.wall_ns, 1))} in reads",
            evidence=[
                Evidence(
                    f"{seconds(time)} in reads, {seconds(computing)} in other work, {seconds(split.beside_ns)} at "
                    f"once; {number(reading.total('calls'))} reads.",
                    {
                        "reads": reading.total("calls"),
                        "io_ns": time,
                        "other_ns": computing,
                        "beside_ns": split.beside_ns,
                    },
                )
            ],
            remedy=_FILES if reading.distinct("path") > 1 else _BLOCKS,
            severity="info",
            confidence=Confidence(0.5, "whether the next item was known in time is not in the log"),
            query=sql.rows({"process": process.index, "op_class": "read", "op_role": "io", "site": reading.lines()}),
            **run.about(reading, gain),
        )


def _is_known(run: Observed, path: int) -> bool:
    """Whether the program can say what to read next: of a database it does not see the pages."""
    return not run.is_database(run.calls.path(path) or "")


RULE = Rule(
    "overlap",
    find,
    limits={
        "reads": Limit(50, "on lines of the program, at least"),
        "share": Limit(0.2, "of the process's time in reads, at least"),
        "spread": Limit(0.5, "of the run between the first and the last read, at least"),
        "beside": Limit(0.1, "of the I/O time hidden by other threads, at most"),
    },
    # What need not be read needs not be hidden.
    yields_to=("whole-file-again", "read-again"),
)
