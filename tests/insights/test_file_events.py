"""What became of files: the same from any division of a log, in bounded memory, and as a plain loop finds it."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from pyio_trace.analysis.reducer import scan
from pyio_trace.analysis.scan.decoding import Decoder
from pyio_trace.insights import file_events
from pyio_trace.insights.file_events import FILE_EVENTS, Event, Events, FileEvents, Part, merged
from pyio_trace.insights.saves import overwritten, replaced
from tests.support.programs import Runner, succeeded

pytestmark = pytest.mark.once
NAMES = ("process", "tid", "file", "path", "site", "kind", "to", "first", "last", "moved")
#: A row: (process, tid, file, path, kind, to, time, bytes); site is the path's code.
Row = tuple[int, int, int, int, int, int, int, int]


def events_of(rows: list[Row]) -> Events:
    values = [(p, t, f, path, path, kind, to, time, time, size) for p, t, f, path, kind, to, time, size in rows]
    columns = np.array(values, np.int64).reshape(-1, len(NAMES)).T
    return dict(zip(NAMES, columns, strict=True))


def rows_at_random(chance: random.Random, threads: int, count: int) -> list[Row]:
    """Calls on four files, in the order of a log: threads have chunks of their own, each in the order of time."""
    rows: list[Row] = []
    for time in range(count):
        thread, kind = chance.randrange(threads), chance.choice((0, 1, 2, 3, 3, 4, 4, 4, 5, 6))
        file = chance.randrange(1, 5) if threads == 1 else 1 + thread * 2 + chance.randrange(2)
        size = chance.randrange(1, 9) if kind in (Event.READ, Event.WRITTEN) else 0
        to = chance.randrange(4) if kind == Event.RENAMED else -1
        rows.append((thread, 10 + thread, file, file % 4, kind, to, 1000 + time, size))
    chunks = [rows[at : at + 7] for at in range(0, count, 7)]
    return [row for chunk in chunks for thread in range(threads) for row in chunk if row[0] == thread]


def divided(chance: random.Random, rows: list[Row]) -> Iterator[list[Row]]:
    at = 0
    while at < len(rows):
        size = chance.randrange(1, 40)
        yield rows[at : at + size]
        at += size


def as_rows(events: Events) -> list[tuple[int, ...]]:
    return list(zip(*(events[name].tolist() for name in NAMES), strict=True))


def added(parts: list[list[Row]]) -> Part:
    whole = Part()
    for rows in parts:
        part = Part()
        part.add(merged(events_of(rows)))
        whole.update(part)
    return whole


@pytest.mark.parametrize("seed", range(20))
def test_any_division_gives_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN calls of three threads WHEN they come in batches, some of which are merged early or sent elsewhere
    chance = random.Random(seed)
    rows = rows_at_random(chance, 3, 400)
    expected = as_rows(merged(events_of(rows)))
    monkeypatch.setattr(file_events, "_FEW", chance.choice((3, 50, 1000)))
    parts = list(divided(chance, rows))
    middle = chance.randrange(len(parts) + 1)
    left, right = added(parts[:middle]), pickle.loads(pickle.dumps(added(parts[middle:])))
    left.update(right)
    # THEN the events are those of all calls at once, and fewer than there were calls
    assert as_rows(left.events()) == expected and left.more == 0 and len(expected) < len(rows)


def plainly(rows: list[Row]) -> dict[int, tuple[int, int, bool]]:
    """By path, what overwritten() has to find where each file has one thread."""
    found: dict[int, tuple[int, int, bool]] = {}
    for file in {row[2] for row in rows}:
        own = sorted((row for row in rows if row[2] == file and row[4] != Event.SYNCED), key=lambda row: row[6])
        marks = [row[4] for row in own if row[4] <= Event.REMOVED]
        if not marks or marks[-1] != Event.EMPTIED:
            continue
        lives: list[list[Row]] = [[]]
        for row in own:
            again = row[4] == Event.EMPTIED and lives[-1] and lives[-1][-1][4] == Event.EMPTIED
            lives += [[]] if row[4] <= Event.REMOVED and not again else []
            lives[-1].append(row)
        read = False
        for before, after in pairwise(lives):
            kinds = {row[4] for row in after}
            read |= any(row[4] == Event.READ for row in before)
            had_content = {Event.READ, Event.WRITTEN} & {row[4] for row in before}
            if after[0][4] == Event.EMPTIED and had_content and Event.WRITTEN in kinds and Event.APPENDED not in kinds:
                times, size, was_read = found.get(after[0][3], (0, 0, False))
                more = sum(row[7] for row in after if row[4] == Event.WRITTEN)
                found[after[0][3]] = times + 1, size + more, was_read or read
    return found


@pytest.mark.parametrize("seed", range(40))
def test_a_plain_loop_finds_the_same(seed: int) -> None:
    # GIVEN calls of one thread on each file WHEN the files that were overwritten are found
    rows = rows_at_random(random.Random(seed), 1 + seed % 2, 120)
    found = overwritten(FileEvents(merged(events_of(rows)), {}, 0), str)
    # THEN they are those of a loop over all calls
    assert {int(one.path): (one.times, one.moved, one.read) for one in found} == plainly(rows)


def test_most_seeds_find_something() -> None:
    rows = [rows_at_random(random.Random(seed), 1 + seed % 2, 120) for seed in range(40)]
    assert sum(bool(plainly(one)) for one in rows) > 20


def renames(rows: list[Row]) -> dict[int, int]:
    """By new name, how many renames over content replaced() has to find, where each file has one thread."""
    content: dict[int, bool] = {}
    found: dict[int, int] = {}
    written: dict[int, bool | None] = {}  # by file: None: nothing, True: not synced
    for _, _, file, path, kind, to, _, _ in sorted(rows, key=lambda row: row[6]):
        if kind == Event.RENAMED:
            content[path] = False
            if written.get(file) and content.get(to):
                found[to] = found.get(to, 0) + 1
            content[to] = written.get(file) is not None
        elif kind in (Event.READ, Event.WRITTEN):
            content[path] = True
        elif kind in (Event.REMOVED, Event.EMPTIED):
            content[path] = False
        if kind <= Event.REMOVED:
            written[file] = None
        elif kind == Event.WRITTEN:
            written[file] = True
        elif kind == Event.SYNCED and written.get(file):
            written[file] = False
    return found


def test_no_rename_is_found_that_a_plain_loop_does_not_find() -> None:
    found, expected = 0, 0
    for seed in range(60):
        # GIVEN calls of one thread on each file, with renames to other names than theirs; at last, all are used
        rows = [row for row in rows_at_random(random.Random(seed), 1, 120) if row[5] != row[3]]
        rows += [(0, 10, 5 + path, path, Event.READ, -1, 5000 + path, 1) for path in range(4)]
        names = {code: str(code) for code in range(4)}
        saves = replaced(FileEvents(merged(events_of(rows)), names, 0), str)
        # THEN those that replaced content without a sync are some of those that a loop over all calls finds
        true = renames(rows)
        assert all(one.times <= true.get(int(one.path), 0) for one in saves), seed
        found, expected = found + sum(one.times for one in saves), expected + sum(true.values())
    # AND it finds most of them: it may only miss files whose name was used for several files
    assert expected > 100 and found > 0.7 * expected


def test_events_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN memory for 64 events WHEN many files are written once, and one again and again
    monkeypatch.setattr(file_events, "_MOST", 64)
    monkeypatch.setattr(file_events, "_FEW", 8)
    again = [(0, 1, 1, 1, kind, -1, 10 * n + kind, 1) for n in range(10) for kind in (Event.EMPTIED, Event.WRITTEN)]
    once = [(0, 1, 2 + n, 2, Event.WRITTEN, -1, 1000 + n, 1) for n in range(200)]
    part = added([again, *([row] for row in once)])
    found = overwritten(FileEvents(part.events(), {}, part.more), str)
    # THEN the file with marks is kept, and the others are counted
    assert len(part.events()["file"]) <= 64 and part.more >= 200 - 64
    assert [(one.path, one.times) for one in found] == [("1", 9)]
    # WHEN one file has more than that THEN no more is added, and it is counted
    rows = [(0, 1, 1, 1, kind, -1, 10 * n + kind, 1) for n in range(500) for kind in (Event.EMPTIED, Event.WRITTEN)]
    part = added([[row] for row in rows])
    assert len(part.events()["file"]) == 32 and part.more == 1000 - 32


PROGRAM = """
import os, threading
def save(name):
    for n in range(20):
        with open(name, "w") as f: f.write("x" * n)
        with open(name + ".new", "w") as f: f.write("y")
        os.replace(name + ".new", name + ".state")
