"""What processes are called, by what their entries say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.processes.process_names import group, label, plural
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from pyio_trace.log.parquet_log import KEY
from pyio_trace.report.overview_text import state_lines
from tests.support.logwriter import LogWriter

PYTHON = {"version": "3.11.7"}


def named(writer: LogWriter, tmp_path: Path) -> list[str]:
    return [label(row) for row in open_log(writer.save(tmp_path / "run.pyio")).processes().to_pylist()]


@pytest.mark.parametrize(
    ("argv", "kind", "name"),
    [
        (["/usr/bin/python3", "-u", "/home/me/train.py", "--lr", "0.1"], "script", "train.py"),
        (["python", "-m", "pytest", "-q"], "script", "pytest"),
        (["python", "-Xdev", "-c", "import this"], "script", "python -c"),
        (["python"], "script", "python"),
        (["python", "-"], "script", "python"),
        ([], "script", "python"),
        (["python", "-c", "from multiprocessing.spawn import spawn_main"], *["multiprocessing spawn"] * 2),
        (["python", "-c", "from multiprocessing.resource_tracker import main;main(5)"],
         *["multiprocessing resource tracker"] * 2),
        (["python", "-c", "from multiprocessing.elsewhere import main"], "script", "python -c"),
        (["python", "/usr/bin/gunicorn", "app:app"], "script", "gunicorn"),
        (["python", "/usr/bin/dask", "worker", "tcp://h:1"], *["Dask nanny"] * 2),
        (["python", "/usr/bin/dask-worker", "tcp://h:1", "--no-nanny"], *["Dask worker"] * 2),
        (["python", "-m", "distributed.cli.dask_worker", "tcp://h:1"], *["Dask nanny"] * 2),
        (["python", "/usr/bin/dask", "scheduler"], *["Dask scheduler"] * 2),
        (["python", "/usr/bin/dask"], "script", "dask"),
        (["python", "/lib/ray/_private/workers/default_worker.py", "--x"], *["Ray worker"] * 2),
    ],
)  # fmt: skip
def test_commands_of_python(tmp_path: Path, argv: list[str], kind: str, name: str) -> None:
    # GIVEN a process of which the log has only the command line WHEN it is shown THEN by script, module or framework
    writer = LogWriter()
    writer.process(100, argv=argv, executable="/usr/bin/python3", **PYTHON)
    (row,) = open_log(writer.save(tmp_path / "run.pyio")).processes().to_pylist()
    assert (row["process_kind"], row["process_name"]) == (kind, name)


def test_other_programs(tmp_path: Path) -> None:
    # GIVEN programs that are not Python THEN each has its own name, and one of which nothing is known has a word
    writer = LogWriter()
    writer.process(100, argv=["/bin/sh", "-c", "gzip x"])
    writer.process(101, executable="/usr/bin/gzip")
    writer.process(102)
    assert named(writer, tmp_path) == ["sh (100)", "gzip (101)", "process (102)"]


def test_a_name_that_the_process_was_given(tmp_path: Path) -> None:
    # GIVEN a process with a name of its own, one with a very long name, and one whose name is damaged
    writer = LogWriter()
    name, kind = writer.string("DataLoader 0, worker 1"), writer.string("DataLoader worker")
    writer.process(100, argv=["python", "train.py"], name=name, kind=kind, **PYTHON)
    writer.process(101, argv=["python", "train.py"], name=writer.string("x" * 5000), kind=0xFFFFFF, **PYTHON)
    writer.process(102, argv=["python", "train.py"], name=0xFFFFFF, kind=7, **PYTHON)
    # THEN the first has it, the second has its beginning, and the third is called as its script
    first, second, third = named(writer, tmp_path)
    assert (first, third) == ("DataLoader 0, worker 1 (100)", "train.py (102)")
    assert second == "x" * 120 + " (101)"


def test_forked_copies(tmp_path: Path) -> None:
    # GIVEN forked children without a name, of a script and of a server, and a forked child that became another program
    writer = LogWriter()
    script = writer.process(100, argv=["python", "a.py"], **PYTHON)
    writer.process(101, argv=["python", "a.py"], parent=script, start=layout.START_FORK, **PYTHON)
    server = writer.process(200, argv=["python", "/bin/gunicorn", "app"], **PYTHON)
    writer.process(201, argv=["python", "/bin/gunicorn", "app"], parent=server, start=layout.START_FORK, **PYTHON)
    writer.process(202, argv=["true"], parent=server, start=layout.START_VFORK)
    # THEN the copies are told from the original
    assert named(writer, tmp_path) == [
        "a.py (100)", "a.py (forked) (101)", "gunicorn (200)", "gunicorn worker (201)", "true (202)",
    ]  # fmt: skip


def test_a_process_with_two_entries_has_one_name(tmp_path: Path) -> None:
    # GIVEN a child that its parent entered, and that then joined the log itself under a name
    writer = LogWriter()
    argv = ["python", "-c", "from multiprocessing.spawn import spawn_main"]
    top = writer.process(100, argv=["python", "a.py"], **PYTHON)
    first = writer.process(101, argv=argv, parent=top, start=layout.START_VFORK, followed=0)
    writer.process(101, argv=argv, parent=first, start=layout.START_JOINED, name=writer.string("SpawnProcess-1"),
                   kind=writer.string("multiprocessing process"), **PYTHON)  # fmt: skip
    # THEN both entries have it
    assert named(writer, tmp_path)[1:] == ["SpawnProcess-1 (101)"] * 2


def ranks(writer: LogWriter) -> None:
    """A launcher with two ranks; the first has a worker, and a program that is not Python."""
    launcher = writer.process(100, argv=["python", "launch.py"], begin=1, **PYTHON)
    first = writer.process(101, argv=["python", "train.py"], parent=launcher, start=layout.START_JOINED, begin=2,
                           global_rank=1, local_rank=1, world_size=2, **PYTHON)  # fmt: skip
    writer.process(102, argv=["python", "train.py"], parent=launcher, start=layout.START_JOINED, begin=3,
                   global_rank=2, world_size=2, **PYTHON)  # fmt: skip
    worker = writer.process(103, argv=["python", "train.py"], parent=first, start=layout.START_FORK, begin=4,
                            global_rank=1, local_rank=1, world_size=2, name=writer.string("DataLoader 0, worker 0"),
                            kind=writer.string("DataLoader worker"), **PYTHON)  # fmt: skip
    program = writer.process(104, argv=["gzip"], parent=worker, start=layout.START_VFORK, begin=5)
    for process in (launcher, first, worker, program):
        writer.thread(process, 1).record("PREAD", begin=10)


def test_ranks(tmp_path: Path) -> None:
    # GIVEN ranks, numbered from 1 in the entries
    writer = LogWriter()
    ranks(writer)
    path = writer.save(tmp_path / "run.pyio")
    # WHEN the log is read, live or packed
    pack(path, tmp_path / "run.parquet")
    for log in (open_log(path), open_log(tmp_path / "run.parquet")):
        rows = log.processes().to_pylist()
        # THEN what the launcher has started is called by its rank, and the rest has it before its name
        assert [label(row) for row in rows] == [
            "launch.py (100)", "rank 0 (101)", "rank 1 (102)", "rank 0, DataLoader 0, worker 0 (103)",
            "rank 0, gzip (104)",
        ]  # fmt: skip
        numbers = [(row["global_rank"], row["local_rank"], row["world_size"]) for row in rows]
        assert numbers == [(None, None, None), (0, 0, 2), (1, None, 2), (0, 0, 2), (0, 0, 2)]
        # AND so are operations
        assert log.operations(["pid", "global_rank"]).to_pylist() == [
            {"pid": 100, "global_rank": None}, *({"pid": pid, "global_rank": 0} for pid in (101, 103, 104)),
        ]  # fmt: skip


def test_the_only_rank_is_none_to_speak_of(tmp_path: Path) -> None:
    # GIVEN a batch job of one task THEN its process is called as its script
    writer = LogWriter()
    writer.process(100, argv=["python", "train.py"], global_rank=1, world_size=1, **PYTHON)
    assert named(writer, tmp_path) == ["train.py (100)"]


def test_forged_relations(tmp_path: Path) -> None:
    # GIVEN entries that have started each other, with ranks beyond any
    writer = LogWriter()
    one = writer.process(100, argv=["python", "a.py"], global_rank=0xFFFFFFFF, world_size=0xFFFFFFFF, **PYTHON)
    two = writer.process(100, argv=["python", "a.py"], parent=one, start=layout.START_JOINED, **PYTHON)
    writer.put(one << layout.ID_SHIFT, _with_parent(writer, one, two))
    # THEN they are read, without ranks
    rows = open_log(writer.save(tmp_path / "run.pyio")).processes().to_pylist()
    assert [row["process_name"] for row in rows] == ["a.py", "a.py"]
    assert {row["global_rank"] for row in rows} == {None} and {row["world_size"] for row in rows} == {None}


def _with_parent(writer: LogWriter, entry: int, parent: int) -> Any:
    import numpy as np

    start = entry << layout.ID_SHIFT
    raw = np.frombuffer(bytes(writer.data[start : start + layout.PROCESS_ENTRY.itemsize]), layout.PROCESS_ENTRY)[0]
    raw = raw.copy()
    raw["parent"] = parent
    return raw


def test_packed_logs_of_before(tmp_path: Path) -> None:
    # GIVEN a packed log that has neither names nor ranks, as those that were packed earlier
    writer = LogWriter()
    ranks(writer)
    pack(writer.save(tmp_path / "run.pyio"), tmp_path / "run.parquet")
    table = pq.read_table(tmp_path / "run.parquet").drop_columns(["global_rank"])
    description = json.loads(table.schema.metadata[KEY])
    for row in description["processes"]:
        for name in (
            "process_kind",
            "process_name",
            "global_rank",
            "local_rank",
            "world_size",
            "node",
            "job",
            "step",
            "job_run",
        ):
            del row[name]
    pq.write_table(
        table.replace_schema_metadata({KEY: json.dumps(description).encode()}), tmp_path / "old.parquet",
        row_group_size=1 << 20,
    )  # fmt: skip
    # WHEN it is read THEN there are no ranks, and names are those of the command lines
    log = open_log(tmp_path / "old.parquet")
    rows = log.processes().to_pylist()
    assert [label(row) for row in rows][::4] == ["launch.py (100)", "gzip (104)"]
    assert {row["global_rank"] for row in rows} == {None}
    assert log.operations(["global_rank"])["global_rank"].null_count == 4


@pytest.mark.parametrize(
    ("kind", "name", "summed_under", "several"),
    [
        ("DataLoader worker", "DataLoader 0, worker 1", ("DataLoader worker", True), "DataLoader workers"),
        ("multiprocessing process", "p", ("multiprocessing process", True), "multiprocessing processes"),
        ("Dask nanny", "Dask nanny", ("Dask nanny", True), "Dask nannies"),
        ("relay", "r", ("relay", True), "relays"),
        ("script", "train.py", ("train.py", False), "scripts"),
    ],
)
def test_groups(kind: str, name: str, summed_under: tuple[str, bool], several: str) -> None:
    assert (group(kind, name), plural(kind)) == (summed_under, several)


def test_jobs(tmp_path: Path) -> None:
    # GIVEN a rank of a batch job, a program that it started, and a process outside of any job
    writer = LogWriter()
    names = {name: writer.string(value) for name, value in (("node", "n17"), ("job", "4711"), ("step", "0"))}
    launch = writer.string("n17:4000")
    rank = writer.process(101, argv=["python", "train.py"], job_run=launch, **names, **PYTHON)
    writer.process(102, argv=["gzip"], parent=rank, start=layout.START_VFORK, begin=5)
    writer.process(103, argv=["python", "other.py"], **PYTHON)
    path = writer.save(tmp_path / "run.pyio")
    # WHEN the log is read, live or packed
    pack(path, tmp_path / "run.parquet")
    for log in (open_log(path), open_log(tmp_path / "run.parquet")):
        rows = log.processes().to_pylist()
        # THEN the program has the job of the process that started it, and the other process has none
        jobs = [(row["node"], row["job"], row["step"], row["job_run"]) for row in rows]
        assert jobs == [("n17", "4711", "0", "n17:4000")] * 2 + [(None, None, None, None)]
        # AND the summary says so
        run = summarize(log).run
        assert (run.jobs, run.nodes) == (["4711.0"], ["n17", "testhost"])
        assert "Job 4711.0, run n17:4000 on 2 nodes (n17 to testhost)." in "\n".join(state_lines(summarize(log)))
