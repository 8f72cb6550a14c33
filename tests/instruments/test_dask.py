"""Dask's local schedulers: every task is a span, and every byte of its files belongs to a task."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.support.programs import Outcome, Row, Runner, alike, succeeded

pytest.importorskip("dask")
pytest.importorskip("pandas")

pytestmark = pytest.mark.slow  # clusters and pools of processes, each of which imports pandas

#: Tells, beside its results, the keys of the tasks that Dask itself says it ran.
WORK = """
import json, os, sys
import dask, dask.array as da, dask.bag as db, dask.dataframe as dd, pandas as pd
from dask.callbacks import Callback

if __name__ == "__main__":
    keys = []
    frame = pd.DataFrame({"a": range(20_000), "b": [n / 7 for n in range(20_000)]})
    os.mkdir("data")
    with dask.config.set(scheduler=sys.argv[1], num_workers=2), Callback(pretask=lambda key, *rest: keys.append(key)):
        dd.from_pandas(frame, npartitions=4).to_parquet("data/parquet")
        read = dd.read_parquet("data/parquet")
        read[read.a >= 10].to_csv("data/out-*.csv")
        print(len(dd.read_csv("data/out-*.csv")), file=sys.stderr)
        da.to_npy_stack("data/npy", da.arange(1_000_000, chunks=250_000))
        print(int(da.from_npy_stack("data/npy").sum().compute()), file=sys.stderr)
        db.from_sequence(["one", "two", "three"], npartitions=3).to_textfiles("data/text-*.txt")
        print(db.read_text("data/text-*.txt").count().compute(), file=sys.stderr)
        @dask.delayed
        def fails():
            raise ValueError("no good")
        try:
            fails().compute()
        except ValueError as problem:
            print(problem, file=sys.stderr)
    print(json.dumps(sorted(map(str, keys))))
"""
SCHEDULERS = ("synchronous", "threads", "processes")


def task_of(outcome: Outcome, row: Row) -> Row | None:
    """The task that an operation happened in."""
    return next((up for up in outcome.parents(row) if up["op"] == "task"), None)


def building(outcome: Outcome, row: Row) -> str | None:
    """The call that built a graph, in which an operation happened."""
    return next((up["op"] for up in outcome.parents(row) if up["op"].startswith("dask.")), None)


def bytes_by_prefix(outcome: Outcome, folder: Path, ops: tuple[str, ...]) -> dict[tuple[str, str], int]:
    """Bytes moved beneath tasks by (prefix, file)."""
    moved: Counter[tuple[str, str]] = Counter()
    for row in outcome.select(layer=("posix", "stdio"), op=ops):
        task = task_of(outcome, row)
        if task is not None and (row["path"] or "").startswith(f"{folder}/"):
            moved[json.loads(task["detail"])["prefix"], row["path"].removeprefix(f"{folder}/")] += row["bytes_moved"]
    return dict(moved)


@pytest.fixture(scope="module", params=SCHEDULERS)
def work(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The work done traced by one scheduler, after it was done untraced: the results are the same."""
    bare = Runner(tmp_path_factory.mktemp("bare")).bare(WORK, request.param)
    traced = Runner(tmp_path_factory.mktemp("traced")).traced(WORK, request.param)
    alike(traced, bare, lambda one: one.stderr)
    assert len(json.loads(succeeded(traced).stdout)) == len(json.loads(succeeded(bare).stdout))
    return traced


def test_every_task_is_a_span(work: Outcome) -> None:
    # GIVEN the keys of the tasks that Dask says it ran WHEN the log is read THEN these are its tasks, once each
    tasks = [json.loads(row["detail"]) for row in work.select(op="task", layer="app")]
    assert sorted(task["key"] for task in tasks) == json.loads(work.stdout)
    # AND each has its prefix, and the one that failed says so: the synchronous scheduler lets the exception through
    from dask.utils import key_split

    assert all(task["prefix"] == key_split(task["key"]) for task in tasks)
    assert [task["prefix"] for task in tasks if "failed" in task or "raised" in task] == ["fails"]


def test_tasks_run_where_the_scheduler_runs_them(work: Outcome) -> None:
    # GIVEN a scheduler of this thread, of threads, or of processes
    places = {(row["pid"], row["tid"]) for row in work.select(op="task") if "fails" not in row["detail"]}
    # WHEN it ran tasks THEN those are in that thread, in others, in other processes
    scheduler = work.process(work.pid)["argv"][-1]
    main = (work.pid, work.pid)
    assert (places == {main}) == (scheduler == "synchronous")
    assert (main not in places) == (scheduler != "synchronous")
    assert ({pid for pid, _ in places} == {work.pid}) == (scheduler != "processes")


