"""The column in_import of a packed log that was written without it, worked out from the texts of its stacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace import events
from pyio_trace.join.base.arrow_arrays import codes, of_numbers
from pyio_trace.join.processes.started_packages import own_code_of
from pyio_trace.join.references.call_stacks import is_in_import

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.source import Source

COLUMN = "in_import"


class EarlierImports:
    """Adds the column to the batches of a source."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def batches(self, columns: Sequence[str], rows: int, within: tuple[int, int] | None) -> Iterator[pa.RecordBatch]:
        """As Source.batches(), of which the source itself must be able to give all columns but COLUMN."""
        import pyarrow as pa

        schema = events.arrow_schema(columns)
        stored = list(dict.fromkeys("call_stack" if name == COLUMN else name for name in columns))
        for batch in self._source.batches(stored, rows, within):
            made = of_numbers(self._by_stack.take(codes(batch.column("call_stack"))))
            arrays = [made if name == COLUMN else batch.column(name) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    @cached_property
    def _by_stack(self) -> NDArray[np.bool_]:
        """By index of the stack, the last for none."""
        stacks = self._source.values("call_stack").to_pylist()
        own = own_code_of(self._source.processes())
        return np.array([*(is_in_import(stack, own) for stack in stacks), False])
