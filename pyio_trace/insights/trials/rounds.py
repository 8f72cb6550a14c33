"""Runs a replay in rounds: plain and remedy in turn, as many operations as the time allows.

A gain counts only where the slowest round with the remedy is faster than the
fastest one without.  Two ways that take the same time come out so in one of
3,432 trials of seven rounds, medians of them differ always.  That there is no gain
also has to be shown: rounds that differ by as much as the finding promises show
nothing.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyio_trace.insights.trials import page_cache
from pyio_trace.insights.trials.interruptions import limited
from pyio_trace.insights.trials.replay import Replay
from pyio_trace.insights.trials.side_by_side import longest

ROUNDS = 7
#: Rounds that are run if there is time.
_MOST_ROUNDS = 9
#: Runs of either way in a round, if there is time for so many.  The median counts, so one disturbed run does not.
_REPEATS = 3
#: ns; a round of this length is long enough to be compared.
_LONG_ENOUGH = 50_000_000
_FIRST = 16
#: A gain counts if it is at least this share of the time without the remedy.
_LEAST_GAIN = 0.05

#: The shortest and the longest of some times, ns.
Range = tuple[int, int]


@dataclass(frozen=True)
class Measurement:
    """What the rounds showed, in ns scaled to all recorded operations.

    plain, remedy: medians; plain_range, remedy_range: the fastest and the slowest round; saved: the median of the
    rounds' differences; low, high: their quartiles; operations: how many were issued in each round; cache: where the
    originals' bytes came from.
    """

    plain: int
    remedy: int
    saved: int
    low: int
    high: int
    rounds: int
    operations: int
    cache: str
    plain_range: Range
    remedy_range: Range


def is_gain(plain: Range, remedy: Range, saved: int) -> bool:
    """Whether a gain shows.  saved: the median of what the rounds saved."""
    return remedy[1] < plain[0] and saved >= _LEAST_GAIN * plain[0]


def outcome_of(plain: Range, remedy: Range, saved: int, estimate: int, whole: bool) -> str:
    """What rounds showed: "gain"; "harm": the remedy takes longer; "no gain"; or "not known".

    saved: the median of what the rounds saved, ns; estimate: what the finding says that the remedy saves, ns; whole:
    whether the rounds can show all of that.  There is no gain if the rounds exclude even half of the estimate, and took
    at least as long as that half: what took the time in the run was not in them otherwise.
    """
    if is_gain(plain, remedy, saved):
        return "gain"
    if not whole:
        return "not known"
    if plain[1] < remedy[0] and -saved >= _LEAST_GAIN * plain[0]:
        return "harm"
    return "no gain" if 2 * (plain[1] - remedy[0]) < estimate <= 2 * plain[1] else "not known"


def range_of(times: NDArray[np.float64]) -> Range:
    """The shortest and the longest of some times."""
    return int(times.min()), int(times.max())


def late(seconds: float) -> str:
    """The reason of a trial that did not finish in twice this many seconds."""
    return f"{ROUNDS} rounds take longer than {2 * seconds:.3g} s; give it more time with --verify-seconds"


def measured(replay: Replay, seconds: float, cold: bool, own_folder: Callable[[int], object]) -> Measurement:
    """Measures a replay for about so many seconds.

    cold: drop the originals from the page cache before each run; own_folder: called in each of several processes.

    Raises NotTried if fewer than ROUNDS rounds fit into twice the time.
    """
    caches = set()

    def prepare() -> None:
        if replay.before is not None:
            replay.before()
        if cold:
            page_cache.drop(replay.originals)

    def look() -> None:
        caches.add(page_cache.state(replay.originals) if replay.originals else replay.cache)

    runs = [lambda count, run=run: _time(replay, run, count, own_folder) for run in (replay.plain, replay.remedy)]
    times, count = in_rounds(runs, replay.operations, seconds, prepare, look, replay.together)
    plain, remedy = (np.array(own) * (replay.recorded * replay.share / count) for own in times)
    low, median, high = quartiles(plain - remedy)
    cache = caches.pop() if len(caches) == 1 else "partly cached"
    return Measurement(
        int(np.median(plain)), int(np.median(remedy)), median, low, high, len(plain), count, cache,
        range_of(plain), range_of(remedy),
    )  # fmt: skip


def quartiles(values: NDArray[np.float64]) -> tuple[int, int, int]:
    """The lower quartile, the median and the upper one."""
    low, median, high = (int(value) for value in np.quantile(values, (0.25, 0.5, 0.75)))
    return low, median, high


def in_rounds(
    runs: Sequence[Callable[[int], int]],
    operations: int,
    seconds: float,
    prepare: Callable[[], object],
    look: Callable[[], object],
    together: int = 1,
) -> tuple[list[list[int]], int]:
    """(ns of each of the runs, a number for each round; how many operations they did).

    runs: take turns; each gets how many operations it shall do, and returns how
    many ns that took.  prepare: called before each; look: once in a round, after
    prepare().  A time is the median of _REPEATS runs.  together: they do a
    multiple of so many operations, unless they do all.  A first round is thrown
    away: what it reads may not be cached yet.  Raises as measured().
    """
    whole = int(seconds * 1e9)
    end = time.perf_counter_ns() + whole
    with limited(2 * seconds, late(seconds)), _no_garbage_collection():
        count, last = _calibrated(runs, operations, prepare, whole // (ROUNDS + 3) // _REPEATS, together)
        begin = time.perf_counter_ns()
        for run in runs:  # the round that is thrown away
            prepare()
            run(count)
        last = max(last, time.perf_counter_ns() - begin)
        repeats = _REPEATS if _REPEATS * last * ROUNDS <= whole else 1
        times: list[list[int]] = [[] for _ in runs]
        rounds = 0
        while rounds < ROUNDS or (rounds < _MOST_ROUNDS and time.perf_counter_ns() + repeats * last < end):
            prepare()
            look()
            own: list[list[int]] = [[] for _ in runs]
            order = list(zip(own, runs, strict=True))
            for number in range(rounds, rounds + repeats):
                for found, run in order if number % 2 == 0 else order[::-1]:
                    prepare()
                    found.append(run(count))
            for all_rounds, found in zip(times, own, strict=True):
                all_rounds.append(int(np.median(found)))
            rounds += 1
    return times, count


def _time(replay: Replay, run: Callable[[int], int], count: int, own_folder: Callable[[int], object]) -> int:
    if replay.workers == 1:
        return run(count)

    def prepare(number: int) -> None:
        own_folder(number)
        if replay.before is not None:
            replay.before()

    return longest(lambda _: run(count), replay.workers, prepare)


def _calibrated(
    runs: Sequence[Callable[[int], int]], operations: int, prepare: Callable[[], object], most: int, together: int
) -> tuple[int, int]:
    """How many operations to issue again so that a round takes at most so many ns, and about how long that is."""
    count = min(together if together > 1 else _FIRST, operations)
    while True:
        prepare()
        time = runs[0](count)
        if count == operations or time >= min(_LONG_ENOUGH, most):
            break
        count = min(count * 4, operations)
    for run in runs[1:]:
        prepare()
        time += run(count)
    time = max(time, 1)
    fits = max(min(count * most // time, operations), 1)
    if fits < operations:
        fits = min(max(fits // together, 1) * together, operations)
    return fits, time * fits // count


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
