"""torch.save, torch.load and distributed checkpoints: what was asked for, and every byte of the files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.programs import Outcome, Row, Runner, alike, succeeded

pytestmark = pytest.mark.frameworks("torch")

#: 4000 and 360,000 bytes, and a view of the first, which has no storage of its own.
STORAGES = {"data/0": 4000, "data/1": 360_000}
PAYLOAD = sum(STORAGES.values())

SAVES = """
import io, sys
import torch
state = {"a": torch.zeros(1000), "b": torch.ones(300, 300)}
state["view"] = state["a"][:10]
torch.save(state, "zip.pt")
torch.save(state, "legacy.pt", _use_new_zipfile_serialization=False)
torch.save(state, "n\\u00e4me.pt")
with open("file.pt", "wb") as file:
    torch.save(state, file)
torch.save(state, io.BytesIO())
for name in ("zip.pt", "legacy.pt", "n\\u00e4me.pt"):
    print({key: float(value.sum()) for key, value in torch.load(name).items()})
with open("file.pt", "rb") as file:
    torch.load(file)
print({key: float(value.sum()) for key, value in torch.load("zip.pt", mmap=True).items()})
class Nested:
    def __reduce__(self):  # saves something else while it is saved
        torch.save(torch.zeros(77), "inner.pt")
        return str, ("x",)
torch.save([torch.zeros(500), Nested()], "outer.pt")
for call in (lambda: torch.load("absent.pt"), lambda: torch.load(__file__), lambda: torch.save(lambda: 0, "bad.pt")):
    try:
        call()
    except Exception as problem:
        print(type(problem).__name__, str(problem)[:60])
"""

NAMES = ["zip.pt", "legacy.pt", "näme.pt", "file.pt"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The program above: traced as it is untraced."""
    program = Runner(tmp_path_factory.mktemp("saved"))
    bare = program.bare(SAVES)  # first: the files that are looked at are those of the traced one
    return succeeded(alike(program.traced(SAVES), bare))


def told(row: Row) -> dict[str, object]:
    return dict(json.loads(row["detail"] or "{}"))


def moved(outcome: Outcome, path: Path, *ops: str, beneath: str) -> int:
    """Bytes of these POSIX operations on a file; all of them happened in a call of that name."""
    rows = outcome.select(layer="posix", op=ops, path=path)
    for row in rows:
        assert beneath in [parent["op"] for parent in outcome.parents(row)]
    return sum(row["bytes_moved"] for row in rows)


def test_what_is_saved(saved: Outcome) -> None:
    # GIVEN tensors of known sizes, saved in every way
    for name in NAMES:
        path = saved.path.parent / name
        (row,) = saved.select(layer="app", op="torch.save", path=path)
        # THEN the call has moved the storages' bytes, and the POSIX layer all that is in the file
        assert (row["bytes_moved"], row["errno"]) == (PAYLOAD, 0)
        assert told(row) == {"format": "legacy" if name == "legacy.pt" else "zip", "storages": 2}
        assert moved(saved, path, "write", "writev", beneath="torch.save") == path.stat().st_size
        # AND the records in a zip archive are described one by one
        records = {told(one)["record"]: one["bytes_moved"] for one in saved.select(op="PyTorchFileWriter.write_record")
                   if saved.parents(one)[0]["id"] == row["id"]}  # fmt: skip
        assert {record: size for record, size in records.items() if str(record).startswith("data/")} == (
            {} if name == "legacy.pt" else STORAGES
        )
    (memory,) = saved.select(layer="app", op="torch.save", path=None)
    assert memory["bytes_moved"] == PAYLOAD


def test_what_is_loaded(saved: Outcome) -> None:
    for name in NAMES:
        path = saved.path.parent / name
        row = saved.select(layer="app", op="torch.load", path=path)[0]
        assert (row["bytes_moved"], told(row)) == (PAYLOAD, {"storages": 2})
        # THEN all of it was read beneath the call, some of a zip archive more than once
        read = moved(saved, path, "read", beneath="torch.load")
        assert read >= path.stat().st_size if name == "legacy.pt" else read >= PAYLOAD


