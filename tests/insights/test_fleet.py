"""Thousands of logs together: what is summed up, what is kept in a log, what cannot be read."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.cli.main import main
from pyio_trace.insights import fleet as fleet_module
from pyio_trace.insights.fleet import Fleet, Looked, fleet_of, logs_in, look_at
from pyio_trace.insights.run_facts import NAME, FoundFact, RunFacts, facts_from, facts_in
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from pyio_trace.log.parquet_log import ATTACHMENT
from tests.support.logwriter import LogWriter
from tests.support.programs import Runner, succeeded

LOGS, JOBS = 200, 8


def one_log(path: Path, job: str = "", script: str = "train.py", run: int = 1, rank: int | None = None) -> Path:
    """A process of 100 us that read 4,000 B in 10 us and wrote 100 B in 5 us."""
    writer = LogWriter()
    writer.header["run_id"] = run
    process = writer.process(
        100, argv=["python", f"/home/ann/{script}"], version="3.11.7", begin=2_000, end=102_000,
        end_kind=layout.END_EXIT, job=writer.string(job) if job else 0,
        **({} if rank is None else {"global_rank": rank + 1, "world_size": 8}),
    )  # fmt: skip
    desc = writer.desc(3, "/data/in.bin", dev=1, ino=2)
    thread = writer.thread(process, 100)
    thread.record("PREAD", begin=10_000, duration=10_000, desc=desc, offset=0, size=4_000, result=4_000)
    thread.record("PWRITE", begin=30_000, duration=5_000, desc=desc, offset=0, size=100, result=100)
    writer.save(path.with_suffix(".pyio"))
    pack(path.with_suffix(".pyio"), path)
    path.with_suffix(".pyio").unlink()
    return path


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 logs of 8 jobs with the facts that a log keeps from the end of its run, in folders by job; most copied."""
    folder = tmp_path_factory.mktemp("fleet")
    for job in range(JOBS):
        below = folder / f"job-{job}"
        below.mkdir()
        first = one_log(below / "0.parquet", str(4000 + job), f"program{job % 2}.py", job)
        with_facts(first, json.dumps({"version": 1, **asdict(facts_from(open_log(first)))}).encode())
        assert facts_in(first) is not None
        for number in range(1, LOGS // JOBS):
            shutil.copy(first, below / f"{number}.parquet")
    return folder


def table(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["fleet", *words, "--format", "json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_two_hundred_logs(tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN a tree of logs WHEN they are summed up by job, user and program
    each = LOGS // JOBS
    jobs = table([str(tree)], capsys)
    # THEN the sums are those of the logs
    assert [row["name"] for row in jobs] == [str(4000 + job) for job in range(JOBS)]
    wanted = {"logs": each, "io_ns": 15_000 * each, "wall_ns": 100_000 * each, "process_ns": 100_000 * each,
              "read": 4_000 * each, "written": 100 * each}  # fmt: skip
    assert all(row.items() >= wanted.items() for row in jobs)
    (user,) = table([str(tree), "--by", "user"], capsys)
    assert user["logs"] == LOGS
    programs = table([str(tree), "--by", "program"], capsys)
    assert [(row["name"], row["logs"]) for row in programs] == [("program0.py", 100), ("program1.py", 100)]
    # AND text fits a screen
    assert main(["fleet", str(tree), "--top", "3"]) == 0
    text = capsys.readouterr().out
    assert f"{LOGS} logs of {JOBS} jobs, 1 user, 2 programs" in text and "and 5 more" in text
    assert max(map(len, text.splitlines())) <= 80
    # AND there is a table with a row for each log
    output = tmp_path / "fleet.parquet"
    assert main(["fleet", str(tree), "--by", "log", "--format", "parquet", "--output", str(output)]) == 0
    rows = pq.read_table(output).to_pylist()
    assert len(rows) == LOGS and {row["problem"] for row in rows} == {""}
    assert main(["fleet", str(tree), "--by", "finding", "--format", "csv"]) == 0
    assert next(csv.reader(io.StringIO(capsys.readouterr().out)))[:3] == ["name", "logs", "ns"]


@pytest.mark.slow
def test_in_several_processes(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN two processes THEN the figures are the same
    assert table([str(tree), "--jobs", "2"], capsys) == table([str(tree)], capsys)


@pytest.mark.slow
def test_on_a_dask_cluster(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("distributed")
    from tests.support.busy_run import cluster_of_two

    with cluster_of_two() as address:
        assert table([str(tree), "--dask", address], capsys) == table([str(tree)], capsys)


def test_logs_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN a whole log among cut, empty, forged and missing ones
    whole = one_log(tmp_path / "whole.parquet")
    data = whole.read_bytes()
    (tmp_path / "a").mkdir()
    (tmp_path / "a/cut.parquet").write_bytes(data[:-100])
    (tmp_path / "a/empty.parquet").touch()
    (tmp_path / "a/noise\x1b[31m.pyio").write_bytes(b"PYIO" * 4000)
    (tmp_path / "a/link.parquet").symlink_to(tmp_path / "nowhere")
    (tmp_path / "a/loop").symlink_to(tmp_path)
    # WHEN all are summed up THEN the whole one is, and the others are counted and named
    assert main(["fleet", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "1 log of 1 job" in text and "UNREADABLE 3 logs" in text
    assert "cut.parquet" in text and "empty.parquet" in text and "\x1b" not in text
    rows = table([str(tmp_path), "--by", "log"], capsys)
    assert [bool(row["problem"]) for row in rows].count(True) == 3
    # AND a folder without any is an error of one line
    (tmp_path / "none").mkdir()
    for words in ([str(tmp_path / "none")], [str(tmp_path / "nowhere")]):
        assert main(["fleet", *words]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_kept_at_the_end_of_a_run(program: Runner) -> None:
    # GIVEN a program that is traced to its end
    text = "import os\nfor n in range(300): os.stat(__file__); open(__file__).read(3)"
    path = succeeded(program.traced(text, log="run.parquet", env={"PYIO_TRACE_QUIET": None, "PBS_JOBID": "12"})).path
    # THEN its log has its facts, which are those that its rows give
    kept = facts_in(path)
    assert kept is not None and (kept.job, kept.program) == ("12", "program.py")
    again = facts_from(open_log(path))
    assert (kept.io_ns, kept.read, kept.rows, kept.wall_ns) == (again.io_ns, again.read, again.rows, again.wall_ns)
    assert kept.wall_ns == summarize(open_log(path)).run.wall
    # AND they are used without reading the rows
    looked = fleet_module.look_at(str(path.parent), [str(path)])
    assert looked[0].facts == kept


def with_facts(path: Path, text: bytes) -> None:
    file = pq.ParquetFile(path)
    metadata = {**file.metadata.metadata, ATTACHMENT + NAME.encode(): text}
    pq.write_table(file.read().replace_schema_metadata(metadata), path, row_group_size=1 << 20)


GOOD = {
    "version": 1, "run": "1", "host": "h", "job": "7", "program": "p", "start": 1, "rows": 2, "processes": 1,
    "wall_ns": 5, "process_ns": 5, "io_ns": 5, "read": 1, "written": 1, "searched": True,
    "findings": [{"slug": "s", "title": "t", "line": "a:1", "ns": 3}],
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2}, {"rows": 3}, {"io_ns": -1}, {"io_ns": 1 << 80}, {"io_ns": 1.5}, {"io_ns": True}, {"io_ns": "5"},
        {"job": None}, {"job": "x" * 301}, {"findings": None}, {"findings": [{}]}, {"findings": [3]},
        {"findings": GOOD["findings"] * 11}, {"searched": 1}, {"findings": [{**GOOD["findings"][0], "ns": -3}]},
    ],
    ids=str,
)  # fmt: skip
def test_forged_facts(change: dict[str, Any], tmp_path: Path) -> None:
    # GIVEN facts that nobody would keep THEN they are not believed
    path = one_log(tmp_path / "a.parquet")
    with_facts(path, json.dumps(GOOD).encode())
    assert facts_in(path) is not None
    with_facts(path, json.dumps(GOOD | change).encode())
    assert facts_in(path) is None


def test_forged_facts_are_replaced(tmp_path: Path) -> None:
    # GIVEN a log whose facts cannot be used THEN it is summed up again
    path = one_log(tmp_path / "a.parquet")
    with_facts(path, b"{}")
    (looked,) = look_at(str(tmp_path), [str(path)])
    assert looked.facts is not None and looked.facts.io_ns == 15_000


@pytest.mark.parametrize("text", [b"", b"[]", b"3", b"{", b"\xff", b"[" * 40_000, b" " * 70_000])
def test_facts_that_are_none(text: bytes, tmp_path: Path) -> None:
    path = one_log(tmp_path / "a.parquet")
    with_facts(path, text)
    assert facts_in(path) is None


def facts(**more: Any) -> RunFacts:
    return RunFacts(
        **{"run": "1", "host": "h", "job": "", "program": "p", "start": 1, "rows": 2, "processes": 1, "wall_ns": 5,
           "process_ns": 5, "io_ns": 5, "read": 1, "written": 1, "searched": True, "findings": [], **more}
    )  # fmt: skip


def test_findings_by_seconds() -> None:
    # GIVEN two logs with the same finding, one of them twice
    fleet = Fleet()
    small, large = FoundFact("slow", "small", "a.py:1", 3), FoundFact("slow", "large", "b.py:2", 7)
    fleet.add(Looked("/x", "ann", "a", facts(findings=[small, small])))
    fleet.add(Looked("/y", "ann", "b", facts(findings=[large], searched=False)))
    # THEN its seconds are summed, its logs counted once, and the worst is named
    (one,) = fleet.findings.values()
    assert (one.logs, one.ns, one.title, one.line, one.worst) == (2, 13, "large", "b.py:2", "/y")
    assert (fleet.searched, sorted(fleet.jobs)) == (1, ["a", "b"])


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN room for three jobs WHEN there are more THEN those with the least time are left out, and counted
    monkeypatch.setattr(fleet_module, "MOST", 3)
    fleet = Fleet()
    for number in range(20):
        fleet.add(Looked("/x", "ann", "a", facts(job=str(number), io_ns=number)))
    assert len(fleet.jobs) + fleet.dropped == 20 and len(fleet.jobs) <= 6
    assert {"19", "18", "17"} <= fleet.jobs.keys()
    assert fleet.total.logs == 20


def test_which_files_are_logs(tmp_path: Path) -> None:
    # GIVEN a live log beside the log packed from it, a lone live log, temporary and other files
    for name in ("run.pyio", "run.parquet", "b/alone.pyio", ".pyio-x.tmp", "notes.txt", "b/.pyio-1.parquet.tmp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [os.path.relpath(path, tmp_path) for path in logs_in(str(tmp_path))] == ["run.parquet", "b/alone.pyio"]


def test_a_fault_in_one_log_is_not_fatal(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a log at which our own code fails
    def fails(path: Path) -> RunFacts:
        raise ZeroDivisionError

    monkeypatch.setattr(fleet_module, "_facts", fails)
    (looked,) = fleet_of(str(tree), logs_in(str(tree))[:1], None)
    assert looked.facts is None and "ZeroDivisionError" in looked.problem
