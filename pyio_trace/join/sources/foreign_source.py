"""The log of another tool as a source of the operations table.

The readers are in pyio_trace/log/foreign.  A foreign log is read as a whole; its
rows are kept as numbers, and become columns batch by batch.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace import enums, events
from pyio_trace.enums import Link
from pyio_trace.errors import LogError
from pyio_trace.join.base import identities, system
from pyio_trace.join.base.arrow_arrays import of_codes, of_numbers, of_texts
from pyio_trace.join.base.identities import Identities
from pyio_trace.join.base.samples import NOTHING, Samples
from pyio_trace.join.base.system import System
from pyio_trace.join.parents.nesting import parents_of
from pyio_trace.join.processes.process_names import add_names
from pyio_trace.join.processes.process_table import Process
from pyio_trace.join.sources.earlier_roles import EarlierRoles
from pyio_trace.log import foreign
from pyio_trace.log.foreign_log import HEAD, TEXTS, Format

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows of a division.
_DIVISION = 1 << 16
#: What the process table says where a log does not say how its processes ended.
NOT_SAID = "the log does not say"
_WORDS = {"layer": enums.LAYERS, "op_class": enums.CLASSES, "link": enums.LINKS}
#: Column of the operations table -> field of a row, where -1 means null.
_NUMBERS = {
    "duration": "duration", "tid": "tid", "process": "process", "fd": "fd", "file_offset": "offset",
    "bytes_requested": "requested", "bytes_moved": "moved",
}  # fmt: skip


@cache
def formats() -> dict[str, Format]:
    """All formats by the name of their module."""
    names = [info.name for info in pkgutil.iter_modules(foreign.__path__)]
    return {name: importlib.import_module(f"{foreign.__name__}.{name}").FORMAT for name in sorted(names)}


def format_of(path: Path) -> str | None:
    """The name of the format that a file begins as; None: of none.  Raises OSError."""
    with path.open("rb") as file:
        head = file.read(HEAD)
    return next((name for name, one in formats().items() if one.begins_so(path.name, head)), None)


class ForeignSource:
    """See pyio_trace.join.sources.source.Source; raises LogError log-damaged, -truncated, -too-large, -version,
    -unreadable."""

    def __init__(self, name: str, paths: Sequence[Path]) -> None:
        """name: of the format; paths: the files that are one log."""
        try:
            self._size = sum(path.stat().st_size for path in paths)
            self._log = formats()[name].read(paths)
        except OSError as error:
            raise LogError("log-unreadable", f"{paths[0]}: cannot be read: {error.strerror or error}") from None
        except MemoryError:
            raise LogError("log-too-large", f"{paths[0]}: needs more memory than there is; read a part of it") from None
        self._table = self._log.rows.taken()
        self._parent = parents_of(self._table)
        self._run = blake2b(repr((self._log.start, self._size, *map(str, paths))).encode("utf-8", "backslashreplace"))
        self._roles = EarlierRoles(self)
        # a path may have several numbers: one for each spelling in the log
        self._texts = {name: of_texts(list(self._log.rows.texts[name])) for name in TEXTS}

    def rows(self) -> int:
        return len(self._table)

    def values(self, column: str) -> pa.Array:
        if column == "op_role":
            return self._roles.words
        if column in _WORDS:
            return of_texts(_WORDS[column])
        if column == "host":
            return self._hosts[0]
        return self._texts.get(column, of_texts([]))

    def batches(
        self, columns: Sequence[str], rows: int, within: tuple[int, int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        if not set(events.ENCLOSING).isdisjoint(columns):
            return self._roles.batches(columns, rows, within)
        return self._own_batches(columns, rows, within)

    def _own_batches(
        self, columns: Sequence[str], rows: int, within: tuple[int, int] | None
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = events.arrow_schema(columns)
        begin, end = (0, len(self._table)) if within is None else (one * _DIVISION for one in within)
        for first in range(begin, min(end, len(self._table)), rows):
            span = slice(first, min(first + rows, end, len(self._table)))
            yield pa.RecordBatch.from_arrays([self._column(field, span) for field in schema], schema=schema)

    def divisions(self) -> list[int]:
        return [-(-len(self._table) // _DIVISION)]

    def _column(self, field: pa.Field, span: slice) -> pa.Array:
        import pyarrow as pa

        name, part = field.name, self._table[span]
        if name in _WORDS:
            words = np.where(self._parent[span] > 0, Link.INFERRED, Link.NONE) if name == "link" else part[name]
            return of_codes(words, self.values(name))
        if name in _NUMBERS:
            values = part[_NUMBERS[name]]
            return of_numbers(values.astype(field.type.to_pandas_dtype()), values < 0)
        if name in TEXTS:
            return of_codes(part[name], self._texts[name])
        if name in ("time", "errno", "calls"):
            return of_numbers(part[name].astype(field.type.to_pandas_dtype()))
        process = part["process"]
        if name == "id":
            return of_numbers(np.arange(span.start + 1, span.stop + 1, dtype=np.int64))
        if name == "parent":
            return of_numbers(self._parent[span], self._parent[span] == 0)
        if name == "file":
            return of_numbers(-1 - part["path"].astype(np.int64), part["path"] < 0)
        if name == "host":
            return of_codes(self._hosts[1].take(process), self._hosts[0])
        if name == "pid":
            return of_numbers(self._of_process("pid").take(process), process < 0)
        if name == "global_rank":
            ranks = self._of_process("global_rank").take(process)
            return of_numbers(ranks, (process < 0) | (ranks < 0))
        if pa.types.is_dictionary(field.type):
            return of_codes(np.full(len(part), -1, np.int32), self.values(name))
        nothing = pa.nulls(len(part), field.type)
        return nothing if field.nullable else nothing.fill_null(False)

    @cached_property
    def _hosts(self) -> tuple[pa.Array, NDArray[np.int32]]:
        """The names of hosts, and their numbers by process; the last is for rows without a process."""
        known: dict[str, int] = {}
        hosts = [*(process["host"] for process in self._processes), self._log.host]
        numbers = np.array([known.setdefault(host, len(known)) for host in hosts], np.int32)
        return of_texts(list(known)), numbers

    def _of_process(self, name: str) -> NDArray[np.int32]:
        """A field by process, -1 for None; the last is for rows without a process."""
        values = [process[name] for process in self._processes]
        return np.array([*(-1 if value is None else value for value in values), -1], np.int32)

    def processes(self) -> list[dict[str, Any]]:
        return list(self._processes)

    @cached_property
    def _processes(self) -> list[dict[str, Any]]:
        log = self._log
        unsaid: dict[str, Any] = {
            "host": log.host, "ppid": 0, "parent": None, "start": "unknown", "begin": log.start, "end": log.end,
            "ended": NOT_SAID, "status": None, "argv": [], "executable": "", "version": "", "followed": True,
            "cwd": None, "lost": 0, "script_begin": log.start, "early_import_time": 0,
        }  # fmt: skip
        given = [unsaid | {"pid": index} | known | {"index": index} for index, known in enumerate(log.processes)]
        rows = [dict(vars(Process(**one))) for one in given]
        add_names(rows)
        return rows

    def mappings(self) -> list[dict[str, Any]]:
        return []

    def renames(self) -> list[dict[str, Any]]:
        return []

    def counters(self) -> list[dict[str, Any]]:
        unsaid = dict.fromkeys(("process", "pid", "layer", "op_class", "op", "kind", "duration", "errors"))
        return [unsaid | row for row in self._log.counters]

    def samples(self) -> Samples:
        return NOTHING

    def system(self) -> System:
        return system.NOTHING

    def stripes(self) -> dict[str, str]:
        return {}

    def identities(self) -> Identities:
        return identities.NOTHING

    def release(self) -> None:
        """Nothing: all of it would have to be read again."""

    def attachment(self, name: str) -> str | None:
        return None

    def losses(self) -> dict[str, Any]:
        torn = {"torn": self._log.torn} if self._log.torn else {}
        return torn | {"not_in_log": [f"{self._log.tool}: {one}" for one in self._log.not_seen]}

    def info(self) -> dict[str, Any]:
        log, rows = self._log, self.rows()
        return {
            "run": self._run.hexdigest()[:16],
            "host": log.host,
            "boot": "",
            "owner_pid": self._processes[0]["pid"] if self._processes else 0,
            "start": log.start,
            "end": log.end,
            "mode": "profile" if log.summed else "trace",
            "format": log.tool,
            "version": log.version,
            "cores": None,
            "records": rows,
            "bytes": self._size,
            "bytes_per_operation": self._size / rows if rows else None,
            "file_systems": log.file_systems,
            "lock_options": None,
            "ring_since": None,
            "tool": log.tool,
        }
