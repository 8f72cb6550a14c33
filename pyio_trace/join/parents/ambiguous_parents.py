"""The details of rows whose parent is one of several spans: they list those spans.

`{"candidate_parents": [ids]}` is appended to whatever else the row's detail
says.  All texts of a log must be known before its first batch goes out, so a
log that may have such rows is read once more for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.arrow_arrays import of_texts
from pyio_trace.join.parents.parent_finder import AmbiguousParents

if TYPE_CHECKING:
    import pyarrow as pa

#: Occurs in such details only.
KEY = '"candidate_parents": ['
_IDS = re.compile(r'"candidate_parents": \[([0-9, ]+)\]((?:, "not_listed": [0-9]+)?}$)')


def texts(found: AmbiguousParents, details: pa.DictionaryArray) -> pa.DictionaryArray:
    """The details of these rows; details: what they say otherwise, JSON objects or null."""
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


def with_shifted_ids(text: str, shift: int) -> str:
    """A detail whose ids are increased by `shift`, as all ids of its log are in a merged one."""
    if KEY not in text:
        return text

    def shifted(found: re.Match[str]) -> str:
        ids = ", ".join(str(int(identity) + shift) for identity in found[1].split(","))
        return f"{KEY}{ids}]{found[2]}"

    return _IDS.sub(shifted, text)


class AmbiguousDetails:
    """The details of all such rows of a log.  values: the distinct ones, which follow `first` others in the dictionary
    of the detail column."""

    def __init__(self, parts: Iterable[tuple[NDArray[np.int64], pa.DictionaryArray] | None], first: int) -> None:
        """parts: (ids, ascending, their details) by block; None: a block has no such rows."""
        import pyarrow as pa

        found = [part for part in parts if part is not None]
        self.values: pa.Array = of_texts([])
        self._ids = np.concatenate([np.empty(0, np.int64), *(ids for ids, _ in found)])
        self._index = np.empty(0, np.int32)
        if not found:
            return
        encoded = pa.chunked_array([text for _, text in found]).unify_dictionaries()
        self.values = encoded.chunk(0).dictionary
        indexes = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
        self._index = (np.concatenate(indexes) + first).astype(np.int32)

    def put(self, ids: NDArray[np.int64], index: NDArray[np.int32]) -> NDArray[np.int32]:
        """Writes the dictionary indexes of such rows into index, which belongs to ids (ascending); returns it."""
        low, high = np.searchsorted(self._ids, ids[[0, -1]]) if len(ids) else (0, 0)
        high = min(int(high) + 1, len(self._ids))
        if low < high:
            at = np.minimum(np.searchsorted(ids, self._ids[low:high]), len(ids) - 1)
            present = ids[at] == self._ids[low:high]
            index[at[present]] = self._index[low:high][present]
        return index
