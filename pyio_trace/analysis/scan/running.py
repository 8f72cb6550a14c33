"""What a reducer is, and several of them at work on the batches of a log; see pyio_trace/analysis/reducer.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.facade import Log

Part = TypeVar("Part")
Result_co = TypeVar("Result_co", covariant=True)


class Reducer(Protocol[Part, Result_co]):
    """A view of a log.  Its methods keep no state between calls, so that parts can be made anywhere.  It and its parts
    can be pickled; parts are small: they grow with what they count, not with the rows."""

    #: The columns that partial() reads: of Log.batches(), or of decoding.DERIVED.
    columns: ClassVar[tuple[str, ...]]

    def partial(self, batch: pa.RecordBatch) -> Part:
        """What one batch contributes.  The batch has exactly `columns`; its dictionaries are those of the whole log."""

    def combine(self, part: Part, later: Part) -> Part:
        """Both together; may change and return `part`.  `later` comes from batches further on in the log."""

    def finish(self, part: Part | None, log: Log) -> Result_co:
        """The result, from all batches of the log; None: it has none."""


def columns_of(reducers: Sequence[Reducer[Any, Any]]) -> tuple[str, ...]:
    """The columns that any of them needs."""
    return tuple(dict.fromkeys(name for reducer in reducers for name in reducer.columns))


class Running:
    """The parts of several reducers while batches come."""

    def __init__(self, reducers: Sequence[Reducer[Any, Any]], parts: Sequence[Any] | None = None) -> None:
        """parts: what came before, None of a reducer: nothing."""
        self._reducers = reducers
        self.parts: list[Any] = [None] * len(reducers) if parts is None else list(parts)

    def add(self, batch: pa.RecordBatch, lanes: Sequence[Callable[..., None]]) -> None:
        """Adds a batch; lanes: run the combining, of each reducer in order."""
        if not batch.num_rows:
            return
        for number, reducer in enumerate(self._reducers):
            part = reducer.partial(batch.select(reducer.columns))
            lanes[number % len(lanes)](self._combine, number, part)

    def _combine(self, number: int, part: Any) -> None:
        before = self.parts[number]
        self.parts[number] = part if before is None else self._reducers[number].combine(before, part)
