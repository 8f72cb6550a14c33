"""MPI-IO by operation and file: ranks, bytes, the slowest rank, and the ranks whose system calls moved the bytes.

Result: MpiCalls, whose rows are MpiUse.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls import file_names
from pyio_trace.analysis.calls.code_texts import texts
from pyio_trace.analysis.calls.file_names import FileNames
from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.enums import Layer, OpClass
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

#: Calls whose system calls are told apart; of more, those with the fewest bytes are dropped.
_MANY = 1 << 20
_TOP = 10_000
_SUMMED = ("time", "calls", "asked", "moved", "unseen", "errors")


@dataclass(frozen=True)
class MpiUse:
    """Calls of one operation on one file by all ranks.

    op: such as MPI_File_write_at_all; collective: whether all ranks of the
    communicator make the call together.  ranks: that made it.  asked_bytes,
    moved_bytes: of the calls, in memory.  time_ns: over all ranks; slowest: the
    rank with most of it; slowest_ns: its time.  unseen: nonblocking calls whose
    completion was not seen, so that their moved bytes are not known.  errors:
    calls that failed.  system_calls, system_bytes: reads and writes that the MPI
    library made for these calls, on any rank; movers: the ranks that made them
    (of collective calls, the aggregators) with their bytes, most first.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("path", "op", "calls", "ranks", "moved_bytes", "time_ns", "moved_by")

    op: str
    path: str | None
    collective: bool
    calls: int
    ranks: int
    time_ns: int
    slowest: str
    slowest_ns: int
    asked_bytes: int
    moved_bytes: int
    unseen: int
    errors: int
    system_calls: int
    system_bytes: int
    moved_by: str
    movers: list[tuple[str, int]]


@dataclass(frozen=True)
class MpiCalls:
    """rows: most time first.  more: further ones, with less; dropped: sums that did not fit into memory (0: all figures
    are exact)."""

    rows: list[MpiUse]
    more: int
    dropped: int


def _by_rank() -> GroupedSums:
    return GroupedSums(("op", "file", "rank"), dict.fromkeys(_SUMMED, "sum"), _MANY)


def _calls() -> GroupedSums:
    return GroupedSums(("id",), {"size": "max", "op": "max", "file": "max"}, _MANY)


def _beneath() -> GroupedSums:
    return GroupedSums(("id", "rank"), {"bytes": "sum", "calls": "sum"}, _MANY)


@dataclass
class Part:
    """What some batches contribute: sums by operation, file and rank; each call; what was moved beneath calls."""

    by_rank: GroupedSums = field(default_factory=_by_rank)
    calls: GroupedSums = field(default_factory=_calls)
    beneath: GroupedSums = field(default_factory=_beneath)
    names: FileNames = field(default_factory=FileNames)


class MpiCallsByFile:
    """The reducer."""

    columns: ClassVar[tuple[str, ...]] = tuple(
        dict.fromkeys(
            (*MEANING, *file_names.COLUMNS, "id", "parent", "time", "duration", "op", "file", "global_rank",
             "bytes_requested", "bytes_moved", "errno", "in_flight")
        )
    )  # fmt: skip

    def __init__(self, top: int = _TOP) -> None:
        self.top = top

    def partial(self, batch: pa.RecordBatch) -> Part:
        part, columns = Part(), Columns(batch)
        own = columns.layer == Layer.MPIIO
        at = np.flatnonzero(own)
        if len(at):
            self._add_calls(part, columns, at)
        parent = columns.numbers("parent")
        reads, writes = columns.moves
        below = np.flatnonzero((columns.layer == Layer.POSIX) & (parent != 0) & (reads | writes))
        if len(below):
            rank = columns.numbers("global_rank", -1)
            values = {"id": parent, "rank": rank, "bytes": columns.moved, "calls": columns.calls}
            part.beneath.add({name: one[below] for name, one in values.items()})
        return part

    def _add_calls(self, part: Part, columns: Columns, at: NDArray[np.int64]) -> None:
        moved, errors = columns.numbers("bytes_moved", -1), columns.numbers("errno") != 0
        data = (columns.kind == OpClass.READ) | (columns.kind == OpClass.WRITE)
        count = columns.calls
        values = {
            "op": columns.codes("op"), "file": columns.file, "rank": columns.numbers("global_rank", -1),
            "time": columns.duration, "calls": count, "asked": columns.numbers("bytes_requested") * data,
            "moved": columns.moved * data, "unseen": count * (data & ~errors & columns.ended & (moved < 0)),
            "errors": count * errors,
        }  # fmt: skip
        part.by_rank.add({name: one[at] for name, one in values.items()})
        ids = {"id": columns.numbers("id"), "size": values["moved"], "op": values["op"], "file": values["file"]}
        part.calls.add({name: one[at] for name, one in ids.items()})
        part.names.add(columns, at)

    def combine(self, part: Part, later: Part) -> Part:
        part.by_rank.update(later.by_rank)
        part.calls.update(later.calls)
        part.beneath.update(later.beneath)
        part.names.update(later.names)
        return part

    def finish(self, part: Part | None, log: Log) -> MpiCalls:
        part = part or Part()
        sums = part.by_rank.columns()
        key_of = _Keys(part, log)
        groups: dict[tuple[str, str | None], Counter[str]] = defaultdict(Counter)
        times: dict[tuple[str, str | None], Counter[int]] = defaultdict(Counter)
        keys = key_of(sums["op"], sums["file"])
        for row, key in enumerate(keys):
            for name in _SUMMED:
                groups[key][name] += int(sums[name][row])
            times[key][int(sums["rank"][row])] += int(sums["time"][row])
        moved, made = _beneath_calls(part, key_of)
        found = [_use(key, one, times[key], moved[key], made[key]) for key, one in groups.items()]
        found.sort(key=lambda use: (-use.time_ns, use.op, use.path or ""))
        dropped = part.by_rank.dropped + (part.calls.dropped if len(part.beneath.columns()["id"]) else 0)
        return MpiCalls(found[: self.top], max(len(found) - self.top, 0), dropped)


