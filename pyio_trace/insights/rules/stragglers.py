"""One process of several has far more I/O than the others, which wait for it.

Divide the work by bytes instead of files, or hand it out in small pieces (a
queue, `Pool.imap` with a small `chunksize`), so that no process is left with the
last large one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Query, Remedy
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import number, seconds, size

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.call_table import CallTable
    from pyio_trace.insights.observed import Observed


_MS = 1_000_000


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    for kind, processes in run.peers():
        if len(processes) < limits["processes"]:
            continue
        times = {one.index: one.split.io_ns + one.split.sync_ns for one in processes}
        moved = {one.index: one.moved for one in processes}
        mean_time, mean_moved = sum(times.values()) // len(times), sum(moved.values()) // len(moved)
        slow = max(times, key=lambda index: times[index])
        large = max(moved, key=lambda index: moved[index])
        by_bytes = moved[large] >= limits["ratio"] * mean_moved and moved[large] >= limits["bytes"]
        by_time = times[slow] >= limits["ratio"] * mean_time and times[slow] - mean_time >= limits["ms"] * _MS
        if not by_bytes and not by_time:
            continue
        worst = large if by_bytes else slow
        calls = run.calls.where(process=worst, own=True)
        gain = run.gain({worst: max(times[worst] - mean_time, 0)}, "its I/O beyond the mean of all of them")
        name = next(one.name for one in processes if one.index == worst)
        ratio = f"{moved[worst] / max(mean_moved, 1):.3g} times the bytes"
        if not by_bytes:
            ratio = f"{times[worst] / max(mean_time, 1):.3g} times the I/O time"
        yield Finding(
            title=f"{name} has {ratio} of the mean of {number(len(moved))} {kind}",
            evidence=[
                Evidence(
                    f"It moved {size(moved[worst])} in {seconds(times[worst])}; the mean is {size(mean_moved)} in "
                    f"{seconds(mean_time)}.{_phase(run, calls)}",
                    {"process": worst, "bytes": moved[worst], "mean_bytes": mean_moved, "processes": len(moved)},
                )
            ],
            remedy=Remedy(
                "Hand out small pieces.",
                "pool.map(convert, paths, chunksize=len(paths) // 4)",
                "largest = sorted(paths, key=os.path.getsize, reverse=True)\n"
                "for _ in pool.imap_unordered(convert, largest):\n    pass",
            ),
            confidence=Confidence(0.7, "whether the others waited for it is not known"),
            query=Query(
                "SELECT process, sum(bytes_moved) AS bytes, sum(duration) / 1e9 AS seconds\nFROM operations\n"
                f"WHERE op_role IN ('io', 'sync')\n  AND {sql.condition('process', list(moved))}\n"
                "GROUP BY process\nORDER BY bytes DESC"
            ),
            **{**run.about(calls, gain), "processes": [worst]},
        )


def _phase(run: Observed, calls: CallTable) -> str:
    """When it was in I/O, as a sentence."""
    if not len(calls):
        return ""
    first = max(int(calls.columns["first"].min()) - run.summary.run.start, 0)
    last = max(int(calls.columns["last"].max()) - run.summary.run.start, 0)
    return f" Its calls are between {seconds(first)} and {seconds(last)} of the run."


RULE = Rule(
    "balance",
    find,
    {
        "processes": Limit(3, "of one kind, at least"),
        "ratio": Limit(2, "times the mean, at least, in bytes or in time"),
        "bytes": Limit(1 << 24, "moved by it, at least, for bytes to count"),
        "ms": Limit(100, "of I/O beyond the mean, at least, for time to count"),
    },
    yields_to=("one-does-all", "slow-node", "stragglers-by-phase"),
)
