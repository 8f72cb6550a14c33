"""A part of the run as the page reads it, in the page itself or from the server."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from pyio_trace.page.columns import column, zigzag
from pyio_trace.page.timeline import Timeline, flows_of, timeline_of

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log
    from pyio_trace.page.levels import Part


def timeline_of_part(part: Part, start: int, log: Log) -> Timeline:
    """The timeline of its rows, with their ids, by which the page knows them again in another part, and its bins;
    start: of the run, ns since the epoch."""
    timeline = timeline_of(part.rows, part.lanes, start, flows_of(part.rows, part.lanes, log))
    timeline.columns["id"] = column(zigzag(np.diff(part.rows.values["id"], prepend=0)))
    for name, values in part.bins._asdict().items():
        timeline.columns[f"bin-{name}"] = column(values.round().astype(np.int64).reshape(-1))
    timeline.about["bins"] = {
        "first": part.grid.first, "last": part.grid.last, "count": part.grid.bins, "strands": [*part.strands],
    }  # fmt: skip
    return timeline


def packed(part: Part, start: int, log: Log) -> bytes:
    """The length of a head as 4 bytes, the head as JSON, which says where each column and text is, and these."""
    timeline = timeline_of_part(part, start, log)
    data: list[bytes] = []
    places: dict[str, Any] = {"columns": {}, "texts": {}}
    at = 0
    for name, one in timeline.columns.items():
        places["columns"][name] = {"width": one.width, "masked": one.masked, "at": at, "size": len(one.data)}
        data.append(one.data)
        at += len(one.data)
    for name, text in timeline.texts.items():
        places["texts"][name] = {"at": at, "size": len(text)}
        data.append(text)
        at += len(text)
    head = json.dumps({**timeline.about, **places}, separators=(",", ":"), allow_nan=False).encode()
    return b"".join([struct.pack("<I", len(head)), head, *data])