class _Keys:
    """(name of the operation, path of the file) of rows with their codes."""

    def __init__(self, part: Part, log: Log) -> None:
        self._names, self._log = part.names, log

    def __call__(self, op: NDArray[np.int64], file: NDArray[np.int64]) -> list[tuple[str, str | None]]:
        paths = self._names.of(file, self._log) if len(file) else []
        known = [path if one else None for path, one in zip(paths, file.tolist(), strict=True)]
        return list(zip([text or "" for text in texts(self._log, "op", op)], known, strict=True))


def _beneath_calls(
    part: Part, key_of: _Keys
) -> tuple[dict[tuple[str, str | None], Counter[int]], Counter[tuple[str, str | None]]]:
    """Of each key, the bytes by rank that system calls of which its calls are the parents moved, and their number."""
    moved: dict[tuple[str, str | None], Counter[int]] = defaultdict(Counter)
    made: Counter[tuple[str, str | None]] = Counter()
    calls, beneath = part.calls.columns(), part.beneath.columns()
    if not len(calls["id"]):
        return moved, made
    place = np.minimum(np.searchsorted(calls["id"], beneath["id"]), len(calls["id"]) - 1)
    rows = np.flatnonzero(calls["id"][place] == beneath["id"])
    sums = GroupedSums(("op", "file", "rank"), {"bytes": "sum", "calls": "sum"})
    sums.add({
        "op": calls["op"][place[rows]], "file": calls["file"][place[rows]], "rank": beneath["rank"][rows],
        "bytes": beneath["bytes"][rows], "calls": beneath["calls"][rows],
    })  # fmt: skip
    found = sums.columns()
    for row, key in enumerate(key_of(found["op"], found["file"])):
        moved[key][int(found["rank"][row])] += int(found["bytes"][row])
        made[key] += int(found["calls"][row])
    return moved, made


def _called(rank: int) -> str:
    return f"rank {rank}" if rank >= 0 else "(no rank)"


def _use(
    key: tuple[str, str | None], sums: Counter[str], times: Counter[int], moved: Counter[int], made: int
) -> MpiUse:
    op, path = key
    slowest = min(times, key=lambda rank: (-times[rank], rank))
    movers = sorted(((rank, size) for rank, size in moved.items() if size), key=lambda one: (-one[1], one[0]))
    return MpiUse(
        op=op, path=path, collective=is_collective(op), calls=sums["calls"], ranks=len(times), time_ns=sums["time"],
        slowest=_called(slowest), slowest_ns=times[slowest], asked_bytes=sums["asked"], moved_bytes=sums["moved"],
        unseen=sums["unseen"], errors=sums["errors"], system_calls=made, system_bytes=sum(moved.values()),
        moved_by=_moved_by(movers), movers=[(_called(rank), size) for rank, size in movers],
    )  # fmt: skip


def _moved_by(movers: list[tuple[int, int]]) -> str:
    """The ranks that moved bytes, in few words: "rank 0", "4 ranks", "" for none."""
    if not movers:
        return ""
    return _called(movers[0][0]) if len(movers) == 1 else f"{len(movers)} ranks"


def is_collective(op: str) -> bool:
    """Whether all ranks of a file's communicator make a call of this name together."""
    return op.startswith("MPI_File_") and ("_all" in op or "_ordered" in op or op in _COLLECTIVE)


#: Others that are collective.  File_delete, get_size and the seeks of individual pointers are not.
_COLLECTIVE = {
    f"MPI_File_{name}"
    for name in (
        "open", "close", "sync", "set_size", "preallocate", "set_view", "set_info", "set_atomicity", "seek_shared",
    )
}  # fmt: skip

REDUCER = MpiCallsByFile
