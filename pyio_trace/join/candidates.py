"""The details of rows whose parent is one of several spans: which ones.

`{"candidate_parents": [ids]}`, after whatever else the row's detail says.  The
texts of a log have to be known before its first batch goes out, so where there
can be any, the rows are gone through once more for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.links import Unsure

#: What such a detail has in it.
KEY = '"candidate_parents": ['
_IDS = re.compile(r'"candidate_parents": \[([0-9, ]+)\]((?:, "not_listed": [0-9]+)?}$)')


def texts(found: Unsure, details: pa.DictionaryArray) -> pa.DictionaryArray:
    """The details of these rows; details: what they have beside that, JSON objects or null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = pc.cast(pa.array(found.ids), pa.string())
    lists = pc.binary_join(pa.ListArray.from_arrays(pa.array(found.starts.astype(np.int32)), ids), ", ")
    missing = found.open - np.diff(found.starts)
    rest = pc.binary_join_element_wise(', "not_listed": ', pc.cast(pa.array(missing), pa.string()), "")
    rest = pc.if_else(pa.array(missing > 0), rest, "")
    before = pc.utf8_slice_codeunits(details.cast(pa.string()), 0, -1)  # without its closing brace
    before = pc.coalesce(pc.binary_join_element_wise(before, ", ", ""), pa.scalar("{"))
    return pc.binary_join_element_wise(before, KEY, lists, "]", rest, "}", "").dictionary_encode()


def moved(text: str, apart: int) -> str:
    """A detail with the ids in it moved, as those of its log are among others."""
    if KEY not in text:
        return text

    def move(found: re.Match[str]) -> str:
        ids = ", ".join(str(int(identity) + apart) for identity in found[1].split(","))
        return f"{KEY}{ids}]{found[2]}"

    return _IDS.sub(move, text)


class Candidates:
    """The details of all such rows of a log: values, the distinct ones; they stand after `first` others."""

    def __init__(self, parts: Iterable[tuple[NDArray[np.int64], pa.DictionaryArray] | None], first: int) -> None:
        """parts: ids, ascending, and details, in their order."""
        import pyarrow as pa

        found = [part for part in parts if part is not None]
        nothing = pa.array([], pa.string()).dictionary_encode()
        encoded = pa.chunked_array([text for _, text in found] or [nothing]).unify_dictionaries()
        self.values: pa.Array = encoded.chunk(0).dictionary
        self._ids = np.concatenate([np.empty(0, np.int64), *(ids for ids, _ in found)])
        indexes = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
        self._index = (np.concatenate(indexes) + first).astype(np.int32)

    def put(self, ids: NDArray[np.int64], index: NDArray[np.int32]) -> NDArray[np.int32]:
        """The indexes of these rows (ids ascending) with those of such rows among them."""
        low, high = np.searchsorted(self._ids, ids[[0, -1]]) if len(ids) else (0, 0)
        high = min(int(high) + 1, len(self._ids))
        if low < high:
            at = np.minimum(np.searchsorted(ids, self._ids[low:high]), len(ids) - 1)
            mine = ids[at] == self._ids[low:high]
            index[at[mine]] = self._index[low:high][mine]
        return index
