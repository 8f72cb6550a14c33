"""The operations in a page are those of the log: decoded in Python, row by row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyio_trace.cli.main import main
from pyio_trace.join.sources.facade import Log
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from pyio_trace.page import rows as page_rows
from pyio_trace.page import timeline as page_timeline
from pyio_trace.page.shown import shown
from tests.page.decode import Page
from tests.support.logwriter import LogWriter
from tests.support.programs import Runner
from tests.support.smallrun import small_run

NUMBERS = ("duration", "calls", "errno", "fd", "file_offset", "bytes_requested", "bytes_moved", "cpu_time", "time",
           "submitted")  # fmt: skip
TEXTS = ("layer", "op", "op_class", "op_role", "link", "path", "command", "site", "call_stack")


def page_of(log: Path, *options: str) -> Page:
    file = log.parent / "page.html"
    assert main(["report", str(log), "-o", str(file), "--force", *options]) == 0
    return Page(file)


def in_order(log: Log) -> list[dict[str, Any]]:
    """The rows of a log in the order of a page."""
    rows = log.operations([*NUMBERS, *TEXTS, "id", "parent", "process", "tid", "detail"]).to_pylist()
    endless = 1 << 63

    def key(row: dict[str, Any]) -> tuple[int, ...]:
        length = endless if row["duration"] is None else row["duration"]
        return *(-1 if row[name] is None else row[name] for name in ("process", "tid")), row["time"], -length, row["id"]

    return sorted(rows, key=key)


def check(page: Page, log: Log, wanted: list[dict[str, Any]] | None = None) -> None:
    rows, wanted = page.rows(log.info()["start"]), in_order(log) if wanted is None else wanted
    assert len(rows) == len(wanted) == page.facts["operations"]["shown"]
    place = {row["id"]: at for at, row in enumerate(wanted)}
    for made, row in zip(rows, wanted, strict=True):
        assert {name: made[name] for name in NUMBERS} == {name: row[name] for name in NUMBERS}
        texts = {name: None if row[name] is None else shown(row[name]) for name in TEXTS}
        assert {name: made[name] for name in TEXTS} == texts
        assert made["parent"] == place.get(row["parent"])
        assert (made["process"], made["tid"]) == tuple(
            -1 if row[name] is None else row[name] for name in ("process", "tid")
        )
        detail = json.loads(row["detail"] or "{}")
        assert made["extent"] == (detail.get("span_ns", 0) if row["calls"] > 1 else 0)
        assert (made["detail"] or "") == ("" if set(detail) <= {"span_ns"} else shown(row["detail"]))


@pytest.mark.parametrize("packed", [False, True])
def test_every_row_of_a_log(packed: bool, tmp_path: Path) -> None:
    log = small_run(tmp_path / "run.pyio")
    if packed:
        assert main(["pack", str(log)]) == 0
        log = tmp_path / "run.parquet"
    check(page_of(log), open_log(log))


def test_every_row_of_a_run(program: Runner) -> None:
    outcome = program.traced(
        """
        import threading
        import numpy

        def work(number):
            numpy.save(f"{number}.npy", numpy.arange(1000))
            numpy.load(f"{number}.npy")
            with open(f"{number}.txt", "w") as file:
                for _ in range(1000):
                    file.write("x")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        """
    )
    check(page_of(outcome.path), outcome.log)


def test_threads_have_names_and_what_they_do_comes_from_somewhere(program: Runner) -> None:
    outcome = program.traced(
        """
        import threading
        from concurrent.futures import ThreadPoolExecutor
        import pyio_trace

        def prefetch():
            with open("b", "w") as file:
                file.write("b")

        def store(name):
            with open(name, "w") as file:
                file.write("a")

        with pyio_trace.span("epoch"), ThreadPoolExecutor(1) as pool:
            pool.submit(store, "a").result()
        one = threading.Thread(target=prefetch)
        one.start()
        one.join()
        """
    )
    page = page_of(outcome.path)
    names = {lane[5] for lane in page.head["lanes"] if lane[1] != page.facts["processes"][0]["pid"]}
    assert names == {"thread pool", "prefetch"}
    rows = page.rows(outcome.log.info()["start"])
    # GIVEN work that a span submitted THEN a flow leads from the span to what the thread did
    led = [
        (rows[one]["op"], rows[other]["tid"] != rows[one]["tid"], rows[other]["parent"]) for one, other in page.flows()
    ]
    assert ("epoch", True, next(at for at, row in enumerate(rows) if row["op"] == "epoch")) in led


def forged(path: Path, **columns: pa.Array) -> Path:
    """The small run, packed, with other columns."""
    assert main(["pack", str(small_run(path.with_suffix(".pyio"))), str(path)]) == 0
    table = pq.read_table(path)
    for name, column in columns.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), column(table) if callable(column) else column)
    pq.write_table(table, path)
    return path


LIES = {
    "a parent that is no row": {"parent": lambda table: pa.array([7] * len(table), pa.int64())},
    "each its own parent": {"parent": lambda table: table["id"]},
    "parents in a circle": {"parent": lambda table: pa.array([*table["id"].to_pylist()[1:], table["id"][0].as_py()])},
    "times at both ends": {
        "time": lambda table: pa.array([(-(1 << 63), (1 << 63) - 1)[at % 2] for at in range(len(table))])
    },
    "endless durations": {"duration": lambda table: pa.array([(1 << 63) - 1 - at for at in range(len(table))])},
    "negative durations": {"duration": lambda table: pa.array([-at for at in range(len(table))])},
    "large offsets": {"file_offset": lambda table: pa.array([(1 << 63) - 1 - at for at in range(len(table))])},
    "negative sizes": {"bytes_moved": lambda table: pa.array([-(1 << 62)] * len(table))},
    "a thread for each": {"tid": lambda table: pa.array([*range(len(table))], pa.int32())},
    "no process": {"process": lambda table: pa.array([None] * len(table), pa.int32())},
    "the same id": {"id": lambda table: pa.array([5] * len(table), pa.int64())},
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_a_log_that_lies(lie: str, tmp_path: Path) -> None:
    """GIVEN a log with impossible numbers WHEN its page is made THEN it has the rows that the reader gives, or there is
    one line of error."""
    log = forged(tmp_path / "lie.parquet", **LIES[lie])
    if main(["report", str(log), "-o", str(tmp_path / "x.html")]) == 2:
        return
    if lie != "the same id":  # then a parent may be any of them
        check(page_of(log), open_log(log))


def test_of_many_the_longest_are_kept_and_the_others_summed(tmp_path: Path) -> None:
    log = small_run(tmp_path / "run.pyio")
    rows = in_order(open_log(log))
    for most in (0, 1, 5, len(rows) - 1):
        page = page_of(log, "--max-operations", str(most))
        by_length = sorted(rows, key=lambda row: -(1 << 63 if row["duration"] is None else row["duration"]))
        ids = {row["id"] for row in by_length[:most]}
        check(page, open_log(log), [row for row in rows if row["id"] in ids])
        operations = page.facts["operations"]
        left = by_length[most:]
        assert operations["of"] == len(rows)
        assert sum(one["calls"] for one in operations["rest"]) == sum(row["calls"] for row in left)
        assert sum(one["time"] for one in operations["rest"]) == sum(row["duration"] or 0 for row in left)
        assert operations["longest_left_out"] == max(row["duration"] or 0 for row in left)


def test_a_page_that_would_be_too_large_has_fewer_operations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = small_run(tmp_path / "run.pyio")
    whole = page_of(log).facts["operations"]
    rows, lanes = page_rows.lanes_of(page_rows.rows_of(open_log(log), 1000))
    size = page_timeline.timeline_of(rows, lanes, 0).size
    monkeypatch.setattr("pyio_trace.page.report.MOST_BYTES", size - 1)
    less = page_of(log).facts["operations"]
    assert 0 < less["shown"] < whole["shown"]
    calls = sum(row["calls"] for row in in_order(open_log(log)))
    kept = sum(row["calls"] for row in page_of(log).rows(0))
    assert sum(one["calls"] for one in less["rest"]) == calls - kept


def test_a_page_has_lanes_for_the_busiest_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = LogWriter()
    process = writer.process(100, argv=["python", "x.py"], begin=1_000, end=9_000, end_kind=layout.END_EXIT)
    file = writer.desc(3, "/d/a", kind=1)
    for tid in range(5):
        thread = writer.thread(process, 100 + tid)
        for at in range(tid + 1):
            thread.record("PREAD", begin=2_000 + at, duration=5, desc=file, size=8, result=8, offset=at)
    monkeypatch.setattr(page_rows, "MOST_LANES", 2)
    page = page_of(writer.save(tmp_path / "run.pyio"))
    assert [(tid, count) for _, tid, count, *_ in page.head["lanes"]] == [(103, 4), (104, 5)]
    assert [one["calls"] for one in page.facts["operations"]["rest"]] == [6]


def test_too_much_text_is_left_out_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_timeline, "MOST_TEXT", 12)
    page = page_of(small_run(tmp_path / "run.pyio"))
    paths = {row["path"] for row in page.rows(0)}
    assert page.facts["operations"]["left_out"]["path"] >= 2
    assert page_timeline.LEFT_OUT in paths and "/d/in.bin" in paths


def test_a_log_of_nothing_and_a_profile_have_no_timeline(tmp_path: Path, program: Runner) -> None:
    writer = LogWriter()
    writer.process(100, argv=["python", "x.py"], begin=1_000, end=9_000, end_kind=layout.END_EXIT)
    page = page_of(writer.save(tmp_path / "empty.pyio"))
    assert page.facts["operations"]["shown"] == 0 and page.facts["run"]["command"] == "x.py"
    outcome = program.traced("open('a', 'w').write('x')", env={"PYIO_TRACE_MODE": "profile"})
    page = page_of(outcome.path)
    assert page.facts["operations"]["shown"] == 0 and page.facts["run"]["mode"] == "profile"
    assert page.facts["files"]


def test_the_ranks_of_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in range(2):
        small_run(folder / f"run-rank{rank}.pyio")
    check(page_of(folder), open_log(folder))
