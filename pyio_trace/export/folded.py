"""Folded stacks: lines "frame;frame;frame us", for flamegraph.pl, inferno and speedscope."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyio_trace.export import Options
    from pyio_trace.join.sources.facade import Log
    from pyio_trace.timeline.limited import Limited

LIMITED = True
#: Characters of call stacks for each byte of the file, at most.
_LETTERS = 1


def write(log: Log, path: str, options: Options, progress: Callable[[int], None] | None) -> list[str]:
    """Writes the time of each call stack; see pyio_trace.export.Format."""
    from pyio_trace.report.folded import folded
    from pyio_trace.timeline.limited import write_limited
    from pyio_trace.timeline.stack_sums import StackSums

    sums = StackSums(log, options.imports, progress, operations=False)

    def attempt(file: Limited, rows: int) -> None:
        file.write(folded(sums.table(rows), "time").encode("utf-8", "backslashreplace"))

    written = write_limited(path, options.max_size, sums.fitting(options.max_size * _LETTERS), attempt)
    return sums.said(path, written, f"by flamegraph.pl {path} > run.svg, or speedscope {path}")
