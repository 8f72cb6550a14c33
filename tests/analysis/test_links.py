"""How many parents are known, and how surely; which calls are outermost when parents stand anywhere in the log."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from pyio_trace.analysis.summary.link_shares import FILE_CALLS
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.enums import Layer, OpClass
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources import live_source
from pyio_trace.join.sources.opening import open_log
from pyio_trace.join.tables import first_pass
from pyio_trace.log import layout
from pyio_trace.report.text import print_summary
from tests.join.test_links import opened, read, span
from tests.support.logwriter import OP_ROWS, LogWriter


def text_of(path: Path) -> str:
    out = io.StringIO()
    print_summary(summarize(open_log(path)), out, names=None)
    return out.getvalue()


def test_shares_of_a_run(tmp_path: Path) -> None:
    # GIVEN reads of 10 bytes: 4 in a span, 3 through its descriptor, 2 of a declared file, 1 of some other file, and
    # 5 while no span is open, or none in their process; a stat while one is, of some other file; a fork; an import
    writer = LogWriter()
    process, other = writer.process(100), writer.process(200, start=layout.START_FORK)
    main, pool, child = writer.thread(process, 100), writer.thread(process, 101), writer.thread(other, 200)
    path = writer.string("/declared")
    desc, declared = writer.desc(3, "/opened", dev=1, ino=2), writer.desc(4, path, dev=1, ino=3)
    another = writer.desc(5, "/another", dev=1, ino=4)
    loading = writer.stack((writer.code("<frozen importlib._bootstrap_external>", "get_data"), 1))
    one = span(main, 2_000, 3_000, path)
    opened(main, 2_001, desc, writer.string("/opened"), one)
    for n in range(4):
        read(main, 2_100 + n, desc, parent=one, link=1)
    for n in range(3):
        read(pool, 2_200 + n, desc)
    for n in range(2):
        read(pool, 2_300 + n, declared)
    read(pool, 2_400, another)
    for thread, begin in ((pool, 1_500), (pool, 3_000), (main, 3_001), (child, 2_500), (child, 2_600)):
        read(thread, begin, declared)
    pool.record("STAT", begin=2_500, desc=writer.string("/else"))
    main.record("FORK", begin=2_600)
    read(pool, 2_700, another, stack=loading)
    log = writer.save(tmp_path / "run.pyio")
    pack(log, tmp_path / "run.parquet")
    # WHEN it is summarised, live or packed
    for path_of in (log, tmp_path / "run.parquet"):
        links = summarize(open_log(path_of)).links
        # THEN each is where it belongs
        assert [(row.link, row.count, row.bytes, row.share) for row in links] == [
            ("thread", 5, 40, 5 / 12), ("descriptor", 3, 30, 3 / 12), ("inferred", 2, 20, 2 / 12),
            ("none", 2, 10, 2 / 12), ("outside", 5, 50, None),
        ]  # fmt: skip
        text = " ".join(text_of(path_of).split())
        assert "parents known: 41.7 % thread, 25.0 % descriptor, 16.7 % inferred, 16.7 % none; outside any" in text


def test_what_is_a_span_and_what_a_call_of_a_file_object() -> None:
    # by their names: a Parquet log says no more; held against the operations that the capture has
    calls = {
        row["name"].decode()
        for row in OP_ROWS
        if row["layer"] == Layer.APP
        and row["klass"] in (OpClass.READ, OpClass.WRITE)
        and row["shape"] != layout.SHAPE_SPAN
    }
    assert calls and all(name.startswith(FILE_CALLS) for name in calls)


@pytest.mark.parametrize("op", ["SPAN_APP", "SPAN_APP_READ", "SPAN_APP_WRITE", "SPAN_USER", "SPAN_HDF5", "A_BUF_READ"])
def test_what_is_outside_of_each(tmp_path: Path, op: str) -> None:
    # GIVEN a read while some other thread's call is under way WHEN summarised THEN it counts only if that is a span
    writer = LogWriter()
    process = writer.process(100)
    span(writer.thread(process, 100), 2_000, 3_000, op=op)
    read(writer.thread(process, 101), 2_500, writer.desc(3, "/x"))
    links = summarize(open_log(writer.save(tmp_path / "run.pyio"))).links
    assert [(row.link, row.count) for row in links] == ([] if op == "A_BUF_READ" else [("none", 1)])


def test_nothing_is_said_where_there_are_no_spans(tmp_path: Path) -> None:
    writer = LogWriter()
    read(writer.thread(writer.process(100), 100), 2_000, writer.desc(3, "/x"))
    log = writer.save(tmp_path / "run.pyio")
    assert summarize(open_log(log)).links == []
    assert "parents known" not in text_of(log)


@pytest.mark.parametrize("rows", [1 << 16, 3])
def test_a_parent_that_stands_further_on_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    # GIVEN a thread of a pool whose place in the log is before that of the span whose descriptor it reads
    writer = LogWriter()
    process = writer.process(100)
    pool, main = writer.thread(process, 101), writer.thread(process, 100)
    desc = writer.desc(3, "/opened", dev=1, ino=2)
    read(pool, 1_500, desc)
    ahead = pool.at >> layout.ID_SHIFT
    pool.at += 10 * layout.RECORD.itemsize
    one = span(main, 2_000, 3_000)
    opened(main, 2_001, desc, writer.string("/opened"), one)
    pool.at = ahead << layout.ID_SHIFT
    for n in range(8):
        read(pool, 2_100 + n, desc)
    log = writer.save(tmp_path / "run.pyio")
    pack(log, tmp_path / "run.parquet")
    monkeypatch.setattr(live_source, "BLOCK_ROWS", rows)
    monkeypatch.setattr(first_pass, "BLOCK_ROWS", rows)
    # WHEN it is summarised THEN the reads are part of the span's call, whatever is read first
    for path in (log, tmp_path / "run.parquet"):
        summary = summarize(open_log(path))
        assert (
            summary.bytes.posix_read == 90 and summary.bytes.below_read == 0
        )  # nobody said that the span asks for bytes
        assert sum(file.time for file in summary.files) == 10
