"""Several threads call on files from one line, and hardly ever two of them at once.

One lock around the I/O (threading.Lock, the one of h5py), or one call that is
awaited before the next, makes threads take turns. Let each thread have a file
object of its own, keep the lock for what is shared, and where a library has a
lock of its own use processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Remedy
from pyio_trace.insights.libraries import is_line_of_dask, library_of, writes
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.insights.slow_calls import SLOW, Ints
from pyio_trace.units import number, seconds

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.observed import Observed

#: Shorter calls, ns, follow each other because of Python's own lock.
_LONG = 200_000
_OWN_LOCK = Remedy(
    "Take the lock for what is shared only, and read outside of it.",
    "with lock:\n    data = read(path)\n    results.append(data)",
    "data = read(path)\nwith lock:\n    results.append(data)",
)
_ONE_WRITES = Remedy(
    "Let one thread write what the others put into a queue: they go on meanwhile, and it writes, and syncs, once for "
    "all that is there.",
    "with lock:\n    f.write(record)\n    f.flush()",
    "records.put(record)    # a queue.Queue; None ends it\n\n"
    "def write_all():    # in one thread\n    while (record := records.get()) is not None:\n"
    "        f.write(record)\n        if records.empty():\n            f.flush()",
)
_WRITTEN = Remedy(
    "Take the lock for what is shared only, and write outside of it: each thread has files of its own.",
    "with lock:\n    save(path, data)\n    done.append(path)",
    "save(path, data)\nwith lock:\n    done.append(path)",
)
_ONE_AT_A_TIME = "HDF5 lets in one thread at a time: let processes read."
_HDF5 = Remedy(
    _ONE_AT_A_TIME,
    "with ThreadPoolExecutor(4) as pool:\n    results = list(pool.map(read, paths))",
    "with ProcessPoolExecutor(4) as pool:\n    results = list(pool.map(read, paths))",
)
_HDF5_IN_DASK = Remedy(
    _ONE_AT_A_TIME,
    "total = array.sum().compute()    # in threads",
    "with Client(threads_per_worker=1):    # processes\n    total = array.sum().compute()",
    "dask",
)


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    calls = run.of(SLOW)
    own = run.calls.where(own=True).codes("site")
    rows = np.flatnonzero(np.isin(calls["site"], own) & (calls["outer"] == 1) & (calls["duration"] >= _LONG))
    order = rows[np.lexsort((calls["time"][rows], calls["site"][rows], calls["process"][rows]))]
    keys = calls["process"][order] * (1 << 32) + calls["site"][order]
    for at in np.split(order, np.flatnonzero(np.diff(keys)) + 1):
        if len(at) >= max(limits["calls"], 2):
            yield from _of_line(run, {name: values[at] for name, values in calls.items()}, limits)


def _of_line(run: Observed, calls: dict[str, Ints], limits: Mapping[str, float]) -> Iterator[Finding]:
    """calls: of one line in one process, in the order of time."""
    threads, which = np.unique(calls["tid"], return_inverse=True)
    switches = int(np.count_nonzero(np.diff(calls["tid"])))
    begin, end = calls["time"], calls["time"] + calls["duration"]
    extent, busy = int(end.max() - begin.min()), calls["duration"].sum()
    shares = np.bincount(which.ravel(), calls["duration"]) / max(extent, 1)
    by_chance = (shares.sum() ** 2 - (shares**2).sum()) / 2 * extent  # ns in which two would be in a call at once
    at_once = int(np.maximum(np.maximum.accumulate(end)[:-1] - begin[1:], 0).sum())
    if len(threads) < 2 or switches < limits["switches"] * len(begin) or busy < limits["share"] * extent:
        return
    if at_once > limits["at_once"] * by_chance:
        return
    process, site = int(calls["process"][0]), int(calls["site"][0])
    table = run.calls.where(process=process, site=site)
    saved = int(busy) - int(busy) // len(threads)
    gain = run.gain({process: saved}, f"the calls' time, if {len(threads)} threads made them at once")
    yield Finding(
        title=f"{number(len(threads))} threads call on files by turns, {'hardly' if at_once else 'never'} two at once",
        evidence=[
            Evidence(
                f"{number(len(begin))} calls of {seconds(int(busy) // len(begin))} took {seconds(int(busy))} of "
                f"{seconds(extent)}; two were in one for {seconds(at_once)}, where chance gives "
                f"{seconds(int(by_chance))}. The thread changed {number(switches)} times.",
                {"threads": len(threads), "calls": len(begin), "switches": switches, "at_once_ns": at_once},
            )
        ],
        remedy=in_turns(run, table),
        confidence=Confidence(0.6, "calls of threads are in the log, locks are not"),
        severity="warning",
        query=sql.rows({"site": run.calls.site(site), "process": process}, select="tid, " + sql.SUMS, group="tid, op"),
        **run.about(table, gain),
    )


def in_turns(run: Observed, calls: CallTable) -> Remedy:
    """The remedy for threads that take turns at some calls.

    HDF5 has one lock for all files, and netCDF needs one: their users cannot take it later.  Threads that write one
    file cannot do so side by side.
    """
    if library_of(run, calls) not in ("h5py", "netCDF4"):
        if writes(calls) or not len(calls.transfers("read")):
            return _ONE_WRITES if calls.distinct("path") == 1 else _WRITTEN
        return _OWN_LOCK
    return _HDF5_IN_DASK if is_line_of_dask(run, run.sites(calls)) else _HDF5


RULE = Rule(
    "overlap",
    find,
    limits={
        "calls": Limit(30, "of 0.2 ms and more from one line, at least"),
        "switches": Limit(0.3, "of them that another thread made than the one before, at least"),
        "share": Limit(0.4, "of the time between the first and the last that is in one of them, at least"),
        "at_once": Limit(0.05, "of the time at once that chance gives, at most"),
    },
    needs=(SLOW,),
    each_call=True,
)
