"""In single phases of a parallel job one rank is in I/O far longer than the others.

A phase is a burst of I/O between two stretches of time in which no rank does any,
such as a checkpoint between two steps of computing. Over the whole run the ranks
may look even: a different rank may be the last each time, or one rank's lead in
reading may hide that it is the last to write. At the end of a phase all ranks
usually wait for each other, so each phase takes as long as its slowest rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from pyio_trace.analysis.view_sums.io_times import IO_TIMES
from pyio_trace.analysis.view_sums.phase_sums import KINDS
from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Query, Remedy
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.light_dataclass import dataclass
from pyio_trace.units import number, seconds

if TYPE_CHECKING:
    from pyio_trace.analysis.view_sums.io_times import TimesInBins
    from pyio_trace.insights.observed import Observed
    from pyio_trace.join.base.system import Ints


@dataclass(frozen=True)
class _Phase:
    """number: of the phase, from 1 on; begin, end: ns since the start of the run; slowest: the rank; time, usual: ns in
    I/O of that rank, and the median of the others; kind: what it did most of the time."""

    number: int
    begin: int
    end: int
    slowest: int
    time: int
    usual: int
    kind: str


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    ranks = sorted(set(run.rank_of.values()))
    if len(ranks) < max(limits["ranks"], 2):
        return
    times = run.of(IO_TIMES)
    bursts = times.bursts(max(int(limits["gap"] * run.wall_ns), times.width))
    least = limits["part"] * int(times.time.sum())
    bursts = [rows for rows in bursts if int(times.time[rows].sum()) >= least]
    if len(bursts) < limits["phases"]:
        return
    found: dict[int, list[_Phase]] = {}
    for at, rows in enumerate(bursts, 1):
        phase = _phase(run, times, at, rows, ranks)
        if phase.time >= limits["ratio"] * max(phase.usual, 1) and phase.time - phase.usual >= limits["ms"] * 1_000_000:
            found.setdefault(phase.slowest, []).append(phase)
    for rank, phases in found.items():
        yield _finding(run, rank, phases, len(bursts))


def _phase(run: Observed, times: TimesInBins, at: int, rows: Ints, ranks: list[int]) -> _Phase:
    spent = dict.fromkeys(ranks, 0)
    process, time = times.process[rows], times.time[rows]
    for index, rank in run.rank_of.items():
        spent[rank] += int(time[process == index].sum())
    slowest = max(ranks, key=lambda rank: (spent[rank], -rank))
    mine = np.isin(process, _processes(run, slowest))
    kinds = np.bincount(times.kind[rows][mine], time[mine], len(KINDS))
    start = run.summary.run.start
    return _Phase(
        at, int(times.bin[rows].min()) - start, int(times.bin[rows].max()) + times.width - start, slowest,
        spent[slowest], round(median(spent[rank] for rank in ranks if rank != slowest)), KINDS[int(kinds.argmax())],
    )  # fmt: skip


def _processes(run: Observed, rank: int) -> list[int]:
    return [index for index, its in run.rank_of.items() if its == rank]


def _finding(run: Observed, rank: int, phases: list[_Phase], every: int) -> Finding:
    processes = _processes(run, rank)
    worst = max(phases, key=lambda phase: phase.time - phase.usual)
    lost = sum(phase.time - phase.usual for phase in phases)
    gain = run.gain({processes[0]: lost}, "its I/O beyond the median of the other ranks, in these phases")
    calls = run.calls.where(process=processes, own=True)
    return Finding(
        title=f"rank {rank} is the straggler in {number(len(phases))} of {number(every)} phases of I/O",
        evidence=[
            Evidence(
                f"In phase {number(worst.number)}, {seconds(max(worst.begin, 0))} to {seconds(max(worst.end, 0))} of "
                f"the run, mostly {worst.kind}, it was in I/O for {seconds(worst.time)}; half of the others needed "
                f"{seconds(worst.usual)} or less.",
                {
                    "rank": rank, "phases": ", ".join(str(phase.number) for phase in phases), "of_phases": every,
                    "time_ns": worst.time, "usual_ns": worst.usual, "begin_ns": worst.begin, "end_ns": worst.end,
                },
            )
        ],
        remedy=Remedy("Give each rank as much to read and write in each phase, or let all do it by collective calls."),
        confidence=Confidence(0.7, "whether the others waited for it at the end of the phase is not known"),
        query=Query(
            "SELECT global_rank, sum(bytes_moved) AS bytes, sum(duration) / 1e9 AS seconds\nFROM operations\n"
            f"WHERE op_role IN ('io', 'sync')\n  AND {sql.condition('process', list(run.rank_of))}\n"
            f"  AND time BETWEEN {run.summary.run.start + worst.begin} AND {run.summary.run.start + worst.end}\n"
            "GROUP BY global_rank\nORDER BY seconds DESC"
        ),
        **{**run.about(calls, gain), "processes": processes[:10]},
    )  # fmt: skip


RULE = Rule(
    "balance",
    find,
    limits={
        "ranks": Limit(3, "of the job, at least"),
        "phases": Limit(2, "of the run, at least: of a single one, see stragglers"),
        "gap": Limit(0.01, "of the wall time without any I/O, at least, between two phases"),
        "part": Limit(0.01, "of all time in I/O, at least, in a phase"),
        "ratio": Limit(2, "times the median of the other ranks' I/O in the phase, at least"),
        "ms": Limit(100, "of I/O beyond it in the phase, at least"),
    },
    needs=(IO_TIMES,),
    yields_to=("one-does-all", "slow-node"),
)
