"""What the reader of another tool's log hands over: calls as rows of numbers, processes, what the log cannot know.

A reader is one file of pyio_trace/log/foreign, which is found there without a
list: its FORMAT says how such a log begins and reads it.  Foreign logs come from
anywhere, so a reader checks every length and number, and takes no more memory
than in proportion to the file.  pyio_trace/join/sources/foreign_source.py makes
the operations table of what it hands over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pyio_trace.errors import LogError
from pyio_trace.light_dataclass import dataclass

#: Bytes of a file that tell its format.
HEAD = 4096
#: Rows of one log; more would not fit into the memory of a common machine.
MOST_ROWS = 1 << 25
#: Bytes that a compressed log may unpack to: a start, and so many for each byte of the file.  Real logs are far below.
_UNPACKED, _UNPACKED_A_BYTE = 32 << 20, 64
#: The largest time since 1970, amount and place that are believed.
MOST = 1 << 62

#: One row of the operations table.  time: ns since the epoch; duration: ns, -1 in flight; process: index of a process;
#: layer, op_class: numbers of enums; op, path, detail, command: numbers of texts; offset: in the file; requested,
#: moved: bytes; group: rows of one number are of the same calls, and a call of a higher layer (a lower number) encloses
#: those of the same class below it, 0: none.  -1: not known, or none.
ROW = np.dtype(
    [
        ("time", "<i8"), ("duration", "<i8"), ("offset", "<i8"), ("requested", "<i8"), ("moved", "<i8"),
        ("process", "<i4"), ("tid", "<i4"), ("op", "<i4"), ("path", "<i4"), ("fd", "<i4"), ("errno", "<i4"),
        ("calls", "<i4"), ("detail", "<i4"), ("command", "<i4"), ("group", "<i4"), ("layer", "u1"), ("op_class", "u1"),
    ]
)  # fmt: skip
#: The columns of texts.
TEXTS = ("op", "path", "detail", "command")
_UNKNOWN = np.zeros((), ROW)
for _name in ("offset", "requested", "moved", "process", "tid", "path", "fd", "detail", "command"):
    _UNKNOWN[_name] = -1
_UNKNOWN["calls"] = 1


class Rows:
    """The rows of a log while it is read, in any order."""

    def __init__(self, path: Path) -> None:
        self.texts: dict[str, dict[str, int]] = {name: {} for name in TEXTS}
        self._path = path
        self._blocks: list[NDArray[np.void]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def text(self, column: str, text: str) -> int:
        """The number of a text in one of TEXTS."""
        known = self.texts[column]
        return known.setdefault(text, len(known))

    def rename(self, column: str, name_of: Callable[[str], str]) -> None:
        """Puts other texts in place of those of a column; those that become equal become one."""
        known: dict[str, int] = {}
        numbers = [known.setdefault(name_of(text), len(known)) for text in self.texts[column]]
        self.texts[column] = known
        table = np.array([*numbers, -1], np.int32)  # the last: -1
        for block in self._blocks:
            block[column] = table[block[column]]

    def add(self, count: int, **fields: Any) -> NDArray[np.void]:
        """Adds rows with these fields (numbers or arrays); what is not named is not known.  Returns them, to be filled.

        Raises LogError log-too-large.
        """
        self._count += count
        if self._count > MOST_ROWS:
            raise LogError("log-too-large", f"{self._path}: has more than {MOST_ROWS:,} calls; read a part of it")
        rows = np.full(count, _UNKNOWN)
        for name, values in fields.items():
            rows[name] = values
        self._blocks.append(rows)
        return rows

    def taken(self) -> NDArray[np.void]:
        """All rows, in order of time; of those that begin at once the longest is first.  They are gone from here."""
        blocks, self._blocks = self._blocks, []
        every = np.concatenate([np.empty(0, ROW), *blocks])
        blocks.clear()
        order = np.lexsort((every["layer"], -every["duration"], every["time"]))
        found: NDArray[np.void] = every[order]
        return found


@dataclass
class ForeignLog:
    """A whole log of another tool.

    tool: its name; start, end: of the run, ns since the epoch (end None: not
    known); rows; processes: for each, the fields of the process table that are
    known; counters: rows of the counters table; not_seen: what this log cannot
    know, one clause each; torn: bytes that are missing or could not be read;
    summed: whether most rows stand for many calls; host; version: of the format;
    file_systems: mount point -> type (None: not known).
    """

    tool: str
    start: int
    end: int | None
    rows: Rows
    processes: list[dict[str, Any]]
    not_seen: list[str]
    counters: list[dict[str, Any]] = field(default_factory=list)
    torn: int = 0
    summed: bool = False
    host: str = ""
    version: int = 0
    file_systems: dict[str, str] | None = None


@dataclass(frozen=True)
class Format:
    """How the logs of one tool are told and read.

    begins_so: whether a file begins as such a log does, from its name and its
    first HEAD bytes; read: the log that these files are together, which raises
    LogError; together: files of a folder -> those that are one log each.
    """

    begins_so: Callable[[str, bytes], bool]
    read: Callable[[Sequence[Path]], ForeignLog]
    together: Callable[[Sequence[Path]], list[list[Path]]] = lambda paths: [[path] for path in paths]


class Allowance:
    """How much a compressed file may still unpack to."""

    def __init__(self, path: Path, size: int, a_byte: int = _UNPACKED_A_BYTE) -> None:
        """size: of the file, bytes; a_byte: to how many bytes each of them may unpack."""
        self._path = path
        self.left = _UNPACKED + a_byte * size

    def take(self, size: int) -> None:
        """Raises LogError log-too-large when too much was unpacked."""
        self.left -= size
        if self.left < 0:
            raise LogError(
                "log-too-large", f"{self._path}: unpacks to more than a log of its size can; it is damaged or forged"
            )


def damaged(path: Path, what: str) -> LogError:
    """The error for a log that makes no sense; what: the part of it, with its verb."""
    return LogError("log-damaged", f"{path}: {what}; copy it again")


def cut_short(path: Path, what: str) -> LogError:
    """The error for a log of which a part is missing."""
    return LogError("log-truncated", f"{path}: {what}; copy it again")


def nanoseconds(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Seconds as ns; what is no number, negative or impossible becomes 0 or the most that is believed."""
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = np.nan_to_num(seconds * 1e9, nan=0.0, posinf=float(MOST), neginf=0.0)
    found: NDArray[np.int64] = np.rint(np.clip(scaled, 0, float(MOST >> 1))).astype(np.int64)
    return found


def amounts(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Counts and sizes; negative ones, which stand for "not measured", become 0."""
    found: NDArray[np.int64] = np.clip(values, 0, MOST >> 1)
    return found