threads = [threading.Thread(target=save, args=(f"f{n}",)) for n in range(3)]
for one in threads: one.start()
for one in threads: one.join()
"""


def test_a_log_in_batches_of_any_size(program: Runner) -> None:
    # GIVEN a log of three threads WHEN it comes in batches of different sizes
    log = succeeded(program.traced(PROGRAM)).log
    columns = Decoder.of(log, FILE_EVENTS.columns).needed
    found = [scan(log, [FILE_EVENTS], batches=log.batches(columns, rows))[0] for rows in (1, 7, 100, 1 << 20)]
    # THEN the events are the same, and have what each thread did
    for one in found[1:]:
        assert as_rows(one.events) == as_rows(found[0].events) and one.names == found[0].names
    kinds = found[0].events["kind"].tolist()
    assert (kinds.count(Event.EMPTIED), kinds.count(Event.RENAMED)) == (120, 60)
    names = log.dictionary("path").to_pylist()
    times = {one.path.rpartition("/")[2]: one.times for one in overwritten(found[0], lambda code: names[code])}
    assert times == {"f0": 18, "f1": 18, "f2": 18}  # not the second save: the first one wrote nothing
    states = replaced(found[0], lambda code: names[code])
    assert {one.path.rpartition("/")[2]: (one.times, one.moved) for one in states} == {
        f"f{n}.state": (19, 19) for n in range(3)
    }
