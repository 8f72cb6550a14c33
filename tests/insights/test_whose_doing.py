"""What a library does to a file is told in the library's words, once, and with code that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyio_trace.insights import insights
from pyio_trace.insights.file_systems import FileSystems
from pyio_trace.insights.finding import Finding, Remedy
from pyio_trace.insights.settings import Settings
from pyio_trace.join.processes.mounts import parsed
from tests.support.findings import evidence_of, findings_of, none, only
from tests.support.programs import Outcome, Runner, succeeded

pytestmark = pytest.mark.once


def advised(found: list[Finding], slug: str) -> Remedy:
    remedy = only(found, slug).remedy
    assert remedy is not None
    return remedy


# ---- HDF5 decides where in a file it reads and writes


TILES = """
import h5py, numpy
with h5py.File("x.h5", "w") as f:
    d = f.create_dataset("d", (512, 4096), "f8"CHUNKS)
    for n in range(8): d[:, 512 * n : 512 * (n + 1)] = numpy.ones((512, 512))
"""


def test_tiles_of_a_contiguous_dataset_are_one_finding(program: Runner) -> None:
    # GIVEN tiles of whose rows HDF5 reads the surroundings, changes them and writes them back
    pytest.importorskip("h5py")
    outcome = succeeded(program.traced(TILES.replace("CHUNKS", "")))
    assert len(outcome.select(op="pread")) >= 1000 <= len(outcome.select(op="pwrite"))
    found = findings_of(outcome)
    # THEN that is no finding besides the layout's
    assert not none(found, "hdf5-contiguous")
    assert none(found, "read-modify-write") and none(found, "read-again")
    chunked = program.traced(TILES.replace("CHUNKS", ", chunks=(512, 512)"), log="chunked.pyio")
    assert none(findings_of(chunked), "hdf5-contiguous")


def test_whole_rows_of_a_contiguous_dataset(program: Runner) -> None:
    # GIVEN rows, each of which is in one place of the file THEN nothing is wrong with the layout
    pytest.importorskip("h5py")
    rows = TILES.replace("CHUNKS", "").replace("d[:, 512 * n : 512 * (n + 1)]", "d[64 * n : 64 * (n + 1)]")
    rows = rows.replace("numpy.ones((512, 512))", "numpy.ones((64, 4096))")
    assert none(findings_of(succeeded(program.traced(rows))), "hdf5-contiguous")


ROWS = """
import h5py, numpy
rows = numpy.random.default_rng(1).random((800, 64))
with h5py.File("x.h5", "w", rdcc_nbytes=0) as f:
    dataset = f.create_dataset("d", rows.shape, "f8", chunks=(100, 64), compression="lzf")
WRITE
    assert (dataset[:] == rows).all()
"""


def test_parts_of_compressed_chunks(program: Runner) -> None:
    # GIVEN rows that are written one by one to compressed chunks, without a cache
    pytest.importorskip("h5py")
    by_row = ROWS.replace("WRITE", "    for n, row in enumerate(rows):\n        dataset[n] = row")
    remedy = advised(findings_of(succeeded(program.traced(by_row))), "read-modify-write")
    # THEN the remedy is code of h5py, AND it leaves nothing to find
    assert remedy.library == "h5py" and "memmap" not in remedy.after
    followed = ROWS.replace("WRITE", "".join(f"    {line}\n" for line in remedy.after.split("\n")))
    assert none(findings_of(succeeded(program.traced(followed, log="followed.pyio"))), "read-modify-write")


@pytest.mark.parametrize("order", ["range(600)", "reversed(range(600))"])
def test_elements_of_a_contiguous_dataset(program: Runner, order: str) -> None:
    # GIVEN one element of each row, in order or backward WHEN findings are made
    pytest.importorskip("h5py")
    outcome = succeeded(
        program.traced(f"""
import h5py, numpy
with h5py.File("x.h5", "w") as f: f["x"] = numpy.zeros((600, 20_000))
with h5py.File("x.h5") as f:
    for n in {order}: f["x"][n, 3]
