"""Removes unused values from the dictionary columns of a table.

Every batch of a log has the same dictionaries, so that indices can be counted
across batches.  A table returned to the user, or a selection of rows, has only
the values that occur in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pyio_trace.join.base.arrow_arrays import codes, of_numbers

if TYPE_CHECKING:
    import pyarrow as pa


def only_used(table: pa.Table) -> pa.Table:
    """The table with only the values that occur in its dictionary columns, in their former order.

    All chunks of a column must have the same dictionary.
    """
    import pyarrow as pa

    columns = [
        pa.chunked_array(_only_used(column.chunks), column.type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def only_used_of_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, with only the values that occur in its dictionaries."""
    import pyarrow as pa

    columns = [_only_used([column])[0] if pa.types.is_dictionary(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _only_used(chunks: Sequence[pa.DictionaryArray]) -> list[pa.DictionaryArray]:
    import pyarrow as pa

    if not chunks:
        return []
    dictionary = chunks[0].dictionary
    parts = [codes(chunk) for chunk in chunks]
    used = np.zeros(len(dictionary) + 1, np.bool_)  # the last: null
    for part in parts:
        used[part] = True
    used[-1] = False
    occurring = np.flatnonzero(used)
    if len(occurring) == len(dictionary):
        return list(chunks)
    values = dictionary.take(of_numbers(occurring))
    place = np.full(len(used), -1, np.int32)
    place[occurring] = np.arange(len(occurring), dtype=np.int32)
    indices = (place.take(part, mode="wrap") for part in parts)
    return [pa.DictionaryArray.from_arrays(of_numbers(index, index < 0), values, safe=False) for index in indices]
