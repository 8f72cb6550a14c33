"""The parts of a run: each operation is in a part by itself or in its bins, in the line of a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pyio_trace.cli.main import main
from pyio_trace.errors import LogError
from pyio_trace.join.sources.opening import open_log
from pyio_trace.page import levels as levels_module
from pyio_trace.page.bins import Grid, binned, summed
from pyio_trace.page.depths import DEPTHS, depths, free_from_the_start
from pyio_trace.page.levels import Levels
from pyio_trace.page.parts import packed
from pyio_trace.page.rows import lanes_of, rows_of
from tests.page.test_rows import LIES, forged
from tests.support.logwriter import LogWriter
from tests.support.smallrun import START, small_run


def test_bins_hold_all_of_the_time() -> None:
    # GIVEN operations of all lengths WHEN they are put into bins THEN their time is there, each in its place
    random = np.random.default_rng(3)
    begin = random.integers(0, 90_000, 500)
    length = np.minimum((10 ** random.uniform(0, 4, 500)).astype(np.int64), 100_000 - begin)
    strand = random.integers(0, 3, 500)
    found = binned(Grid(0, 100_000, 64), strand, 3, begin, length, length)
    assert found.calls.sum() == 500
    for one in range(3):
        mine = strand == one
        wanted = [
            np.clip(np.minimum(begin + length, edge + 100_000 / 64) - np.maximum(begin, edge), 0, None)[mine].sum()
            for edge in np.arange(64) * 100_000 / 64
        ]
        assert np.allclose(found.time[one], wanted)
    assert np.allclose(summed(found, 8).time.sum(axis=1), found.time.sum(axis=1))


def test_what_takes_no_time_is_counted() -> None:
    zero = np.zeros(2, np.int64)
    found = binned(Grid(0, 10, 2), zero, 1, np.array([5, 20]), zero, zero)
    assert found.calls.tolist() == [[0, 1]] and not found.time.any()


@pytest.mark.parametrize("kind", ["nested", "overlapping", "rolling"])
def test_depths_are_the_first_free_line(kind: str) -> None:
    random = np.random.default_rng(5)
    if kind == "nested":
        spans = [(0, 1000), (10, 500), (20, 30), (20, 25), (40, 500), (500, 600), (500, 500), (700, 1000), (1000, 1001)]
    elif kind == "overlapping":
        spans = [(int(at), int(at + random.integers(0, 400))) for at in random.integers(0, 1000, 200)]
    else:
        spans = [(10 * at, 10 * at + 25) for at in range(200)]
    rows = sorted(((lane, *span) for lane in range(3) for span in spans), key=lambda one: (one[0], one[1], -one[2]))
    lane, begin, end = (np.array(one) for one in zip(*rows, strict=True))
    wanted = []
    free = {one: [-1] * DEPTHS for one in range(3)}
    for one, first, last in rows:
        level = next((at for at, until in enumerate(free[one]) if until <= first), DEPTHS - 1)
        free[one][level] = max(free[one][level], last)
        wanted.append(level)
    assert depths(lane, begin, end, free_from_the_start(3)).tolist() == wanted
    # division by division it is the same
    state, parts = free_from_the_start(3), np.zeros(len(rows), np.int64)
    for part in (begin < 300, begin >= 300):
        parts[part] = depths(lane[part], begin[part], end[part], state)
    assert parts.tolist() == wanted


def nested_run(path: Path, count: int) -> Path:
    """Two threads, in whose spans are calls of 10, 20, 30 ... ns."""
    writer = LogWriter()
    process = writer.process(100, argv=["python", "x.py"], begin=1_000, end=1_000 + 1_000 * count)
    for tid in (100, 101):
        thread = writer.thread(process, tid)
        for at in range(count):
            begin = 1_000 + 1_000 * at
            if at % 10 == 0:
                around = thread.record("SPAN_USER", begin=begin, duration=9_500, aux=writer.string("step"))
            thread.record("STAT", begin=begin + 5, duration=10 * (at % 7 + 1), desc=writer.string("/d"), parent=around)
    return writer.save(path)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("most", [20, 100_000])
def test_every_operation_is_in_each_part_once(
    most: int, packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = nested_run(tmp_path / "a.pyio", 400)
    if packed:
        assert main(["pack", str(log)]) == 0
        log = tmp_path / "a.parquet"
    monkeypatch.setattr(levels_module, "MOST_ROWS", most)
    opened = open_log(log)
    start = opened.info()["start"]
    levels = Levels(opened, start, (0, 401_000))
    table = opened.operations(["time", "duration"]).to_pydict()
    begin = np.array(table["time"]) - start
    end = begin + np.array(table["duration"])
    for level in range(12):
        for place in {0, 1, (1 << level) // 3, (1 << level), (2 << level) - 2}:
            if not levels.has(level, place):
                continue
            part = levels.part(level, place)
            low, high = levels.bounds(level, place)
            there = (begin < high) & (end >= low)
            assert len(part.rows) <= most
            began = (begin >= low) & (begin < high)
            shown = part.rows.values["time"] - start
            assert part.bins.calls.sum() + ((shown >= low) & (shown < high)).sum() == pytest.approx(began.sum(), abs=2)
            if most > len(begin) and level > 4:
                assert len(part.rows) == there.sum() and not part.bins.calls.any()
            # the longest are shown
            if len(shown) and level > 4:
                durations = np.sort(np.array(table["duration"])[there])[::-1]
                assert sorted(part.rows.values["duration"].tolist(), reverse=True) == durations[: len(shown)].tolist()


def test_lines_are_those_of_a_file(tmp_path: Path) -> None:
    log = open_log(small_run(tmp_path / "run.pyio"))
    rows, lanes = lanes_of(rows_of(log, 1000))
    part = Levels(log, START, (0, 1_000_000)).part(6, 0)
    depth = dict(zip(rows.values["id"].tolist(), rows.values["depth"].tolist(), strict=True))
    assert len(part.rows) and all(
        depth[one] == at
        for one, at in zip(part.rows.values["id"].tolist(), part.rows.values["depth"].tolist(), strict=True)
    )
    assert [(one.process, one.tid, one.depths, one.of) for one in part.lanes] == [
        (one.process, one.tid, one.depths, one.of) for one in lanes
    ]


def test_more_strands_make_wider_bins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels_module, "_MOST_BINS", 1 << 13)
    levels = Levels(open_log(nested_run(tmp_path / "a.pyio", 300)), START, (0, 301_000))
    assert levels.part(0, 0).bins.time.shape[1] == 2048
    assert levels.part(4, 2).bins.time.shape[1] < 2048


def test_threads_beyond_the_most_share_a_lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels_module, "MOST_LANES", 1)
    part = Levels(open_log(nested_run(tmp_path / "a.pyio", 100)), START, (0, 101_000)).part(6, 0)
    assert len(part.lanes) == 2 and (part.lanes[0].process, part.lanes[0].tid) == (-1, -1)
    assert sum(one.of for one in part.lanes) == 220


@pytest.mark.parametrize("lie", LIES)
def test_a_log_that_lies(lie: str, tmp_path: Path) -> None:
    try:
        log = open_log(forged(tmp_path / "a.parquet", **LIES[lie]))
        levels = Levels(log, START, (0, 1_000_000))
    except LogError:
        return
    for level, place in ((0, 0), (1, 2), (5, 3), (9, 100), (51, 0), (51, (2 << 51) - 2)):
        assert levels.has(level, place)
        part = levels.part(level, place)
        assert np.isfinite(part.bins.time).all() and (part.bins.time >= 0).all()
        assert packed(part, START, log)
