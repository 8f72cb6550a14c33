"""Tries one load of a file that a library loads again and again by the same call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter_ns
from typing import Any

import numpy as np

from pyio_trace.insights.trials import reads
from pyio_trace.insights.trials.attempt import Attempt, side_by_side
from pyio_trace.insights.trials.recorded import Rows
from pyio_trace.insights.trials.replay import NotTried, Replay, with_repetitions

#: (operation, path)
Load = tuple[str, str]
#: What "load once" keeps, at most, bytes.
_KEPT = 1 << 30
_MOST_THREADS = 32


def _array(path: str) -> object:
    return np.load(path, allow_pickle=False)


def _numbers(path: str) -> object:
    return np.fromfile(path, np.uint8)


def _table(path: str) -> object:
    from pyarrow import parquet

    return parquet.read_table(path)


#: Operation -> the same call, of which the log has all arguments that matter.
_LOADS: Mapping[str, Callable[[str], object]] = {
    "numpy.load": _array, "numpy.fromfile": _numbers, "pyarrow.parquet.read_table": _table,
}  # fmt: skip
#: Details of a load of a part of the file, which is not what these calls do.
_PARTS = ("names", "usecols", "groups", "nrows", "skiprows", "filtered", "mmap_mode")


def kept(attempt: Attempt) -> Replay:
    """The same loads, in as many threads, and one of each file; where the library is not known, the reads beneath."""
    rows = attempt.rows.where(layer="app", op=tuple(_LOADS))
    rows = rows.at(np.flatnonzero(rows.columns["process"] == rows.heaviest().process))
    loads = _loads(rows)
    if not loads:
        if len(attempt.rows.where(layer="app", op_class="read")):
            raise NotTried("needs the program: the log does not have all arguments of its calls")
        return reads.kept(attempt)
    files = attempt.originals
    names = {path: f"/proc/self/fd/{files.open(path)}" for _, path in loads}
    chosen = with_repetitions(loads)
    threads = min(side_by_side(rows, "tid"), _MOST_THREADS)

    def load(one: Load) -> object:
        return _LOADS[one[0]](names[one[1]])

    def remedy(count: int) -> int:
        loaded, room = [], [_KEPT]

        def load_and_keep(one: Load) -> None:
            found: Any = load(one)
            room[0] -= getattr(found, "nbytes", 0)
            if room[0] > 0:
                loaded.append(found)

        return _time(load_and_keep, list(dict.fromkeys(chosen(count))), threads)

    recorded = max(rows.recorded(attempt.rows) * len(loads) // len(rows), len(loads))
    # A table is made into something else, by the program or in other threads; an array is used as it is.
    least = any(_LOADS[op] is _table for op, _ in loads)
    return Replay(
        lambda count: _time(load, chosen(count), threads), remedy, len(loads), recorded, originals=files.ends(),
        threads=threads, least=least, note="what the program makes of the tables comes on top" if least else "",
    )  # fmt: skip


def _loads(rows: Rows) -> list[Load]:
    """The loads that are not a part of another."""
    loads = []
    ends: dict[int, int] = {}
    times = (rows.columns["time"], rows.columns["time"] + rows.columns["duration"], rows.columns["tid"])
    columns = (rows.texts("op"), rows.texts("path"), rows.details, *(values.tolist() for values in times))
    for op, path, detail, begin, end, tid in zip(*columns, strict=True):
        if begin >= ends.get(tid, begin) and path and not any(detail.get(name) for name in _PARTS):
            loads.append((op, path))
            ends[tid] = end
    return loads


def _time(call: Callable[[Load], object], loads: Sequence[Load], threads: int) -> int:
    """ns that all of them take, in so many threads."""
    if threads == 1:
        begin = perf_counter_ns()
        for load in loads:
            call(load)
        return perf_counter_ns() - begin

    def done(load: Load) -> None:
        call(load)  # what it returns is not needed, and may be large

    with ThreadPoolExecutor(threads) as pool:
        begin = perf_counter_ns()
        for _ in pool.map(done, loads):
            pass
        return perf_counter_ns() - begin
