"""What became of files, in the order of time: emptied, read, written, synced, renamed, removed.

Sums of calls say how often a line did what; these say in which order, so that
rules can tell a file that was written over from one that was written once.

A thread's rows come in the order of time, whatever the log is divided into. So all
reads of a file by one thread between two of its *marks* there (what empties,
renames or removes the file) are kept as one event, and so are its writes and its
syncs. Events grow with files and marks, not with rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyio_trace.analysis.calls import details
from pyio_trace.analysis.scan.columns import MEANING, Columns
from pyio_trace.analysis.scan.saturation import addable
from pyio_trace.analysis.sums.packed_keys import packing_of
from pyio_trace.enums import Layer, OpClass
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import runs

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log

Ints = NDArray[np.int64]
Events = dict[str, Ints]


class Event:
    """What happened to a file.  The first three are marks.  APPENDED: it was opened to append to it."""

    EMPTIED, RENAMED, REMOVED, READ, WRITTEN, SYNCED, APPENDED = range(7)


#: The end of a sync that never ends: each write to the file is one, or it is not known how often it was synced.
ALWAYS = 1 << 62
_NAMES = ("process", "tid", "file", "path", "site", "kind", "to", "first", "last", "moved")
#: Whose events come in the order of time.
_OWNER = ("file", "process", "tid")
_TRUNCATING = ("truncate", "ftruncate")
_RENAMING = ("rename", "renameat", "renameat2")
_REMOVING = ("unlink", "unlinkat", "remove")
#: They sync files of other descriptors, too.
_SYNCING_ALL = ("sync", "syncfs")
#: Writes what is in a range, and makes nothing durable.
_NO_SYNC = ("sync_file_range",)
#: Rows that collect before they become events.
_FEW = 1 << 17
#: Events that are kept.
_MOST = 1 << 19


class Part:
    """Events of some batches.  more: events that were dropped."""

    def __init__(self) -> None:
        self.more = 0
        self._parts: list[Events] = []
        self._rows, self._limit, self._full = 0, _FEW, False

    def add(self, events: Events) -> None:
        """Adds events that come later in the log."""
        count = len(events["file"])
        if self._full:
            self.more += count
        elif count:
            self._parts.append(events)
            self._rows += count
            if self._rows > self._limit:
                self.events()

    def update(self, later: Part) -> None:
        """Adds another part."""
        self.more += later.more
        for events in later._parts:
            self.add(events)

    def events(self) -> Events:
        """All events, by file, process and thread, and in each of these in the order of time."""
        empty = np.zeros(0, np.int64)
        whole = merged({name: np.concatenate([empty, *(one[name] for one in self._parts)]) for name in _NAMES})
        if len(whole["file"]) > _MOST:
            whole = self._shortened(whole)
        self._parts, self._rows = [whole], len(whole["file"])
        self._limit = max(_FEW, 2 * self._rows)
        return whole

    def __getstate__(self) -> dict[str, Any]:
        self.events()
        return self.__dict__

    def _shortened(self, events: Events) -> Events:
        """The events of the files with the most marks; if one file has too many, nothing is added any more."""
        before = len(events["file"])
        _, number = np.unique(events["file"], return_inverse=True)
        marks = np.bincount(number, events["kind"] <= Event.REMOVED)
        order = np.argsort(-marks, kind="stable")
        kept = np.cumsum(np.bincount(number)[order]) <= _MOST // 2
        if kept.any():
            at = np.flatnonzero(np.isin(number, order[kept]))
        else:
            at, self._full = np.flatnonzero(number == order[0])[: _MOST // 2], True
        self.more += before - len(at)
        return {name: column[at] for name, column in events.items()}


def merged(events: Events) -> Events:
    """The events with those of one thread on one file between two of its marks as one.  Equal times: in their order."""
    if not len(events["file"]):
        return events
    order = _order(events["file"], events["process"], events["tid"])
    starts = _changes({name: events[name][order] for name in _OWNER}, *_OWNER)
    if (np.diff(events["first"][order])[~starts[1:]] < 0).any():  # a ring, or a damaged log
        order = np.lexsort((events["first"], events["tid"], events["process"], events["file"]))
    life = np.cumsum(starts | (events["kind"][order] <= Event.REMOVED), dtype=np.int64)
    again = _order(life, events["kind"][order], events["path"][order])
    order, life = order[again], life[again]
    of_runs = {name: events[name][order] for name in ("kind", "path", "first", "last", "moved")}
    at = np.flatnonzero(_changes(of_runs | {"life": life}, "life", "kind", "path"))
    found = {name: column[order[at]] for name, column in events.items()}
    found["first"] = np.minimum.reduceat(of_runs["first"], at)
    found["last"] = np.maximum.reduceat(of_runs["last"], at)
    found["moved"] = np.add.reduceat(addable(of_runs["moved"]), at)
    return found


def _order(*keys: Ints) -> Ints:
    """The places of rows in the order of their keys, the first key first."""
    packing = packing_of(keys)
    return np.lexsort(keys[::-1]) if packing is None else np.argsort(packing.pack(keys), kind="stable")


def _changes(columns: Events, *keys: str) -> NDArray[np.bool_]:
    """Which rows differ from the one before in any of these columns."""
    return runs.begins(*(columns[key] for key in keys))


@dataclass(frozen=True)
class FileEvents:
    """events: arrays of process (index), tid, file (identity; 0: all files, of a sync), path and site (codes, -1 none),
    kind (of Event), to (of a rename: code of its detail), first and last (ns since the epoch: begins of the first and
    the last call), moved (bytes); names: code of a detail -> the new name; more: events that were too many to keep."""

    events: Events
    names: dict[int, str]
    more: int


@dataclass(frozen=True)
class EventsOfFiles:
    """The reducer."""

    columns: ClassVar[tuple[str, ...]] = tuple(dict.fromkeys((
        *MEANING, "time", "duration", "process", "tid", "file", "to_file", "path", "site", "op", "errno", "command",
        "detail", "file_kind", "file_offset", "bytes_moved", "in_flight",
    )))  # fmt: skip

    def partial(self, batch: pa.RecordBatch) -> Part:
        part = Part()
        part.add(merged(_events_of(Columns(batch))))
        return part

    def combine(self, part: Part, later: Part) -> Part:
        part.update(later)
        return part

    def finish(self, part: Part | None, log: Log) -> FileEvents:
        part = part or Part()
        events = part.events()
        texts = details.parsed(log, events["to"][events["kind"] == Event.RENAMED])
        names = {code: details.text(one, "to") for code, one in texts.items()}
        return FileEvents(events, {code: name for code, name in names.items() if name is not None}, part.more)


#: For a rule's `needs`.
FILE_EVENTS = EventsOfFiles()


def _events_of(columns: Columns) -> Events:
    """The events of a batch, one for each row, in the order of the rows."""
    fine = (columns.numbers("errno") == 0) & columns.ended & ~columns.imported
    kinds = columns.words("file_kind")
    fine &= np.array([*(kind == "regular" for kind in kinds), True])[columns.codes("file_kind")]
    posix, single = fine & (columns.layer == Layer.POSIX), columns.calls == 1
    reads, writes = columns.transfers
    copies, moves = columns.kind == OpClass.COPY, fine & (columns.moved > 0)
    opens = fine & (columns.kind == OpClass.OPEN) & (columns.layer >= Layer.STDIO)
    syncs = posix & (columns.kind == OpClass.SYNC) & ~columns.of_words("op", _NO_SYNC)
    durable = opens & _has_word(columns, "O_SYNC", "O_DSYNC")
    emptied = opens & _has_word(columns, "O_TRUNC")
    emptied |= posix & columns.of_words("op", _TRUNCATING) & (columns.offset == 0)
    marks = posix & single
    chosen = (
        (Event.READ, reads & moves),
        (Event.WRITTEN, writes & moves),
        (Event.SYNCED, syncs | durable),
        (Event.APPENDED, opens & _has_word(columns, "O_APPEND")),
        (Event.EMPTIED, emptied & single),
        (Event.RENAMED, marks & columns.of_words("op", _RENAMING)),
        (Event.REMOVED, marks & columns.of_words("op", _REMOVING)),
    )
    places = [np.flatnonzero(mask) for _, mask in chosen]
    at = np.concatenate(places)
    kind = np.repeat([kind for kind, _ in chosen], [len(one) for one in places])
    order = np.argsort(at, kind="stable")
    at, kind = at[order], kind[order]
    path, site, detail = (columns.codes(name)[at] for name in ("path", "site", "detail"))
    file, time, moved = columns.file[at], columns.time[at], columns.moved[at]
    copied = np.flatnonzero((kind == Event.WRITTEN) & copies[at])  # these rows name the file that was read
    file[copied], path[copied] = columns.numbers("to_file")[at[copied]], -1
    file[columns.of_words("op", _SYNCING_ALL)[at] & (kind == Event.SYNCED)] = 0
    events = {
        "process": columns.numbers("process", -1)[at], "tid": columns.numbers("tid")[at], "file": file, "path": path,
        "site": site, "kind": kind,
        "to": np.where(kind == Event.RENAMED, detail, -1), "first": time,
        "last": np.where((kind == Event.SYNCED) & (durable | ~single)[at], ALWAYS, time),
        "moved": np.where(np.isin(kind, (Event.READ, Event.WRITTEN)), moved, 0),
    }  # fmt: skip
    known = (file != 0) | (kind == Event.SYNCED)
    return events if known.all() else {name: column[known] for name, column in events.items()}


def _has_word(columns: Columns, *chosen: str) -> NDArray[np.bool_]:
    """Rows whose command has one of these words."""
    known = [word for word in columns.words("command") if word is not None and set(word.split("|")) & set(chosen)]
    return columns.of_words("command", known)
