"""A line asks for the same paths again and again: `os.path.exists`, then `isfile`, then `getsize` or `stat`.

Each of these is a call of the file system, and on a network file system a
message to its server. One `os.stat` answers all three, and its answer can be
kept; `os.scandir` gives the type of each entry with the listing.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pyio_trace.enums import Layer
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Evidence, Finding, Remedy
from pyio_trace.insights.line_walls import held_ns
from pyio_trace.insights.observed import Gain
from pyio_trace.insights.rule import Limit, Rule, Trial
from pyio_trace.insights.rules.flush_per_record import FLUSHES
from pyio_trace.insights.rules.polling import ASKING, WAIT, WATCH, is_watching
from pyio_trace.units import counted, number, seconds

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.observed import Observed

RENAMING = ("rename", "renameat", "renameat2")
#: A line with less than this share of the calls is left out, such as one that looks for translations of messages.
_FEW = 0.01
#: Calls for each path, from which on a line that finds it in the end has waited for it.
_POLLED = 10


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    asking = run.calls.where(op=ASKING, own=True, layer=Layer.POSIX, inside=0)
    logs = run.calls.where(op=FLUSHES, own=True)  # handlers of logging ask for their file before each record
    of_logs = np.isin(asking.columns["site"], logs.codes("site")) & np.isin(asking.columns["path"], logs.codes("path"))
    asking = asking.rows(~of_logs)
    renaming = run.calls.where(op=RENAMING, own=True)  # a line that rotates files asks for those that it renames
    asking = asking.rows(~np.isin(asking.columns["site"], renaming.codes("site")) | (asking.columns["site"] < 0))
    by_path = asking.sums("process", "path")
    often = by_path["path"][(by_path["calls"] >= limits["per_path"]) & (by_path["path"] >= 0)]
    asking = asking.where(path=often.tolist())
    by_line = asking.sums("site")
    asking = asking.where(site=by_line["site"][by_line["calls"] >= _FEW * asking.total("calls")].tolist())
    calls, paths = asking.total("calls"), asking.distinct("path")
    if not paths or calls < limits["calls"]:
        return
    needed = len(asking.sums("process", "path")["path"])  # one for a path in each process
    again = run.times(asking, max(calls - needed, 0) / calls)
    how = "the share of the stat and access calls that ask again for a path"
    gain = run.gain(again, how, "estimate")
    waits = _come_later(asking)
    if waits:
        gain = _with_processors(run, asking, gain)
    yield Finding(
        title=f"{number(calls)} calls ask for {counted(paths, 'path')}, {number(round(calls / paths))} times each",
        evidence=[
            Evidence(
                f"{number(calls)} stat and access calls took {seconds(asking.total('time'))}.",
                {"calls": calls, "paths": paths, "time_ns": asking.total("time")},
            )
        ],
        remedy=WAIT
        if waits
        else WATCH
        if is_watching(run, run.sites(asking))
        else Remedy(
            "Ask once, and keep the answer.",
            "if os.path.exists(p) and os.path.isfile(p):\n    size = os.path.getsize(p)",
            "try:\n    size = os.stat(p).st_size\nexcept FileNotFoundError:\n    ...",
        ),
        query=sql.rows({"site": asking.lines(), "op": ASKING}),
        **run.about(asking, gain),
    )


def _with_processors(run: Observed, asking: CallTable, gain: Gain) -> Gain:
    """What a wait without asking saves at most: all that these lines compute, if what they wait for needs their
    processor."""
    held = sum(map(held_ns, run.walls(run.sites(asking))))
    how = "all that these lines took: they may keep what they wait for from a processor"
    return Gain(min(max(held, gain.ns), run.wall_ns), replace(gain.recoverable, how=how, bound="upper", terms=[]))


def _come_later(asking: CallTable) -> bool:
    """Whether lines ask for most of these paths until they are there."""
    found, missing = asking.where(errno=0), asking.where(errno=errno.ENOENT)
    both = set(found.codes("path")) & set(missing.codes("path"))
    often = asking.total("calls") >= _POLLED * asking.distinct("path")
    return often and 2 * len(both) > asking.distinct("path") and 4 * missing.total("calls") > asking.total("calls")


RULE = Rule(
    "metadata",
    find,
    limits={
        "calls": Limit(1000, "stat and access calls on such paths, at least", few=100),
        "per_path": Limit(3, "of them for a path in a process, at least"),
    },
    topic="metadata",
    yields_to=("polling", "list-again"),
    trial=Trial("pyio_trace.insights.trials.files:asked_once"),
)
