"""Figures in words, the summary as text, and tables in four formats."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyio_trace.analysis.results.figures import Mapped, Unseen
from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.analysis.summary.weaknesses import weaknesses
from pyio_trace.analysis.tables.sums_tables import by_stack
from pyio_trace.join.sources.opening import open_log
from pyio_trace.report.folded import folded
from pyio_trace.report.plain import plain_lines
from pyio_trace.report.sections import Section, Table
from pyio_trace.report.tables import write_table
from pyio_trace.report.terminal import print_sections
from pyio_trace.report.text import SEARCHED_AT_END, print_summary
from pyio_trace.units import counted, number, percent, seconds, shortened, significant, size
from tests.support.smallrun import small_run
from tests.support.summaries import summary, unseen_lines


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0 ns"), (999, "999 ns"), (1_530, "1.53 us"), (12_700_000, "12.7 ms"), (999_999_999, "1000 ms"),
     (2_000_000_000, "2 s"), (125_400_000_000, "125 s"), (200 * 10**9, "3 min 20 s"), (7500 * 10**9, "2 h 5 min")],
)  # fmt: skip
def test_seconds(ns: int, text: str) -> None:
    assert seconds(ns) == text


def test_other_units() -> None:
    assert [size(n) for n in (0, 1023, 1024, 1536, 1300000, 1 << 40)] == [
        "0 B", "1023 B", "1 KiB", "1.50 KiB", "1.24 MiB", "1 TiB",
    ]  # fmt: skip
    assert [percent(s) for s in (None, 0.0, 0.00001, 0.004, 0.5, 1.0)] == [
        "-",
        "0 %",
        "<0.1 %",
        "0.4 %",
        "50 %",
        "100 %",
    ]
    assert (number(1234567), counted(1, "call"), counted(2, "child was", "children were")) == (
        "1,234,567", "1 call", "2 children were",
    )  # fmt: skip
    assert shortened("/a/long/path/to/x.bin", 12) == ".../to/x.bin"
    assert [significant(one) for one in (2.0, 2.284, 12.74, 999.4, 2489.7)] == ["2", "2.28", "12.7", "999", "2,490"]


def text_of(path: Path) -> str:
    out = io.StringIO()
    print_summary(summarize(open_log(small_run(path))), out, names=None, overview=False)
    return out.getvalue()


def test_plain_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = text_of(tmp_path / "run.pyio")
    assert text.isascii() and "\x1b" not in text
    assert all(len(line) <= 100 for line in text.splitlines() if str(tmp_path) not in line)
    for part in (
        "pyio_trace: python train.py",
        "1 ms wall time",
        "94 us in calls, 6.7 % of the 1.40 ms that 2 processes lived",
        "application asked for  29.4 KiB read",
        "1.27 x for reads",
        "imports (not above)    2 calls, 3 us, 500 B read",
        "/home/u/train.py:10:main",
        "most common reads: 8,192 B x 2",
        "ENOENT",
        "In flight when their process ended (1)",
        "signal 9 (SIGKILL)",
        "the log was full from",
        "7 calls only counted: see",
        "used io_uring",
        "Cost of tracing",
    ):
        assert part in text, part


def test_tables_fit_the_width() -> None:
    table = Table(("<a", ">n", "<path"), [("x", "1", "/" + "d" * 200), ("yy", "22", "/short")], 2)
    lines = list(plain_lines([Section("T" * 90, table=table)], 60))
    assert max(map(len, lines)) <= 60
    assert lines[0].endswith("...") and lines[2].endswith("ddd") and "..." in lines[2]
    assert lines[3] == "  yy  22  /short"


def test_on_a_terminal(tmp_path: Path) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    table = Table((">n", "<path"), [("1", "/[red]d"), ("2", "/e")], 1)
    print_sections([Section("Files", table=table), Section("Not seen", ["a [b] c"], bad=True)], screen)
    assert "/[red]d" in screen.getvalue() and "a [b] c" in screen.getvalue()  # never read as markup
    screen = Terminal()
    print_summary(summarize(open_log(small_run(tmp_path / "run.pyio"))), screen, names=None)
    assert "Files by time" in screen.getvalue()


@pytest.mark.parametrize(("operations", "said"), [(SEARCHED_AT_END, False), (SEARCHED_AT_END + 1, True)])
def test_a_large_log_says_that_nobody_looked_for_findings(tmp_path: Path, operations: int, said: bool) -> None:
    whole = summarize(open_log(small_run(tmp_path / "run.pyio")))
    stream = io.StringIO()
    print_summary(replace(whole, run=replace(whole.run, records_in_log=operations)), stream)
    assert ("FINDINGS  not looked for in so many operations: pyio-trace insights LOG" in stream.getvalue()) == said


def test_what_was_not_seen() -> None:
    losses = {
        "unfollowed": 2,
        "unfollowed_children": [["gzip", "-d"], [""]],
        "torn": 4096,
        "tracer_faults": 1,
        "unseen_read": 5 << 20,
        "mapped_touched": 3 << 20,
        "mapped_at_least": 8192,
        "mappings_unmeasured": 2,
        "io_uring": 1,
        "syscall": 2,
        "new_loss": 3,
    }
    mapped = [Mapped("/d/weights", 4, 3 << 20, 8192, 0)]
    found = weaknesses(Unseen(losses, {"pipe": (3, 1024)}, [], mapped))
    text = "\n".join(unseen_lines(summary(weaknesses=found)))
    for part in ("2 children were not followed", "gzip -d", "4 KiB of it could not be read", "new loss: 3",
                 "about 5 MiB read, 0 B written by system calls inside libc or without it",
                 "up to 3 MiB touched through mapped files, at least 8 KiB; 0 B written (estimated",
                 "/d/weights: up to 3 MiB touched, at least 8 KiB; 0 B written (estimated; 4 mappings)",
                 "2 file mappings not measured", "1 process used io_uring", "2 processes made raw system calls",
                 "pipe 3 calls, 1 KiB"):  # fmt: skip
        assert part in text
    assert weaknesses(Unseen({}, {}, [])) == []


@pytest.fixture
def table() -> pa.Table:
    return pa.table(
        {
            "time": pa.array([1_500_000_000, None], pa.int64()),
            "path": pa.array(['/a "b", c\n', "/é"]).dictionary_encode(),
            "errno": pa.array([0, 2], pa.int32()),
            "detail": pa.array([None, '{"x": 1}']),
        }
    )


def written(table: pa.Table, kind: str) -> bytes:
    out = io.BytesIO()
    rows = write_table([*table.slice(0, 1).to_batches(), *table.slice(1).to_batches()], table.schema, kind, out)
    assert rows == table.num_rows
    return out.getvalue()


def test_formats(table: pa.Table) -> None:
    plain: list[dict[str, object]] = [
        {"time": 1_500_000_000, "path": '/a "b", c\n', "errno": 0, "detail": None},
        {"time": None, "path": "/é", "errno": 2, "detail": '{"x": 1}'},
    ]
    assert json.loads(written(table, "json")) == plain
    rows = list(csv.DictReader(io.StringIO(written(table, "csv").decode())))
    assert rows == [{name: "" if value is None else str(value) for name, value in row.items()} for row in plain]
    assert pq.read_table(io.BytesIO(written(table, "parquet"))).to_pylist() == plain
    lines = written(table, "text").decode().splitlines()
    assert lines[0].split() == ["time", "path", "errno", "detail"]
    assert lines[1].split() == ["1.500000000", "/a", '"b",', r"c\n", "0", "-"]
    assert lines[2].split() == ["-", "/é", "2", '{"x":', "1}"]


@pytest.mark.parametrize("kind", ["json", "csv", "parquet", "text"])
def test_no_rows(table: pa.Table, kind: str) -> None:
    out = written(table.slice(0, 0), kind)
    if kind == "json":
        assert json.loads(out) == []
    elif kind == "parquet":
        assert pq.read_table(io.BytesIO(out)).num_rows == 0
    else:
        assert len(out.splitlines()) == 1


def test_folded(tmp_path: Path) -> None:
    stacks = by_stack(open_log(small_run(tmp_path / "run.pyio")))
    assert folded(stacks, "time").splitlines() == [
        "/home/u/train.py:10:main 61", "/home/u/train.py:20:main 27", "(no stack) 16",
    ]  # fmt: skip
    assert folded(stacks, "calls").splitlines()[0].endswith(" 1002")
    assert folded(stacks, "bytes").splitlines()[1].endswith(" 9192")
