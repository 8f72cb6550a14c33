"""Speedscope's file (JSON), for speedscope.app: call stacks weighted by time, bytes and calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyio_trace.export import Options
    from pyio_trace.join.sources.facade import Log
    from pyio_trace.timeline.frames import Frame
    from pyio_trace.timeline.limited import Limited

LIMITED = True
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
#: Profile -> unit of speedscope, and what it weighs by.
_PROFILES = {"I/O time": ("nanoseconds", "ns"), "bytes": ("bytes", "bytes"), "calls": ("none", "calls")}
#: Characters of call stacks for each byte of the file, at most.
_LETTERS = 4


def write(log: Log, path: str, options: Options, progress: Callable[[int], None] | None) -> list[str]:
    """Writes sums by call stack; see pyio_trace.export.Format."""
    from pyio_trace.timeline.limited import write_limited
    from pyio_trace.timeline.stack_sums import StackSums

    sums = StackSums(log, options.imports, progress)

    def attempt(file: Limited, rows: int) -> None:
        stacks = list(sums.stacks(rows))
        samples = [one.frames for one in stacks]
        profiles = []
        for name, (unit, weight) in _PROFILES.items():
            weights = [getattr(one, weight) for one in stacks]
            profiles.append({
                "type": "sampled", "name": name, "unit": unit, "startValue": 0, "endValue": sum(weights),
                "samples": samples, "weights": weights,
            })  # fmt: skip
        whole = {
            "$schema": _SCHEMA, "name": log.path.name, "exporter": "pyio_trace", "activeProfileIndex": 0,
            "shared": {"frames": list(map(_frame, sums.frames.frames))}, "profiles": profiles,
        }  # fmt: skip
        file.write(json.dumps(whole, separators=(",", ":")).encode())

    written = write_limited(path, options.max_size, sums.fitting(options.max_size * _LETTERS), attempt)
    return sums.said(path, written, f"by speedscope {path}, or at speedscope.app")


def _frame(frame: Frame) -> dict[str, Any]:
    found: dict[str, Any] = {"name": frame.function}
    if frame.file:
        found |= {"file": frame.file, "line": frame.line}
    return found
