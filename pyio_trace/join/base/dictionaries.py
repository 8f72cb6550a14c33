"""Makes one dictionary of a column, in which no string is twice.

Each row group of a Parquet log, and each log of a folder, has its own
dictionary.  Readers are promised the same dictionary in every batch.  pandas
rejects one that has a string twice, which older packed logs may have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.arrow_arrays import coded, codes

if TYPE_CHECKING:
    import pyarrow as pa

#: Of so few strings, the distinct ones are found without pyarrow.compute, which takes longer to import.
_FEW = 1 << 14


def without_repeats(values: pa.Array) -> tuple[pa.Array, NDArray[np.int32] | None]:
    """(the distinct strings in their order, the place of each string there; None if all are distinct)."""
    few = len(values) <= _FEW
    encoded = coded(values.to_pylist()) if few else values.dictionary_encode()
    if len(encoded.dictionary) == len(values):
        return values, None
    return encoded.dictionary, codes(encoded).astype(np.int32)


class UnifiedDictionary:
    """values: the distinct strings of all parts, those of the first part first."""

    def __init__(self, parts: Sequence[pa.Array]) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        distinct: list[pa.Array] = []
        for part in parts:
            if not any(part.equals(other) for other in distinct[:2]):
                distinct.append(part)
        whole = distinct[0] if len(distinct) == 1 else pc.unique(pa.chunked_array(distinct, pa.string()))
        self.values: pa.Array = without_repeats(whole)[0]

    def adopt(self, array: pa.DictionaryArray) -> pa.DictionaryArray:
        """The same strings as indices into values.  Raises pa.ArrowException for indices out of range, and for strings
        that are not among the values."""
        import pyarrow as pa
        import pyarrow.compute as pc

        own = array.dictionary
        indices = array.indices.cast(pa.int32())
        if not own.equals(self.values.slice(0, len(own))):
            places = pc.index_in(own, value_set=self.values)
            if places.null_count > own.null_count:
                raise pa.ArrowInvalid("a string that no part has")
            indices = pc.take(places, indices)
        return pa.DictionaryArray.from_arrays(indices, self.values)