""")
    )
    found = findings_of(outcome)
    # THEN nobody is told to seek in the file, or to read it as an array
    assert none(found, "strided-reads") and none(found, "backward-reads")


def test_a_close_of_hdf5(program: Runner) -> None:
    # GIVEN a file of h5py, and thresholds that each close is above
    pytest.importorskip("h5py")
    outcome = succeeded(
        program.traced("""
import h5py, numpy
with h5py.File("x.h5", "w") as f: f["x"] = numpy.zeros(1000)
""")
    )
    found = findings_of(outcome, Settings(limits={"close-stall": {"ms": 0, "share": 0}}))
    remedies = [one.remedy for one in found if one.slug == "close-stall" and one.files == [f"{program.folder}/x.h5"]]
    # THEN its remedy, run as it stands, writes such a file
    (remedy,) = remedies
    assert remedy is not None and remedy.library == "h5py"
    text = "import h5py, numpy\nfrom concurrent.futures import ThreadPoolExecutor\npath, data = 'y.h5', numpy.ones(9)\n"
    text += f"executor = ThreadPoolExecutor(1)\n{remedy.after}\nprint(h5py.File(path)['x'][:].sum())"
    assert succeeded(program.bare(text)).stdout == "9.0\n"


# ---- processes that are no ranks


FUNNEL = """
import multiprocessing, os
def work(n):
    if n == 0:
        WORK
if __name__ == "__main__":
    with open("in.bin", "wb") as f: f.write(bytes(24 << 20))
    workers = [multiprocessing.Process(target=work, args=(n,)) for n in range(4)]
    for one in workers: one.start()
    for one in workers: one.join()
"""


def test_one_process_that_writes_all(program: Runner) -> None:
    # GIVEN processes of multiprocessing, one of which writes everything
    work = "with open('out.bin', 'wb') as f: f.write(bytes(24 << 20))"
    remedy = advised(findings_of(succeeded(program.traced(FUNNEL.replace("WORK", work)))), "one-does-all")
    # THEN nothing is said of MPI, AND the remedy writes what the program did
    assert remedy.library == "python" and "comm" not in remedy.before and "MPI" not in remedy.after
    head = "import multiprocessing\nfrom pathlib import Path\npath, count = 'PATH', 7\n"
    head += "def compute(n): return bytes([n]) * 10\npool = multiprocessing.pool.ThreadPool(2)\n"
    head = head.replace("import multiprocessing\n", "import multiprocessing.pool\n")
    succeeded(program.bare(head.replace("PATH", "a.bin") + remedy.before))
    succeeded(program.bare(head.replace("PATH", "b.bin") + remedy.after))
    assert (program.folder / "a.bin").read_bytes() == (program.folder / "b.bin").read_bytes() != b""


def test_one_process_that_reads_all(program: Runner) -> None:
    numpy = pytest.importorskip("numpy")
    work = "open('in.bin', 'rb').read()"
    remedy = advised(findings_of(succeeded(program.traced(FUNNEL.replace("WORK", work)))), "one-does-all")
    # THEN the remedy, run as it stands, gives each process its part
    assert remedy.library == "numpy" and "comm" not in remedy.before
    numpy.save(program.folder / "x.npy", numpy.arange(101))
    text = "import multiprocessing.pool, numpy\npath, rows, processes, seen = 'x.npy', 101, 4, []\n"
    text += "def work(part): seen.append(part.tolist())\npool = multiprocessing.pool.ThreadPool(1)\n"
    printed = succeeded(program.bare(f"{text}{remedy.after}\nprint(len(seen), sum(seen, []) == list(range(101)))"))
    assert printed.stdout == "4 True\n"


FORK = """
import os
with open("data.bin", "wb") as f: f.write(bytes(100_000))
f = open("data.bin", "rb")
pid = os.fork()
if not pid:
    f.seek(50_000); f.read(10)
    os._exit(0)
