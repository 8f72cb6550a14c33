"""The operations as the page's timeline reads them: columns, and the texts that these have indexes into.

Each column is written as differences that are small and alike: times in their
thread, offsets from where the thread's last transfer in the file ended, bytes
moved from those requested, parents as rows back.  web/src/data.ts undoes it, and
so does tests/page/decode.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.arrow_arrays import texts_at
from pyio_trace.light_dataclass import dataclass
from pyio_trace.page.columns import Column, column, packed_text, zigzag
from pyio_trace.page.rows import KIND, Lane, Rows
from pyio_trace.page.shown import shown
from pyio_trace.timeline.flows import flows

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]

#: Bytes of the texts of one dictionary, before they are deflated.  The rarest are left out.
MOST_TEXT = 12 << 20
LEFT_OUT = "(not in this page: there are too many different ones)"
#: A detail that says nothing but how far a row extends, which is a column of its own.
_ONLY_A_SPAN = re.compile(r'\{"span_ns": \d+\}')


@dataclass(frozen=True)
class Timeline:
    """about: what the page needs to know before it reads the columns; columns, texts: by name, texts as deflated
    JSON; left_out: dictionary -> how many of its texts are left out; orphans: rows whose parent is not in the page."""

    about: dict[str, Any]
    columns: dict[str, Column]
    texts: dict[str, bytes]
    left_out: dict[str, int]
    orphans: int

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(len(one.data) for one in self.columns.values()) + sum(map(len, self.texts.values()))


def timeline_of(rows: Rows, lanes: Sequence[Lane], start: int, flow: tuple[Ints, Ints] | None = None) -> Timeline:
    """start: of the run, ns since the epoch; lanes: those of the rows, in their order, and others without any; flow:
    rows from which work went to others, and these; see flows_of()."""
    values, there = rows.values, rows.there
    first = np.zeros(len(rows), np.bool_)
    counts = [lane.rows for lane in lanes]
    first[[at for at, count in zip(np.cumsum([0, *counts])[:-1].tolist(), counts, strict=True) if count]] = True
    base = int(values["time"].min()) if len(rows) else start
    # Differences of any two int64 fit into uint64, where they wrap to what they are.
    time = values["time"].view(np.uint64) - np.uint64(base % (1 << 64))
    steps = np.diff(time, prepend=np.uint64(0))
    parent, parents_there = _parents(rows)
    lane = np.repeat(np.arange(len(lanes)), counts)
    columns = {
        "time": column(np.where(first, time, steps)),
        "duration": column(zigzag(values["duration"]), there["duration"]),
        "extent": column(rows.extent),
        "depth": column(values["depth"]),
        "parent": column(zigzag(parent), parents_there),
        "calls": column(zigzag(values["calls"])),
        "errno": column(zigzag(values["errno"])),
        "fd": column(zigzag(values["fd"]), there["fd"]),
        "offset": column(zigzag(_offsets(rows, lane)), there["file_offset"]),
        "requested": column(zigzag(values["bytes_requested"]), there["bytes_requested"]),
        "moved": column(zigzag(values["bytes_requested"] - values["bytes_moved"]), there["bytes_moved"]),
        "cpu": column(zigzag(values["cpu_time"]), there["cpu_time"]),
        "submitted": column(values["submitted"]),
    }
    if flow is not None and len(flow[0]):
        columns["flow-from"], columns["flow-to"] = map(column, flow)
    texts, left_out = {}, {}
    kinds, columns["kind"] = _kinds(rows)
    texts["kind"] = packed_text(json.dumps(kinds))
    for name in ("link", "path", "command", "detail"):
        found, columns[name], left_out[name] = _texts(values[name], rows.texts[name], name)
        texts[name] = packed_text(json.dumps(found))
    frames = _Frames()
    for name in ("site", "call_stack"):
        found, columns[name], left_out[name] = _texts(values[name], rows.texts[name], name)
        nodes = [frames.node([one] if name == "site" else one.split(";")) for one in found]
        texts[name] = packed_text(json.dumps(nodes))
    texts["frames"] = packed_text(json.dumps([*map(shown, frames.frames)]))
    texts["nodes"] = packed_text(json.dumps(frames.nodes))
    about = {
        "rows": len(rows),
        "flows": 0 if flow is None else len(flow[0]),
        "base": base - start,
        "lanes": [shown_lane(lane) for lane in lanes],
    }
    orphans = int((there["parent"] & ~parents_there).sum())
    return Timeline(about, columns, texts, {name: count for name, count in left_out.items() if count}, orphans)


def flows_of(rows: Rows, lanes: Sequence[Lane], log: Log) -> tuple[Ints, Ints]:
    """(rows, rows) between which work was handed over: from a span to what another thread or process did for it, from
    the fetch of a batch to the wait for it.  As an export has them (pyio_trace/timeline)."""
    values = rows.values
    lane = np.repeat(np.arange(len(lanes)), [one.rows for one in lanes])
    roles = [role.as_py() == "container" for role in rows.texts["op_role"]]
    container = np.array([*roles, False], np.int8)[values["op_role"]]
    found = {name: values[name].astype(np.int64) for name in ("id", "parent", "time", "op", "detail", "process")}
    return flows({**found, "container": container}, lane, log)


def shown_lane(lane: Lane) -> list[Any]:
    """As the page reads it."""
    return [*lane[:-1], shown(lane.name)]


def _parents(rows: Rows) -> tuple[Ints, NDArray[np.bool_]]:
    """(rows back to the parent, where it is in the page)."""
    ids, there = rows.values["id"], rows.there["parent"]
    order = np.argsort(ids, kind="stable")
    at = np.minimum(np.searchsorted(ids, rows.values["parent"], sorter=order), max(len(ids) - 1, 0))
    row = order[at] if len(ids) else at
    found = there & (ids[row] == rows.values["parent"]) if len(ids) else there
    return np.where(found, np.arange(len(ids)) - row, 0), found


def _offsets(rows: Rows, lane: Ints) -> Ints:
    """Offsets from the end of the last transfer in the same file by the same thread."""
    values, there = rows.values, rows.there["file_offset"]
    at = np.flatnonzero(there)
    at = at[np.lexsort((at, values["path"][at], lane[at]))]
    moved = np.where(rows.there["bytes_moved"], values["bytes_moved"], 0)
    ends = values["file_offset"] + moved
    same = (np.diff(values["path"][at]) == 0) & (np.diff(lane[at]) == 0)
    before = np.zeros(len(rows), np.int64)
    before[at[1:]] = np.where(same, ends[at[:-1]], 0)
    return values["file_offset"] - before


def _kinds(rows: Rows) -> tuple[list[list[str]], Column]:
    """(layer, op, class and role of each kind of operation, the most frequent first; the column)."""
    kind = np.zeros(len(rows), np.int64)
    for name in KIND:
        kind = kind * (len(rows.texts[name]) + 1) + rows.values[name] + 1
    used, which, counts = np.unique(kind, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    place = np.empty(len(used), np.int64)
    place[order] = np.arange(len(used))
    found = []
    for one in used[order].tolist():
        words = []
        for name in reversed(KIND):
            one, code = divmod(one, len(rows.texts[name]) + 1)
            words.append(shown(rows.texts[name][code - 1].as_py() or "") if code else "")
        found.append(words[::-1])
    return found, column(place[which])


def _texts(codes: Ints, dictionary: pa.Array, name: str) -> tuple[list[str], Column, int]:
    """(the texts in use, the most frequent first; the column: 0: none, else one more than the place; how many are left
    out).  What is left out has a place after the last, whose text says so."""
    used, which, counts = np.unique(codes, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    order = order[used[order] >= 0]
    texts = [text or "" for text in texts_at(dictionary, used[order])]
    if name == "detail":
        texts = ["" if _ONLY_A_SPAN.fullmatch(text) else text for text in texts]
    if name not in ("site", "call_stack"):
        texts = [shown(text) for text in texts]
    ends = np.cumsum([len(text) for text in texts])
    most = int(np.searchsorted(ends, MOST_TEXT, "right"))
    place = np.zeros(len(used), np.int64)
    place[order] = np.minimum(np.arange(len(order)), most) + 1
    left_out = len(texts) - most
    return [*texts[:most], *([LEFT_OUT] if left_out else [])], column(place[which]), left_out


class _Frames:
    """Frames of Python, each once, and stacks as a tree: a node is a frame and the node of its caller."""

    def __init__(self) -> None:
        self._frames: dict[str, int] = {}
        self._nodes: dict[tuple[int, int], int] = {}

    def node(self, frames: Iterable[str]) -> int:
        """The node of the innermost of these frames, outermost first."""
        node = -1
        for text in frames:
            frame = self._frames.setdefault(text, len(self._frames))
            node = self._nodes.setdefault((frame, node), len(self._nodes))
        return node

    @property
    def frames(self) -> list[str]:
        return [*self._frames]

    @property
    def nodes(self) -> list[int]:
        """Frame and caller of each node in turn; -1: it has none."""
        return [number for pair in self._nodes for number in pair]
