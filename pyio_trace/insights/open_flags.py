"""Files that were opened with O_SYNC, O_DSYNC or O_DIRECT, for rules about that; other opens do not count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from pyio_trace.analysis.scan.columns import Columns
from pyio_trace.analysis.sums.grouped_sums import GroupedSums
from pyio_trace.enums import OpClass
from pyio_trace.light_dataclass import dataclass

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

_KEYS = ("process", "path", "site", "command")
_CHOSEN = ("O_SYNC", "O_DSYNC", "O_DIRECT")
#: Different sums that are kept.
_MOST = 1 << 18


@dataclass(frozen=True)
class Opened:
    """Opens of one file at one line.  path, site: codes of the log's dictionaries, as in LineCalls, -1 none; flags:
    "O_SYNC", "O_DIRECT|O_DSYNC" and the like, without the other flags of the open."""

    process: int
    path: int
    site: int
    flags: str
    count: int


@dataclass(frozen=True)
class OpenFlags:
    """The reducer.  Result: a list of Opened."""

    columns: ClassVar[tuple[str, ...]] = ("op_class", "process", "path", "site", "errno", "imported", "command")

    def partial(self, batch: pa.RecordBatch) -> GroupedSums:
        sums = GroupedSums(_KEYS, {"count": "sum"}, _MOST)
        columns = Columns(batch)
        # The last one is that of -1, none.
        wanted = np.array([*(bool(_flags(word)) for word in columns.words("command")), False])
        command = columns.codes("command")
        chosen = (columns.kind == OpClass.OPEN) & wanted[command]
        at = np.flatnonzero(chosen & (columns.numbers("errno") == 0) & ~columns.imported)
        values = {
            "process": columns.numbers("process", -1), "path": columns.codes("path"), "site": columns.codes("site"),
            "command": command, "count": np.ones(len(columns), np.int64),
        }  # fmt: skip
        sums.add({name: column[at] for name, column in values.items()})
        return sums

    def combine(self, part: GroupedSums, later: GroupedSums) -> GroupedSums:
        part.update(later)
        return part

    def finish(self, part: GroupedSums | None, log: Log) -> list[Opened]:
        found = (part or GroupedSums(_KEYS, {"count": "sum"})).columns()
        words = log.dictionary("command").to_pylist()
        return list(_opened(found, words))


#: For a rule's `needs`.
OPENS = OpenFlags()


def _opened(found: dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]], words: list[str]) -> Iterator[Opened]:
    for process, path, site, command, count in zip(*(found[name].tolist() for name in (*_KEYS, "count")), strict=True):
        flags = _flags(words[command]) if command < len(words) else ""
        if flags and path >= 0:
            yield Opened(process, path, site, flags, count)


def _flags(command: str | None) -> str:
    """Those of _CHOSEN in a command."""
    return "|".join(word for word in (command or "").split("|") if word in _CHOSEN)
