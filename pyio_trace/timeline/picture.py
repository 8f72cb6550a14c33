"""From a log to a file that shows its operations in time: what the formats of such files share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.light_dataclass import dataclass
from pyio_trace.timeline.choice import Chosen, Rows, choose
from pyio_trace.timeline.counters import Counters
from pyio_trace.timeline.flows import flows
from pyio_trace.timeline.limited import Limited, write_limited
from pyio_trace.timeline.slices import Slices, joined, of_operations, of_sums, spread
from pyio_trace.timeline.torch_trace import Trace, read
from pyio_trace.timeline.tracks import LEFT_OUT, Tracks
from pyio_trace.units import counted, seconds, size

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
Progress = Callable[[int], None] | None

#: Bytes of an event of another trace in a file, at least.
_OF_EVENT = 150
#: What losses() says of operations that are not in the log.
_LOSSES = ("operations_counted_only", "torn")


@dataclass
class Timeline:
    """A picture.  source, target: slices of each flow; base: the earliest moment, ns since the epoch; rows: of
    choice.Chosen, those of the first slices."""

    tracks: Tracks
    slices: Slices
    source: Ints
    target: Ints
    counters: Counters
    base: int
    rows: Rows


class Drawing:
    """The picture of a log, in a file of limited size."""

    def __init__(
        self, log: Log, most: int, row_bytes: int, imports: bool, progress: Progress, merged: str | None = None
    ) -> None:
        """most: bytes of the file; row_bytes: of a slice in it, about; imports: also what imports did; merged: the
        file of a trace of torch.profiler.  Raises ConfigError bad-trace, and what reading the log raises."""
        self._log, self._most, self._merged = log, most, merged
        self._trace = Trace() if merged is None else read(merged, most // 2 // _OF_EVENT)
        self._chosen = choose(log, most // row_bytes, imports, progress)
        self._rows, self._events = len(self._chosen), len(self._trace)
        self.shown: Timeline | None = None

    def write(self, path: str, write: Callable[[Limited, Timeline], None]) -> int:
        """Writes the new file `path` with a function for its format; returns its size.  Raises OSError, ConfigError
        bad-size."""

        def attempt(file: Limited, rows: int) -> None:
            events = self._events * rows // max(self._rows + self._events, 1)
            self._trace.keep(events)
            self._chosen = self._chosen.narrowed(rows - events)
            self.shown = None  # not two of them in memory
            self.shown = self._timeline(self._chosen)
            write(file, self.shown)

        return write_limited(path, self._most, self._rows + self._events, attempt)

    def _timeline(self, chosen: Chosen) -> Timeline:
        log, rows, tracks = self._log, chosen.rows, Tracks(self._log)
        shown = of_operations(rows, log)
        shown.track = tracks.of_threads(rows["process"].astype(np.int64), rows["tid"].astype(np.int64))
        flow = [flows(rows, shown.track, log)]
        sums = of_sums(chosen, log)
        sums.track = tracks.of_threads(sums.track, np.full(len(sums), LEFT_OUT))
        others = self._trace.slices(tracks)
        source, target = self._trace.flows()
        flow.append((source + len(shown) + len(sums), target + len(shown) + len(sums)))
        whole = joined([shown, sums, others])
        spread(whole, tracks)
        counters = [one for one in chosen.counters if 0 <= one.process < len(tracks.own_pids)]
        begins = [int(whole.begin.min())] if len(whole) else []
        base = min([*begins, *(int(one.time[0]) for one in counters)], default=int(log.info()["start"]))
        source, target = (np.concatenate(ends) for ends in zip(*flow, strict=True))
        return Timeline(tracks, whole, source, target, counters, base, rows)

    # ---- what to say

    def said(self, path: str, written: int, opened: str) -> list[str]:
        """What to tell the user.  opened: how to open the file."""
        assert self.shown is not None
        used = len(np.unique(self.shown.slices.track))
        what = f"{counted(len(self.shown.slices), 'slice')} on {counted(used, 'track')}, {size(written)}"
        return [f"{path}: {what}", *told(self._log, self._chosen), *self._of_trace(), f"open it {opened}"]

    def _of_trace(self) -> list[str]:
        trace = self._trace
        if self._merged is None:
            return []
        lines = [f"{counted(len(trace), 'event')} of {self._merged}"]
        if trace.left_out:
            lines.append(
                f"left out of it: the shortest {counted(trace.left_out, 'event')}, {seconds(trace.left_out_ns)}"
            )
        if trace.others:
            kinds = ", ".join(sorted(trace.others))
            lines.append(f"not drawn of it: {counted(sum(trace.others.values()), 'event')} of kind {kinds}")
        info = self._log.info()
        if len(trace) and info["end"] is not None and not _meet(trace, int(info["start"]), int(info["end"])):
            lines.append("it does not overlap with the log in time: it may be of another run")
        return lines


def told(log: Log, chosen: Chosen) -> list[str]:
    """What a user has to know of the operations that are shown."""
    rows, sums = chosen.rows, chosen.rest.columns()
    lines = []
    if len(sums["rows"]):
        total = {name: int(values.sum()) for name, values in sums.items()}
        amounts = (
            f"{counted(total['calls'], 'call')}, {seconds(total['time'])}, {size(total['read'] + total['written'])}"
        )
        what = counted(total["rows"], "shortest operation")
        lines.append(f"{what} summed by line: {amounts}")
    several = rows["calls"] > 1
    if several.any():
        calls = counted(int(rows["calls"][several].sum()), "call")
        what = counted(int(several.sum()), "interval stands", "intervals stand")
        lines.append(f"{what} for {calls}: from the first begin to the last end")
    if flying := int(rows["in_flight"].sum()):
        lines.append(f"{counted(flying, 'call')} did not return: drawn until the process ended")
    return lines + without(log, chosen.imports, bool((rows["call_stack"] >= 0).any()), len(chosen))


def without(log: Log, imports: int, stacks: bool, rows: int) -> list[str]:
    """What the picture lacks.  imports: calls left out; stacks: whether there are call stacks; rows: shown."""
    info: dict[str, Any] = log.info()
    lines = []
    if imports:
        lines.append(f"{counted(imports, 'call')} of Python's imports left out; --imports shows them")
    if rows and not stacks:
        tool = info.get("tool")
        lines.append(f"the log{f' of {tool}' if tool else ''} has no call stacks and no lines of Python")
    if any(name in log.losses() for name in _LOSSES) or info["ring_since"] is not None:
        lines.append("the log is not complete: pyio-trace summary says what it lacks")
    return lines


def _meet(trace: Trace, start: int, end: int) -> bool:
    ends = (begin + length for begin, length in zip(trace.begins, trace.lengths, strict=True))
    return min(trace.begins) <= end and max(ends) >= start