os.waitpid(pid, 0)
f.read(20)
"""


def test_a_file_of_python_that_is_shared_over_a_fork(program: Runner) -> None:
    # GIVEN a file object WHEN its position is shared THEN nothing is said of h5py
    remedy = advised(findings_of(succeeded(program.traced(FORK))), "handle-over-fork")
    assert remedy.library == "python" and "h5py" not in remedy.before + remedy.after
    # AND the remedy, run as it stands, opens the file in each process
    text = "import multiprocessing\npath, items = 'data.bin', range(20)\n"
    text += "def work(n): return f.read(1)\n" + remedy.after
    succeeded(program.bare(text.replace("pool.map(work, items)", "assert len(pool.map(work, items)) == 20")))


# ---- lines and file systems


def test_a_line_that_asks_a_few_times(program: Runner) -> None:
    # GIVEN a line that asks 1,200 times, and one that asks four times, each for one path
    outcome = succeeded(
        program.traced("""
import os
for n in range(1200): os.stat("program.py")
for n in range(4): os.path.exists("none")
""")
    )
    finding = only(findings_of(outcome), "stat-storm")
    # THEN the finding is about the former only
    assert [site.line for site in finding.sites] == [3] and finding.files == [f"{program.folder}/program.py"]
    assert finding.evidence[0].values["calls"] == 1200
    assert [int(row["calls"]) for row in evidence_of(finding, outcome.log)] == [1200]


@pytest.mark.parametrize(("kind", "worst"), [("lustre", "warning"), ("ext4", "info"), ("overlay", "info")])
def test_stripes_are_those_of_servers(program: Runner, monkeypatch: pytest.MonkeyPatch, kind: str, worst: str) -> None:
    # GIVEN writes that begin inside a block, and thresholds that any time is above
    text = """
        import os
        f = os.open("x.bin", os.O_RDWR | os.O_CREAT)
        for n in range(60): os.pwrite(f, bytes(1 << 16), 100 + n * (1 << 16))
    """
    outcome = succeeded(program.traced(text))
    monkeypatch.setattr(insights, "FileSystems", lambda *_: FileSystems(parsed(f"1 0 0:1 / / rw - {kind} dev rw")))
    settings = Settings(limits={"severity": {"warning_ms": 0, "warning_share": 0, "critical_ms": 0}})
    # THEN they may be a warning where another server is asked, and are none on a disk of this machine
    assert only(findings_of(outcome, settings), "unaligned-accesses").severity == worst


# ---- PyTorch


SAVES = """
import os, torch
for n in range(30):
    with open(f"{n}.pt", "wb") as f:
        torch.save(torch.zeros(10), f)
        f.flush()
        os.fsync(f.fileno())
"""


@pytest.mark.frameworks("torch")
def test_syncs_of_checkpoints(program: Runner) -> None:
    outcome = succeeded(program.traced(SAVES))
    found = findings_of(outcome, Settings(limits={"checkpoint-stall": {"share": 0}}))
    # GIVEN checkpoints THEN their syncs are no finding of their own, and the query gives them as well
    assert none(found, "sync-per-write")
    counts = {row["op"]: int(row["calls"]) for row in evidence_of(only(found, "checkpoint-stall"), outcome.log)}
    assert counts["torch.save"] == counts["fsync"] == 30


FILES = """
import torch
from torch.utils.data import DataLoader

class Data:
    def __len__(self):
        return 300
    def __getitem__(self, n):
        with open(NAME, "rb") as f:
            return torch.frombuffer(bytearray(f.read(100)), dtype=torch.uint8)

if __name__ == "__main__":
    for batch in DataLoader(Data(), batch_size=10, num_workers=1): pass
"""


def loaded(program: Runner, name: str) -> Outcome:
    return succeeded(program.traced(FILES.replace("NAME", name)))


@pytest.mark.frameworks("torch")
def test_items_of_few_or_large_files(program: Runner) -> None:
    # GIVEN items that are all in one file, or each in a small one
    for n in range(300):
        Path(program.folder, f"{n}.bin").write_bytes(bytes(100))
    each = findings_of(loaded(program, 'f"{n}.bin"'))
    one = findings_of(loaded(program, '"0.bin"'))
    assert none(one, "loader-file-per-item") and not none(each, "loader-file-per-item")
