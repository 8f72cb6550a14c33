"""Sums by kind of container: Dask's and Ray's tasks by name, fetches of DataLoaders, spans that the program names.

Result: Spans, whose rows are SpanGroup.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, ClassVar

from pyio_trace.analysis.calls.code_texts import texts
from pyio_trace.analysis.calls.details import parsed, text
from pyio_trace.analysis.view_sums.key_sums import TOP
from pyio_trace.analysis.view_sums.span_sums import COLUMNS, SpanSums, is_of_program
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log.sorting import distinct

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.analysis.view_sums.span_sums import Ints
    from pyio_trace.join.sources.facade import Log

_NONE = "(in none)"


@dataclass(frozen=True)
class SpanGroup:
    """Containers of one operation and name.

    op: task, ray.task, DataLoader.fetch, or span for those that the program
    names.  count: containers; processes: in which they ran.  time_ns: their
    durations, longest_ns: of the longest.  cpu_ns: processor time of their threads, of
    the measured ones (measured: how many).  calls, io_ns, sync_ns, lock_ns,
    read_bytes, written_bytes: of POSIX and C streams in them, if no other container is closer;
    requests, request_ns: of outermost requests there.
    """

    SHOWN: ClassVar[tuple[str, ...]] = ("op", "count", "time_ns", "io_ns", "request_ns", "read_bytes", "written_bytes")

    name: str
    op: str
    count: int
    processes: int
    time_ns: int
    longest_ns: int
    cpu_ns: int
    measured: int
    calls: int
    io_ns: int
    sync_ns: int
    lock_ns: int
    requests: int
    request_ns: int
    read_bytes: int
    written_bytes: int


@dataclass(frozen=True)
class Spans:
    """rows: most time first; the last is of the I/O that is in none.  more: further ones, with less time; dropped:
    containers and sums that did not fit into memory (0: all figures are exact)."""

    rows: list[SpanGroup]
    more: int
    dropped: int


class BySpan:
    """The reducer."""

    columns: ClassVar[tuple[str, ...]] = COLUMNS

    def __init__(self, top: int = TOP) -> None:
        """top: rows of the result."""
        self.top = top

    def partial(self, batch: pa.RecordBatch) -> SpanSums:
        part = SpanSums()
        part.add(batch)
        return part

    def combine(self, part: SpanSums, later: SpanSums) -> SpanSums:
        part.update(later)
        return part

    def finish(self, part: SpanSums | None, log: Log) -> Spans:
        part = part or SpanSums()
        spans = part.joined()
        groups: dict[tuple[str, str], list[int]] = defaultdict(list)
        for place, key in enumerate(_names(spans, log)):
            groups[key].append(place)
        rows = [_group(*key, {name: values[at] for name, values in spans.items()}) for key, at in groups.items()]
        rows.sort(key=lambda row: (-row.time_ns, row.op, row.name))
        outside = part.outside()
        kept = rows[: self.top]
        if any(outside.values()):
            kept.append(
                SpanGroup(
                    _NONE, "", 0, 0, 0, 0, 0, 0, outside["calls"], outside["io"], outside["sync"], outside["lock"],
                    outside["requests"], outside["request_time"], outside["read"], outside["written"],
                )
            )  # fmt: skip
        return Spans(kept, max(len(rows) - self.top, 0), part.dropped)


def _names(spans: dict[str, Ints], log: Log) -> list[tuple[str, str]]:
    """(operation, name) of each container."""
    ops, details = texts(log, "op", spans["op"]), parsed(log, spans["detail"])
    found = []
    for op, layer, detail in zip(ops, spans["layer"].tolist(), spans["detail"].tolist(), strict=True):
        about = details[detail]
        if is_of_program(layer):
            found.append(("span", op or ""))
        else:
            found.append((op or "", text(about, "prefix") or text(about, "name") or text(about, "loader") or op or ""))
    return found


def _group(op: str, name: str, mine: dict[str, Ints]) -> SpanGroup:
    measured = mine["cpu"] >= 0
    total = {name: int(mine[name].sum()) for name in ("calls", "io", "sync", "lock", "requests", "read", "written")}
    return SpanGroup(
        name=name, op=op, count=int(mine["count"].sum()), processes=len(distinct(mine["process"])),
        time_ns=int(mine["duration"].sum()), longest_ns=int(mine["duration"].max()),
        cpu_ns=int(mine["cpu"][measured].sum()), measured=int(mine["count"][measured].sum()), calls=total["calls"],
        io_ns=total["io"], sync_ns=total["sync"], lock_ns=total["lock"], requests=total["requests"],
        request_ns=int(mine["request_time"].sum()), read_bytes=total["read"], written_bytes=total["written"],
    )  # fmt: skip


REDUCER = BySpan
