"""The system beside the program: what the sampler saw of the machine, as columns.

A row is one thing in one stretch of time: the machine, a disk, an interface, another
process, or the processes of the run together.  Whatever the log claims, the columns
are bounded: each value, so that sums fit, and the number of rows.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pyio_trace.join.base.arrow_arrays import of_codes, of_numbers, of_texts
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import layout
from pyio_trace.log.sorting import distinct

if TYPE_CHECKING:
    import pyarrow as pa

Ints = NDArray[np.int64]
Columns = dict[str, Ints]

#: What happened in the stretch of time, or how it was at its end; -1: not known, or nothing of the kind.
VALUES = tuple(dict.fromkeys(name for names in layout.SYSTEM_COLUMNS.values() for name in names))
#: The columns, all int64.  kind: index into layout.SYSTEM_KINDS; host, name: index of a text.
NAMES = ("time", "duration", "kind", "host", "name", "pid", "device", *VALUES)
#: Most rows that are kept, the first ones.  A sampler that has written many looks less often, and writes fewer.
MOST = 1 << 20
#: The largest values that are believed: ns since 1970; ns, bytes, calls of a row.
_LATEST, _LARGEST = 1 << 62, 1 << 43
_DICTIONARIES = ("kind", "host", "name")
#: The name of the attachment of a Parquet log, and most bytes of its names.
ATTACHMENT = "system"
_VERSION = 1
_MOST_TEXT = 64 << 20


@dataclass(frozen=True)
class System:
    """columns: by name, in order of time; texts: what the columns host and name stand for."""

    columns: Columns
    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.columns["time"])

    def __getitem__(self, name: str) -> Ints:
        return self.columns[name]

    def of_kind(self, kind: str) -> System:
        """The rows of a kind."""
        return self.where(self["kind"] == layout.SYSTEM_KINDS.index(kind))

    def where(self, mask: NDArray[np.bool_]) -> System:
        """The rows of the mask."""
        return System({name: values[mask] for name, values in self.columns.items()}, self.texts)

    def names(self, column: str) -> list[str]:
        """The texts of a column, by row."""
        words = layout.SYSTEM_KINDS if column == "kind" else self.texts
        return [words[at] for at in self[column].tolist()]

    def table(self) -> pa.Table:
        """The system table; see Log.system()."""
        import pyarrow as pa

        arrays = []
        for field in system_schema():
            values = self[field.name]
            if field.name in _DICTIONARIES:
                used = distinct(values)
                words = layout.SYSTEM_KINDS if field.name == "kind" else self.texts
                arrays.append(of_codes(np.searchsorted(used, values), of_texts([words[at] for at in used.tolist()])))
            else:
                arrays.append(of_numbers(values, values < 0 if field.nullable else None))
        return pa.Table.from_arrays(arrays, schema=system_schema())


NOTHING = System({name: np.zeros(0, np.int64) for name in NAMES}, [])


def system_schema() -> pa.Schema:
    """The system table's columns."""
    import pyarrow as pa

    word, number = pa.dictionary(pa.int32(), pa.string()), pa.int64()
    kinds = dict.fromkeys(_DICTIONARIES, word)
    needed = ("time", "duration", *_DICTIONARIES)
    return pa.schema([pa.field(name, kinds.get(name, number), name not in needed) for name in NAMES])


def bounded(columns: Columns) -> Columns:
    """The same columns without values that cannot be, the first MOST rows by time."""
    order = np.argsort(columns["time"], kind="stable")[:MOST]
    found = {name: values[order] for name, values in columns.items()}
    found["time"] = np.clip(found["time"], 0, _LATEST)
    found["duration"] = np.clip(found["duration"], 0, _LARGEST)
    found |= {name: np.clip(found[name], -1, _LARGEST) for name in ("pid", "device", *VALUES)}
    return found


def joined(parts: Sequence[System]) -> System:
    """The rows of several logs, in order of time."""
    if not parts:
        return NOTHING
    texts: list[str] = []
    moved = []
    for part in parts:
        shift = {name: part[name] + len(texts) for name in ("host", "name")}
        moved.append(part.columns | shift)
        texts += part.texts
    return System(bounded({name: np.concatenate([one[name] for one in moved]) for name in NAMES}), texts)


# ---- as a text of a Parquet log


def encoded(system: System) -> str:
    """The text of rows; decoded() reads it."""
    import pyarrow as pa

    used = distinct(np.concatenate([system["host"], system["name"]]))
    texts = json.dumps([system.texts[at] for at in used.tolist()]).encode()
    codes = {name: np.searchsorted(used, system[name]) for name in ("host", "name")}
    columns = system.columns | codes
    raw = b"".join(np.diff(columns[name], prepend=0).view(np.uint8).reshape(-1, 8).T.tobytes() for name in NAMES)
    packed = pa.compress(raw + texts, codec="zstd", asbytes=True)
    return f"{_VERSION} {len(system)} {len(texts)} {base64.b64encode(packed).decode()}"


def decoded(text: str) -> System:
    """The rows of a text.  Raises ValueError for a text that encoded() has not written."""
    import pyarrow as pa

    words = text.split(" ")
    if len(words) != 4 or words[0] != str(_VERSION) or not all(one.isdecimal() and len(one) < 10 for one in words[1:3]):
        raise ValueError("not rows of this version")
    rows, length = int(words[1]), int(words[2])
    if not 0 < rows <= MOST or not 0 < length <= _MOST_TEXT:
        raise ValueError("too many rows")
    size = rows * 8 * len(NAMES)
    try:
        raw = pa.decompress(base64.b64decode(words[3], validate=True), size + length, "zstd", asbytes=True)
        texts = json.loads(raw[size:])
    except (pa.ArrowException, binascii.Error, OSError, RecursionError):
        raise ValueError("damaged rows") from None
    if len(raw) != size + length or not isinstance(texts, list) or not all(type(one) is str for one in texts):
        raise ValueError("damaged rows")
    bytes_ = np.frombuffer(raw, np.uint8, size).reshape(len(NAMES), 8, rows)
    columns = {
        name: np.cumsum(np.ascontiguousarray(bytes_[at].T).view("<i8").reshape(-1)) for at, name in enumerate(NAMES)
    }
    limits = {"kind": len(layout.SYSTEM_KINDS), "host": len(texts), "name": len(texts)}
    if any(int(columns[name].min()) < 0 or int(columns[name].max()) >= most for name, most in limits.items()):
        raise ValueError("rows of what does not exist")
    return System(bounded(columns), texts)
