"""What the summary says of programs as people write them: whose calls they are, which files and lines, how many bytes.

Each program knows what it did; the log's own figures must agree with that.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from pyio_trace.analysis.summary.summarize import summarize
from pyio_trace.analysis.tables.sums_tables import by_file
from tests.support.programs import Outcome, Runner, succeeded

MIB = 1 << 20


def written_to(outcome: Outcome, folder: Path) -> dict[str, tuple[int, int]]:
    """(bytes read, bytes written) by file of the folder, as `pyio-trace files` has them."""
    rows = by_file(outcome.log).to_pylist()
    prefix = f"{folder}/"
    return {
        row["path"].removeprefix(prefix): (row["read"], row["written"])
        for row in rows
        if (row["path"] or "").startswith(prefix)
    }


# ---- a training loop

LOADER = """
import os, sys
import torch
from torch.utils.data import DataLoader, Dataset

class Files(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, number):
        with open(f"data/{number}.bin", "rb") as file:  # line 10
            return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).sum()  # line 11

if __name__ == "__main__":
    os.mkdir("data")
    for number in range(64):
        with open(f"data/{number}.bin", "wb") as file:
            file.write(bytes([number]) * (1 << 20))
    how = {"num_workers": 2, "multiprocessing_context": sys.argv[1]} if sys.argv[1] != "none" else {}
    total = 0
    for batch in DataLoader(Files(), batch_size=4, **how):  # line 20
        total += int(batch.sum())
    print(total)
"""


@pytest.mark.frameworks("torch")
@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver", "none"])
def test_a_loader_whose_workers_are_started_in_any_way(program: Runner, tmp_path: Path, how: str) -> None:
    # GIVEN 64 files of 1 MiB that two workers read, or the trainer itself
    outcome = succeeded(program.traced(LOADER, how))
    assert int(outcome.stdout) == sum(range(64)) * MIB
    # WHEN it is summarised THEN the line of the dataset has read all of it, and each file its bytes
    summary = summarize(outcome.log, top=1000)
    lines = {Path(site.site).name: site for site in summary.sites}
    assert lines["program.py:11:Files.__getitem__"].read == 64 * MIB
    assert lines["program.py:11:Files.__getitem__"].count == lines["program.py:10:Files.__getitem__"].count / 3 == 64
    files = written_to(outcome, tmp_path / "data")
    assert files == {f"{number}.bin": (MIB, MIB) for number in range(64)}
    # THEN nobody is told that workers read twice what was asked for, or that they wait in the trainer's line
    assert summary.bytes.asked_read - summary.bytes.below_read < MIB and summary.bytes.asked_read >= 64 * MIB
    rows = outcome.log.operations(
        ["id", "op", "op_role", "process", "task_id", "request_id", "path", "site", "bytes_moved", "layer"]
    ).to_pylist()
    by_id = {row["id"]: row for row in rows}
    fetches = [row for row in rows if row["op"] == "DataLoader.fetch"]
    assert len(fetches) == 16 and {row["op_role"] for row in fetches} == {"container"}
    workers = {row["process"] for row in fetches}
    assert len(workers) == (1 if how == "none" else 2)
    reads = [row for row in rows if row["op"] == "read" and row["layer"] == "posix" and row["bytes_moved"] == MIB]
    assert len(reads) == 64
    for row in reads:
        assert (by_id[row["task_id"]]["op"], by_id[row["request_id"]]["op"]) == (
            "DataLoader.fetch", "BufferedReader.read",
        )  # fmt: skip
        assert by_id[row["task_id"]]["process"] == by_id[row["request_id"]]["process"] == row["process"]
    waits = [row["op_role"] for row in rows if row["op"] == "DataLoader.__next__"]
    assert Counter(waits) == ({"container": 16, "wait": 1} if how == "none" else {"wait": 17})
    # THEN a worker's rows are at no line of the trainer, whose stack it inherited
    if how != "none":
        inherited = [row for row in rows if row["process"] in workers and ":20:" in (row["site"] or "")]
        assert [row for row in inherited if "program.py" in row["site"]] == []
        shared = [row for row in rows if (row["path"] or "").startswith("/dev/shm/torch")]
        assert {row["op_role"] for row in shared if row["op"] != "write"} == {"transport"}
        assert sum(row["bytes_moved"] for row in shared if row["op"] == "write") <= 16  # torch's probe, one a batch


# ---- Dask

DASK = """
import json, os, sys
import pandas as pd
import dask, dask.dataframe as dd

