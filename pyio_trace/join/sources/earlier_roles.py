"""The columns events.ENCLOSING of a packed log that was written without them.

They are worked out from the columns that it has, as the join does from the
records of a live log.  The name of an instrument's span says what it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace import enums, events
from pyio_trace.enums import Layer, OpClass, Role, SpanKind
from pyio_trace.join.base.arrow_arrays import codes, numbers, of_codes, of_texts
from pyio_trace.join.base.roles import HANDED_OVER, is_shared_memory, role_of
from pyio_trace.join.parents.enclosures import Enclosures
from pyio_trace.join.sources.enclosing_columns import columns_of, enclosures_of, spans_of
from pyio_trace.log.earlier_versions import span_role
from pyio_trace.log.sorting import find

if TYPE_CHECKING:
    import pyarrow as pa

    from pyio_trace.join.sources.source import Source

_NEEDED = ("id", "parent", "process", "layer", "op", "op_class", "path", "bytes_moved")
_WAITING_CALLS = ("system", "pclose")


class EarlierRoles:
    """Adds the columns to the batches of a source."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.words = of_texts(enums.ROLES)

    def batches(self, columns: Sequence[str], rows: int, within: tuple[int, int] | None) -> Iterator[pa.RecordBatch]:
        """As Source.batches(); the source itself must be able to give all columns but events.ENCLOSING."""
        import pyarrow as pa

        wanted = [name for name in columns if name not in events.ENCLOSING]
        stored = list(dict.fromkeys([*wanted, *_NEEDED]))
        schema = events.arrow_schema(columns)
        for batch in self._source.batches(stored, rows, within):
            made = self._columns(batch)
            arrays = [made[name] if name in made else batch.column(name) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _columns(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        ids, role = numbers(batch.column("id")), self._roles(batch)
        waits = np.flatnonzero(role == Role.WAIT)
        role[waits[find(self._enclosures.working, ids[waits])[1]]] = Role.CONTAINER
        return {"op_role": of_codes(role, self.words), **columns_of(self._enclosures, batch, role)}

    @cached_property
    def _by_word(self) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str], NDArray[np.bool_]]:
        """By dictionary index: layer and class, as numbers; the names of operations; which paths are shared memory."""
        layers, classes = (
            np.array([words.index(word) for word in self._source.values(name).to_pylist()], np.int64)
            for name, words in (("layer", enums.LAYERS), ("op_class", enums.CLASSES))
        )
        paths = is_shared_memory(self._source.values("path").to_pylist())
        return layers, classes, self._source.values("op").to_pylist(), np.append(paths, False)

    @cached_property
    def _role_of(self) -> dict[int, int]:
        return {}

    def _roles(self, batch: pa.RecordBatch) -> NDArray[np.uint8]:
        layers, classes, names, shared = self._by_word
        layer, klass = layers[codes(batch.column("layer"))], classes[codes(batch.column("op_class"))]
        key = (codes(batch.column("op")) * len(enums.LAYERS) + layer) * len(enums.CLASSES) + klass
        kinds, place = np.unique(key, return_inverse=True)
        role = np.array([self._role(number, names) for number in kinds.tolist()], np.uint8)[place]
        handed_over = shared[codes(batch.column("path"))] & HANDED_OVER[klass] & (role >= Role.IO)
        return np.where(handed_over, np.uint8(Role.TRANSPORT), role)

    def _role(self, key: int, names: list[str]) -> int:
        if key not in self._role_of:
            rest, klass = divmod(key, len(enums.CLASSES))
            op, layer = divmod(rest, len(enums.LAYERS))
            named = layer == Layer.APP and klass == OpClass.SPAN
            kind = SpanKind.WAIT if names[op] in _WAITING_CALLS else SpanKind.NONE
            self._role_of[key] = span_role(names[op]) if named else role_of(layer, klass, kind, names[op])
        return self._role_of[key]

    @cached_property
    def _enclosures(self) -> Enclosures:
        spans = []
        for batch in self._source.batches(_NEEDED, 1 << 20):
            layers, classes = self._by_word[:2]
            above = np.flatnonzero(layers[codes(batch.column("layer"))] != Layer.POSIX)
            spans.append(spans_of(batch, above, self._roles(batch), classes[codes(batch.column("op_class"))]))
        return enclosures_of(spans)
