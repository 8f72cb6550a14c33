"""The figures of a run small enough to be worked out by hand (tests/support/smallrun.py)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyio_trace.analysis.results.figures import Summary
from pyio_trace.analysis.summary import cost
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.opening import open_log
from tests.support.logwriter import LogWriter
from tests.support.smallrun import START, small_run


@pytest.fixture
def summary(tmp_path: Path) -> Summary:
    return summarize(open_log(small_run(tmp_path / "run.pyio")))


def test_the_run(summary: Summary) -> None:
    run = summary.run
    assert (run.command, run.start, run.wall, run.running) == (["python", "train.py"], START, 1_000_000, False)
    assert (run.records, run.calls, run.mode, run.format) == (14, 14 + 999, "trace", "live")


def test_time_is_a_union_of_outermost_calls(summary: Summary) -> None:
    # open 1,000; app read 10,000; read 5,000; write and the overlapping read 50,000..75,000; stat 2,000; lines 50,000
    top = 1_000 + 10_000 + 5_000 + 25_000 + 2_000 + 50_000
    # a read; that of the FIFO, from 700,000 to the end, is a wait
    child = 1_000
    assert [p.busy for p in summary.processes] == [top, child]
    assert (summary.time.busy, summary.time.wall) == (top + child, 1_000_000 + 400_000)
    assert summary.time.share == pytest.approx((top + child) / 1_400_000)


def test_layers(summary: Summary) -> None:
    layers = {layer.layer: layer for layer in summary.layers}
    assert list(layers) == ["app", "user", "posix"]
    app, posix = layers["app"], layers["posix"]
    assert (app.count, app.time, app.busy, app.read) == (1_001, 60_000, 60_000, 30_100)
    assert (posix.count, posix.read, posix.written) == (9, 8_192 + 8_192 + 30_000 + 500 + 4_096, 1_000)
    assert posix.time == 1_000 + 6_000 + 5_000 + 20_000 + 2_000 + 9_000 + 15_000 + 1_000 + 200_000
    assert posix.busy == posix.time - 10_000 - 200_000  # the overlap; the read of the FIFO
    assert (layers["user"].count, layers["user"].time) == (1, 100_000)


def test_bytes(summary: Summary) -> None:
    figures = summary.bytes
    assert (figures.asked_read, figures.asked_written) == (100 + 30_000, 0)
    assert (figures.below_read, figures.below_written) == (8_192 + 30_000, 0)
    assert figures.read_amplification == pytest.approx(38_192 / 30_100)
    assert figures.write_amplification is None
    # in.bin: 0..12,288 and 12,288..42,288; out.bin: 500..1,000 read, 0..1,000 written
    assert (figures.distinct_read, figures.distinct_written, figures.distinct) == (42_288 + 500, 1_000, 43_288)


def test_metadata_and_imports(summary: Summary) -> None:
    assert (summary.metadata.count, summary.metadata.time) == (2, 3_000)
    assert summary.metadata.share == pytest.approx(3_000 / 259_000)
    assert (summary.imports.count, summary.imports.time, summary.imports.bytes) == (2, 3_000, 500)


def test_top_lists(summary: Summary) -> None:
    assert [(f.path, f.time, f.opens, f.reads, f.writes, f.read, f.written) for f in summary.files] == [
        ("/d/in.bin", 1_000 + 10_000 + 5_000 + 50_000 + 1_000, 1, 4, 0, 50_480, 0),
        ("/d/out.bin", 35_000, 0, 1, 1, 500, 1_000),
        ("/d/none", 2_000, 0, 0, 0, 0, 0),
        ("/d/fifo", 0, 0, 1, 0, 0, 0),
    ]
    assert [(s.site, s.count, s.time, s.read, s.written) for s in summary.sites] == [
        ("/home/u/train.py:10:main", 1_002, 61_000, 30_100, 0),
        ("/home/u/train.py:20:main", 3, 27_000, 8_192, 1_000),
    ]
    first = summary.operations[0]
    assert (first.layer, first.op, first.op_class, first.count, first.time) == ("posix", "read", "read", 1, 200_000)
    assert [o.op for o in summary.operations] == ["read", "TextIOWrapper.__next__", "pread", "pwrite",
                                                  "BufferedReader.read", "stat", "openat"]  # fmt: skip
    assert {o.op: o.errors for o in summary.operations}["stat"] == 1


def test_sizes_and_errors(summary: Summary) -> None:
    reads = {label: count for label, count in summary.reads.bins if count}
    assert reads == {"100-1K": 1, "1K-10K": 3, "10K-100K": 1}
    assert summary.reads.common == [(8_192, 2), (30_000, 1), (4_096, 1), (500, 1)]
    assert summary.writes.common == [(1_000, 1)]
    assert [(e.op, e.name, e.count) for e in summary.errors] == [("stat", "ENOENT", 1)]


def test_in_flight_and_unseen(summary: Summary) -> None:
    assert summary.in_flight_count == 1
    (one,) = summary.in_flight
    assert (one.pid, one.op, one.path, one.time) == (200, "read", "/d/fifo", 699_000)
    assert [p.ended for p in summary.processes] == ["exit 0", "signal 9 (SIGKILL)"]
    assert summary.unseen.losses["operations_counted_only"] == 7
    assert summary.unseen.losses["io_uring"] == 1
    assert summary.unseen.notes == ["python -c (200): no stacks: unknown Python"]
    assert summary.cost.time == cost.estimate(14, 999, 7)


def test_the_packed_log_says_the_same(tmp_path: Path, summary: Summary) -> None:
    pack(tmp_path / "run.pyio", tmp_path / "run.parquet")
    packed = summarize(open_log(tmp_path / "run.parquet")).to_dict()
    live = summary.to_dict()
    for figures in (packed, live):
        del figures["run"]
    assert packed == live


def test_json_able(summary: Summary) -> None:
    assert json.loads(json.dumps(summary.to_dict()))["bytes"]["asked_read"] == 30_100


def test_nothing_recorded(tmp_path: Path) -> None:
    writer = LogWriter()
    empty = summarize(open_log(writer.save(tmp_path / "none.pyio")))
    assert (empty.run.calls, empty.files, empty.processes, empty.time.share) == (0, [], [], None)
    writer.process(100, begin=1_000, end=2_000, end_kind=1)
    idle = summarize(open_log(writer.save(tmp_path / "idle.pyio")))
    assert (idle.run.wall, idle.time.busy, idle.time.share) == (1_000, 0, 0.0)


def test_a_folder_of_logs_adds_up(tmp_path: Path, summary: Summary) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (tmp_path / "run.pyio").rename(folder / "a.pyio")
    raw = bytearray((folder / "a.pyio").read_bytes())
    raw[32] ^= 1  # another run
    (folder / "b.pyio").write_bytes(raw)
    both = summarize(open_log(folder))
    assert both.run.calls == 2 * summary.run.calls
    assert both.time.busy == 2 * summary.time.busy
    assert both.bytes.asked_read == 2 * summary.bytes.asked_read
    assert both.bytes.below_read == 2 * summary.bytes.below_read
    assert len(both.processes) == 4


def test_starting_programs_is_not_io(tmp_path: Path) -> None:
    writer = LogWriter()
    thread = writer.thread(writer.process(1, begin=1_000, end=9_000, end_kind=1), 1)
    thread.record("FORK", begin=2_000, duration=500)
    thread.record("EXEC", begin=3_000, duration=500, desc=writer.string("/bin/none"), errno=2)
    thread.record("STAT", begin=4_000, duration=100, desc=writer.string("/d/x"))
    found = summarize(open_log(writer.save(tmp_path / "x.pyio")))
    assert (found.time.busy, found.errors, [f.path for f in found.files]) == (100, [], ["/d/x"])
    assert [o.op for o in found.operations] == ["stat"]
    assert [(layer.layer, layer.count, layer.time) for layer in found.layers] == [("posix", 1, 100)]