def test_what_is_mapped(saved: Outcome) -> None:
    path = saved.path.parent / "zip.pt"
    row = saved.select(layer="app", op="torch.load", path=path)[1]
    # THEN no bytes are claimed for the storages, and the mapping is there
    assert (row["bytes_moved"], told(row)) == (None, {"mmap": True})
    (mapping,) = saved.select(op="mmap", path=path)
    assert mapping["bytes_requested"] == path.stat().st_size
    assert saved.parents(mapping)[0]["id"] == row["id"]


def test_one_saved_within_another(saved: Outcome) -> None:
    (outer,) = saved.select(layer="app", op="torch.save", path=saved.path.parent / "outer.pt")
    (inner,) = saved.select(layer="app", op="torch.save", path=saved.path.parent / "inner.pt")
    assert (outer["bytes_moved"], inner["bytes_moved"]) == (2000, 308)
    assert inner["parent"] == outer["id"]


def test_what_fails(saved: Outcome) -> None:
    (absent,) = saved.select(layer="app", op="torch.load", path=saved.path.parent / "absent.pt")
    assert (absent["errno"], absent["bytes_moved"], told(absent)["raised"]) == (2, 0, "FileNotFoundError")
    (other,) = saved.select(layer="app", op="torch.load", path=saved.path.parent / "program.py")
    (bad,) = saved.select(layer="app", op="torch.save", path=saved.path.parent / "bad.pt")
    assert other["errno"] == bad["errno"] == 0
    assert "raised" in told(other) and "raised" in told(bad)
    assert "tracer_faults" not in saved.log.losses()


CHECKPOINT = """
import contextlib, threading, warnings
warnings.simplefilter("ignore")
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.filesystem import FileSystem
state = {f"t{number}": torch.full((5000 + number,), float(number)) for number in range(9)}
state["step"] = 3
together = threading.Barrier(3)  # each thread has its file open before any of them writes
class Files(FileSystem):
    @contextlib.contextmanager
    def create_stream(self, path, mode):
        with super().create_stream(path, mode) as stream:
            if mode == "wb" and str(path).endswith(".distcp"):
                together.wait(60)
            yield stream
writer = dcp.FileSystemWriter("many", thread_count=3)
writer.fs = Files()
dcp.save(state, storage_writer=writer, no_dist=True)
dcp.save(state, checkpoint_id="one", no_dist=True)
dcp.async_save(state, checkpoint_id="later", no_dist=True).result()
for name in ("many", "one", "later"):
    read = {key: torch.empty_like(value) if torch.is_tensor(value) else 0 for key, value in state.items()}
    dcp.load(read, checkpoint_id=name, no_dist=True)
    print({key: float(value.sum()) if torch.is_tensor(value) else value for key, value in read.items()})
"""


