"""A disk of the machine was busy with another process while the program did I/O.

Seen with `--system 1s` only. The program shared the disk with a backup, another
job, or another user's program, and its own calls took longer for it. Run them at
different times, or on different disks; give the other one less of the disk. A
neighbour whose traffic the kernel does not show to the program's user has no
name here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pyio_trace.analysis.view_sums.io_times import IO_TIMES
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Query, Remedy
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.light_dataclass import dataclass
from pyio_trace.units import counted, percent, seconds, size

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed
    from pyio_trace.join.base.system import Ints, System

Look = tuple[int, int]  # (host, time)


@dataclass(frozen=True)
class _Busy:
    """A disk in the looks in which others moved most of its bytes; share: of the bytes, theirs."""

    disk: str
    host: str
    begins: Ints
    ends: Ints
    busy_ns: int
    moved: int
    others: int
    by_process: Counter[tuple[str, int]]

    @property
    def share(self) -> float:
        return min(self.others / max(self.moved, 1), 1.0)


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    disks = run.system.of_kind("disk")
    ours = np.isin(disks["device"], list(run.devices))
    if ours.any():  # else the files are on a file system that is not simply a disk, such as an overlay
        disks = disks.where(ours)
    for host, name in sorted({*zip(disks["host"].tolist(), disks["name"].tolist(), strict=True)}):
        disk = disks.where((disks["host"] == host) & (disks["name"] == name))
        found = _with_others(run, disk, limits)
        if found is not None and found.others >= limits["bytes"]:
            finding = _finding(run, found, limits, known=bool(ours.any()))
            if finding is not None:
                yield finding


def _with_others(run: Observed, disk: System, limits: Mapping[str, float]) -> _Busy | None:
    """The looks at a disk in which it was busy, mostly with others; None: there are none."""
    others, by_process = _others(run, disk.texts[int(disk["host"][0])])
    moved = np.maximum(disk["read_bytes"], 0) + np.maximum(disk["written_bytes"], 0)
    theirs = np.array([others.get(time, 0) for time in disk["time"].tolist()], np.int64)
    busy = disk["busy"] >= limits["busy"] * disk["duration"]
    at = np.flatnonzero(busy & (theirs > 0) & (theirs >= limits["others"] * moved))
    if not len(at):
        return None
    named: Counter[tuple[str, int]] = Counter()
    for time in disk["time"][at].tolist():
        named.update(by_process[time])
    return _Busy(
        disk.texts[int(disk["name"][0])], disk.texts[int(disk["host"][0])], disk["time"][at],
        disk["time"][at] + disk["duration"][at], int(disk["busy"][at].sum()), int(moved[at].sum()),
        int(np.minimum(theirs, moved)[at].sum()), named,
    )  # fmt: skip


def _others(run: Observed, host: str) -> tuple[Counter[int], dict[int, Counter[tuple[str, int]]]]:
    """By time of the look, what processes of a host moved that are not in the log: in all, by (name, pid)."""
    own = {row["pid"] for row in run.processes if row["host"] == host}
    rows = run.system.of_kind("other")
    total: Counter[int] = Counter()
    named: dict[int, Counter[tuple[str, int]]] = {}
    moved = np.maximum(rows["read_bytes"], 0) + np.maximum(rows["written_bytes"], 0)
    columns = zip(rows["time"].tolist(), rows.names("host"), rows.names("name"), rows["pid"].tolist(), strict=True)
    for (time, where, name, pid), bytes_ in zip(columns, moved.tolist(), strict=True):
        if where == host and pid not in own:
            total[time] += bytes_
            named.setdefault(time, Counter())[name, pid] += bytes_
    return total, named


def _finding(run: Observed, found: _Busy, limits: Mapping[str, float], known: bool) -> Finding | None:
    times = {
        process: int(time * found.share)
        for process, time in run.of(IO_TIMES).within(found.begins, found.ends).items()
        if run.processes[process]["host"] == found.host
    }
    gain = run.gain(times, "its I/O while the disk was busy, times the others' share of the bytes")
    if gain.ns < limits["share"] * run.wall_ns:
        return None
    lasted = int((found.ends - found.begins).sum())
    (name, pid), most = max(found.by_process.items(), key=lambda one: (one[1], one[0]))
    who = f"{name} (pid {pid})" if pid >= 0 else "processes that moved little each"
    calls = run.calls.where(process=list(times), own=True)
    values: dict[str, Any] = {"disk": found.disk, "others_bytes": found.others, "bytes": found.moved, "pid": pid}
    return Finding(
        title=f"{found.disk} was busy with another process: {who}",
        evidence=[
            Evidence(
                f"In {seconds(lasted)} in which {counted(len(found.by_process), 'other process', 'other processes')} "
                f"moved {percent(found.share)} of {size(found.moved)}, the disk was busy for {seconds(found.busy_ns)}; "
                f"{who} moved {size(most)}.",
                values,
            )
        ],
        remedy=Remedy("Run them at different times or on different disks, or give the other one less: ionice -c 3."),
        confidence=Confidence(
            0.6 if known else 0.4,
            "the kernel tells what a process moves, and not on which disk"
            if known
            else "neither the disk of the program's files nor that of the other process is known",
        ),
        query=Query(
            "SELECT name, pid, sum(read_bytes) AS read, sum(written_bytes) AS written\nFROM system\n"
            "WHERE kind = 'other'\nGROUP BY name, pid\nORDER BY read + written DESC"
        ),
        **{**run.about(calls, gain), "files": [], "processes": sorted(times)},
    )


RULE = Rule(
    "balance",
    find,
    limits={
        "bytes": Limit(1 << 24, "moved by others in such stretches of time, at least"),
        "others": Limit(0.5, "of the disk's bytes, moved by others, at least"),
        "busy": Limit(0.1, "of a stretch of time in which the disk had any request, at least"),
        "share": Limit(0.01, "of the wall time that the program lost, at least"),
    },
    needs=(IO_TIMES,),
)
