"""Records of counters: from the sums by process and name to those of ranks, and of files that all ranks used.

As in Darshan, a file that every rank of a job used has one record, of rank -1, with the sums of all ranks, the slowest
and the fastest of them and the variance.  Other files have a record for each rank.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.analysis.calls.darshan_calls import FIRST_STREAM_CALL, Call
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.analysis.view_sums.counters_table import Records, module_counters
from pyio_trace.darshan_format import SHARED_RANK, Module
from pyio_trace.export.darshan.recording import FILE_ALIGNMENT, RecordPart
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import runs

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Columns = dict[str, Ints]
#: Gives columns with a process and a file other values of these.
Change = Callable[[Columns], Columns]

#: The value of a counter that was not monitored, as Darshan has it.
UNSEEN = -1
_NS = 1e9
#: Sums of a part that are added up by other keys.
_SUMS = ("calls", "bins", "sizes", "strides", "longest", "counts", "aligned")
_OF_RANKS = ("FASTEST_RANK", "FASTEST_RANK_BYTES", "SLOWEST_RANK", "SLOWEST_RANK_BYTES")
_SECONDS_OF_RANKS = (
    "F_FASTEST_RANK_TIME", "F_SLOWEST_RANK_TIME", "F_VARIANCE_RANK_TIME", "F_VARIANCE_RANK_BYTES",
)  # fmt: skip
_LONGEST = ("process", "file", "kind", "ns", "begin", "bytes")


@dataclass
class Keyed:
    """Records of a module in ascending order of rank and name (number).

    values: by name of the counter without that of the module, of fcounters with F_; time: ns that its calls took;
    called: whether there were any, and not only a rename of another file to this name.
    """

    rank: Ints
    name: Ints
    values: dict[str, NDArray[Any]]
    time: Ints
    called: Bools

    def __len__(self) -> int:
        return len(self.rank)

    def only(self, mask: Bools) -> Keyed:
        """Some of the records."""
        values = {name: value[mask] for name, value in self.values.items()}
        return Keyed(self.rank[mask], self.name[mask], values, self.time[mask], self.called[mask])

    def array(self, module: Module, ids: NDArray[np.uint64]) -> NDArray[np.void]:
        """The records as a log has them; ids: of names, by number."""
        found = np.zeros(len(self), module.record)
        found["rank"], found["id"] = self.rank, ids[self.name]
        for at, name in enumerate(module.counters):
            found["counters"][:, at] = self.values.get(name.replace("_AGG_", "_"), UNSEEN)
        for at, name in enumerate(module.fcounters):
            found["fcounters"][:, at] = self.values.get(f"F_{name}", 0.0)
        return found


class ModuleSums:
    """The sums of a recording, by rank and name."""

    def __init__(self, part: RecordPart, change: Change, counters: tuple[str, ...] = ()) -> None:
        """change: gives sums the rank in place of the process, the number of the name in place of that of the file;
        counters: of RecordPart.counts, by number."""
        self._sums = {name: getattr(part, name).rekeyed(change) for name in _SUMS}
        self._longest = change(dict(zip(_LONGEST, part.size_of_longest.columns(), strict=True)))
        self._counters = counters
        self._targets = GroupedSums(("process", "file"), {"calls": "sum"})

    def add_rename_targets(self, rank: Ints, name: Ints, calls: Ints) -> None:
        """Adds calls that gave another file this name; such names have a record, too."""
        keys = {"process": rank, "file": name}
        self._targets.add(keys | {"calls": calls})
        self._sums["calls"].add(keys | {"kind": np.full(len(rank), Call.RENAME, np.int64)})

    def records(self, kind: str, start: int, ranks: int) -> Keyed:
        """The records with calls of a module.

        kind: POSIX, or STDIO for C streams; start: of the run, ns since the epoch; ranks: of the job.
        """
        single = self._keyed(kind, start)
        used = np.bincount(single.name[single.called], minlength=1)
        if ranks < 2 or not (used == ranks).any():
            return single
        names = np.flatnonzero(used == ranks)
        streams = kind == "STDIO"

        def change(columns: Columns) -> Columns:
            hit = np.isin(columns["file"], names)
            if "kind" in columns:
                hit &= (columns["kind"] >= FIRST_STREAM_CALL) == streams
            return columns | {"process": np.where(hit, SHARED_RANK, columns["process"])}

        whole = ModuleSums.__new__(ModuleSums)
        whole._sums = {name: sums.rekeyed(change) for name, sums in self._sums.items()}
        whole._longest, whole._counters = change(self._longest), self._counters
        whole._targets = self._targets.rekeyed(change)
        found = whole._keyed(kind, start)
        _compare(single, found)
        return found

    def _keyed(self, kind: str, start: int) -> Keyed:
        records = Records(self._sums, by_process=True)
        found = module_counters(kind, records, start)
        values = {name.removeprefix(f"{kind}_"): value for name, value in found.columns.items()}
        values |= {name: np.zeros(len(records), np.int64) for name in _OF_RANKS}
        values |= {name: np.zeros(len(records)) for name in _SECONDS_OF_RANKS}
        keep = ~found.unused
        if kind == "POSIX":
            values |= self._of_places(records)
            keep |= values["RENAME_TARGETS"] > 0
        keyed = Keyed(records.keys[:, 0], records.keys[:, 1], values, found.time, ~found.unused)
        return keyed.only(keep)

    def _of_places(self, records: Records) -> dict[str, Ints]:
        """Counters of POSIX and the modules above it that pyio-trace counters does not have."""
        found = {}
        for number, name in enumerate(self._counters):
            counts = self._sums["counts"].columns()
            found[name] = _placed(records, counts, counts["calls"] * (counts["counter"] == number))
        aligned, targets = self._sums["aligned"].columns(), self._targets.columns()
        found["FILE_NOT_ALIGNED"] = _placed(records, aligned, aligned["calls"])
        found["FILE_ALIGNMENT"] = np.full(len(records), FILE_ALIGNMENT, np.int64)
        found["RENAME_TARGETS"] = _placed(records, targets, targets["calls"])
        rows = self._longest
        order = np.lexsort((rows["begin"], -rows["ns"]))
        for name, kind in (("READ", Call.READ), ("WRITE", Call.WRITE)):
            chosen = order[rows["kind"][order] == kind][::-1]  # the longest one last, so that it stays
            at = records.numbers(rows["process"][chosen], rows["file"][chosen])
            size = np.zeros(len(records), np.int64)
            size[at[at >= 0]] = rows["bytes"][chosen][at >= 0]
            found[f"MAX_{name}_TIME_SIZE"] = size
        return found


def _placed(records: Records, columns: Columns, values: Ints) -> Ints:
    """Values added up by record."""
    found = np.zeros(len(records), np.int64)
    at = records.numbers(columns["process"], columns["file"])
    np.add.at(found, at[at >= 0], values[at >= 0])
    return found


def _compare(single: Keyed, found: Keyed) -> None:
    """Sets the fastest and the slowest rank and the variance in the records of all ranks."""
    shared = np.flatnonzero(found.rank == SHARED_RANK)
    rows = np.flatnonzero(np.isin(single.name, found.name[shared]))
    name, rank, time = single.name[rows], single.rank[rows], single.time[rows]
    moved = (single.values["BYTES_READ"] + single.values["BYTES_WRITTEN"])[rows]
    for which, sign in (("FASTEST", 1), ("SLOWEST", -1)):
        order = np.lexsort((rank, sign * time, name))
        first = order[runs.starts(name[order])]
        found.values[f"{which}_RANK"][shared] = rank[first]
        found.values[f"{which}_RANK_BYTES"][shared] = moved[first]
        found.values[f"F_{which}_RANK_TIME"][shared] = time[first] / _NS
    number = np.searchsorted(found.name[shared], name)
    for what, values in (("TIME", time / _NS), ("BYTES", moved.astype(np.float64))):
        count = np.bincount(number)
        mean = np.bincount(number, values) / count
        found.values[f"F_VARIANCE_RANK_{what}"][shared] = np.bincount(number, (values - mean[number]) ** 2) / count