if __name__ == "__main__":
    os.mkdir("data")
    for number in range(4):
        frame = pd.DataFrame({"a": range(5000 * number, 5000 * (number + 1)), "b": 0.5})
        frame.to_parquet(f"data/{number}.parquet")
    if sys.argv[1] == "cluster":
        from distributed import Client
        client = Client(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    else:
        dask.config.set(scheduler=sys.argv[1])
    dd.read_parquet("data").to_csv("data/out-*.csv", index=False)
    if sys.argv[1] == "cluster":
        client.close()
    print(json.dumps({name: os.path.getsize(f"data/{name}") for name in os.listdir("data")}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cluster", "threads"])
def test_files_written_by_dask_tasks(program: Runner, tmp_path: Path, how: str) -> None:
    pytest.importorskip("distributed")
    pytest.importorskip("pyarrow")
    # GIVEN Parquet turned into CSV by tasks, in other processes or in threads
    outcome = succeeded(program.traced(DASK, how))
    sizes = json.loads(outcome.stdout)
    assert len(sizes) == 8
    # WHEN it is summarised THEN each file has all its bytes
    files = written_to(outcome, tmp_path / "data")
    assert {name: files[name][1] for name in sizes} == sizes
    # THEN they were written in requests, in tasks of the same process
    rows = outcome.log.operations(["id", "op", "op_role", "process", "task_id", "request_id", "path", "bytes_moved"])
    by_id = {row["id"]: row for row in rows.to_pylist()}
    writes = [
        row
        for row in by_id.values()
        if (row["path"] or "").endswith(".csv") and row["op_role"] == "io" and row["bytes_moved"]
    ]
    assert sum(row["bytes_moved"] for row in writes) == sum(size for name, size in sizes.items() if "csv" in name)
    for row in writes:
        task, request = by_id[row["task_id"]], by_id[row["request_id"]]
        assert (task["op"], task["op_role"], request["op_role"]) == ("task", "container", "request")
        assert task["process"] == request["process"] == row["process"]
    # THEN the client waits for a cluster, and contains what its own threads do
    [call] = [row for row in by_id.values() if row["op"] == "dask.dataframe.to_csv"]
    assert call["op_role"] == ("wait" if how == "cluster" else "container")
    assert (call["process"] in {row["process"] for row in writes}) == (how == "threads")


ZARR = """
import json, os
import dask, dask.array as da
dask.config.set(scheduler="threads", num_workers=2)
da.ones((400, 400), chunks=200).to_zarr("data.zarr")
total = float(da.from_zarr("data.zarr").sum().compute())
sizes = {}
for folder, _, names in os.walk("data.zarr"):
    for name in names:
        sizes[os.path.join(folder, name)] = os.path.getsize(os.path.join(folder, name))
print(json.dumps([total, sizes]))
"""


def test_chunks_of_zarr_read_and_written_in_tasks(program: Runner, tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    pytest.importorskip("dask.array")
    # GIVEN an array written and read by Dask through zarr, which does its I/O on threads and loops of its own
    outcome = succeeded(program.traced(ZARR))
    total, sizes = json.loads(outcome.stdout)
    chunks = {name: size for name, size in sizes.items() if "/c/" in name}
    assert total == 160_000 and len(chunks) == 4
    # WHEN it is summarised THEN each chunk was written and read once
    files = written_to(outcome, tmp_path)
    assert {name: files[name] for name in chunks} == {name: (size, size) for name, size in chunks.items()}
    # THEN tasks take no time away from them: their reads are outermost I/O, each with time of its own
    times = {file.path: file.time for file in summarize(outcome.log, top=1000).files}
    assert all(times[str(tmp_path / name)] > 0 for name in chunks)


# ---- bytes


def test_distinct_bytes_of_arrays_loaded_again(program: Runner, tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    # GIVEN an array that is saved once and loaded three times: numpy moves it through C streams
    outcome = succeeded(
        program.traced("""
        import numpy as np
        np.save("a.npy", np.zeros(1 << 20, np.uint8))
        for _ in range(3):
            np.load("a.npy")
    """)
    )
    size = (tmp_path / "a.npy").stat().st_size
    rows = outcome.select(path=tmp_path / "a.npy", layer=("posix", "stdio"), op_class=("read", "write"))
    assert sum(row["bytes_moved"] for row in rows if row["op"] == "fread") == 3 * MIB
    # THEN each transfer has its place, and the bytes touched are those of the file, asked for three times
    assert {(row["op"], row["file_offset"]) for row in rows} == {
        ("write", 0), ("fwrite", 128), ("read", 0), ("fread", 128),
    }  # fmt: skip
    figures = summarize(outcome.log).bytes
    assert (figures.distinct, figures.distinct_written) == (size, size)
    assert figures.asked_read == 3 * MIB and figures.asked_written == MIB
    moved = sum(row["bytes_moved"] for row in rows if row["op"] in ("read", "fread"))  # the header too, by the buffer
    assert figures.read_amplification == pytest.approx(moved / (3 * MIB))


def test_amplification_only_where_somebody_asked(program: Runner) -> None:
    # GIVEN a program that reads by system calls, and a library's call that says nothing of bytes
    outcome = succeeded(
        program.traced("""
        import json, os
        file = os.open("data", os.O_RDWR | os.O_CREAT)
        os.write(file, b"[1, 2]")
        os.pread(file, 100, 0)
    """)
    )
    figures = summarize(outcome.log).bytes
    # THEN nobody asked for more or less than was moved
    assert (figures.asked_read, figures.asked_written) == (0, 0)
    assert figures.read_amplification is None and figures.write_amplification is None


@pytest.mark.parametrize("how", ["shutil.copyfile('in', 'out')", "os.sendfile(out, source, 0, 1 << 20)",
                                 "os.copy_file_range(source, out, 1 << 20)"])  # fmt: skip
def test_copies_are_in_the_rows_of_both_files(program: Runner, tmp_path: Path, how: str) -> None:
    # GIVEN 1 MiB copied by the kernel
    text = f"""
import os, shutil
with open("in", "wb") as file:
    file.write(bytes(1 << 20))
source = os.open("in", os.O_RDONLY)
out = os.open("out", os.O_WRONLY | os.O_CREAT)
{how}
"""
    outcome = succeeded(program.traced(text))
    assert (tmp_path / "out").stat().st_size == MIB
    # WHEN it is summarised THEN one file has been read, the other written, in every table
    assert written_to(outcome, tmp_path)["in"] == (MIB, MIB) and written_to(outcome, tmp_path)["out"] == (0, MIB)
    summary = summarize(outcome.log, top=1000)
    files = {Path(file.path).name: (file.read, file.written) for file in summary.files}
    assert files["in"] == (MIB, MIB) and files["out"] == (0, MIB)
    assert summary.bytes.copied == MIB and summary.bytes.distinct_read >= MIB
    [line] = [site for site in summary.sites if Path(site.site).name.startswith("program.py:7:")]
    assert (line.read, line.written) == (MIB, MIB)


def test_what_imports_read_is_one_figure(program: Runner, tmp_path: Path) -> None:
    # GIVEN a module of 100 KB that is imported, as a source and then as bytecode
    (tmp_path / "large.py").write_text("x = 1\n" * 20_000)
    outcome = succeeded(program.traced("import large, email.message, xml.dom.minidom"))
    summary = summarize(outcome.log)
    # THEN its bytes are in the figure of imports, and nowhere else
    assert summary.imports.bytes >= 120_000 and "import" not in summary.unseen.excluded
    assert summary.bytes.posix_read < 120_000
