"""A file is opened and closed again for every item that is read from it or appended to it.

Besides the open and the close, the buffer is filled again each time, and a library
reads its header again. Open the file once, outside the loop. A file that is emptied
each time (mode "w") is left out, and so is one that is read once or twice before it is
written anew; if it grows, see written-again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace.enums import Layer, OpClass, Role
from pyio_trace.insights import library_use, sql, words
from pyio_trace.insights.file_events import FILE_EVENTS, Event
from pyio_trace.insights.finding import Evidence, Finding
from pyio_trace.insights.libraries import library_of, readers
from pyio_trace.insights.line_walls import with_libraries
from pyio_trace.insights.observed import OPENS, OVERHEAD
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.insights.words import mechanisms as m
from pyio_trace.units import counted, number, seconds

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.observed import Observed

Ints = NDArray[np.int64]
#: Libraries whose calls open a file, read it as a whole and close it: what they do again is read-again's.
_READERS = ("parquet", "csv", "polars")


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    calls = run.calls.where(role=Role.IO, own=True)
    files = calls.where(kind=OpClass.OPEN, errno=0).where(op=OPENS)
    sums = files.sums("process", "path")
    often = sums["path"][(sums["calls"] >= limits["opens"]) & (sums["path"] >= 0)]
    often = np.array([code for code in often.tolist() if not run.is_database(run.calls.path(code) or "")], np.int64)
    opened = files.where(path=_kept(run, sums, often).tolist())
    lines = [line for line in opened.by("site") if _opens_again(line.rows) and not _is_reader(run, line.rows)]
    opened = opened.where(site=[line["site"] for line in lines])
    often = np.array(opened.codes("path"), np.int64)
    count, paths = opened.total("calls"), opened.distinct("path")
    if not count or count < limits["opens"] * paths:
        return
    around = calls.where(path=often.tolist(), kind=OVERHEAD)
    gain = run.gain(
        run.times(around, (count - paths) / count), "opens, closes and other metadata calls but the first", "estimate"
    )
    processes = {group["process"] for group in opened.by("process")}
    names = _readers(run, opened)
    if any(name.partition("/")[0] == "dask" for name in names) and library_use.reads_parts(run, count // paths, paths):
        return
    sites = run.sites(opened)
    if _makes_handlers(run, names, opened):
        writes = run.calls.where(path=often.tolist(), kind=OpClass.WRITE, own=True)
        share = 1 - 2 * paths / count  # of half as many handlers, on average, one is needed
        gain = run.gain(run.times(writes, share), "what all handlers but one write", "upper")
        gain = with_libraries(run, gain, run.sites(writes), share, processes)
        names, sites = ("logging/handlers",), [*sites, *run.sites(writes)]
    elif "logging" not in names:  # whose work is for each record, and not for each opening
        moved = run.calls.where(path=often.tolist(), layer=(Layer.POSIX, Layer.STDIO)).total("moved")
        gain = with_libraries(run, gain, run.sites(opened), (count - paths) / count, processes, moved or None)
    yield Finding(
        title=f"{counted(paths, 'file')} opened {number(count)} times",
        evidence=[
            Evidence(
                f"Opening, closing and the like took {seconds(around.total('time'))}.",
                {"opens": count, "files": paths, "time_ns": around.total("time")},
            )
        ],
        remedy=words.remedy(m.OPENED_TO_ADD if _added(run, opened) else m.OPENED_TO_READ, names),
        query=sql.rows({"op_class": ["open", "close", "meta", "seek"], "op_role": "io", "site": around.lines()}),
        **run.about(opened, gain) | {"sites": sites},
    )


def _makes_handlers(run: Observed, names: tuple[str, ...], opened: CallTable) -> bool:
    """Whether a program makes handlers for a log that it does not rotate."""
    if names[:1] != ("logging",):
        return False
    events = run.of(FILE_EVENTS).events
    moved = events["path"][(events["kind"] == Event.RENAMED) | (events["kind"] == Event.REMOVED)]
    return not np.isin(opened.codes("path"), moved).any()


def _kept(run: Observed, sums: Mapping[str, Ints], often: Ints) -> Ints:
    """Codes of the paths of which most openings neither empty them nor are the first to see what was written since.

    sums: of the openings.
    """
    events = run.of(FILE_EVENTS).events
    emptied = np.sort(events["path"][events["kind"] == Event.EMPTIED])
    times = np.searchsorted(emptied, often, "right") - np.searchsorted(emptied, often)
    opens = np.array([sums["calls"][sums["path"] == code].sum() for code in often.tolist()], np.int64)
    return often[4 * times <= opens]


def _opens_again(opens: CallTable) -> bool:
    """Whether a line opens a file more often than once in a process: not one that only makes the file."""
    return opens.total("calls") > len(opens.sums("process", "path")["calls"])


def _is_reader(run: Observed, opens: CallTable) -> bool:
    """Whether a library opens these files to read each as a whole."""
    return library_of(run, opens) in _READERS


def _added(run: Observed, opened: CallTable) -> bool:
    """Whether these files are opened to add to them, rather than to read them."""
    begin = min(line.first for line in opened.by("site")[:1])  # an earlier line may have made what is read
    moved = run.calls.where(path=opened.codes("path"))
    moved = moved.rows(moved.columns["last"] >= begin)
    moves = {kind: moved.where(kind=kind).total("calls") for kind in (OpClass.READ, OpClass.WRITE)}
    writes = run.calls.where(site=opened.codes("site"), path=opened.codes("path"), kind=OpClass.WRITE)
    return moves[OpClass.WRITE] > moves[OpClass.READ] or writes.total("calls") >= opened.total("calls")


def _readers(run: Observed, opened: CallTable) -> tuple[str, ...]:
    """Who opens the files; where that says nothing, who uses them."""
    return readers(run, opened) or readers(run, run.calls.where(path=opened.codes("path"), own=True))


RULE = Rule(
    "metadata",
    find,
    limits={"opens": Limit(100, "of one file in a process, at least", few=10)},
    needs=(FILE_EVENTS, *library_use.NEEDS),
    topic="metadata",
    yields_to=("shelve-sync", "whole-file-again", "written-again", "read-again"),
    trial=Trial("pyio_trace.insights.trials.files:opened_once", rows="files"),
)
