"""A selection: some of the operations of another source.

Only the operations are fewer.  The process table, losses, counters and renames
are those of the whole log.  The outermost request and the container of an operation
are looked for among the chosen ones: a POSIX call whose request was not chosen is
in none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pyio_trace import enums, events
from pyio_trace.enums import Role
from pyio_trace.join.base.arrow_arrays import codes, of_numbers, present
from pyio_trace.join.base.identities import Identities
from pyio_trace.join.base.samples import Samples
from pyio_trace.join.base.system import System
from pyio_trace.join.parents.enclosures import Enclosures
from pyio_trace.join.sources.enclosing_columns import columns_of, enclosures_of, spans_of
from pyio_trace.join.sources.source import Source
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Choice:
    """Which operations are chosen.

    columns: those that mask() needs; mask: of the rows of a batch that are
    chosen, or None for all; text: the choice as the user wrote it; processes:
    the indexes of the only processes that can have chosen rows, None: any;
    read: called with the number of rows of each batch that was read; made_from:
    what another process can make the same choice from, where it was made from
    such a thing; sides: which side of a copy was chosen, where that matters.
    """

    columns: Sequence[str]
    mask: Callable[[pa.RecordBatch], NDArray[np.bool_] | None]
    text: str
    processes: Sequence[int] | None = None
    read: Callable[[int], None] | None = None
    made_from: object = None
    sides: Sides | None = None


class Sides(Protocol):
    """Tells whose file is chosen: a copy has two, and is chosen if either of them is."""

    #: The columns that a batch must have.
    columns: Sequence[str]

    def read(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Rows whose file is chosen, of a copy the one that it reads."""

    def written(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Copies that write a chosen file."""


#: The columns that say which spans are around an operation.
_SPANS = ("id", "parent", "process", "op_role", "op_class", "bytes_moved")


class FilteredSource:
    """See pyio_trace.join.sources.source.Source."""

    def __init__(self, source: Source, choice: Choice) -> None:
        self._source, self._choice = source, choice

    def batches(
        self, columns: Sequence[str], rows: int, within: tuple[int, int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        again = not self._made_again.isdisjoint(columns)
        wanted = dict.fromkeys([*columns, *(_SPANS if again else ())])
        schema = events.arrow_schema(columns)
        for batch in self._source.batches(list(dict.fromkeys([*wanted, *self._choice.columns])), rows, within):
            if self._choice.read is not None:
                self._choice.read(batch.num_rows)
            mask = self._choice.mask(batch)
            chosen = batch.select(list(wanted))
            if mask is not None and not mask.all():
                chosen = chosen.take(of_numbers(np.flatnonzero(mask)))
            if chosen.num_rows:
                made = columns_of(self._enclosures, chosen, _roles(chosen)) if again else {}
                arrays = [made[name] if name in made else chosen.column(name) for name in columns]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def divisions(self) -> list[int]:
        return self._source.divisions()

    @cached_property
    def _made_again(self) -> frozenset[str]:
        """The columns that depend on which spans are chosen.  Of a process, all are or none is."""
        return frozenset() if set(self._choice.columns) <= {"process"} else frozenset(events.ENCLOSING) - {"op_role"}

    @cached_property
    def _enclosures(self) -> Enclosures:
        """What the chosen spans enclose.  The others are there as far as they lead from one chosen span to another."""
        spans = []
        for batch in self._source.batches(list(dict.fromkeys([*_SPANS, *self._choice.columns])), 1 << 20):
            role = _roles(batch)
            is_span = (role == Role.REQUEST) | (role == Role.WAIT) | (role == Role.CONTAINER) | (role == Role.STARTING)
            mask = self._choice.mask(batch)
            chosen = np.ones(len(role), np.bool_) if mask is None else mask
            at = np.flatnonzero(is_span & (chosen | present(batch.column("parent"))))
            kept = np.where(chosen, role, np.uint8(Role.NONE))
            spans.append(spans_of(batch, at, kept, _numbers(batch, "op_class", enums.CLASSES)))
        return enclosures_of(spans)

    def rows(self) -> int:
        """Of the whole log: how many are chosen is known only after reading it."""
        return self._source.rows()

    def values(self, column: str) -> pa.Array:
        return self._source.values(column)

    def processes(self) -> list[dict[str, Any]]:
        return self._source.processes()

    def mappings(self) -> list[dict[str, Any]]:
        return self._source.mappings()

    def renames(self) -> list[dict[str, Any]]:
        return self._source.renames()

    def counters(self) -> list[dict[str, Any]]:
        return self._source.counters()

    def samples(self) -> Samples:
        """Those of the chosen processes; nothing else can be chosen among them."""
        found, chosen = self._source.samples(), self._choice.processes
        return found if chosen is None else found.where(np.isin(found["process"], np.array(chosen, np.int64)))

    def system(self) -> System:
        return self._source.system()

    def stripes(self) -> dict[str, str]:
        return self._source.stripes()

    def identities(self) -> Identities:
        return self._source.identities()

    def release(self) -> None:
        self._source.release()

    def attachment(self, name: str) -> str | None:
        return None

    def losses(self) -> dict[str, Any]:
        return self._source.losses()

    def info(self) -> dict[str, Any]:
        """As of the whole log, with "selection" (text) and "selected_processes" (indexes, or None)."""
        chosen = self._choice
        return {**self._source.info(), "selection": chosen.text, "selected_processes": chosen.processes}


def _roles(batch: pa.RecordBatch) -> NDArray[np.uint8]:
    return _numbers(batch, "op_role", enums.ROLES).astype(np.uint8)


def _numbers(batch: pa.RecordBatch, column: str, words: tuple[str, ...]) -> NDArray[np.int64]:
    """By row of a column of words: which of them it has."""
    places = np.array([words.index(word) for word in batch.column(column).dictionary.to_pylist()], np.int64)
    found: NDArray[np.int64] = places.take(codes(batch.column(column)))
    return found
