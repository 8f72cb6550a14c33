"""Views of tasks, batches, data sets and statements: against what real libraries did."""

from __future__ import annotations

from typing import Any

import pytest

from pyio_trace.analysis.calls import details
from pyio_trace.analysis.reducer import found, scan
from tests.support.programs import Outcome, Runner, succeeded

pytestmark = pytest.mark.once


def view(outcome: Outcome, name: str) -> Any:
    (result,) = scan(outcome.log, [found()[name]()])
    assert result.dropped == 0 and result.more == 0
    return result


def test_spans_of_the_program(program: Runner) -> None:
    # GIVEN I/O in two kinds of spans, one within the other, and outside WHEN it is summed THEN the closest one counts
    text = """\
        import os, pyio_trace
        fd = os.open("data", os.O_WRONLY | os.O_CREAT)
        for n in range(3):
            with pyio_trace.span("epoch", number=n):
                os.write(fd, bytes(100))
                with pyio_trace.span("step"): os.write(fd, bytes(7))
        os.fsync(fd)
        """
    outcome = succeeded(program.traced(text))
    rows = {row.name: row for row in view(outcome, "by_span").rows}
    epoch = rows["epoch"]
    assert (epoch.op, epoch.count, epoch.written_bytes, epoch.calls) == ("span", 3, 300, 3)
    assert (rows["step"].count, rows["step"].written_bytes, rows["step"].processes) == (3, 21, 1)
    assert rows["epoch"].time_ns >= rows["step"].time_ns >= rows["step"].io_ns > 0
    assert rows["(in none)"].sync_ns > 0 and rows["(in none)"].count == 0


def test_tasks_of_dask(program: Runner) -> None:
    pytest.importorskip("dask")
    text = """\
        import dask, os
        def load(n):
            fd = os.open(f"part{n}", os.O_RDWR | os.O_CREAT)
            os.write(fd, bytes(100 * n))
            os.close(fd)
            return n
        parts = [dask.delayed(load, pure=False)(n, dask_key_name=f"load-{n}") for n in range(1, 5)]
        dask.compute(*parts, scheduler="threads", num_workers=2)
        """
    outcome = succeeded(program.traced(text))
    tasks = view(outcome, "tasks")
    mine = {task.key: task for task in tasks.rows if task.key.startswith("load-")}
    assert {key: task.written_bytes for key, task in mine.items()} == {f"load-{n}": 100 * n for n in range(1, 5)}
    assert all(task.op == "task" and task.ended and not task.failed and task.calls >= 3 for task in mine.values())
    assert tasks.count == len(tasks.rows) and tasks.time_ns == sum(task.time_ns for task in tasks.rows)
    (group,) = [row for row in view(outcome, "by_span").rows if row.name == "load"]
    assert (group.count, group.written_bytes) == (4, 1000)


def test_statements_of_sqlite(program: Runner) -> None:
    text = """\
        import sqlite3
        connection = sqlite3.connect("base.db")
        connection.execute("CREATE TABLE measured (value)")
        for n in range(5):
            connection.execute("INSERT INTO measured VALUES (?)", (n,))
            connection.commit()
        print(len(connection.execute("SELECT * FROM measured").fetchall()))
        """
    outcome = succeeded(program.traced(text))
    rows = {(row.op, row.statement): row for row in view(outcome, "statements").rows}
    (inserted,) = [row for (_, statement), row in rows.items() if statement.startswith("INSERT")]
    assert (inserted.calls, inserted.database) == (5, str(outcome.path.parent / "base.db"))
    assert inserted.line is not None and ":5:" in inserted.line and inserted.time_ns >= inserted.longest_ns > 0
    assert rows["Connection.commit", ""].calls == 5
    assert rows["Cursor.fetchall", ""].rows == int(outcome.stdout) == 5


def test_datasets_of_h5py(program: Runner) -> None:
    pytest.importorskip("h5py")
    text = """\
        import h5py, numpy
        with h5py.File("data.h5", "w") as file:
            data = file.create_dataset("group/values", data=numpy.zeros((100, 50)), chunks=(10, 50), compression="gzip")
            for n in range(5): data[:, n]
            for n in range(3): data[0]
        """
    outcome = succeeded(program.traced(text))
    rows = [row for row in view(outcome, "datasets").rows if row.op == "Dataset.__getitem__"]
    columns, first = sorted(rows, key=lambda row: row.line)
    assert (columns.dataset, columns.calls, columns.moved_bytes) == ("/group/values", 5, 5 * 800)
    assert (columns.shape, columns.chunks, columns.filters) == ("[100,50]", "[10,50]", '["gzip(4)"]')
    assert columns.distinct_selections == 5 and columns.selections[0] == ('[":",0]', 1)
    assert (first.calls, first.moved_bytes, first.distinct_selections) == (3, 3 * 400, 1)
    read = [row for row in view(outcome, "datasets").rows if row.op == "H5Dread"]
    assert sum(row.elements for row in read) == 5 * 100 + 3 * 50


LOADER = """\
import torch
from torch.utils.data import DataLoader, Dataset
class Items(Dataset):
    def __len__(self): return 6
    def __getitem__(self, n):
        with open(__file__, "rb", buffering=0) as file: return torch.tensor(len(file.read(1000)))
for epoch in range(2):
    for batch in (loader := DataLoader(Items(), batch_size=2, num_workers=WORKERS)): pass
"""


@pytest.mark.frameworks("torch")
@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_batches_of_a_loader(program: Runner, workers: int) -> None:
    # GIVEN two loaders with three batches each WHEN they are joined THEN each batch has its wait and its fetch
    batches = view(succeeded(program.traced(LOADER.replace("WORKERS", str(workers)))), "batches")
    assert [(row.epoch, row.batch) for row in batches.rows] == [(0, 0), (0, 1), (0, 2)] * 2
    assert batches.count == 6
    for row in batches.rows:
        assert row.wait_ns == row.not_ready_ns + row.hand_over_ns and row.fetch_ns > 0
        if workers == 0:
            assert row.wait_ns >= row.fetch_ns and row.hand_over_ns == 0
        else:
            # until its fetch had ended, and while its worker fetched again
            assert row.not_ready_ns >= min(max(-row.ready_ns, 0), row.wait_ns) and "worker" in row.worker
    assert batches.wait_ns == batches.not_ready_ns + batches.hand_over_ns


@pytest.mark.parametrize("text", [None, "", "[1]", "{", '"x"', "[" * 100_000, '{"number": 1e999, "n": true}'])
def test_details_that_are_none(text: str | None) -> None:
    found = details.parse(text)
    assert details.number(found, "n") is None and details.number(found, "number") is None
    assert details.text(found, "n") is None and details.spelled(found, "shape") is None
