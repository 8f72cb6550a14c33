"""How a run replaced the content of files: in place, or by a new file that was renamed over the old one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pyio_trace.insights.file_events import Event, Events, FileEvents
from pyio_trace.light_dataclass import dataclass
from pyio_trace.log import runs
from pyio_trace.log.sorting import distinct

Ints = NDArray[np.int64]
#: Renames that are looked at one by one.
_MOST_RENAMES = 1 << 16
_CONTENT = (Event.READ, Event.WRITTEN)
_RUNS = (*_CONTENT, Event.APPENDED)


@dataclass
class Saved:
    """Content of a file that one line of one process replaced.  site: a code; times: how often; moved: bytes that
    were written instead; read: the run had read the file before."""

    process: int
    path: str
    site: int
    times: int = 0
    moved: int = 0
    read: bool = False


PathOf = Callable[[int], str | None]
Key = tuple[int, str, int]
#: Time, Event, row of the events: what happened at a path.  RENAMED: something got this name.
Point = tuple[int, int, int]


def overwritten(found: FileEvents, path_of: PathOf) -> list[Saved]:
    """Files that were emptied while they had content, and written again by the same name.

    That they had content is known from reads or writes by that name since the mark before.  Names count because two
    files that used one inode in turn look like one where threads remove and make files at the same moment.  What is
    appended to an emptied file is new, and replaces nothing.  A file that was removed or renamed
    afterwards was none to keep.
    """
    events = _of_files(found.events, distinct(found.events["file"][found.events["kind"] == Event.EMPTIED]))
    if not len(events["file"]):
        return []
    file, kind = events["file"], events["kind"]
    several = np.flatnonzero(np.isin(kind, _RUNS))
    points = np.concatenate([np.flatnonzero(kind <= Event.REMOVED), several, several])
    time = np.concatenate([events["first"][points[: len(points) - len(several)]], events["last"][several]])
    points = points[np.lexsort((time, events["path"][points], file[points]))]
    file, path, kind = file[points], events["path"][points], kind[points]
    starts = runs.begins(file, path)
    emptied = kind == Event.EMPTIED
    emptied[1:] &= ~emptied[:-1] | starts[1:]  # the first of several in a row
    life = np.cumsum(
        starts | emptied | (kind == Event.RENAMED) | (kind == Event.REMOVED)
    )  # of a file, from one mark to the next
    had, written = _any(life, np.isin(kind, _CONTENT)), _any(life, kind == Event.WRITTEN)
    number = np.cumsum(starts) - 1
    last_mark = np.zeros(int(number[-1]) + 1, np.int64)
    last_mark[number[kind <= Event.REMOVED]] = kind[kind <= Event.REMOVED]  # the latest wins
    over = np.flatnonzero(emptied & ~starts & (last_mark[number] == Event.EMPTIED))
    over = over[had[life[over] - 1] & (written & ~_any(life, kind == Event.APPENDED))[life[over]]]
    read = np.cumsum(kind == Event.READ)
    first = np.flatnonzero(starts)[number]
    # Each run of writes has two points; its bytes count where it begins.
    begins = np.unique(points, return_index=True)[1]
    moved = np.bincount(life[begins], events["moved"][points[begins]] * (kind[begins] == Event.WRITTEN), life[-1] + 1)
    values = {name: events[name][points[over]].tolist() for name in ("process", "path", "site")}
    seen = (read[over] - read[first[over]] + (kind[first[over]] == Event.READ)) > 0
    saved: dict[Key, Saved] = {}
    names = {code: path_of(code) or "" for code in set(values["path"])}
    paths = [names[code] for code in values["path"]]
    keys = zip(values["process"], paths, values["site"], strict=True)
    for key, size, was_read in zip(keys, moved[life[over]].tolist(), seen.tolist(), strict=True):
        _count(saved, key, int(size), was_read)
    return list(saved.values())


def replaced(found: FileEvents, path_of: PathOf) -> list[Saved]:
    """Files over which a new one was renamed that had not been synced since its last write."""
    events = found.events
    renames = np.flatnonzero(events["kind"] == Event.RENAMED)[:_MOST_RENAMES]
    unsynced = _unsynced(events, renames)
    wanted = {found.names.get(int(events["to"][rename]), "") for rename, size in unsynced.items() if size}
    saved: dict[Key, Saved] = {}
    for path, points in _timelines(found, renames, wanted - {""}, path_of).items():
        points.sort()
        if points[-1][1] != Event.REMOVED:  # else it was none to keep
            _replacements(path, points, events, unsynced, saved)
    return list(saved.values())


def _replacements(
    path: str, points: list[Point], events: Events, unsynced: dict[int, int], saved: dict[Key, Saved]
) -> None:
    """Adds the renames to a path at which there was content."""
    content = read = False
    for _, kind, row in points:
        if kind == Event.RENAMED:
            size = unsynced.get(row, 0)
            if size and content:
                key = int(events["process"][row]), path, int(events["site"][row])
                _count(saved, key, size, read)
            content = row in unsynced
        elif kind in _CONTENT:
            content, read = True, read or kind == Event.READ
        else:
            content = False


def _unsynced(events: Events, renames: Ints) -> dict[int, int]:
    """By rename of a file that the run had written since the mark before: the bytes, 0: it was synced after the last
    write."""
    rows = defaultdict(list)
    some = np.flatnonzero(np.isin(events["file"], np.append(distinct(events["file"][renames]), 0)))
    for row in some.tolist():
        rows[int(events["file"][row])].append(row)
    kind, first, last, moved, path = (events[name].tolist() for name in ("kind", "first", "last", "moved", "path"))
    everything = [row for row in rows[0] if kind[row] == Event.SYNCED]
    found = {}
    for rename in renames.tolist():
        now, own = first[rename], rows[int(events["file"][rename])]
        marks = [first[row] for row in own if kind[row] <= Event.REMOVED and path[row] == path[rename]]
        since = max((time for time in marks if time < now), default=-1)
        names = (path[rename], -1)  # a copy has no name for what it writes
        writes = [row for row in own if kind[row] == Event.WRITTEN and path[row] in names and since < first[row] < now]
        if not writes or any(last[row] >= now for row in writes):  # of these, the last one before is not known
            continue
        end = max(last[row] for row in writes)
        syncs = [row for row in (*own, *everything) if kind[row] == Event.SYNCED and first[row] < now]
        found[rename] = 0 if any(last[row] >= end for row in syncs) else sum(moved[row] for row in writes)
    return found


def _timelines(found: FileEvents, renames: Ints, wanted: set[str], path_of: PathOf) -> dict[str, list[Point]]:
    """What happened at these paths."""
    if not wanted:
        return {}
    events = found.events
    codes = {code: name for code in distinct(events["path"]).tolist() if (name := path_of(code)) in wanted and name}
    points: dict[str, list[Point]] = defaultdict(list)
    for rename in renames.tolist():
        name = found.names.get(int(events["to"][rename]), "")
        if name in wanted:
            points[name].append((int(events["first"][rename]), Event.RENAMED, rename))
    rows = np.flatnonzero(np.isin(events["path"], list(codes)) & (events["kind"] < Event.SYNCED))
    columns = (events[name][rows].tolist() for name in ("path", "kind", "first", "last"))
    for row, path, kind, first, last in zip(rows.tolist(), *columns, strict=True):
        if kind in _CONTENT:
            points[codes[path]] += [(first, kind, row), (last, kind, row)]
        else:
            points[codes[path]].append((first, Event.EMPTIED if kind == Event.EMPTIED else Event.REMOVED, row))
    return points


def _of_files(events: Events, files: Ints) -> Events:
    at = np.flatnonzero(np.isin(events["file"], files) & (events["kind"] != Event.SYNCED))
    return {name: column[at] for name, column in events.items()}


def _any(life: Ints, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """By life, whether it has a row of the mask."""
    found = np.zeros(int(life[-1]) + 1, np.bool_)
    found[life[mask]] = True
    return found


def _count(saved: dict[Key, Saved], key: Key, moved: int, read: bool) -> None:
    one = saved.setdefault(key, Saved(*key))
    one.times += 1
    one.moved += moved
    one.read |= read
