"""A log whose names are replaced (replaced_names.py), for people who may see what happened but not to what.

Numbers stay: times, sizes, process ids, lines.  So do the operations of the tracer and its instruments, the
standard library's and installed packages' files and functions, and endings of known formats.  Texts attached to
the log are not there: they are made anew of the replaced names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pyio_trace import enums, events
from pyio_trace.join.base.arrow_arrays import codes, of_texts
from pyio_trace.join.base.dictionaries import UnifiedDictionary
from pyio_trace.join.base.identities import NOTHING, Identities
from pyio_trace.join.base.samples import Samples
from pyio_trace.join.base.system import System
from pyio_trace.join.pack.replaced_names import Names
from pyio_trace.join.processes.mounts import OPTIONS
from pyio_trace.join.sources.source import Source
from pyio_trace.log import layout
from pyio_trace.values import MODES, STACK_STATES

if TYPE_CHECKING:
    import pyarrow as pa

_FORMATS = ("live", "parquet", "folder", "merged")
_REASONS = frozenset((*layout.FULL_REASONS.values(), "not known"))


class ObfuscatedSource:
    """See pyio_trace.join.sources.source.Source."""

    def __init__(self, source: Source, names: Names) -> None:
        self._source, self._names = source, names
        self._values: dict[str, pa.Array] = {}
        self._replace: dict[str, Callable[[str], str]] = {
            "path": names.path, "host": names.host, "site": names.stack, "call_stack": names.stack,
            "detail": names.detail, "command": names.constant, "op": self._operation,
        }  # fmt: skip

    def rows(self) -> int:
        return self._source.rows()

    def divisions(self) -> list[int]:
        return self._source.divisions()

    def values(self, column: str) -> pa.Array:
        self._replaced(column)
        return self._unified[column].values

    def batches(
        self, columns: Sequence[str], rows: int, within: tuple[int, int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = events.arrow_schema(columns)
        for batch in self._source.batches(columns, rows, within):
            arrays = [
                self._adopted(name, array) if name in self._replace else array
                for name, array in zip(columns, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def processes(self) -> list[dict[str, Any]]:
        names, rows = self._names, self._source.processes()
        self._find_packages()
        return [
            row
            | {
                "host": names.host(row["host"]),
                "argv": names.command(row["argv"]),
                "executable": names.path(row["executable"]),
                "version": row["version"] if _is_version(row["version"]) else names.word(row["version"]),
                "start": names.one_of(row["start"], (*layout.STARTS, "unknown")),
                "ended": names.ended(row["ended"]),
                "cwd": None if row["cwd"] is None else names.path(row["cwd"]),
                "blind": [names.one_of(word, layout.BLIND) for word in row["blind"]],
                "stack_state": names.one_of(row["stack_state"], (*STACK_STATES, "unknown")),
                "note": names.note(row["note"]),
                "import_packages": [names.package(name) for name in row["import_packages"] or ()],
                "program_packages": [names.package(name) for name in row["program_packages"] or ()],
                "site": None if row["site"] is None else names.stack(row["site"]),
                "call_stack": None if row["call_stack"] is None else names.stack(row["call_stack"]),
                "end_by": None if row["end_by"] is None else names.one_of(row["end_by"], ("itself", "parent")),
                "process_kind": names.kind(row["process_kind"]),
                "process_name": names.process(row["process_name"]),
                "node": None if row["node"] is None else names.host(row["node"]),
                "job": None if row["job"] is None else names.word(row["job"]),
                "step": None if row["step"] is None else names.word(row["step"]),
                "job_run": None if row["job_run"] is None else names.word(row["job_run"]),
            }
            for row in rows
        ]

    def mappings(self) -> list[dict[str, Any]]:
        names = self._names
        return [
            row
            | {
                "path": None if row.get("path") is None else names.path(row["path"]),
                "protection": row["protection"] if set(row["protection"]) <= set("rwxps-") else "",
            }
            for row in self._source.mappings()
        ]

    def renames(self) -> list[dict[str, Any]]:
        names = self._names
        return [
            row
            | {
                "path": names.path(row["path"]),
                "to": names.path(row["to"]),
                "how": names.one_of(row["how"], ("reopened", "found")),
            }
            for row in self._source.renames()
        ]

    def counters(self) -> list[dict[str, Any]]:
        rows = [dict(row) for row in self._source.counters()]
        for row in rows:  # rows of each kind lack the columns of the other
            if row.get("op") is not None:
                row["op"] = self._operation(row["op"])
            if row.get("kind") is not None:
                row["kind"] = self._names.one_of(row["kind"], layout.DESC_KINDS)
        return rows

    def samples(self) -> Samples:
        found = self._source.samples()
        return Samples(found.columns, [self._names.stack(text) for text in found.stacks])

    def system(self) -> System:
        found = self._source.system()
        hosts = set(found["host"].tolist())
        texts = [
            self._names.host(text) if at in hosts else self._names.word(text) for at, text in enumerate(found.texts)
        ]
        return System(found.columns, texts)

    def stripes(self) -> dict[str, str]:
        return {self._names.path(path): text for path, text in self._source.stripes().items()}

    def identities(self) -> Identities:
        return NOTHING

    def release(self) -> None:
        self._source.release()

    def attachment(self, name: str) -> str | None:
        return None

    def losses(self) -> dict[str, Any]:
        return {name: self._loss(name, value) for name, value in self._source.losses().items()}

    def _loss(self, name: str, value: Any) -> Any:
        names = self._names
        if name == "reason":
            return "; ".join(names.one_of(reason, _REASONS) for reason in value.split("; "))
        if name == "unfollowed_children":
            return [names.command(words) for words in value]
        if name == "raw_call_libraries":
            return [names.path(path) for path in value]
        if name == "sampler_refused":
            return [names.constant(text) for text in value]
        return [names.word(text) for text in value] if isinstance(value, list) else value

    def info(self) -> dict[str, Any]:
        return self._described(self._source.info())

    def _described(self, info: dict[str, Any]) -> dict[str, Any]:
        names = self._names
        found = info | {
            "run": info["run"] if _is_number(info["run"]) else names.word(info["run"]),
            "host": ", ".join(names.host(host) for host in info["host"].split(", ")),
            "mode": names.one_of(info["mode"], (*MODES, "unknown")),
        }
        if "boot" in info:
            found["boot"] = names.word(info["boot"])
        if "format" in info:
            found["format"] = names.one_of(info["format"], _FORMATS)
        for table, known in (("file_systems", _is_type), ("lock_options", _is_option)):
            if info.get(table):
                found[table] = {
                    names.path(point): value if known(value) else names.word(value)
                    for point, value in info[table].items()
                }
        if "logs" in info:
            found["logs"] = [self._described(log) for log in info["logs"]]
        return found

    # ---- dictionaries

    @cached_property
    def _of_users(self) -> frozenset[str]:
        """The operations that the program has named itself."""
        import pyarrow as pa

        found: set[str] = set()
        for batch in self._source.batches(("layer", "op"), 1 << 20):
            words = batch.column("layer").dictionary.to_pylist()
            own = np.array([word == enums.LAYERS[enums.Layer.USER] for word in words], np.bool_)
            chosen = np.flatnonzero(own.take(codes(batch.column("layer")))) if own.any() else np.empty(0, np.int64)
            used = np.unique(codes(batch.column("op"))[chosen])
            found.update(batch.column("op").dictionary.take(pa.array(used)).to_pylist())
        return frozenset(found)

    def _operation(self, name: str) -> str:
        return self._names.part(name) if name in self._of_users else name

    def _find_packages(self) -> None:
        """Paths show which packages are installed."""
        for column in ("path", "site", "call_stack"):
            self._replaced(column)

    @cached_property
    def _unified(self) -> dict[str, UnifiedDictionary]:
        return {}

    def _replaced(self, column: str) -> pa.Array:
        """The dictionary of a column with other words, which may have some twice."""
        if column not in self._values:
            values = self._source.values(column)
            replace = self._replace.get(column)
            if replace is not None:
                values = of_texts([None if text is None else replace(text) for text in values.to_pylist()])
            self._values[column] = values
            self._unified[column] = UnifiedDictionary([values])
        return self._values[column]

    def _adopted(self, column: str, array: pa.DictionaryArray) -> pa.DictionaryArray:
        import pyarrow as pa

        values = self._replaced(column)
        return self._unified[column].adopt(pa.DictionaryArray.from_arrays(array.indices, values))


def _is_version(text: str) -> bool:
    return len(text) <= 16 and all(part.isalnum() and part[0].isdigit() for part in text.split(".")) if text else True


def _is_number(text: str) -> bool:
    return len(text) == 16 and set(text) <= set("0123456789abcdef")


def _is_type(text: str) -> bool:
    """Whether a text may be a type of file system that the kernel has."""
    return text == "" or (len(text) <= 12 and text.isascii() and text.isalnum()) or text in ("fuse.sshfs", "fuse.s3fs")


def _is_option(text: str) -> bool:
    return set(text.split(",")) <= OPTIONS | {""}