def test_every_byte_is_some_tasks(work: Outcome) -> None:
    # GIVEN the files that the work left
    folder = work.path.parent / "data"
    sizes = {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    assert len(sizes) == 4 + 4 + 5 + 3
    written = bytes_by_prefix(work, folder, ("write", "fwrite", "pwrite", "writev"))
    read = bytes_by_prefix(work, folder, ("read", "pread"))
    # THEN their bytes were written by the tasks of that name, each byte once
    prefixes = {"parquet/": "toparquetdata", "out-": "write_csv", "npy/": "arange-to-npy-stack", "text-": None}
    for name, size in sizes.items():
        if name == "npy/info":  # written by the call that builds the graph
            continue
        by = [(prefix, moved) for (prefix, file), moved in written.items() if file == name]
        assert [moved for _, moved in by] == [size], name
        expected = prefixes[next(start for start in prefixes if name.startswith(start))]
        assert expected is None or by[0][0].endswith(expected)  # fused tasks are named after all of them
    # AND each byte of the text files was read once by tasks
    for name, size in sizes.items():
        if name.startswith(("out-", "text-")):
            assert [moved for (_, file), moved in read.items() if file == name] == [size], name
    # AND of each Parquet file all but the four bytes that say what it is, by the tasks that read it
    for name, size in sizes.items():
        if name.startswith("parquet/"):
            assert covered(work, str(folder / name)) == [(4, size)], name


def covered(outcome: Outcome, path: str) -> list[tuple[int, int]]:
    """Stretches of a file that its tasks have read."""
    ranges = sorted(
        (row["file_offset"], row["file_offset"] + row["bytes_moved"])
        for row in outcome.select(layer="posix", op=("read", "pread"), path=path)
        if task_of(outcome, row) is not None
    )
    merged: list[tuple[int, int]] = []
    for first, end in ranges:
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((first, end))
    return merged


def test_every_operation_is_in_a_task_or_in_a_call(work: Outcome) -> None:
    # GIVEN the operations on the files of the work
    folder = str(work.path.parent / "data")
    rows = work.select(layer=("posix", "stdio"), path=lambda path: path and path.startswith(f"{folder}/"))
    assert len(rows) > 400
    loose = [row for row in rows if task_of(work, row) is None and building(work, row) is None]
    # THEN each is in a task, or in the call that built the graph, and it is known how: no guessing
    assert [(row["op"], row["path"], row["site"]) for row in loose] == []
    chains = Counter(up["link"] for row in rows for up in [row, *work.parents(row)] if up["parent"] is not None)
    assert set(chains) <= {"thread", "context", "descriptor"}
    # AND where tasks run in other processes, none is outside of a task there
    inside = [row for row in rows if row["pid"] != work.pid]
    assert all(task_of(work, row) is not None for row in inside)


def test_readers_and_writers_are_calls(work: Outcome) -> None:
    # GIVEN the calls that the program made WHEN the log is read THEN they are there, in order, with where the data is
    folder = str(work.path.parent / "data")
    rows = [row for row in work.select(layer="app", pid=work.pid) if row["op"].startswith("dask.")]
    tops = [row for row in rows if building(work, row) is None]
    told = [(row["op"], row["path"], json.loads(row["detail"] or "{}")) for row in tops]
    assert told == [
        ("dask.dataframe.to_parquet", f"{folder}/parquet", {}),
        ("dask.dataframe.read_parquet", f"{folder}/parquet", {}),
        ("dask.dataframe.to_csv", None, {"pattern": "data/out-*.csv"}),
        ("dask.dataframe.read_csv", None, {"pattern": "data/out-*.csv"}),
        ("dask.array.to_npy_stack", f"{folder}/npy", {}),
        ("dask.array.from_npy_stack", f"{folder}/npy", {}),
        ("dask.bag.to_textfiles", None, {"pattern": "data/text-*.txt"}),
        ("dask.bag.read_text", None, {"pattern": "data/text-*.txt"}),
    ]
    # AND the tasks of a writer that computes at once are beneath it, where they run in the same process
    beneath: defaultdict[str, set[str]] = defaultdict(set)
    for row in work.select(op="task", pid=work.pid):
        beneath[building(work, row) or ""].add(json.loads(row["detail"])["prefix"])
    if work.process(work.pid)["argv"][-1] != "processes":
        assert "write_csv" in beneath["dask.dataframe.to_csv"]
        assert "arange-to-npy-stack" in beneath["dask.array.to_npy_stack"]


def test_several_paths_are_counted(program: Runner) -> None:
    # GIVEN a bag of two files, named each WHEN it is read by a thread pool of the program's own
    text = """
    import dask, dask.bag as db
    from concurrent.futures import ThreadPoolExecutor
    for name in "ab":
        with open(name, "w") as file:
            file.write(name * 10)
    with ThreadPoolExecutor(1) as pool, dask.config.set(pool=pool):
        print(db.read_text(["a", "b"]).map(len).compute(scheduler="threads"))
    """
    outcome = succeeded(alike(program.traced(text), program.bare(text)))
    # THEN the call says how many, and the bytes are the tasks'
    (call,) = outcome.select(op="dask.bag.read_text")
    assert (call["path"], json.loads(call["detail"])) == (None, {"paths": 2})
    reads = outcome.select(op="read", path=[program.folder / "a", program.folder / "b"])
    assert sum(row["bytes_moved"] for row in reads) == 20
    assert all(task_of(outcome, row) is not None for row in reads)