@pytest.mark.slow
def test_distributed_checkpoints(program: Runner) -> None:
    # GIVEN checkpoints of one file and of many, the latter written by three threads
    pytest.importorskip("torch.distributed.checkpoint.state_dict_saver")
    bare = program.bare(CHECKPOINT)  # first: metadata have other lengths each time
    outcome = succeeded(alike(program.traced(CHECKPOINT), bare))
    assert "tracer_faults" not in outcome.log.losses()
    for name, files in (("many", 3), ("one", 1), ("later", 1)):
        folder = program.folder / name
        parts = sorted(folder.glob("*.distcp"))
        assert len(parts) == files
        (save,) = outcome.select(layer="app", op="torch.distributed.checkpoint.save", path=folder)
        (data,) = outcome.select(layer="app", op="FileSystemWriter.write_data", path=folder)
        # THEN the writer's bytes are those of its files, and each of its items is known by name
        assert data["bytes_moved"] == sum(part.stat().st_size for part in parts)
        assert data["parent"] == save["id"]
        items = [row for part in parts for row in outcome.select(op="FileSystemWriter.write_item", path=part)]
        assert {told(row)["name"] for row in items} == {*(f"t{number}" for number in range(9)), "step"}
        assert sum(row["bytes_moved"] for row in items) == data["bytes_moved"]
        # AND every write to them happened in it, in whichever thread
        written = [moved(outcome, part, "write", beneath="FileSystemWriter.write_data") for part in parts]
        assert written == [part.stat().st_size for part in parts]
        metadata = moved(outcome, folder / ".metadata.tmp", "write", beneath="FileSystemWriter.finish")
        assert metadata == (folder / ".metadata").stat().st_size
        # AND what is read is named likewise
        (load,) = outcome.select(layer="app", op="FileSystemReader.read_data", path=folder)
        assert (load["bytes_moved"], told(load)) == (data["bytes_moved"], {"items": 10})
        for part in parts:
            assert moved(outcome, part, "read", beneath="FileSystemReader.read_data") >= part.stat().st_size - 5000
    # AND each of three threads has written a file, in the span of the call that started them
    items = outcome.select(op="FileSystemWriter.write_item", path=lambda path: "/many/" in path)
    by_thread = {row["tid"]: (row["path"], row["link"]) for row in items}
    assert len(by_thread) == len({path for path, _ in by_thread.values()}) == 3
    assert sorted(link for _, link in by_thread.values()) == ["context", "context", "thread"]
    (later,) = outcome.select(layer="app", op="torch.distributed.checkpoint.save", path=program.folder / "later")
    # AND what a pool's thread saves is in its task, and that in the call that gave it to the pool
    task, call = outcome.parents(later)[:2]
    assert (task["op"], call["op"]) == ("thread.task", "torch.distributed.checkpoint.async_save")
    assert (later["link"], task["link"]) == ("thread", "context")


BACKEND = """
import io, json, struct
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

class Backend:  # as image loaders have: what is read goes through an object that knows how
    def get(self, path):
        with open(path, "rb") as file:
            return file.read()

class Images(Dataset):
    def __init__(self):
        self.backend = None
    def __len__(self):
        return 8
    def __getitem__(self, number):
        if self.backend is None:
            self.backend = Backend()
        return len(io.BytesIO(self.backend.get(f"image{number}.bin")).read())

class Records(IterableDataset):  # one file of records, each with its length before it
    def __iter__(self):
        with open("records.bin", "rb") as file:
            while head := file.read(4):
                yield len(file.read(struct.unpack("<i", head)[0]))

if __name__ == "__main__":
    for number in range(8):
        with open(f"image{number}.bin", "wb") as file:
            file.write(bytes(70_000 + number))
    with open("records.bin", "wb") as file:
        for number in range(40):
            file.write(struct.pack("<i", 3000 + number) + bytes(3000 + number))
    for data in (Images(), Records()):
        loader = DataLoader(data, batch_size=4, num_workers=1, multiprocessing_context="spawn")
        print([batch.tolist() for batch in loader])
"""


@pytest.mark.slow
def test_images_of_a_backend_and_sequential_records(program: Runner) -> None:
    # GIVEN what other tracers lose: reads of workers, through an object of the program's, and of one sequential file
    outcome = succeeded(alike(program.traced(BACKEND), program.bare(BACKEND)))
    # THEN every byte is some fetch's
    for number in range(8):
        path = program.folder / f"image{number}.bin"
        assert moved(outcome, path, "read", beneath="DataLoader.fetch") == 70_000 + number
    path = program.folder / "records.bin"
    assert moved(outcome, path, "read", beneath="DataLoader.fetch") == path.stat().st_size
    batches = {outcome.parents(row)[-1]["id"] for row in outcome.select(layer="posix", op="read", path=path)}
    fetches = [row for row in outcome.select(layer="app", op="DataLoader.fetch") if row["id"] in batches]
    assert len(fetches) > 5
