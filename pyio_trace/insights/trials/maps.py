"""Syncs of mapped files (msync): one after each change of a page, and one at the end."""

from __future__ import annotations

import mmap
from contextlib import ExitStack
from time import perf_counter_ns

from pyio_trace.insights.trials.attempt import Attempt
from pyio_trace.insights.trials.recorded import Rows
from pyio_trace.insights.trials.replay import Replay

_ANY = b"x"


def synced_once(attempt: Attempt, syncs: Rows) -> Replay:
    """Maps of files in scratch, each as long as its longest recorded sync.  A page is changed before each sync, the
    least that the program can have changed: stores to memory have no rows.  syncs: the msyncs of one thread."""
    paths = syncs.texts("path")
    lengths: dict[str, int] = {}
    for path, size in zip(paths, syncs.sizes, strict=True):
        lengths[path] = max(lengths.get(path, mmap.PAGESIZE), size)
    scratch = attempt.scratch(paths[0])
    scratch.check_room(sum(lengths.values()))
    names = {path: scratch.name() for path in lengths}
    maps: dict[str, mmap.mmap] = {}

    def run(count: int, every: bool) -> int:
        with ExitStack() as open_maps:
            for path, length in lengths.items():
                with open(scratch.create(names[path]), "r+b") as file:
                    file.write(bytes(length))
                    file.flush()
                    maps[path] = open_maps.enter_context(mmap.mmap(file.fileno(), length))
                    maps[path].flush()
            places = dict.fromkeys(lengths, 0)
            begin = perf_counter_ns()
            for path in paths[:count]:
                at = places[path]
                maps[path][at : at + 1] = _ANY
                places[path] = (at + mmap.PAGESIZE) % lengths[path]
                if every:
                    maps[path].flush()
            if not every:
                for one in dict.fromkeys(paths[:count]):
                    maps[one].flush()
            return perf_counter_ns() - begin

    return Replay(
        lambda count: run(count, True),
        lambda count: run(count, False),
        len(paths),
        syncs.recorded(attempt.rows),
        before=scratch.clear,
        least=True,
        note="a page was changed before each sync: how many the program changed is not in the log",
    )
